//! A scripted model, in the place of one that cannot be had here: it speaks enough of the streaming interfaces of Claude
//! Code and Codex to have an agent run one shell script, and then say that it is done.

use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex};

/// What the model says when the script has run.
pub const DONE: &str = "The scripted work is done.";

#[derive(Debug)]
pub struct Model {
    address: SocketAddr,
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    script: Mutex<String>,
    asked: AtomicUsize,
    ended: AtomicBool,
    /// The last request of an agent, whole.
    last: Mutex<String>,
}

impl Model {
    pub fn start(script: &str) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port of its own");
        let address = listener.local_addr().expect("its address");
        let shared = Arc::new(Shared {
            script: Mutex::new(script.into()),
            asked: AtomicUsize::new(0),
            ended: AtomicBool::new(false),
            last: Mutex::default(),
        });
        let serving = Arc::clone(&shared);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                if serving.ended.load(Ordering::SeqCst) {
                    return;
                }
                let serving = Arc::clone(&serving);
                // A client that goes away in the middle is its own business.
                std::thread::spawn(move || serving.serve(stream).ok());
            }
        });
        Self { address, shared }
    }

    pub fn port(&self) -> u16 {
        self.address.port()
    }

    /// What the next conversation is to run.
    pub fn script(&self, script: &str) {
        *self.shared.script.lock().expect("the script") = script.into();
    }

    /// Whether a text is in the last request: a conversation that goes on repeats what was said before.
    pub fn heard(&self, text: &str) -> bool {
        self.shared.last.lock().expect("the last request").contains(text)
    }

    /// How often an agent asked for the next step.
    pub fn asked(&self) -> usize {
        self.shared.asked.load(Ordering::SeqCst)
    }
}

impl Drop for Model {
    fn drop(&mut self) {
        self.shared.ended.store(true, Ordering::SeqCst);
        // Wakes the thread that waits for a connection.
        let _ = TcpStream::connect(self.address);
    }
}

impl Shared {
    fn serve(&self, stream: TcpStream) -> std::io::Result<()> {
        let mut reader = BufReader::new(stream.try_clone()?);
        let mut first = String::new();
        reader.read_line(&mut first)?;
        let mut length = 0;
        loop {
            let mut line = String::new();
            reader.read_line(&mut line)?;
            let Some((name, value)) = line.trim_end().split_once(':') else { break };
            if name.eq_ignore_ascii_case("content-length") {
                length = value.trim().parse().unwrap_or(0);
            }
        }
        let mut body = vec![0; length];
        reader.read_exact(&mut body)?;
        let request: Value = serde_json::from_slice(&body).unwrap_or_default();
        if request["messages"].is_array() || request["input"].is_array() {
            *self.last.lock().expect("the last request") = String::from_utf8_lossy(&body).into_owned();
        }
        let path = first.split(' ').nth(1).unwrap_or_default();
        let events = match path {
            _ if path.starts_with("/v1/messages/count_tokens") => None,
            _ if path.starts_with("/v1/messages") => Some(self.claude(&request)),
            _ if path.ends_with("/responses") => Some(self.codex(&request)),
            _ => None,
        };
        let (kind, text) = match events {
            None => ("application/json", json!({"input_tokens": 1}).to_string()),
            Some(events) => ("text/event-stream", events.iter().map(event).collect()),
        };
        let mut stream = stream;
        write!(
            stream,
            "HTTP/1.1 200 OK\r\ncontent-type: {kind}\r\ncontent-length: {}\r\nconnection: close\r\n\r\n{text}",
            text.len()
        )
    }

    fn next_script(&self) -> String {
        self.asked.fetch_add(1, Ordering::SeqCst);
        self.script.lock().expect("the script").clone()
    }

    fn claude(&self, request: &Value) -> Vec<Value> {
        let script = self.next_script();
        // Each in a conversation has an id of its own.
        let number = self.asked.load(Ordering::SeqCst);
        let has_run = request["messages"]
            .as_array()
            // Behind the user's last message there may be one about the environment.
            .and_then(|messages| messages.iter().rfind(|message| message["role"] == "user"))
            .and_then(|message| message["content"].as_array())
            .is_some_and(|parts| parts.iter().any(|part| part["type"] == "tool_result"));
        let tools = request["tools"].as_array();
        let can_run = tools.is_some_and(|tools| tools.iter().any(|tool| tool["name"] == "Bash"));
        let (block, delta, reason) = if can_run && !has_run {
            let input = json!({"command": script, "description": "the work"}).to_string();
            (
                json!({"type": "tool_use", "id": format!("toolu_{number}"), "name": "Bash", "input": {}}),
                json!({"type": "input_json_delta", "partial_json": input}),
                "tool_use",
            )
        } else {
            let text = json!({"type": "text_delta", "text": DONE});
            (json!({"type": "text", "text": ""}), text, "end_turn")
        };
        vec![
            json!({"type": "message_start", "message": {
                "id": format!("msg_{number}"), "type": "message", "role": "assistant", "model": request["model"], "content": [],
                "stop_reason": null, "stop_sequence": null, "usage": {"input_tokens": 1, "output_tokens": 1}}}),
            json!({"type": "content_block_start", "index": 0, "content_block": block}),
            json!({"type": "content_block_delta", "index": 0, "delta": delta}),
            json!({"type": "content_block_stop", "index": 0}),
            json!({"type": "message_delta", "delta": {"stop_reason": reason, "stop_sequence": null},
                "usage": {"output_tokens": 1}}),
            json!({"type": "message_stop"}),
        ]
    }

    fn codex(&self, request: &Value) -> Vec<Value> {
        let script = self.next_script();
        let number = self.asked.load(Ordering::SeqCst);
        let has_run = request["input"]
            .as_array()
            .and_then(|items| items.last())
            .is_some_and(|item| item["type"] == "function_call_output");
        let item = if has_run {
            let text = json!([{"type": "output_text", "text": DONE}]);
            json!({"type": "message", "id": "msg_1", "role": "assistant", "content": text})
        } else {
            // What takes longer than its patience, it leaves behind.
            let arguments = json!({"cmd": script, "yield_time_ms": 30_000}).to_string();
            json!({"type": "function_call", "id": format!("fc_{number}"), "call_id": format!("call_{number}"), "name": "exec_command",
                "arguments": arguments})
        };
        let usage = json!({"input_tokens": 1, "input_tokens_details": null, "output_tokens": 1,
            "output_tokens_details": null, "total_tokens": 2});
        vec![
            json!({"type": "response.created", "response": {"id": "resp_1"}}),
            json!({"type": "response.output_item.done", "item": item}),
            json!({"type": "response.completed", "response": {"id": "resp_1", "usage": usage}}),
        ]
    }
}

fn event(event: &Value) -> String {
    format!("event: {}\ndata: {event}\n\n", event["type"].as_str().unwrap_or_default())
}
