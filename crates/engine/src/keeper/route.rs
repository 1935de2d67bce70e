//! One stream's way through the keeper: what each side may still say on it.

use super::router::ClientId;
use palisade_protocol::frame::{Kind, MAX_DATA};
use palisade_protocol::message::{decode_data, decode_eof, decode_signal, decode_window};
use palisade_protocol::{
    Channel, Exit, FrameRef, Open, RecvCredit, Refusal, Report, Size, StreamId, Violation,
};

pub(super) struct Route {
    pub(super) client: ClientId,
    /// The client's id for it.
    pub(super) stream: StreamId,
    output: [RecvCredit; 2],
    output_ended: [bool; 2],
    input: RecvCredit,
    input_ended: bool,
    /// Whether the guest said anything: only its first word can be a yes or no.
    answered: bool,
    /// The session that it asked for, until that has started.
    pub(super) starting: Option<String>,
    /// Whether it only looks at what others do.
    looks_on: bool,
}

impl Route {
    pub(super) fn new(client: ClientId, stream: StreamId, open: Open) -> Self {
        Self {
            client,
            stream,
            output: Default::default(),
            output_ended: [false; 2],
            input: RecvCredit::default(),
            input_ended: false,
            answered: false,
            looks_on: matches!(
                open,
                Open::Changes(_) | Open::Listeners | Open::Sessions | Open::SessionChanges
            ),
            starting: session_of(open),
        }
    }

    /// Whether a frame of this kind shows that somebody is at work inside.
    pub(super) fn is_work(&self, kind: Kind) -> bool {
        !self.looks_on && matches!(kind, Kind::Data | Kind::Exit)
    }

    /// Checks a frame on its way to the guest.
    pub(super) fn input(&mut self, frame: FrameRef<'_>) -> Result<Next, Violation> {
        let main = |channel| match channel {
            Channel::Main => Ok(()),
            Channel::Error => Err(Violation::Unexpected("input on the error channel")),
        };
        match frame.kind {
            Kind::Data => {
                let (channel, data) = decode_data(frame.payload)?;
                main(channel)?;
                if self.input_ended {
                    return Err(Violation::Unexpected("data after its end"));
                }
                if data.len() > MAX_DATA {
                    return Err(Violation::TooLong { len: data.len(), limit: MAX_DATA });
                }
                self.input.receive(frame.stream, data.len())?;
            }
            Kind::Eof => {
                main(decode_eof(frame.payload)?)?;
                if std::mem::replace(&mut self.input_ended, true) {
                    return Err(Violation::Unexpected(frame.kind.name()));
                }
            }
            Kind::Window => {
                let (channel, bytes) = decode_window(frame.payload)?;
                self.output[channel as usize].granted(frame.stream, bytes)?;
            }
            Kind::Signal => {
                decode_signal(frame.payload)?;
            }
            Kind::Resize => {
                Size::decode_resize(frame.payload)?;
            }
            Kind::Reset if frame.payload.is_empty() => return Ok(Next::Ended),
            _ => return Err(Violation::Unexpected(frame.kind.name())),
        }
        Ok(Next::More)
    }

    /// Checks a frame on its way to the client.
    pub(super) fn output(&mut self, frame: FrameRef<'_>) -> Result<Next, Violation> {
        let unexpected = || Violation::Unexpected(frame.kind.name());
        let first = !self.answered;
        // Credit is no answer: a guest may grant it before it has one.
        self.answered |= frame.kind != Kind::Window;
        match frame.kind {
            Kind::Accepted if first && frame.payload.is_empty() => {}
            Kind::Refused if first => {
                Refusal::decode(frame.payload)?;
                return Ok(Next::Ended);
            }
            Kind::Data => {
                let (channel, data) = decode_data(frame.payload)?;
                if self.output_ended[channel as usize] {
                    return Err(Violation::Unexpected("data after its end"));
                }
                if data.len() > MAX_DATA {
                    return Err(Violation::TooLong { len: data.len(), limit: MAX_DATA });
                }
                self.output[channel as usize].receive(frame.stream, data.len())?;
            }
            Kind::Eof => {
                let channel = decode_eof(frame.payload)?;
                if std::mem::replace(&mut self.output_ended[channel as usize], true) {
                    return Err(unexpected());
                }
            }
            Kind::Window => match decode_window(frame.payload)? {
                (Channel::Main, bytes) => self.input.granted(frame.stream, bytes)?,
                (Channel::Error, _) => return Err(unexpected()),
            },
            Kind::Report => {
                // Only a keeper speaks for the keeper.
                if let Report::Keeper(_) = Report::decode(frame.payload)? {
                    return Err(unexpected());
                }
            }
            Kind::Exit => {
                Exit::decode(frame.payload)?;
                return Ok(Next::Ended);
            }
            Kind::Reset if frame.payload.is_empty() => return Ok(Next::Ended),
            _ => return Err(unexpected()),
        }
        Ok(Next::More)
    }
}

/// The session that a request would start.
fn session_of(open: Open) -> Option<String> {
    if let Open::Exec(request) = open { request.session } else { None }
}

/// Whether a stream goes on after a frame.
#[derive(PartialEq, Eq)]
pub(super) enum Next {
    More,
    Ended,
}
