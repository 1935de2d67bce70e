//! A person's view of a named session: the terminal in raw mode, what is typed going in, what is shown coming out,
//! until the session ends or the person leaves it. Leaving never ends the session.

use crate::Status;
use crate::detach::{Matcher, Verdict};
use crate::failure::Failure;
use crate::keyboard::Keyboard;
use crate::relay::Signals;
use crate::terminal::{self, RawMode};
use crate::writer::Writer;
use palisade_config::DetachKeys;
use palisade_engine::{EngineError, Streams};
use palisade_protocol::Exit;
use palisade_protocol::client::{ClientError, StreamEvent, StreamSender};
use std::time::Duration;
use tokio::signal::unix::SignalKind;
use tokio::sync::mpsc;

/// How long the rest of an escape sequence may take; then it was the key Escape.
const SETTLE: Duration = Duration::from_millis(25);
/// Pieces of input that may wait for a program that does not read, while the detach keys still work.
const PIECES: usize = 64;
/// What a program gets whose reader went away.
const SIGPIPE_STATUS: Status = 141;

/// Why a view ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Left {
    /// The session did.
    Ended(Exit),
    /// The detach keys were typed, or the input came to its end.
    Detached,
    /// This program was told to end, or its reader went away; the status to end with.
    Told(Status),
}

/// Shows a session until it ends or is left.
pub(crate) async fn view(
    (sender, mut receiver): Streams,
    keys: DetachKeys,
    signals: Signals,
) -> Result<Left, Failure> {
    let raw = RawMode::enter().map_err(|error| Failure::failed("io", format!("the terminal: {error}")))?;
    let mut typing = tokio::spawn(type_into(sender.clone(), Matcher::new(keys)));
    let mut telling = tokio::spawn(told_to_end(signals, sender));
    let writer = Writer::start();
    let left = loop {
        tokio::select! {
            event = receiver.next() => match event {
                Ok(Some(StreamEvent::Data { channel, bytes })) => {
                    // A slow terminal must not keep the person from leaving.
                    let written = tokio::select! {
                        written = writer.write(channel, bytes) => written,
                        _ = &mut typing => break Ok(Left::Detached),
                        status = &mut telling => break Ok(Left::Told(status.unwrap_or(SIGPIPE_STATUS))),
                    };
                    if !written {
                        break Ok(Left::Told(SIGPIPE_STATUS));
                    }
                }
                Ok(Some(StreamEvent::Exit(exit))) => break Ok(Left::Ended(exit)),
                Ok(Some(StreamEvent::Reset) | None) => break Err(ClientError::Closed),
                Ok(Some(_)) => {}
                Err(error) => break Err(error),
            },
            _ = &mut typing => break Ok(Left::Detached),
            status = &mut telling => break Ok(Left::Told(status.unwrap_or(SIGPIPE_STATUS))),
        }
    };
    typing.abort();
    telling.abort();
    match left {
        // The session's end counts for more than a terminal that could not show the last of it.
        Ok(Left::Ended(_)) | Err(_) => drop(writer.finish()),
        Ok(Left::Detached | Left::Told(_)) => drop(writer.abandon()),
    }
    drop(raw);
    left.map_err(|error| EngineError::from(error).into())
}

/// Passes sizes on until a signal means the end of this program; the status for it.
async fn told_to_end(mut signals: Signals, sender: StreamSender) -> Status {
    loop {
        let kind = signals.next().await;
        if kind != SignalKind::window_change() {
            return 128 + kind.as_raw_value() as Status;
        }
        // The session may have ended; the receiver tells.
        let _ = sender.resize(terminal::size()).await;
    }
}

/// Passes on what is typed; ends with the detach keys, or with the input.
async fn type_into(sender: StreamSender, mut matcher: Matcher) {
    let (pieces, mut passed) = mpsc::channel::<Vec<u8>>(PIECES);
    let sending = async {
        while let Some(piece) = passed.recv().await {
            if sender.send(&piece).await.is_err() {
                // The receiver tells why; there is nothing to detach from.
                std::future::pending::<()>().await;
            }
        }
        std::future::pending::<()>().await;
    };
    let reading = async {
        let mut keyboard = Keyboard::listen();
        loop {
            let next = match matcher.is_unsettled() {
                false => Ok(keyboard.next().await),
                true => tokio::time::timeout(SETTLE, keyboard.next()).await,
            };
            let mut pass = Vec::new();
            let verdict = match next {
                Ok(Some(typed)) => matcher.feed(&typed, &mut pass),
                Ok(None) => Verdict::Detach,
                Err(_) => {
                    matcher.settle(&mut pass);
                    Verdict::Stay
                }
            };
            let sent = pass.is_empty() || pieces.send(pass).await.is_ok();
            if verdict == Verdict::Detach || !sent {
                return;
            }
        }
    };
    tokio::select! {
        () = sending => {}
        () = reading => {}
    }
}
