//! What the peer says: every frame is checked here before anybody acts on it.

use super::stream::StreamState;
use super::{ClientError, Shared};
use crate::frame::MAX_DATA;
use crate::message::{decode_data, decode_eof, decode_window};
use crate::outbox::until;
use crate::{Decoder, Exit, FrameRef, Kind, Open, Refusal, RefusalCode, Report, StreamId, Violation};
use std::sync::Arc;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Reads until the peer leaves, breaks a rule, or nobody is interested any more.
pub(super) async fn run(shared: Arc<Shared>, reader: impl AsyncRead + Unpin, decoder: Decoder) {
    let reason = tokio::select! {
        reason = read(&shared, reader, decoder) => reason,
        // The last handle is gone: the outbox finishes on its own.
        _ = until(&shared.ended, || shared.table().end.clone()) => return,
    };
    shared.outbox.close();
    shared.end(reason);
}

async fn read(shared: &Shared, mut reader: impl AsyncRead + Unpin, mut decoder: Decoder) -> ClientError {
    loop {
        loop {
            match decoder.next_ref() {
                Ok(Some(frame)) => {
                    if let Err(violation) = take(shared, frame) {
                        return violation.into();
                    }
                }
                Ok(None) => break,
                Err(violation) => return violation.into(),
            }
        }
        match reader.read_buf(decoder.spare()).await {
            Ok(0) => return ClientError::Closed,
            Ok(_) => {}
            Err(error) => return error.into(),
        }
    }
}

fn take(shared: &Shared, frame: FrameRef<'_>) -> Result<(), Violation> {
    let unexpected = Err(Violation::Unexpected(frame.kind.name()));
    match frame.kind {
        Kind::Open => return answer_open(shared, frame),
        Kind::Hello | Kind::Welcome | Kind::Signal | Kind::Resize | Kind::Shutdown => return unexpected,
        _ => {}
    }
    let Some(stream) = find(shared, frame.stream)? else { return Ok(()) };
    match frame.kind {
        Kind::Accepted if frame.payload.is_empty() => stream.accepted(),
        Kind::Data => {
            let (channel, data) = decode_data(frame.payload)?;
            if data.len() > MAX_DATA {
                return Err(Violation::TooLong { len: data.len(), limit: MAX_DATA });
            }
            stream.data(frame.stream, channel, data)
        }
        Kind::Eof => stream.eof(decode_eof(frame.payload)?),
        Kind::Window => {
            let (channel, bytes) = decode_window(frame.payload)?;
            stream.granted(frame.stream, channel, bytes)
        }
        Kind::Report => {
            stream.report(Report::decode(frame.payload)?);
            Ok(())
        }
        Kind::Refused => {
            stream.refused(Refusal::decode(frame.payload)?)?;
            forget(shared, frame.stream);
            Ok(())
        }
        Kind::Exit => {
            stream.exited(Exit::decode(frame.payload)?);
            forget(shared, frame.stream);
            Ok(())
        }
        Kind::Reset if frame.payload.is_empty() => {
            stream.was_reset();
            forget(shared, frame.stream);
            Ok(())
        }
        _ => unexpected,
    }
}

/// The stream a frame is for; `None` when it has ended and the peer could not know yet.
fn find(shared: &Shared, id: StreamId) -> Result<Option<Arc<StreamState>>, Violation> {
    let table = shared.table();
    if let Some(stream) = table.streams.get(&id) {
        return Ok(Some(Arc::clone(stream)));
    }
    let ended = if id % 2 == 1 { id < table.next } else { id != 0 && id <= table.peer };
    if ended { Ok(None) } else { Err(Violation::UnknownStream(id)) }
}

fn forget(shared: &Shared, id: StreamId) {
    shared.table().streams.remove(&id);
}

/// A stream that the guest opens is a way out of the sandbox. Without an egress policy there is none; with one,
/// this is the place that asks it.
fn answer_open(shared: &Shared, frame: FrameRef<'_>) -> Result<(), Violation> {
    let mut table = shared.table();
    if !frame.stream.is_multiple_of(2) || frame.stream <= table.peer {
        return Err(Violation::UnknownStream(frame.stream));
    }
    table.peer = frame.stream;
    drop(table);
    Open::decode(frame.payload)?;
    if shared.outbox.is_overfull() {
        return Err(Violation::Unexpected("requests without reading the answers"));
    }
    let refusal = Refusal::new(RefusalCode::Forbidden, 0, "the sandbox has no way out");
    shared.outbox.push(|out| refusal.frame(frame.stream).encode(out));
    Ok(())
}
