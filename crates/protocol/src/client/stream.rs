//! One stream of a connection: what was received and not taken yet, and the credit in both directions.
//!
//! Memory is bounded whatever the peer sends: data by the credit that taking it grants, small pieces are joined,
//! a report replaces the one before it, and everything else comes at most once.

use super::ClientError;
use crate::frame::{Kind, MAX_DATA, StreamId};
use crate::message::{
    accepted_frame, decode_data, decode_eof, decode_window, encode_data, eof_frame, reset_frame,
    signal_frame, window_frame,
};
use crate::outbox::{Outbox, until};
use crate::{Channel, Exit, Frame, FrameRef, Open, RecvCredit, Refusal, Report, SendCredit, Size, Violation};
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

/// So many pieces may wait before the order between a stream's two channels is given up to save memory.
const EXACT_ORDER: usize = 256;

/// What happens on a stream. `Refused`, `Exit` and `Reset` are the last event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum StreamEvent {
    Accepted,
    Refused(Refusal),
    Data { channel: Channel, bytes: Vec<u8> },
    Eof(Channel),
    Report(Report),
    Exit(Exit),
    Reset,
}

/// The connection a stream belongs to, as far as the stream knows it.
pub trait Bearer: std::fmt::Debug + Send + Sync {
    /// Where the stream's frames go.
    fn outbox(&self) -> &Outbox;
    /// The stream has ended on this side; says whether the peer does not know yet.
    fn forget(&self, stream: StreamId) -> bool;
}

/// Whether a stream goes on after a frame.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Next {
    More,
    Ended,
}

#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum OpenedBy {
    #[default]
    Us,
    Peer,
}

/// What was received on a stream and not taken yet. Shared by the halves and by whoever reads the connection.
#[derive(Debug, Default)]
pub struct StreamState {
    opened_by: OpenedBy,
    state: Mutex<State>,
    readable: Notify,
    writable: Notify,
}

#[derive(Debug, Default)]
struct State {
    events: VecDeque<StreamEvent>,
    report: Option<Report>,
    end: Option<End>,
    receive: [RecvCredit; 2],
    finished: [bool; 2],
    send: SendCredit,
    /// Whether the one who was asked has said anything: only the first word can be a yes or no.
    answered: bool,
}

#[derive(Debug)]
enum End {
    /// Not yet told to the consumer.
    Event(StreamEvent),
    Told,
    Connection(ClientError),
}

/// What the reading task does to a stream.
impl StreamState {
    /// Of a stream that the peer asks for.
    pub fn asked_for() -> Self {
        Self { opened_by: OpenedBy::Peer, ..Self::default() }
    }

    /// A frame of the peer's on this stream, checked.
    pub fn take(&self, frame: FrameRef<'_>) -> Result<Next, Violation> {
        let FrameRef { kind, stream, payload } = frame;
        let ours = self.opened_by == OpenedBy::Us;
        match kind {
            Kind::Accepted if ours && payload.is_empty() => self.accepted()?,
            Kind::Data => {
                let (channel, data) = decode_data(payload)?;
                if data.len() > MAX_DATA {
                    return Err(Violation::TooLong { len: data.len(), limit: MAX_DATA });
                }
                self.data(stream, channel, data)?;
            }
            Kind::Eof => self.eof(decode_eof(payload)?)?,
            Kind::Window => {
                let (channel, bytes) = decode_window(payload)?;
                self.granted(stream, channel, bytes)?;
            }
            Kind::Report if ours => self.report(Report::decode(payload)?),
            Kind::Refused if ours => {
                self.refused(Refusal::decode(payload)?)?;
                return Ok(Next::Ended);
            }
            Kind::Exit if ours => {
                self.exited(Exit::decode(payload)?);
                return Ok(Next::Ended);
            }
            Kind::Reset if payload.is_empty() => {
                self.was_reset();
                return Ok(Next::Ended);
            }
            _ => return Err(Violation::Unexpected(kind.name())),
        }
        Ok(Next::More)
    }

    fn accepted(&self) -> Result<(), Violation> {
        let mut state = self.lock();
        if std::mem::replace(&mut state.answered, true) {
            return Err(Violation::Unexpected(Kind::Accepted.name()));
        }
        state.events.push_back(StreamEvent::Accepted);
        self.readable.notify_waiters();
        Ok(())
    }

    fn refused(&self, refusal: Refusal) -> Result<(), Violation> {
        let mut state = self.lock();
        if state.answered {
            return Err(Violation::Unexpected(Kind::Refused.name()));
        }
        self.finish(&mut state, End::Event(StreamEvent::Refused(refusal)));
        Ok(())
    }

    fn data(&self, stream: StreamId, channel: Channel, data: &[u8]) -> Result<(), Violation> {
        let mut state = self.lock();
        self.require_answer(&mut state)?;
        if state.finished[channel as usize] {
            return Err(Violation::Unexpected("data after its end"));
        }
        state.receive[channel as usize].receive(stream, data.len())?;
        if !data.is_empty() {
            state.append(channel, data);
            self.readable.notify_waiters();
        }
        Ok(())
    }

    fn eof(&self, channel: Channel) -> Result<(), Violation> {
        let mut state = self.lock();
        self.require_answer(&mut state)?;
        if std::mem::replace(&mut state.finished[channel as usize], true) {
            return Err(Violation::Unexpected(Kind::Eof.name()));
        }
        state.events.push_back(StreamEvent::Eof(channel));
        self.readable.notify_waiters();
        Ok(())
    }

    fn granted(&self, stream: StreamId, channel: Channel, bytes: u32) -> Result<(), Violation> {
        // Nothing flows towards the guest on the other channel.
        if channel != Channel::Main {
            return Err(Violation::Unexpected(Kind::Window.name()));
        }
        self.lock().send.grant(stream, bytes)?;
        self.writable.notify_waiters();
        Ok(())
    }

    fn report(&self, report: Report) {
        let mut state = self.lock();
        state.answered = true;
        state.report = Some(report);
        self.readable.notify_waiters();
    }

    fn exited(&self, exit: Exit) {
        self.finish(&mut self.lock(), End::Event(StreamEvent::Exit(exit)));
    }

    fn was_reset(&self) {
        self.finish(&mut self.lock(), End::Event(StreamEvent::Reset));
    }

    /// The connection has ended, and with it the stream.
    pub fn lose_connection(&self, reason: &ClientError) {
        self.finish(&mut self.lock(), End::Connection(reason.clone()));
    }

    /// On a stream of ours, the peer's first word is its answer. On one that the peer asks for, it has to wait for ours:
    /// otherwise a guest that asks much could fill us with what nobody has agreed to take.
    fn require_answer(&self, state: &mut State) -> Result<(), Violation> {
        match self.opened_by {
            OpenedBy::Us => state.answered = true,
            OpenedBy::Peer if state.answered => {}
            OpenedBy::Peer => return Err(Violation::Unexpected("data before the answer")),
        }
        Ok(())
    }

    fn finish(&self, state: &mut State, end: End) {
        state.end.get_or_insert(end);
        self.readable.notify_waiters();
        self.writable.notify_waiters();
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn append(&mut self, channel: Channel, data: &[u8]) {
        let reach = if self.events.len() < EXACT_ORDER { 1 } else { 2 };
        let joined = self.events.iter_mut().rev().take(reach).find_map(|event| match event {
            StreamEvent::Data { channel: other, bytes }
                if *other == channel && bytes.len() + data.len() <= MAX_DATA =>
            {
                Some(bytes)
            }
            _ => None,
        });
        match joined {
            Some(bytes) => bytes.extend_from_slice(data),
            None => self.events.push_back(StreamEvent::Data { channel, bytes: data.to_vec() }),
        }
    }

    /// The next thing to tell the consumer, `None` when there is nothing yet.
    fn next(&mut self) -> Option<Result<Option<StreamEvent>, ClientError>> {
        if let Some(event) = self.events.pop_front() {
            return Some(Ok(Some(event)));
        }
        if let Some(report) = self.report.take() {
            return Some(Ok(Some(StreamEvent::Report(report))));
        }
        match self.end.replace(End::Told) {
            Some(End::Event(event)) => Some(Ok(Some(event))),
            Some(End::Told) => Some(Ok(None)),
            Some(End::Connection(reason)) => {
                self.end = Some(End::Connection(reason.clone()));
                Some(Err(reason))
            }
            None => {
                self.end = None;
                None
            }
        }
    }

    fn closed(&self) -> Option<ClientError> {
        match &self.end {
            Some(End::Connection(reason)) => Some(reason.clone()),
            Some(_) => Some(ClientError::StreamEnded),
            None => None,
        }
    }
}

/// Both halves hold it; when they are gone, so is the stream.
#[derive(Debug)]
struct Stream {
    id: StreamId,
    state: Arc<StreamState>,
    bearer: Arc<dyn Bearer>,
}

impl Stream {
    /// Says the last word on the stream, unless the peer has.
    fn conclude(&self, frame: &Frame) {
        if self.bearer.forget(self.id) {
            self.bearer.outbox().push(|out| frame.encode(out));
        }
    }
}

impl Drop for Stream {
    fn drop(&mut self) {
        self.conclude(&reset_frame(self.id));
    }
}

pub(super) fn halves(
    bearer: Arc<dyn Bearer>,
    id: StreamId,
    state: Arc<StreamState>,
) -> (StreamSender, StreamReceiver) {
    let stream = Arc::new(Stream { id, state, bearer });
    (StreamSender { stream: Arc::clone(&stream) }, StreamReceiver { stream })
}

/// A stream that the peer asks for. Dropped without an answer, it is reset.
#[derive(Debug)]
pub struct Incoming {
    pub open: Open,
    stream: Arc<Stream>,
}

impl Incoming {
    /// `state` is in the bearer's care already, and [`StreamState::asked_for`].
    pub fn new(bearer: Arc<dyn Bearer>, id: StreamId, state: Arc<StreamState>, open: Open) -> Self {
        Self { open, stream: Arc::new(Stream { id, state, bearer }) }
    }

    pub fn refuse(self, refusal: &Refusal) {
        self.stream.conclude(&refusal.frame(self.stream.id));
    }

    pub fn accept(self) -> (StreamSender, StreamReceiver) {
        let Self { stream, .. } = self;
        stream.state.lock().answered = true;
        stream.bearer.outbox().push(|out| accepted_frame(stream.id).encode(out));
        (StreamSender { stream: Arc::clone(&stream) }, StreamReceiver { stream })
    }

    /// Yes, and that is all there is to it.
    pub fn answer(self) {
        let id = self.stream.id;
        if self.stream.bearer.forget(id) {
            self.stream.bearer.outbox().push(|out| {
                accepted_frame(id).encode(out);
                Exit::Code(0).frame(id).encode(out);
            });
        }
    }
}

/// Towards the sandbox. Dropping it does not end the input: [`eof`](Self::eof) does.
#[derive(Debug, Clone)]
pub struct StreamSender {
    stream: Arc<Stream>,
}

impl StreamSender {
    /// Queues all of `data`, waiting for credit and for room. Cancelled half-way, a part may have been sent.
    pub async fn send(&self, mut data: &[u8]) -> Result<(), ClientError> {
        let Stream { id, state, bearer } = &*self.stream;
        while !data.is_empty() {
            bearer.outbox().reserve().await;
            let rest = until(&state.writable, || {
                let mut locked = state.lock();
                if let Some(reason) = locked.closed() {
                    return Some(Err(reason));
                }
                let taken = locked.send.take(data.len().min(MAX_DATA));
                if taken == 0 {
                    return None;
                }
                let (piece, rest) = data.split_at(taken);
                let queued = bearer.outbox().push(|out| encode_data(*id, Channel::Main, piece, out));
                Some(if queued { Ok(rest) } else { Err(ClientError::Closed) })
            });
            data = rest.await?;
        }
        Ok(())
    }

    /// No more input will follow.
    pub async fn eof(&self) -> Result<(), ClientError> {
        self.control(eof_frame(self.stream.id, Channel::Main)).await
    }

    /// A signal for the foreground of the stream's command.
    pub async fn signal(&self, signal: u8) -> Result<(), ClientError> {
        self.control(signal_frame(self.stream.id, signal)).await
    }

    pub async fn resize(&self, size: Size) -> Result<(), ClientError> {
        self.control(size.frame(self.stream.id)).await
    }

    /// The regular end of a stream that the peer has asked for.
    pub fn end(self) {
        self.stream.conclude(&Exit::Code(0).frame(self.stream.id));
    }

    async fn control(&self, frame: Frame) -> Result<(), ClientError> {
        let outbox = self.stream.bearer.outbox();
        outbox.reserve().await;
        if let Some(reason) = self.stream.state.lock().closed() {
            return Err(reason);
        }
        if outbox.push(|out| frame.encode(out)) { Ok(()) } else { Err(ClientError::Closed) }
    }
}

/// From the sandbox. Taking data is what allows the sender to send more.
#[derive(Debug)]
pub struct StreamReceiver {
    stream: Arc<Stream>,
}

impl StreamReceiver {
    /// The next event; `None` after the last one. Loses nothing when cancelled.
    pub async fn next(&mut self) -> Result<Option<StreamEvent>, ClientError> {
        let Stream { id, state, bearer } = &*self.stream;
        let event = until(&state.readable, || state.lock().next()).await?;
        if let Some(StreamEvent::Data { channel, bytes }) = &event {
            let mut locked = state.lock();
            let grant = locked.receive[*channel as usize].consume(bytes.len());
            if let (Some(grant), None, false) = (grant, &locked.end, locked.finished[*channel as usize]) {
                bearer.outbox().push(|out| window_frame(*id, *channel, grant).encode(out));
            }
        }
        Ok(event)
    }
}
