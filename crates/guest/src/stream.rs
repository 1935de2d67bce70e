//! What every kind of stream can do. The loop knows streams only through this.

use crate::egress::Egress;
use crate::leaving::Leaving;
use crate::link::Link;
use crate::listeners::Ports;
use crate::session::Sessions;
use crate::spawn::Spawner;
use palisade_protocol::{Channel, Exit, Refusal, Size, StreamId, Violation};
use rustix::event::PollFd;
use rustix::process::Pid;
use std::time::Instant;

/// What streams share.
#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) link: Link,
    pub(crate) sessions: Sessions,
    pub(crate) spawner: Spawner,
    pub(crate) ports: Ports,
    pub(crate) leaving: Leaving,
    /// The way out, once the host has opened it.
    pub(crate) egress: Option<Egress>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Progress {
    Open,
    /// The end was said to the host; the stream can be forgotten.
    Done,
}

/// What the host says to a stream that this guest asked for.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Accepted,
    Refused(Refusal),
    /// The regular end, after everything was said.
    Ended,
}

pub(crate) trait Stream: std::fmt::Debug {
    /// The descriptors to wait for, as things stand.
    fn interests<'a>(&'a self, congested: bool, into: &mut Vec<PollFd<'a>>);

    /// Does all that can be done without waiting. Called when a descriptor is ready and after every frame.
    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress;

    /// Whether progress depends on more than its own descriptors, and is due in every turn of the loop.
    fn always_due(&self) -> bool {
        false
    }

    /// When progress is due although nothing happens.
    fn due(&self) -> Option<Instant> {
        None
    }

    /// The host's answer to a stream that this guest asked for.
    fn answered(&mut self, _answer: Answer, _stream: StreamId, _shared: &mut Shared) -> Progress {
        Progress::Done
    }

    fn data(&mut self, _stream: StreamId, _data: &[u8]) -> Result<(), Violation> {
        Err(Violation::Unexpected("data on a stream that takes none"))
    }

    fn eof(&mut self) {}

    fn window(&mut self, _stream: StreamId, _channel: Channel, _bytes: u32) -> Result<(), Violation> {
        Ok(())
    }

    fn signal(&mut self, _signal: u8, _shared: &mut Shared) {}

    fn resize(&mut self, _size: Size, _shared: &mut Shared) {}

    /// The host dropped the stream.
    fn reset(&mut self, _shared: &mut Shared) {}

    /// Whether the process that ended is this stream's.
    fn child_ended(&mut self, _pid: Pid, _exit: Exit) -> bool {
        false
    }
}
