//! Named sessions: terminals that outlive the streams which look at them.
//!
//! Every viewer has its own credit and its own place in the scrollback. With nobody there the terminal is always read;
//! while somebody looks, the command waits for the fastest of them, within reason (see [`audience`](crate::audience)).
//! A slower one that falls behind what is kept loses output, and nobody else does.

use crate::audience::{Audience, Room, Seat};
use crate::command::{refusal, send_signal};
use crate::link::Link;
use crate::pipe::{EndBy, Inlet};
use crate::scrollback::{CAPACITY, Scrollback};
use crate::spawn::{Image, Spawner, StartStatus, Started, Wiring};
use crate::stream::{Progress, Shared, Stream};
use crate::terminal::{LEFT_BEHIND, Terminal};
use palisade_protocol::frame::MAX_DATA;
use palisade_protocol::message::{accepted_frame, eof_frame};
use palisade_protocol::{
    Channel, ExecRequest, Exit, Refusal, RefusalCode, SendCredit, SessionInfo, Size, StreamId, Violation,
};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::process::Pid;
use std::io;
use std::os::fd::AsFd;
use std::time::Instant;

const MOST: usize = 64;
/// Cancels the sequence a terminal may be in the middle of, when the rest of it was lost.
const CANCEL: &[u8] = &[0x18];

/// A name can be taken again; a key cannot.
pub(crate) type Key = u64;

#[derive(Debug)]
struct Session {
    key: Key,
    name: String,
    pid: Pid,
    /// Until it is known whether the program could be started, and then the reason if not.
    starting: Option<StartStatus>,
    failed: Option<Refusal>,
    /// Until it has ended and everything it left behind is read.
    terminal: Option<Terminal>,
    /// After the end: how much may still be read.
    left: usize,
    size: Size,
    scrollback: Scrollback,
    exit: Option<Exit>,
    /// Whether a viewer was told of the exit.
    seen: bool,
    audience: Audience,
    /// Another session has taken the name; this one waits for its last viewers.
    replaced: bool,
}

impl Session {
    /// Whether it is a session to others: it started, and its name is still its own.
    fn shown(&self) -> bool {
        !self.replaced && self.starting.is_none() && self.failed.is_none()
    }

    fn viewers(&self) -> u16 {
        u16::try_from(self.audience.len()).unwrap_or(u16::MAX)
    }

    fn resize(&mut self, size: Size) {
        if let Some(terminal) = &self.terminal {
            terminal.resize(size);
            self.size = terminal.size();
        }
    }

    fn room(&self, now: Instant) -> Room {
        self.audience.room(self.scrollback.end(), CAPACITY, now)
    }

    /// Reads output once, into the scrollback, as far as there is room; how much there was.
    fn read(&mut self, link: &mut Link, now: Instant) -> Result<usize, Errno> {
        let room = self.room(now);
        let Some(terminal) = &self.terminal else { return Ok(0) };
        if room.is_held() {
            return Err(Errno::AGAIN);
        }
        let data = link.read(terminal.as_fd(), room)?;
        self.audience.output_follows(self.scrollback.end(), now);
        self.scrollback.push(data);
        Ok(data.len())
    }

    /// Whether it has ended and waits for room for what it left behind.
    fn is_draining(&self) -> bool {
        self.exit.is_some() && self.terminal.is_some()
    }

    /// Reads what a command that has ended left behind, as far as there is room.
    fn drain(&mut self, link: &mut Link, now: Instant) {
        while self.is_draining() && !self.room(now).is_held() {
            match self.read(link, now) {
                Ok(read @ 1..) if read < self.left => self.left -= read,
                // Nothing is left, or more than a terminal holds: somebody else still writes there.
                _ => {
                    self.terminal = None;
                    self.scrollback.close();
                }
            }
        }
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    next: Key,
}

impl Sessions {
    /// Starts a session; its opener is the first viewer.
    pub(crate) fn start(
        &mut self,
        name: &str,
        request: &ExecRequest,
        spawner: &mut Spawner,
    ) -> Result<Viewer, Refusal> {
        let size = request.pty.ok_or_else(|| {
            Refusal::new(RefusalCode::Failed, libc::ENOTTY, "a session needs a terminal: ask for one")
        })?;
        let image = Image::new(request)?;
        let previous = self.sessions.iter().position(|session| session.name == name && !session.replaced);
        if previous.is_some_and(|index| self.sessions[index].exit.is_none()) {
            let text = format!("session {name} is running; attach to it, or end it first");
            return Err(Refusal::new(RefusalCode::Exists, libc::EEXIST, text));
        }
        if previous.is_none() {
            self.make_room()?;
        }
        let (terminal, Started { pid, status }) =
            spawn_on_terminal(size, &image, spawner).map_err(|error| refusal(&error))?;
        let input = terminal.guest_side().map_err(|error| refusal(&error))?;
        if let Some(index) = previous {
            self.sessions[index].replaced = true;
        }
        let mut audience = Audience::default();
        let seat = (!request.detached).then(|| audience.join(0, Instant::now()));
        let key = self.next;
        self.next += 1;
        self.sessions.push(Session {
            key,
            name: name.to_owned(),
            pid,
            starting: Some(status),
            failed: None,
            size: terminal.size(),
            terminal: Some(terminal),
            left: LEFT_BEHIND,
            scrollback: Scrollback::default(),
            exit: None,
            seen: false,
            audience,
            replaced: false,
        });
        Ok(Viewer::new(key, seat, Inlet::new(Some(input), EndBy::Nothing)))
    }

    /// Forgets the session that ended first, when there are too many.
    fn make_room(&mut self) -> Result<(), Refusal> {
        if self.sessions.len() < MOST {
            return Ok(());
        }
        let ended = self.sessions.iter().position(|session| session.exit.is_some() && session.viewers() == 0);
        let index = ended.ok_or_else(|| {
            let text = format!("{MOST} sessions are running; end one first");
            Refusal::new(RefusalCode::Limit, libc::EAGAIN, text)
        })?;
        self.sessions.remove(index);
        Ok(())
    }

    pub(crate) fn attach(&mut self, name: &str, size: Size) -> Result<Viewer, Refusal> {
        let found = self.sessions.iter_mut().find(|session| session.name == name && session.shown());
        let session = found.ok_or_else(|| {
            Refusal::new(RefusalCode::NotFound, libc::ENOENT, format!("there is no session {name}"))
        })?;
        let input = session.terminal.as_ref().map(Terminal::guest_side).transpose();
        let input = input.map_err(|error| refusal(&error))?;
        session.resize(size);
        let beginning = session.scrollback.beginning();
        let seat = session.audience.join(beginning.position, Instant::now());
        let viewer = Viewer::new(session.key, Some(seat), Inlet::new(input, EndBy::Nothing));
        if beginning.position > 0 {
            // The rest of the screen is no longer kept; a program that draws one draws it again.
            send_signal(session.pid, session.terminal.as_ref(), libc::SIGWINCH as u8);
        }
        Ok(Viewer { position: beginning.position, owed: beginning.modes.redo(), ..viewer })
    }

    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        self.sessions
            .iter()
            .filter(|session| session.shown())
            .map(|session| SessionInfo {
                name: session.name.clone(),
                viewers: session.viewers(),
                size: session.size,
                exit: session.exit,
                seen: session.seen,
            })
            .collect()
    }

    pub(crate) fn interests<'a>(&'a self, mut wait: impl FnMut(Key, PollFd<'a>)) {
        let now = Instant::now();
        for session in &self.sessions {
            if let Some(status) = &session.starting {
                wait(session.key, PollFd::new(status, PollFlags::IN));
            } else if let Some(terminal) = &session.terminal
                && !session.room(now).is_held()
            {
                wait(session.key, PollFd::new(terminal, PollFlags::IN));
            }
        }
    }

    pub(crate) fn progress(&mut self, key: Key, link: &mut Link) {
        let Some(session) = self.get_mut(key) else { return };
        if let Some(status) = &session.starting {
            match status.poll() {
                None => return,
                Some(Ok(())) => {}
                Some(Err(refusal)) => session.failed = Some(refusal),
            }
            session.starting = None;
        }
        // An error is the end of its command, which is about to be reaped.
        let _ = session.read(link, Instant::now());
    }

    /// When something changes although nothing happens.
    pub(crate) fn due(&self, now: Instant) -> Option<Instant> {
        let due = |session: &Session| match session.room(now).is_held() {
            true => session.audience.patience_ends(now),
            false => session.is_draining().then_some(now),
        };
        self.sessions.iter().filter(|session| session.terminal.is_some()).filter_map(due).min()
    }

    /// Reads on for sessions that have ended, as far as there is room.
    pub(crate) fn drain(&mut self, link: &mut Link) {
        let now = Instant::now();
        self.sessions.iter_mut().for_each(|session| session.drain(link, now));
    }

    pub(crate) fn child_ended(&mut self, pid: Pid, exit: Exit, link: &mut Link) -> bool {
        let running = |session: &&mut Session| session.pid == pid && session.exit.is_none();
        let Some(key) = self.sessions.iter_mut().find(running).map(|session| session.key) else {
            return false;
        };
        // It may have ended before anybody looked whether it started.
        self.progress(key, link);
        if let Some(session) = self.get_mut(key) {
            session.exit = Some(exit);
            session.drain(link, Instant::now());
        }
        true
    }

    /// Forgets sessions that never started, and replaced ones that nobody looks at any more.
    pub(crate) fn tidy(&mut self) {
        let unwanted =
            |session: &Session| session.viewers() == 0 && (session.replaced || session.failed.is_some());
        self.sessions.retain(|session| !unwanted(session) || session.exit.is_none());
    }

    fn get_mut(&mut self, key: Key) -> Option<&mut Session> {
        self.sessions.iter_mut().find(|session| session.key == key)
    }
}

fn spawn_on_terminal(size: Size, image: &Image, spawner: &mut Spawner) -> io::Result<(Terminal, Started)> {
    let terminal = Terminal::open(size)?;
    let side = || terminal.command_side();
    let wiring = Wiring { input: side()?, output: side()?, error: side()?, terminal: true };
    let started = spawner.program(image, wiring)?;
    Ok((terminal, started))
}

/// One stream that looks at a session and types into it.
#[derive(Debug)]
pub(crate) struct Viewer {
    session: Key,
    /// None for one that leaves as soon as the session runs, and was never there.
    seat: Option<Seat>,
    accepted: bool,
    credit: SendCredit,
    position: u64,
    /// To be sent before anything from the scrollback: the modes that the rest was written for, or a cancellation
    /// when output was lost, perhaps in the middle of a sequence.
    owed: Vec<u8>,
    input: Inlet,
}

impl Viewer {
    fn new(session: Key, seat: Option<Seat>, input: Inlet) -> Self {
        let credit = SendCredit::default();
        Self { session, seat, accepted: false, credit, position: 0, owed: Vec::new(), input }
    }

    fn feed(&mut self, stream: StreamId, scrollback: &Scrollback, link: &mut Link) {
        if self.position < scrollback.start() {
            self.position = scrollback.beginning().position;
            self.owed = CANCEL.to_vec();
        }
        while !self.owed.is_empty() && !link.congested() {
            let sent = self.credit.take(self.owed.len());
            if sent == 0 {
                return;
            }
            link.send_data(stream, Channel::Main, &self.owed[..sent]);
            self.owed.drain(..sent);
        }
        while !link.congested() {
            let piece = scrollback.from(self.position);
            let sent = self.credit.take(piece.len().min(MAX_DATA));
            if sent == 0 {
                return;
            }
            link.send_data(stream, Channel::Main, &piece[..sent]);
            self.position += sent as u64;
        }
    }
}

impl Stream for Viewer {
    fn interests<'a>(&'a self, _congested: bool, into: &mut Vec<PollFd<'a>>) {
        self.input.interests(into);
    }

    fn always_due(&self) -> bool {
        true
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        let link = &mut shared.link;
        let Some(session) = shared.sessions.get_mut(self.session) else { return Progress::Done };
        if !self.accepted {
            if session.starting.is_some() {
                return Progress::Open;
            }
            if let Some(refusal) = &session.failed {
                link.send(&refusal.frame(stream));
                self.seat.into_iter().for_each(|seat| session.audience.leave(seat));
                return Progress::Done;
            }
            link.send(&accepted_frame(stream));
            self.accepted = true;
            if self.seat.is_none() {
                link.send(&Exit::Code(0).frame(stream));
                return Progress::Done;
            }
        }
        self.input.flush(stream, link);
        self.feed(stream, &session.scrollback, link);
        if let Some(seat) = self.seat {
            session.audience.reached(seat, self.position, Instant::now());
        }
        match session.exit {
            Some(exit) if session.terminal.is_none() && self.position == session.scrollback.end() => {
                link.send(&eof_frame(stream, Channel::Main));
                link.send(&exit.frame(stream));
                session.seen = true;
                self.seat.into_iter().for_each(|seat| session.audience.leave(seat));
                Progress::Done
            }
            _ => Progress::Open,
        }
    }

    fn data(&mut self, stream: StreamId, data: &[u8]) -> Result<(), Violation> {
        self.input.receive(stream, data)
    }

    fn window(&mut self, stream: StreamId, channel: Channel, bytes: u32) -> Result<(), Violation> {
        match channel {
            Channel::Main => self.credit.grant(stream, bytes),
            Channel::Error => Ok(()),
        }
    }

    fn signal(&mut self, signal: u8, shared: &mut Shared) {
        if let Some(session) = shared.sessions.get_mut(self.session)
            && session.exit.is_none()
        {
            send_signal(session.pid, session.terminal.as_ref(), signal);
        }
    }

    fn resize(&mut self, size: Size, shared: &mut Shared) {
        if let Some(session) = shared.sessions.get_mut(self.session) {
            session.resize(size);
        }
    }

    /// A viewer that goes only detaches.
    fn reset(&mut self, shared: &mut Shared) {
        if let Some(session) = shared.sessions.get_mut(self.session)
            && let Some(seat) = self.seat
        {
            session.audience.leave(seat);
        }
    }
}
