//! A plain command: its pipes or its terminal, until its exit has been told. It dies with its stream.
//!
//! The exit is told after everything the command itself wrote, and without waiting for what it left running in
//! the background, even when that still holds the pipes.

use crate::pipe::{EndBy, Inlet, Outlet};
use crate::spawn::{self, Image, Kept, Spawner, StartStatus, Started, Wiring, failure};
use crate::stream::{Progress, Shared, Stream};
use crate::system;
use crate::terminal::{LEFT_BEHIND, Terminal};
use palisade_protocol::message::accepted_frame;
use palisade_protocol::{Channel, ExecRequest, Exit, Refusal, RefusalCode, Size, StreamId, Violation};
use rustix::event::{PollFd, PollFlags};
use rustix::process::Pid;
use std::io;

#[derive(Debug)]
pub(crate) struct Command {
    pid: Pid,
    /// Until it is known whether the program could be started.
    starting: Option<StartStatus>,
    terminal: Option<Terminal>,
    input: Inlet,
    output: Outlet,
    error: Outlet,
    exit: Option<Exit>,
}

impl Command {
    pub(crate) fn start(request: &ExecRequest, spawner: &mut Spawner) -> Result<Self, Refusal> {
        let image = Image::new(request)?;
        let started = match request.pty {
            Some(size) => Self::with_terminal(size, |wiring| spawner.program(&image, wiring)),
            None => Self::with_pipes(request.stdin, Output::Sent, |wiring| spawner.program(&image, wiring)),
        };
        started.map_err(|error| refusal(&error))
    }

    pub(crate) fn with_pipes(
        takes_input: bool,
        sends_output: Output,
        start: impl FnOnce(Wiring) -> io::Result<Started>,
    ) -> io::Result<Self> {
        let (sink, input) = match takes_input {
            true => spawn::pipe(Kept::Writer).map(|(ours, theirs)| (Some(ours), theirs))?,
            false => (None, spawn::null()?),
        };
        let (source, output) = match sends_output {
            Output::Sent => spawn::pipe(Kept::Reader).map(|(ours, theirs)| (Some(ours), theirs))?,
            Output::None => (None, spawn::null()?),
        };
        let (error_source, error) = spawn::pipe(Kept::Reader)?;
        let Started { pid, status } = start(Wiring { input, output, error, terminal: false })?;
        Ok(Self {
            pid,
            starting: Some(status),
            terminal: None,
            input: Inlet::new(sink, EndBy::Close),
            output: Outlet::new(Channel::Main, source),
            error: Outlet::new(Channel::Error, Some(error_source)),
            exit: None,
        })
    }

    fn with_terminal(size: Size, start: impl FnOnce(Wiring) -> io::Result<Started>) -> io::Result<Self> {
        let terminal = Terminal::open(size)?;
        let side = || terminal.command_side();
        let wiring = Wiring { input: side()?, output: side()?, error: side()?, terminal: true };
        let input = Inlet::new(Some(terminal.guest_side()?), EndBy::Nothing);
        let output = Outlet::new(Channel::Main, Some(terminal.guest_side()?));
        let Started { pid, status } = start(wiring)?;
        Ok(Self {
            pid,
            starting: Some(status),
            terminal: Some(terminal),
            input,
            output,
            error: Outlet::new(Channel::Error, None),
            exit: None,
        })
    }
}

/// Whether a child's standard output goes to the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Output {
    Sent,
    None,
}

/// What the guest itself lacked to start a child.
pub(crate) fn refusal(error: &io::Error) -> Refusal {
    let errno = error.raw_os_error().unwrap_or(libc::EIO);
    let code = match errno {
        libc::EAGAIN | libc::EMFILE | libc::ENFILE | libc::ENOMEM => RefusalCode::Limit,
        _ => RefusalCode::Failed,
    };
    failure(code, errno)
}

impl Stream for Command {
    fn interests<'a>(&'a self, congested: bool, into: &mut Vec<PollFd<'a>>) {
        if let Some(status) = &self.starting {
            into.push(PollFd::new(status, PollFlags::IN));
            return;
        }
        self.input.interests(into);
        self.output.interests(congested, into);
        self.error.interests(congested, into);
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        if let Some(status) = &self.starting {
            match status.poll() {
                None => return Progress::Open,
                Some(Ok(())) => shared.link.send(&accepted_frame(stream)),
                Some(Err(refusal)) => {
                    shared.link.send(&refusal.frame(stream));
                    return Progress::Done;
                }
            }
            self.starting = None;
        }
        self.input.flush(stream, &mut shared.link);
        // A pipe or terminal that cannot be read has nothing more to give.
        let _ = self.output.pump(stream, &mut shared.link);
        let _ = self.error.pump(stream, &mut shared.link);
        match self.exit {
            Some(exit) if self.output.ended() && self.error.ended() => {
                shared.link.send(&exit.frame(stream));
                Progress::Done
            }
            _ => Progress::Open,
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
            Channel::Error => self.error.grant(stream, bytes),
        }
    }

    fn signal(&mut self, signal: u8, _shared: &mut Shared) {
        if self.exit.is_none() {
            send_signal(self.pid, self.terminal.as_ref(), signal);
        }
    }

    fn resize(&mut self, size: Size, _shared: &mut Shared) {
        if let Some(terminal) = &self.terminal {
            terminal.resize(size);
        }
    }

    fn reset(&mut self, shared: &mut Shared) {
        // Once it has ended, its number may already be another's.
        if self.exit.is_none() {
            shared.leaving.ask(self.pid);
        }
    }

    fn child_ended(&mut self, pid: Pid, exit: Exit) -> bool {
        if pid != self.pid || self.exit.is_some() {
            return false;
        }
        self.exit = Some(exit);
        if self.terminal.take().is_some() {
            self.output.owe(LEFT_BEHIND);
        } else {
            self.output.owe_what_is_left();
            self.error.owe_what_is_left();
        }
        true
    }
}

/// To the foreground of a terminal, else to the group that the command leads.
pub(crate) fn send_signal(leader: Pid, terminal: Option<&Terminal>, signal: u8) {
    let leader = leader.as_raw_nonzero().get();
    let group = terminal.and_then(Terminal::foreground).unwrap_or(leader);
    if system::kill(-group, i32::from(signal)).is_err() {
        // Either it just ended, or it is so young that it has no group of its own yet.
        let _ = system::kill(leader, i32::from(signal));
    }
}
