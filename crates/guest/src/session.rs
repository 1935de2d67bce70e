//! Named sessions: terminals that outlive the streams which look at them.
//!
//! The terminal is always read, so its command never waits for a viewer. Every viewer has its own credit and its
//! own place in the scrollback; one that falls behind what is kept loses output, and nobody else does.

use crate::command::{refusal, send_signal};
use crate::link::Link;
use crate::pipe::{EndBy, Inlet};
use crate::scrollback::Scrollback;
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
    /// Until the end.
    terminal: Option<Terminal>,
    size: Size,
    scrollback: Scrollback,
    exit: Option<Exit>,
    /// Whether a viewer was told of the exit.
    seen: bool,
    viewers: u16,
    /// Another session has taken the name; this one waits for its last viewers.
    replaced: bool,
}

impl Session {
    /// Whether it is a session to others: it started, and its name is still its own.
    fn shown(&self) -> bool {
        !self.replaced && self.starting.is_none() && self.failed.is_none()
    }

    fn resize(&mut self, size: Size) {
        self.size = size;
        if let Some(terminal) = &self.terminal {
            terminal.resize(size);
        }
    }

    /// Reads output once, into the scrollback; how much there was.
    fn read(&mut self, link: &mut Link) -> Result<usize, Errno> {
        let Some(terminal) = &self.terminal else { return Ok(0) };
        let data = link.read(terminal.as_fd())?;
        self.scrollback.push(data);
        Ok(data.len())
    }

    fn end(&mut self, exit: Exit, link: &mut Link) {
        let mut left = LEFT_BEHIND;
        while left > 0
            && let Ok(read @ 1..) = self.read(link)
        {
            left = left.saturating_sub(read);
        }
        self.exit = Some(exit);
        self.terminal = None;
        self.scrollback.close();
    }
}

#[derive(Debug, Default)]
pub(crate) struct Sessions {
    sessions: Vec<Session>,
    next: Key,
    /// How often something went in or out, and how many have ended, for those who watch.
    pub(crate) moved: u64,
    pub(crate) ended: u64,
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
        let key = self.next;
        self.next += 1;
        self.sessions.push(Session {
            key,
            name: name.to_owned(),
            pid,
            starting: Some(status),
            failed: None,
            terminal: Some(terminal),
            size,
            scrollback: Scrollback::default(),
            exit: None,
            seen: false,
            viewers: u16::from(!request.detached),
            replaced: false,
        });
        let looks = if request.detached { Looks::Never } else { Looks::On };
        Ok(Viewer::new(key, looks, 0, Inlet::new(Some(input), EndBy::Nothing)))
    }

    /// Forgets the session that ended first, when there are too many.
    fn make_room(&mut self) -> Result<(), Refusal> {
        if self.sessions.len() < MOST {
            return Ok(());
        }
        let ended = self.sessions.iter().position(|session| session.exit.is_some() && session.viewers == 0);
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
        session.viewers = session.viewers.saturating_add(1);
        let input = Inlet::new(input, EndBy::Nothing);
        Ok(Viewer::new(session.key, Looks::On, session.scrollback.safe_start(), input))
    }

    pub(crate) fn list(&self) -> Vec<SessionInfo> {
        self.sessions
            .iter()
            .filter(|session| session.shown())
            .map(|session| SessionInfo {
                name: session.name.clone(),
                viewers: session.viewers,
                size: session.size,
                exit: session.exit,
                seen: session.seen,
            })
            .collect()
    }

    pub(crate) fn interests<'a>(&'a self, mut wait: impl FnMut(Key, PollFd<'a>)) {
        for session in &self.sessions {
            if let Some(status) = &session.starting {
                wait(session.key, PollFd::new(status, PollFlags::IN));
            } else if let Some(terminal) = &session.terminal {
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
        if session.read(link).is_ok_and(|read| read > 0) {
            self.moved += 1;
        }
    }

    pub(crate) fn child_ended(&mut self, pid: Pid, exit: Exit, link: &mut Link) -> bool {
        let running = |session: &&mut Session| session.pid == pid && session.exit.is_none();
        let Some(key) = self.sessions.iter_mut().find(running).map(|session| session.key) else {
            return false;
        };
        // It may have ended before anybody looked whether it started.
        self.progress(key, link);
        if let Some(session) = self.get_mut(key) {
            session.end(exit, link);
        }
        self.ended += 1;
        true
    }

    /// Forgets sessions that never started, and replaced ones that nobody looks at any more.
    pub(crate) fn tidy(&mut self) {
        let unwanted =
            |session: &Session| session.viewers == 0 && (session.replaced || session.failed.is_some());
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

/// Whether a stream stays with the session that it opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Looks {
    On,
    /// It leaves as soon as the session runs, and is not counted.
    Never,
}

/// One stream that looks at a session and types into it.
#[derive(Debug)]
pub(crate) struct Viewer {
    session: Key,
    looks: Looks,
    accepted: bool,
    /// Something was typed and not counted yet.
    typed: bool,
    credit: SendCredit,
    position: u64,
    /// Output was lost, perhaps in the middle of a sequence.
    torn: bool,
    input: Inlet,
}

impl Viewer {
    fn new(session: Key, looks: Looks, position: u64, input: Inlet) -> Self {
        Self {
            session,
            looks,
            accepted: false,
            typed: false,
            credit: SendCredit::default(),
            position,
            torn: false,
            input,
        }
    }

    fn feed(&mut self, stream: StreamId, scrollback: &Scrollback, link: &mut Link) {
        if self.position < scrollback.start() {
            self.position = scrollback.safe_start();
            self.torn = true;
        }
        if self.torn && !link.congested() && self.credit.take(CANCEL.len()) == CANCEL.len() {
            link.send_data(stream, Channel::Main, CANCEL);
            self.torn = false;
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
        shared.sessions.moved += u64::from(std::mem::take(&mut self.typed));
        let Some(session) = shared.sessions.get_mut(self.session) else { return Progress::Done };
        if !self.accepted {
            if session.starting.is_some() {
                return Progress::Open;
            }
            if let Some(refusal) = &session.failed {
                link.send(&refusal.frame(stream));
                if self.looks == Looks::On {
                    session.viewers -= 1;
                }
                return Progress::Done;
            }
            link.send(&accepted_frame(stream));
            self.accepted = true;
            if self.looks == Looks::Never {
                link.send(&Exit::Code(0).frame(stream));
                return Progress::Done;
            }
        }
        self.input.flush(stream, link);
        self.feed(stream, &session.scrollback, link);
        match session.exit {
            Some(exit) if self.position == session.scrollback.end() => {
                link.send(&eof_frame(stream, Channel::Main));
                link.send(&exit.frame(stream));
                session.seen = true;
                session.viewers -= 1;
                Progress::Done
            }
            _ => Progress::Open,
        }
    }

    fn data(&mut self, stream: StreamId, data: &[u8]) -> Result<(), Violation> {
        self.typed = true;
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
            && self.looks == Looks::On
        {
            session.viewers = session.viewers.saturating_sub(1);
        }
    }
}
