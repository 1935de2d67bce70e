//! A collector of traces: speaks HTTP at a port of its own and reads what it is sent with the official types of
//! OpenTelemetry, so that it shares nothing with the program that is tested.

use opentelemetry_proto::tonic::collector::trace::v1::ExportTraceServiceRequest;
use opentelemetry_proto::tonic::common::v1::{KeyValue, any_value::Value};
use opentelemetry_proto::tonic::trace::v1::{Span as Sent, status::StatusCode};
use prost::Message;
use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answer {
    Status(u16),
    /// It takes what it is sent, and says nothing.
    Never,
}

/// One request.
#[derive(Debug, Clone, PartialEq)]
pub struct Delivery {
    /// As in `POST /v1/traces HTTP/1.1`.
    pub line: String,
    /// With names in lower case.
    pub headers: BTreeMap<String, String>,
    /// What the spans have in common.
    pub resource: BTreeMap<String, String>,
    pub spans: Vec<Span>,
    pub body: Vec<u8>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Span {
    pub trace: String,
    pub id: String,
    /// Empty when it has none.
    pub parent: String,
    pub parent_is_remote: bool,
    pub name: String,
    pub failed: bool,
    /// In nanoseconds.
    pub start: u64,
    pub end: u64,
    pub attributes: BTreeMap<String, String>,
}

#[derive(Debug)]
pub struct Collector {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    answer: Answer,
    connections: AtomicUsize,
    deliveries: Mutex<Vec<Delivery>>,
    ended: AtomicBool,
    /// Connections that get no answer, held open.
    silent: Mutex<Vec<TcpStream>>,
}

impl Collector {
    /// One that takes everything.
    pub fn start() -> Self {
        Self::answering(Answer::Status(200))
    }

    pub fn answering(answer: Answer) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of its own");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            answer,
            connections: AtomicUsize::new(0),
            deliveries: Mutex::default(),
            ended: AtomicBool::new(false),
            silent: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                serving.connections.fetch_add(1, Ordering::SeqCst);
                let serving = Arc::clone(&serving);
                std::thread::spawn(move || serving.serve(stream));
            }
        });
        Self { address, shared }
    }

    /// An endpoint at which nobody listens any more.
    pub fn dead() -> String {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of its own");
        format!("http://{}", listener.local_addr().expect("its address"))
    }

    pub fn endpoint(&self) -> String {
        format!("http://{}", self.address)
    }

    pub fn connections(&self) -> usize {
        self.shared.connections.load(Ordering::SeqCst)
    }

    pub fn deliveries(&self) -> Vec<Delivery> {
        self.shared.deliveries.lock().expect("the deliveries").clone()
    }

    /// All spans so far, the earliest first.
    pub fn spans(&self) -> Vec<Span> {
        let mut spans: Vec<Span> =
            self.deliveries().into_iter().flat_map(|delivery| delivery.spans).collect();
        spans.sort_by_key(|span| span.start);
        spans
    }

    /// The one span of this name.
    #[track_caller]
    pub fn span(&self, name: &str) -> Span {
        let mut spans = self.spans();
        spans.retain(|span| span.name == name);
        assert_eq!(spans.len(), 1, "spans named {name}: {:?}", self.spans());
        spans.remove(0)
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        self.shared.silent.lock().expect("the silent ones").clear();
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) {
        // A client that leaves half-way delivers nothing, which the test sees.
        let Some(delivery) = receive(&stream) else { return };
        self.deliveries.lock().expect("the deliveries").push(delivery);
        match self.answer {
            Answer::Status(code) => {
                let _ = write!(&stream, "HTTP/1.1 {code} So\r\nContent-Length: 0\r\n\r\n");
            }
            Answer::Never => self.silent.lock().expect("the silent ones").push(stream),
        }
    }
}

fn receive(stream: &TcpStream) -> Option<Delivery> {
    let mut reader = BufReader::new(stream);
    let mut text = || {
        let mut line = String::new();
        reader.read_line(&mut line).ok().filter(|count| *count > 0)?;
        Some(line.trim_end().to_owned())
    };
    let line = text()?;
    let mut headers = BTreeMap::new();
    loop {
        let header = text()?;
        if header.is_empty() {
            break;
        }
        let (name, value) = header.split_once(':').expect("a header");
        headers.insert(name.to_lowercase(), value.trim().to_owned());
    }
    let mut body = vec![0; headers["content-length"].parse().expect("a length")];
    reader.read_exact(&mut body).ok()?;
    let request = match headers["content-type"].as_str() {
        "application/x-protobuf" => {
            ExportTraceServiceRequest::decode(body.as_slice()).expect("OTLP protobuf")
        }
        "application/json" => serde_json::from_slice(&body).expect("OTLP JSON"),
        other => panic!("content type {other}"),
    };
    let [sent] = <[_; 1]>::try_from(request.resource_spans).expect("one resource");
    let resource = attributes(&sent.resource.expect("a resource").attributes);
    let spans = sent.scope_spans.iter().flat_map(|scope| &scope.spans).map(span).collect();
    Some(Delivery { line, headers, resource, spans, body })
}

fn span(sent: &Sent) -> Span {
    const PARENT_IS_REMOTE: u32 = 0x200;
    Span {
        trace: hex(&sent.trace_id),
        id: hex(&sent.span_id),
        parent: hex(&sent.parent_span_id),
        parent_is_remote: sent.flags & PARENT_IS_REMOTE != 0,
        name: sent.name.clone(),
        failed: sent.status.as_ref().is_some_and(|status| status.code() == StatusCode::Error),
        start: sent.start_time_unix_nano,
        end: sent.end_time_unix_nano,
        attributes: attributes(&sent.attributes),
    }
}

fn attributes(pairs: &[KeyValue]) -> BTreeMap<String, String> {
    let text = |pair: &KeyValue| match pair.value.as_ref().and_then(|any| any.value.as_ref()) {
        Some(Value::StringValue(text)) => text.clone(),
        Some(Value::BoolValue(truth)) => truth.to_string(),
        Some(Value::IntValue(number)) => number.to_string(),
        other => panic!("attribute {}: {other:?}", pair.key),
    };
    pairs.iter().map(|pair| (pair.key.clone(), text(pair))).collect()
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}
