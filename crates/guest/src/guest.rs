//! The loop: wait, read frames, let every stream do what it can, write.
//!
//! A stream is forgotten when its end was said. Frames for a stream that is gone are dropped: they were sent
//! before the host knew.

use crate::archive;
use crate::arguments::OnEof;
use crate::bridge::{Bridge, Bridgehead};
use crate::changes::Watching;
use crate::command::Command;
use crate::dial::Dial;
use crate::egress::{self, Ask, Egress};
use crate::leaving::Leaving;
use crate::link::{Link, Received};
use crate::listeners::{Listeners, Ports};
use crate::processes::Household;
use crate::session::{Key, Sessions};
use crate::session_changes::SessionChanges;
use crate::shutdown::{Shutdown, kill_everybody};
use crate::spawn::Spawner;
use crate::stream::{Answer, Progress, Shared, Stream};
use palisade_protocol::message::{
    accepted_frame, decode_data, decode_eof, decode_shutdown, decode_signal, decode_window,
};
use palisade_protocol::{
    Channel, Decoder, Exit, FrameRef, Hello, Kind, Open, Refusal, RefusalCode, Report, Size, StreamId,
    Violation, Welcome,
};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, WaitOptions};
use std::collections::BTreeMap;
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

const MOST_STREAMS: usize = 1024;
/// Streams that programs inside may make this guest ask for, beyond the host's own.
const MOST_OUTWARD: usize = 2048;
/// What the processes get when not the host but a signal asks the guest to end.
const GRACE_ON_SIGNAL: Duration = Duration::from_secs(5);
/// How often to look for a new host on a stream that has ended.
const RETRY: Duration = Duration::from_millis(100);
/// How long a host may take to read the last frames.
const LAST_WORDS: Duration = Duration::from_secs(1);
const SIGNAL_RECORD: usize = 128;

#[derive(Debug)]
pub(crate) struct Guest {
    shared: Shared,
    signals: OwnedFd,
    household: Household,
    on_eof: OnEof,
    /// Whether this connection began with a hello.
    greeted: bool,
    streams: BTreeMap<StreamId, Box<dyn Stream>>,
    shutdown: Option<Shutdown>,
    /// While the stream has ended and a new host may come.
    retry_at: Option<Instant>,
    code: Option<u8>,
    /// The number of the next stream that this guest asks for, and how many of them there are.
    next_outward: StreamId,
    outward: usize,
    /// Where another way to the host may come in, and what holds the one that is in use.
    bridgehead: Option<Bridgehead>,
    bridge: Option<OwnedFd>,
}

/// What a descriptor was waited for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Ready {
    Link,
    Signals,
    Stream(StreamId),
    Session(Key),
    Egress(egress::Place),
    Bridge,
}

impl Guest {
    pub(crate) fn new(
        link: Link,
        signals: OwnedFd,
        spawner: Spawner,
        on_eof: OnEof,
        bridgehead: Option<Bridgehead>,
    ) -> Self {
        Self {
            shared: Shared {
                link,
                sessions: Sessions::default(),
                spawner,
                ports: Ports::default(),
                leaving: Leaving::default(),
                egress: None,
            },
            signals,
            household: Household::mine(),
            on_eof,
            greeted: false,
            streams: BTreeMap::new(),
            shutdown: None,
            retry_at: None,
            code: None,
            next_outward: 2,
            outward: 0,
            bridgehead,
            bridge: None,
        }
    }

    /// Serves until the end; the exit code.
    pub(crate) fn run(mut self) -> u8 {
        loop {
            let Some(all) = self.wait() else {
                // Nothing would ever be heard again, the end of the sandbox included.
                kill_everybody(|| drop(reap()));
                return 1;
            };
            for ready in all {
                match ready {
                    Ready::Link => self.receive(),
                    Ready::Signals => self.take_signals(),
                    Ready::Stream(id) => self.progress(id),
                    Ready::Session(key) => self.shared.sessions.progress(key, &mut self.shared.link),
                    Ready::Egress(place) => self.leave(place),
                    Ready::Bridge => {
                        if let Some(bridge) = self.bridgehead.as_mut().and_then(Bridgehead::progress) {
                            self.cross(bridge);
                        }
                    }
                }
            }
            self.settle();
            if let Some(code) = self.code {
                kill_everybody(|| drop(reap()));
                return code;
            }
        }
    }

    /// What can be served now. `None` when this process cannot wait any more, because its limits were taken from it.
    fn wait(&self) -> Option<Vec<Ready>> {
        let congested = self.shared.link.congested();
        let (mut fds, mut who) = (Vec::new(), Vec::new());
        fds.push(PollFd::new(&self.signals, PollFlags::IN));
        who.push(Ready::Signals);
        if let Some(bridgehead) = &self.bridgehead {
            bridgehead.interests(|fd| {
                fds.push(fd);
                who.push(Ready::Bridge);
            });
        }
        if self.retry_at.is_none() && !self.shared.link.full() {
            fds.push(PollFd::from_borrowed_fd(self.shared.link.input(), PollFlags::IN));
            who.push(Ready::Link);
        }
        if self.retry_at.is_none() && self.shared.link.wants_write() {
            // Written to in every turn of the loop; only the waking matters.
            fds.push(PollFd::from_borrowed_fd(self.shared.link.output(), PollFlags::OUT));
            who.push(Ready::Link);
        }
        for (id, stream) in &self.streams {
            stream.interests(congested, &mut fds);
            who.resize(fds.len(), Ready::Stream(*id));
        }
        self.shared.sessions.interests(|key, fd| {
            fds.push(fd);
            who.push(Ready::Session(key));
        });
        if let Some(egress) = &self.shared.egress
            && self.greeted
            && !congested
            && self.outward < MOST_OUTWARD
        {
            egress.interests(|place, fd| {
                fds.push(fd);
                who.push(Ready::Egress(place));
            });
        }
        let timeout = self.timeout();
        match poll(&mut fds, timeout.as_ref()) {
            Ok(_) => {}
            // More descriptors than the limit allows: that does not pass.
            Err(rustix::io::Errno::INVAL) => return None,
            // Interrupted or out of memory: the next turn asks again.
            Err(_) => return Some(Vec::new()),
        }
        let mut ready: Vec<Ready> = who
            .into_iter()
            .zip(&fds)
            .filter(|(_, fd)| !fd.revents().is_empty())
            .map(|(who, _)| who)
            .collect();
        ready.dedup();
        Some(ready)
    }

    fn timeout(&self) -> Option<Timespec> {
        let streams = self.streams.values().filter_map(|stream| stream.due());
        let callers = self.shared.egress.as_ref().and_then(Egress::due);
        let others =
            [self.shutdown.as_ref().map(Shutdown::due), self.retry_at, callers, self.shared.leaving.due()];
        let next = streams.chain(others.into_iter().flatten()).min()?;
        let left = next.saturating_duration_since(Instant::now());
        // Rounded up, so as not to wake for nothing just before.
        Some(Timespec { tv_sec: left.as_secs().min(3600) as i64, tv_nsec: i64::from(left.subsec_nanos()) })
    }

    fn settle(&mut self) {
        if self.retry_at.is_some_and(|at| Instant::now() >= at) {
            self.retry_at = None;
            self.receive();
        }
        let due: Vec<StreamId> =
            self.streams.iter().filter(|(_, stream)| stream.always_due()).map(|(id, _)| *id).collect();
        for id in due {
            self.progress(id);
        }
        self.shared.sessions.tidy();
        self.shared.leaving.tidy();
        if let Some(egress) = &mut self.shared.egress {
            egress.tidy();
        }
        if self.shutdown.as_mut().is_some_and(Shutdown::advance) {
            self.take_signals();
            self.finish();
        }
        if self.retry_at.is_none() && !self.shared.link.flush() {
            self.host_left();
        }
    }

    /// Delivers the last exits, as far as the host takes them, and ends.
    fn finish(&mut self) {
        let give_up_at = Instant::now() + LAST_WORDS;
        loop {
            let ids: Vec<StreamId> = self.streams.keys().copied().collect();
            for id in ids {
                self.progress(id);
            }
            if !self.shared.link.flush() || !self.shared.link.wants_write() || Instant::now() >= give_up_at {
                break;
            }
            let mut fds = [PollFd::from_borrowed_fd(self.shared.link.output(), PollFlags::OUT)];
            let _ = poll(&mut fds, Some(&Timespec { tv_sec: 0, tv_nsec: 100_000_000 }));
        }
        self.code = Some(0);
    }

    fn receive(&mut self) {
        match self.shared.link.receive() {
            Received::Nothing => {}
            Received::End => self.host_left(),
            Received::Something => {
                // Aside while its frames are looked at where they lie.
                let mut decoder = std::mem::replace(&mut self.shared.link.decoder, Decoder::new(0));
                self.take_frames(&mut decoder);
                self.shared.link.decoder = decoder;
            }
        }
    }

    fn take_frames(&mut self, decoder: &mut Decoder) {
        loop {
            match decoder.next_ref() {
                Ok(None) => return,
                Ok(Some(frame)) => {
                    if self.frame(frame).is_err() && !self.lost() {
                        return;
                    }
                }
                Err(_) => {
                    if !self.lost() {
                        return;
                    }
                    decoder.skip();
                }
            }
        }
    }

    /// The host broke the protocol. Whether to go on: then everything up to the next hello is skipped.
    fn lost(&mut self) -> bool {
        self.forget_streams();
        self.greeted = false;
        match self.on_eof {
            OnEof::Exit => {
                self.code = Some(1);
                false
            }
            OnEof::Wait => true,
        }
    }

    fn host_left(&mut self) {
        self.forget_streams();
        self.greeted = false;
        match self.on_eof {
            OnEof::Exit => self.code = Some(0),
            OnEof::Wait => {
                // Its process goes when it is let go of, and with it the engine's account of it.
                if self.bridge.take().is_some()
                    && let Ok(nothing) = Link::to_nothing()
                {
                    self.shared.link = nothing;
                }
                self.shared.link.discard_output();
                self.retry_at = Some(Instant::now() + RETRY);
            }
        }
    }

    /// Goes on over another way to the host; what was asked over the earlier one is forgotten.
    fn cross(&mut self, bridge: Bridge) {
        self.forget_streams();
        self.greeted = false;
        self.shared.link = Link::new(bridge.input, bridge.output);
        self.bridge = Some(bridge.held);
        self.retry_at = None;
    }

    /// Plain commands die with their streams; sessions lose their viewers.
    fn forget_streams(&mut self) {
        for (_, mut stream) in std::mem::take(&mut self.streams) {
            stream.reset(&mut self.shared);
        }
        self.outward = 0;
    }

    fn frame(&mut self, frame: FrameRef<'_>) -> Result<(), Violation> {
        let FrameRef { kind, stream: id, payload } = frame;
        if kind == Kind::Hello {
            return self.hello(id, payload);
        }
        if !self.greeted {
            return Err(Violation::Unexpected("frame before the hello"));
        }
        match kind {
            Kind::Open => return self.open(id, payload),
            Kind::Shutdown => return self.begin_shutdown(payload),
            Kind::Accepted | Kind::Refused | Kind::Exit if id.is_multiple_of(2) => {
                return self.answered(kind, id, payload);
            }
            Kind::Data | Kind::Eof | Kind::Window | Kind::Signal | Kind::Resize | Kind::Reset => {}
            _ => return Err(Violation::Unexpected("frame that only a guest sends")),
        }
        // Checked before looking for the stream: a frame is wrong whether or not somebody is there to take it.
        let content = Content::decode(kind, payload)?;
        let Some(stream) = self.streams.get_mut(&id) else { return Ok(()) };
        match content {
            Content::Data(data) => stream.data(id, data)?,
            Content::Eof => stream.eof(),
            Content::Window(channel, bytes) => stream.window(id, channel, bytes)?,
            Content::Signal(signal) => stream.signal(signal, &mut self.shared),
            Content::Resize(size) => stream.resize(size, &mut self.shared),
            Content::Reset => {
                if let Some(mut stream) = self.forget(id) {
                    stream.reset(&mut self.shared);
                }
                return Ok(());
            }
        }
        self.progress(id);
        Ok(())
    }

    fn hello(&mut self, id: StreamId, payload: &[u8]) -> Result<(), Violation> {
        if id != 0 {
            return Err(Violation::Unexpected("hello on a stream"));
        }
        let hello = Hello::decode(payload)?;
        let version = hello.agree()?;
        self.forget_streams();
        self.greeted = true;
        let build = env!("CARGO_PKG_VERSION").to_owned();
        self.shared.link.send(&Welcome { version, nonce: hello.nonce, build }.frame());
        Ok(())
    }

    fn begin_shutdown(&mut self, payload: &[u8]) -> Result<(), Violation> {
        let grace = Duration::from_millis(decode_shutdown(payload)?.into());
        self.shut_down(grace);
        Ok(())
    }

    fn shut_down(&mut self, grace: Duration) {
        match &mut self.shutdown {
            Some(shutdown) => shutdown.hasten(grace),
            None => {
                // What carries the stream must not go before the last words.
                let household = if self.bridge.is_some() { Household::born_here() } else { self.household };
                self.shutdown = Some(Shutdown::begin(household, grace));
            }
        }
    }

    fn open(&mut self, id: StreamId, payload: &[u8]) -> Result<(), Violation> {
        if id.is_multiple_of(2) || self.streams.contains_key(&id) {
            return Err(Violation::Unexpected("number for a new stream"));
        }
        let opened = match Open::decode(payload) {
            // A newer host may ask for what this build does not know.
            Err(_) => {
                Err(Refusal::new(RefusalCode::Unsupported, libc::EINVAL, "not a request this guest can read"))
            }
            Ok(_) if self.streams.len() - self.outward >= MOST_STREAMS => Err(Refusal::new(
                RefusalCode::Limit,
                libc::EMFILE,
                format!("{MOST_STREAMS} streams are open"),
            )),
            Ok(_) if self.shutdown.is_some() => {
                Err(Refusal::new(RefusalCode::Failed, libc::ESHUTDOWN, "the sandbox is stopping"))
            }
            Ok(open) => self.make(id, open),
        };
        match opened {
            Ok(Some(stream)) => {
                self.streams.insert(id, stream);
                self.progress(id);
            }
            Ok(None) => {}
            Err(refusal) => self.shared.link.send(&refusal.frame(id)),
        }
        Ok(())
    }

    /// The stream that was asked for, or none when it was answered at once.
    fn make(&mut self, id: StreamId, open: Open) -> Result<Option<Box<dyn Stream>>, Refusal> {
        let Shared { link, sessions, spawner, .. } = &mut self.shared;
        Ok(Some(match open {
            Open::Exec(request) => match &request.session {
                Some(name) => Box::new(sessions.start(name, &request, spawner)?),
                None => Box::new(Command::start(&request, spawner)?),
            },
            Open::Attach { session, size } => Box::new(sessions.attach(&session, size)?),
            Open::Sessions => {
                link.send(&accepted_frame(id));
                link.send(&Report::Sessions(sessions.list()).frame(id));
                link.send(&Exit::Code(0).frame(id));
                return Ok(None);
            }
            Open::SessionChanges => Box::new(SessionChanges::default()),
            Open::Listeners => Box::new(Listeners::new(Instant::now())),
            Open::Dial { port } => Box::new(Dial::new(port)),
            Open::TarOut { path } => Box::new(archive::pack(path, spawner)?),
            Open::TarIn { path } => Box::new(archive::unpack(path, spawner)?),
            Open::Changes(request) => Box::new(Watching::new(request)?),
            Open::Egress(request) => {
                spawner.take_descriptors();
                let earlier = self.shared.egress.take();
                self.shared.egress = Some(Egress::open(&request, earlier)?);
                self.shared.link.send(&accepted_frame(id));
                self.shared.link.send(&Exit::Code(0).frame(id));
                return Ok(None);
            }
            Open::Outward { .. } | Open::Name { .. } | Open::HostPort { .. } | Open::Keeper(_) => {
                return Err(Refusal::new(RefusalCode::Unsupported, libc::ENOSYS, "a guest does not do that"));
            }
        }))
    }

    fn progress(&mut self, id: StreamId) {
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.progress(id, &mut self.shared) == Progress::Done
        {
            self.forget(id);
        }
    }

    fn forget(&mut self, id: StreamId) -> Option<Box<dyn Stream>> {
        let stream = self.streams.remove(&id)?;
        self.outward -= usize::from(id.is_multiple_of(2));
        Some(stream)
    }

    /// Asks the host for what programs inside want of the way out.
    fn leave(&mut self, place: egress::Place) {
        let Some(egress) = &mut self.shared.egress else { return };
        for Ask { open, stream } in egress.progress(place) {
            let id = self.next_outward;
            // Two thousand million connections later the host has to start over.
            let Some(next) = id.checked_add(2) else { return };
            self.next_outward = next;
            self.outward += 1;
            self.shared.link.send(&open.frame(id));
            self.streams.insert(id, stream);
        }
    }

    /// The host's answer to a stream that this guest asked for.
    fn answered(&mut self, kind: Kind, id: StreamId, payload: &[u8]) -> Result<(), Violation> {
        let answer = match kind {
            Kind::Accepted => Answer::Accepted,
            Kind::Refused => Answer::Refused(Refusal::decode(payload)?),
            _ => Exit::decode(payload).map(|_| Answer::Ended)?,
        };
        if let Some(stream) = self.streams.get_mut(&id)
            && stream.answered(answer, id, &mut self.shared) == Progress::Done
        {
            self.forget(id);
        }
        Ok(())
    }

    fn take_signals(&mut self) {
        let mut records = [0; SIGNAL_RECORD * 8];
        let mut terminate = false;
        while let Ok(read @ 1..) = rustix::io::read(self.signals.as_fd(), &mut records) {
            terminate |=
                records[..read].chunks_exact(SIGNAL_RECORD).any(|record| asks_to_end(record, self.household));
        }
        for (pid, exit) in reap() {
            self.child_ended(pid, exit);
        }
        if terminate {
            self.shut_down(GRACE_ON_SIGNAL);
        }
    }

    fn child_ended(&mut self, pid: Pid, exit: Exit) {
        self.shared.leaving.child_ended(pid);
        if self.shared.sessions.child_ended(pid, exit, &mut self.shared.link) {
            return;
        }
        let found =
            self.streams.iter_mut().find_map(|(id, stream)| stream.child_ended(pid, exit).then_some(*id));
        if let Some(id) = found {
            self.progress(id);
        }
    }
}

/// Whether the signal is a request to end that counts. To the first process of a namespace it has to come from
/// outside, which shows as a sender without a number: inside, killing by name or user hits the guest by accident.
fn asks_to_end(record: &[u8], household: Household) -> bool {
    let number =
        |at: usize| record.get(at..at + 4).and_then(|bytes| bytes.try_into().ok()).map(u32::from_ne_bytes);
    let (signal, sender) = (number(0), number(12));
    signal == Some(libc::SIGTERM as u32) && (household != Household::Everybody || sender == Some(0))
}

/// Everybody who ended, ours or adopted.
fn reap() -> Vec<(Pid, Exit)> {
    let mut ended = Vec::new();
    while let Ok(Some((pid, status))) = rustix::process::wait(WaitOptions::NOHANG) {
        let exit = match (status.exit_status(), status.terminating_signal()) {
            (Some(code), _) => Exit::Code(code as u8),
            (_, Some(signal)) => Exit::Signal(signal as u8),
            _ => continue,
        };
        ended.push((pid, exit));
    }
    ended
}

/// A frame on a stream, decoded.
enum Content<'a> {
    Data(&'a [u8]),
    Eof,
    Window(Channel, u32),
    Signal(u8),
    Resize(Size),
    Reset,
}

impl<'a> Content<'a> {
    fn decode(kind: Kind, payload: &'a [u8]) -> Result<Self, Violation> {
        let main = |channel| match channel {
            Channel::Main => Ok(()),
            Channel::Error => Err(Violation::Unexpected("input on the error channel")),
        };
        Ok(match kind {
            Kind::Data => {
                let (channel, data) = decode_data(payload)?;
                main(channel)?;
                Content::Data(data)
            }
            Kind::Eof => {
                main(decode_eof(payload)?)?;
                Content::Eof
            }
            Kind::Window => {
                let (channel, bytes) = decode_window(payload)?;
                Content::Window(channel, bytes)
            }
            Kind::Signal => Content::Signal(decode_signal(payload)?),
            Kind::Resize => Content::Resize(Size::decode_resize(payload)?),
            _ => Content::Reset,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(signal: i32, sender: u32) -> Vec<u8> {
        let mut record = vec![0; SIGNAL_RECORD];
        record[..4].copy_from_slice(&signal.to_ne_bytes());
        record[12..16].copy_from_slice(&sender.to_ne_bytes());
        record
    }

    #[test]
    fn the_first_process_is_only_ended_from_outside() {
        assert!(asks_to_end(&record(libc::SIGTERM, 0), Household::Everybody));
        assert!(!asks_to_end(&record(libc::SIGTERM, 42), Household::Everybody));
        assert!(asks_to_end(&record(libc::SIGTERM, 42), Household::Descendants(7)));
        assert!(!asks_to_end(&record(libc::SIGCHLD, 0), Household::Everybody));
    }
}
