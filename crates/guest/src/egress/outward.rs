//! A connection that leaves the sandbox: a socket of a program inside on one end, a stream to the host on the other.

use super::proxy::Manner;
use super::{Ask, hang_up};
use crate::pipe::{EndBy, Inlet, Outlet};
use crate::stream::{Answer, Progress, Shared, Stream};
use palisade_protocol::message::reset_frame;
use palisade_protocol::{Channel, Open, StreamId, Violation};
use rustix::event::PollFd;
use std::os::fd::OwnedFd;
use std::rc::Rc;

#[derive(Debug)]
pub(super) struct Outward {
    socket: Rc<OwnedFd>,
    manner: Manner,
    /// What the program has said already that is for the other side.
    first: Vec<u8>,
    state: State,
    input: Inlet,
    output: Outlet,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The host has not answered yet.
    Asked,
    Open,
    /// The host has said everything; some of it may still have to be delivered.
    Ended,
}

impl Outward {
    pub(super) fn ask(open: Open, socket: impl Into<Rc<OwnedFd>>, manner: Manner, first: Vec<u8>) -> Ask {
        let outward = Self {
            socket: socket.into(),
            manner,
            first,
            state: State::Asked,
            input: Inlet::new(None, EndBy::HalfClose),
            output: Outlet::new(Channel::Main, None),
        };
        Ask { open, stream: Box::new(outward) }
    }
}

impl Stream for Outward {
    fn interests<'a>(&'a self, congested: bool, into: &mut Vec<PollFd<'a>>) {
        self.input.interests(into);
        self.output.interests(congested, into);
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        let link = &mut shared.link;
        if self.state == State::Asked {
            return Progress::Open;
        }
        self.input.flush(stream, link);
        if self.state == State::Ended {
            // What cannot be delivered any more has nobody left to care.
            return if self.input.finished() || self.input.broken() {
                Progress::Done
            } else {
                Progress::Open
            };
        }
        if self.output.pump(stream, link).is_err() || self.input.broken() {
            link.send(&reset_frame(stream));
            return Progress::Done;
        }
        Progress::Open
    }

    fn answered(&mut self, answer: Answer, stream: StreamId, shared: &mut Shared) -> Progress {
        match answer {
            Answer::Accepted => {
                // A few bytes into an empty buffer; if nobody is left to read them, the next write says so.
                let _ = rustix::io::write(&self.socket, self.manner.yes());
                self.state = State::Open;
                self.input.connect(Rc::clone(&self.socket));
                self.output.connect(Rc::clone(&self.socket));
                let first = std::mem::take(&mut self.first);
                self.output.say(stream, &mut shared.link, &first);
                self.progress(stream, shared)
            }
            Answer::Refused(refusal) => {
                let words = self.manner.no(&refusal);
                if words.is_empty() {
                    hang_up(&self.socket);
                } else {
                    let _ = rustix::io::write(&self.socket, &words);
                }
                Progress::Done
            }
            Answer::Ended => {
                self.state = State::Ended;
                self.progress(stream, shared)
            }
        }
    }

    fn data(&mut self, stream: StreamId, data: &[u8]) -> Result<(), Violation> {
        self.input.receive(stream, data)
    }

    fn eof(&mut self) {
        self.input.end();
    }

    fn window(&mut self, stream: StreamId, channel: Channel, bytes: u32) -> Result<(), Violation> {
        match channel {
            Channel::Main => self.output.grant(stream, bytes),
            Channel::Error => Ok(()),
        }
    }

    /// The other side broke off, and the program inside should see it so.
    fn reset(&mut self, _shared: &mut Shared) {
        hang_up(&self.socket);
    }
}
