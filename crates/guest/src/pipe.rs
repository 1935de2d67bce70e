//! The two directions of a stream with credit: [`Inlet`] from the host into a descriptor, [`Outlet`] out of one.

use crate::link::Link;
use palisade_protocol::frame::MAX_DATA;
use palisade_protocol::message::{eof_frame, window_frame};
use palisade_protocol::{Channel, RecvCredit, SendCredit, StreamId, Violation};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::Shutdown;
use std::collections::VecDeque;
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;

/// How an inlet says that no more will come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum EndBy {
    Close,
    /// A socket, whose other direction lives on.
    HalfClose,
    /// A terminal: its input has no end.
    Nothing,
}

/// Bytes from the host on their way into a descriptor. What cannot be delivered is dropped but still credited,
/// so that a command that does not read its input never stalls its host.
#[derive(Debug)]
pub(crate) struct Inlet {
    credit: RecvCredit,
    queue: VecDeque<u8>,
    /// Bytes that were delivered without queuing, and not credited yet.
    delivered: usize,
    /// Shared with the outlet of the same socket.
    sink: Option<Rc<OwnedFd>>,
    end_by: EndBy,
    ended: bool,
    /// The receiving end went away.
    broken: bool,
}

impl Inlet {
    pub(crate) fn new(sink: Option<OwnedFd>, end_by: EndBy) -> Self {
        Self {
            credit: RecvCredit::default(),
            queue: VecDeque::new(),
            delivered: 0,
            sink: sink.map(Rc::new),
            end_by,
            ended: false,
            broken: false,
        }
    }

    /// Gives an inlet that has collected so far the place to write to.
    pub(crate) fn connect(&mut self, sink: Rc<OwnedFd>) {
        self.sink = Some(sink);
    }

    pub(crate) fn receive(&mut self, stream: StreamId, data: &[u8]) -> Result<(), Violation> {
        self.credit.receive(stream, data.len())?;
        let mut rest = data;
        // As a rule there is room, and the copy is saved. What fails is tried again, and told, when it is flushed.
        if let (Some(sink), true) = (&self.sink, self.queue.is_empty())
            && let Ok(written) = rustix::io::write(sink, rest)
        {
            self.delivered += written;
            rest = &rest[written..];
        }
        self.queue.extend(rest);
        Ok(())
    }

    pub(crate) fn end(&mut self) {
        self.ended = true;
    }

    pub(crate) fn finished(&self) -> bool {
        self.ended && self.queue.is_empty()
    }

    pub(crate) fn broken(&self) -> bool {
        self.broken
    }

    pub(crate) fn interests<'a>(&'a self, into: &mut Vec<PollFd<'a>>) {
        if let Some(sink) = &self.sink
            && !self.queue.is_empty()
        {
            into.push(PollFd::new(sink, PollFlags::OUT));
        }
    }

    pub(crate) fn flush(&mut self, stream: StreamId, link: &mut Link) {
        let before = self.queue.len();
        while let Some(sink) = &self.sink
            && !self.queue.is_empty()
        {
            match rustix::io::write(sink, self.queue.as_slices().0) {
                Ok(0) | Err(Errno::AGAIN) => break,
                Ok(written) => drop(self.queue.drain(..written)),
                Err(Errno::INTR) => {}
                Err(_) => {
                    self.sink = None;
                    self.broken = true;
                }
            }
        }
        if self.sink.is_none() {
            self.queue.clear();
        }
        let delivered = before - self.queue.len() + std::mem::take(&mut self.delivered);
        if let Some(grant) = self.credit.consume(delivered) {
            link.send(&window_frame(stream, Channel::Main, grant));
        }
        if self.queue.is_empty() {
            self.queue.shrink_to(MAX_DATA);
            if self.ended {
                self.deliver_end();
            }
        }
    }

    fn deliver_end(&mut self) {
        match self.end_by {
            EndBy::Close => self.sink = None,
            EndBy::HalfClose => {
                if let Some(sink) = self.sink.take() {
                    let _ = rustix::net::shutdown(&sink, Shutdown::Write);
                }
            }
            EndBy::Nothing => {}
        }
    }
}

/// Bytes from a descriptor to the host, as far as its credit and the link allow.
#[derive(Debug)]
pub(crate) struct Outlet {
    channel: Channel,
    credit: SendCredit,
    source: Option<Rc<OwnedFd>>,
    /// Once the writer has ended: what it left behind and is still owed.
    owed: Option<usize>,
}

impl Outlet {
    pub(crate) fn new(channel: Channel, source: Option<OwnedFd>) -> Self {
        Self { channel, credit: SendCredit::default(), source: source.map(Rc::new), owed: None }
    }

    pub(crate) fn connect(&mut self, source: Rc<OwnedFd>) {
        self.source = Some(source);
    }

    /// Sends bytes that were read before; they are fewer than the credit that a fresh stream has.
    pub(crate) fn say(&mut self, stream: StreamId, link: &mut Link, bytes: &[u8]) {
        let allowed = self.credit.take(bytes.len());
        for piece in bytes[..allowed].chunks(MAX_DATA) {
            link.send_data(stream, self.channel, piece);
        }
    }

    pub(crate) fn grant(&mut self, stream: StreamId, bytes: u32) -> Result<(), Violation> {
        self.credit.grant(stream, bytes)
    }

    pub(crate) fn ended(&self) -> bool {
        self.source.is_none()
    }

    /// The writer has ended: only what is in the pipe now still counts, whoever else holds the other end.
    pub(crate) fn owe_what_is_left(&mut self) {
        let left = self.source.as_ref().and_then(|source| rustix::io::ioctl_fionread(source).ok());
        self.owe(left.map_or(0, |left| left as usize));
    }

    pub(crate) fn owe(&mut self, most: usize) {
        self.owed = Some(most);
    }

    pub(crate) fn interests<'a>(&'a self, congested: bool, into: &mut Vec<PollFd<'a>>) {
        if let Some(source) = &self.source
            && !congested
            && self.credit.available() > 0
        {
            into.push(PollFd::new(source, PollFlags::IN));
        }
    }

    /// Sends what can be had now. An error other than the usual ends of a pipe or terminal is the caller's.
    pub(crate) fn pump(&mut self, stream: StreamId, link: &mut Link) -> Result<(), Errno> {
        loop {
            let Some(source) = &self.source else { return Ok(()) };
            if self.owed == Some(0) {
                self.end(stream, link);
                return Ok(());
            }
            let most = self.credit.available().min(MAX_DATA).min(self.owed.unwrap_or(MAX_DATA));
            if most == 0 || link.congested() {
                return Ok(());
            }
            match link.relay(source.as_fd(), stream, self.channel, most) {
                // A terminal whose last user is gone answers with an input/output error.
                Ok(0) | Err(Errno::IO) => self.end(stream, link),
                Ok(read) => {
                    self.credit.take(read);
                    match &mut self.owed {
                        Some(owed) => *owed -= read,
                        // One read per turn of the loop, so that everybody gets one.
                        None => return Ok(()),
                    }
                }
                Err(Errno::AGAIN) if self.owed.is_some() => self.end(stream, link),
                Err(Errno::AGAIN | Errno::INTR) => return Ok(()),
                Err(error) => {
                    self.source = None;
                    return Err(error);
                }
            }
        }
    }

    fn end(&mut self, stream: StreamId, link: &mut Link) {
        self.source = None;
        link.send(&eof_frame(stream, self.channel));
    }
}
