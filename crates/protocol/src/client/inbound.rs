//! What the peer says: every frame is checked here before anybody acts on it.

use super::stream::{Incoming, Next, StreamState};
use super::{ClientError, Shared};
use crate::outbox::until;
use crate::{Decoder, FrameRef, Kind, Open, Refusal, RefusalCode, StreamId, Violation};
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

async fn read(shared: &Arc<Shared>, mut reader: impl AsyncRead + Unpin, mut decoder: Decoder) -> ClientError {
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

fn take(shared: &Arc<Shared>, frame: FrameRef<'_>) -> Result<(), Violation> {
    match frame.kind {
        Kind::Open => return answer_open(shared, frame),
        Kind::Hello | Kind::Welcome | Kind::Signal | Kind::Resize | Kind::Shutdown => {
            return Err(Violation::Unexpected(frame.kind.name()));
        }
        _ => {}
    }
    let Some(stream) = find(shared, frame.stream)? else { return Ok(()) };
    if stream.take(frame)? == Next::Ended {
        shared.table().streams.remove(&frame.stream);
    }
    Ok(())
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

/// A stream that the guest opens is a way out of the sandbox. Whoever guards the way answers; without anybody there is
/// none.
fn answer_open(shared: &Arc<Shared>, frame: FrameRef<'_>) -> Result<(), Violation> {
    let id = frame.stream;
    let mut table = shared.table();
    if !id.is_multiple_of(2) || id <= table.peer {
        return Err(Violation::UnknownStream(id));
    }
    table.peer = id;
    let open = Open::decode(frame.payload)?;
    if shared.outbox.is_overfull() {
        return Err(Violation::Unexpected("requests without reading the answers"));
    }
    let Some(door) = &shared.door else {
        drop(table);
        let refusal = Refusal::new(RefusalCode::Forbidden, 0, "the sandbox has no way out");
        shared.outbox.push(|out| refusal.frame(id).encode(out));
        return Ok(());
    };
    let state = Arc::new(StreamState::asked_for());
    table.streams.insert(id, Arc::clone(&state));
    drop(table);
    door(Incoming::new(Arc::clone(shared) as _, id, state, open));
    Ok(())
}
