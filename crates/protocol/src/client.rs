//! The host's end of a connection: to a guest directly, or to the keeper that passes frames on to it.
//!
//! Two tasks serve a connection, one for each direction; both end with the last handle. What a stream's consumer
//! has not taken yet is bounded by the credit it grants, what was not written yet by the limit of the queue.
//!
//! The peer is untrusted. Its first violation ends the connection, and every stream learns the reason.

pub mod handshake;
mod inbound;
mod stream;
mod watch;

pub use stream::{Bearer, Incoming, Next, StreamEvent, StreamReceiver, StreamSender, StreamState};
pub use watch::SignsOfLife;

use crate::frame::{MAX_FROM_GUEST, MAX_FROM_HOST, StreamId};
use crate::message::shutdown_frame;
use crate::outbox::{Outbox, until};
use crate::{Channel, Decoder, ExecRequest, Exit, Frame, Open, Refusal, Violation, Welcome};
use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::Notify;

/// Bytes that may wait to be written before senders wait.
const QUEUE: usize = 256 * 1024;

/// Why a connection, or what was asked of it, came to its end.
#[derive(Debug, Clone, thiserror::Error)]
pub enum ClientError {
    #[error("the connection to the sandbox was closed")]
    Closed,
    #[error("the connection to the sandbox broke: {0}")]
    Io(#[source] Arc<std::io::Error>),
    #[error("the sandbox broke the protocol: {0}")]
    Violation(#[from] Violation),
    /// It is paused, stopped by a signal, or starved.
    #[error("{} did not answer for {seconds} s", .sandbox.as_ref().map_or_else(|| "the sandbox".to_owned(), |name| format!("sandbox '{name}'")))]
    Silent { sandbox: Option<String>, seconds: u64 },
    #[error("the stream has ended")]
    StreamEnded,
    #[error("the request is {len} bytes long, the limit is {limit}: pass less in arguments and environment")]
    TooLarge { len: usize, limit: usize },
    #[error("this connection has used up its streams: connect again")]
    Exhausted,
}

impl From<std::io::Error> for ClientError {
    fn from(error: std::io::Error) -> Self {
        Self::Io(Arc::new(error))
    }
}

/// A handle to the connection. The connection is closed when the last handle and the last stream are gone.
#[derive(Debug, Clone)]
pub struct Client {
    handle: Arc<Handle>,
}

/// Answers the streams that a guest asks for. Called where frames are read, so it must not block.
pub type Door = Arc<dyn Fn(Incoming) + Send + Sync>;

#[derive(Debug)]
struct Handle {
    shared: Arc<Shared>,
}

impl Bearer for Handle {
    fn outbox(&self) -> &Outbox {
        &self.shared.outbox
    }

    fn forget(&self, stream: StreamId) -> bool {
        self.shared.forget(stream)
    }
}

/// Streams that the guest asks for do not keep the connection open.
impl Bearer for Shared {
    fn outbox(&self) -> &Outbox {
        &self.outbox
    }

    fn forget(&self, stream: StreamId) -> bool {
        self.table().streams.remove(&stream).is_some()
    }
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.shared.outbox.finish();
        self.shared.end(ClientError::Closed);
    }
}

/// What the handles, the streams and the two tasks have in common.
struct Shared {
    outbox: Outbox,
    table: Mutex<Table>,
    ended: Notify,
    door: Option<Door>,
}

impl std::fmt::Debug for Shared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shared")
            .field("outbox", &self.outbox)
            .field("table", &self.table)
            .finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Table {
    streams: HashMap<StreamId, Arc<StreamState>>,
    /// The next id to use: every odd id below was used.
    next: StreamId,
    /// The highest id the peer has opened a stream under.
    peer: StreamId,
    end: Option<ClientError>,
}

impl Shared {
    fn table(&self) -> MutexGuard<'_, Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first reason given is the one that everybody learns.
    fn end(&self, reason: ClientError) {
        let mut table = self.table();
        let reason = table.end.get_or_insert(reason).clone();
        let streams = std::mem::take(&mut table.streams);
        drop(table);
        for stream in streams.values() {
            stream.lose_connection(&reason);
        }
        self.ended.notify_waiters();
    }

    fn reason(&self) -> ClientError {
        self.table().end.clone().unwrap_or(ClientError::Closed)
    }
}

impl Client {
    /// Says hello on a fresh stream. Waits as long as the peer does: the caller sets the deadline.
    pub async fn connect<S>(stream: S) -> Result<(Client, Welcome), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut decoder = Decoder::new(MAX_FROM_GUEST);
        let mut stream = stream;
        let welcome = handshake::fresh(&mut stream, &mut decoder).await?;
        Ok((Self::start(stream, decoder), welcome))
    }

    /// As [`connect_and_open`](Self::connect_and_open), with somebody to answer the streams that the guest asks for.
    pub async fn connect_with_door<S>(
        stream: S,
        open: Open,
        door: Door,
    ) -> Result<(Client, Welcome, (StreamSender, StreamReceiver)), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::connect_first(stream, open, Some(door)).await
    }

    /// As [`connect`](Self::connect), and asks for the first stream in the same breath, which saves a round trip. The
    /// stream's answer is its first event, as always.
    pub async fn connect_and_open<S>(
        stream: S,
        open: Open,
    ) -> Result<(Client, Welcome, (StreamSender, StreamReceiver)), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::connect_first(stream, open, None).await
    }

    async fn connect_first<S>(
        stream: S,
        open: Open,
        door: Option<Door>,
    ) -> Result<(Client, Welcome, (StreamSender, StreamReceiver)), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let frame = checked(open)?;
        let frame = Frame { stream: FIRST, ..frame };
        let mut behind = Vec::new();
        frame.encode(&mut behind);
        let mut decoder = Decoder::new(MAX_FROM_GUEST);
        let mut stream = stream;
        let welcome = handshake::fresh_with(&mut stream, &mut decoder, &behind).await?;
        let state = Arc::new(StreamState::default());
        let first = HashMap::from([(FIRST, Arc::clone(&state))]);
        let client = Self::start_with(stream, decoder, first, door);
        let halves = stream::halves(Arc::clone(&client.handle) as _, FIRST, state);
        Ok((client, welcome, halves))
    }

    /// Says hello on a stream where an earlier host may have stopped in the middle of a frame, as may the guest.
    pub async fn reconnect<S>(stream: S) -> Result<(Client, Welcome), ClientError>
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let mut decoder = Decoder::new(MAX_FROM_GUEST);
        let mut stream = stream;
        let welcome = handshake::resync(&mut stream, &mut decoder).await?;
        Ok((Self::start(stream, decoder), welcome))
    }

    fn start<S>(stream: S, decoder: Decoder) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        Self::start_with(stream, decoder, HashMap::new(), None)
    }

    /// With streams that were asked for already, under the first ids there are.
    fn start_with<S>(
        stream: S,
        decoder: Decoder,
        streams: HashMap<StreamId, Arc<StreamState>>,
        door: Option<Door>,
    ) -> Self
    where
        S: AsyncRead + AsyncWrite + Send + Unpin + 'static,
    {
        let next = FIRST + 2 * streams.len() as StreamId;
        let table = Table { streams, next, peer: 0, end: None };
        let shared = Arc::new(Shared {
            outbox: Outbox::new(QUEUE),
            table: Mutex::new(table),
            ended: Notify::new(),
            door,
        });
        let (reader, writer) = tokio::io::split(stream);
        tokio::spawn(inbound::run(Arc::clone(&shared), reader, decoder));
        let writing = Arc::clone(&shared);
        tokio::spawn(async move {
            // A failed write is not the end yet: what the peer sent before it left is still to be read.
            let _ = writing.outbox.drain(writer).await;
        });
        Self { handle: Arc::new(Handle { shared }) }
    }

    /// Asks for a stream; the answer is its first event.
    pub async fn open(&self, open: Open) -> Result<(StreamSender, StreamReceiver), ClientError> {
        let mut frame = checked(open)?;
        let shared = &self.handle.shared;
        shared.outbox.reserve().await;
        let state = Arc::new(StreamState::default());
        let mut table = shared.table();
        if let Some(reason) = &table.end {
            return Err(reason.clone());
        }
        frame.stream = table.next;
        table.next = table.next.checked_add(2).ok_or(ClientError::Exhausted)?;
        table.streams.insert(frame.stream, Arc::clone(&state));
        // Queued under the lock: ids go out in rising order.
        let queued = shared.outbox.push(|out| frame.encode(out));
        drop(table);
        // From here on, dropping the halves cleans up.
        let halves = stream::halves(Arc::clone(&self.handle) as _, frame.stream, state);
        if queued { Ok(halves) } else { Err(shared.reason()) }
    }

    /// Tells the guest to end every process, with so many milliseconds of grace, and then itself. It has done so
    /// when the connection is [`closed`](Self::closed). A keeper takes [`Open::Keeper`] instead.
    pub async fn shutdown(&self, grace_ms: u32) -> Result<(), ClientError> {
        let shared = &self.handle.shared;
        shared.outbox.reserve().await;
        let queued = shared.outbox.push(|out| shutdown_frame(grace_ms).encode(out));
        if queued { Ok(()) } else { Err(shared.reason()) }
    }

    /// Resolves with the reason once the connection has ended.
    pub async fn closed(&self) -> ClientError {
        let shared = &self.handle.shared;
        until(&shared.ended, || shared.table().end.clone()).await
    }

    /// Runs a command with empty input to its end, and gathers what it wrote, at most `limit` bytes of it.
    pub async fn exec_collect(&self, request: ExecRequest, limit: usize) -> Result<Output, ExecError> {
        let request = ExecRequest { stdin: false, ..request };
        let (_sender, mut receiver) = self.open(Open::Exec(request)).await?;
        let mut output = Output { stdout: Vec::new(), stderr: Vec::new(), exit: Exit::Code(0) };
        while let Some(event) = receiver.next().await? {
            match event {
                StreamEvent::Refused(refusal) => return Err(ExecError::Refused(refusal)),
                StreamEvent::Data { channel, bytes } => {
                    if output.stdout.len() + output.stderr.len() + bytes.len() > limit {
                        return Err(ExecError::OutputLimit(limit));
                    }
                    match channel {
                        Channel::Main => output.stdout.extend_from_slice(&bytes),
                        Channel::Error => output.stderr.extend_from_slice(&bytes),
                    }
                }
                StreamEvent::Exit(exit) => {
                    output.exit = exit;
                    return Ok(output);
                }
                StreamEvent::Reset => break,
                StreamEvent::Accepted | StreamEvent::Eof(_) | StreamEvent::Report(_) => {}
            }
        }
        Err(ExecError::Reset)
    }
}

/// Streams that a host opens have odd ids.
const FIRST: StreamId = 1;

/// The frame of a request, still without its stream's id.
fn checked(open: Open) -> Result<Frame, ClientError> {
    let frame = open.frame(0);
    let len = frame.payload.len();
    if len > MAX_FROM_HOST {
        return Err(ClientError::TooLarge { len, limit: MAX_FROM_HOST });
    }
    Ok(frame)
}

/// All of a command that [`Client::exec_collect`] ran.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Output {
    pub stdout: Vec<u8>,
    pub stderr: Vec<u8>,
    pub exit: Exit,
}

#[derive(Debug, thiserror::Error)]
pub enum ExecError {
    #[error("the command could not be started: {}", .0.text.escape_debug())]
    Refused(Refusal),
    #[error("the sandbox dropped the command")]
    Reset,
    #[error("the command wrote more than {0} bytes")]
    OutputLimit(usize),
    #[error(transparent)]
    Connection(#[from] ClientError),
}
