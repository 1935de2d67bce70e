//! A connection to a TCP port on the sandbox's own loopback, whichever of its two addresses answers.

use crate::pipe::{EndBy, Inlet, Outlet};
use crate::spawn::failure;
use crate::stream::{Progress, Shared, Stream};
use palisade_protocol::message::{accepted_frame, reset_frame};
use palisade_protocol::{Channel, Exit, RefusalCode, StreamId, Violation};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::os::fd::OwnedFd;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Dial {
    port: u16,
    state: State,
    input: Inlet,
    output: Outlet,
}

#[derive(Debug)]
enum State {
    Start,
    /// Under way to the first address, or after its failure to the second.
    Connecting {
        socket: OwnedFd,
        failed: Option<Errno>,
    },
    Connected,
}

impl Dial {
    pub(crate) fn new(port: u16) -> Self {
        Self {
            port,
            state: State::Start,
            input: Inlet::new(None, EndBy::HalfClose),
            output: Outlet::new(Channel::Main, None),
        }
    }

    /// Whether it is connected; an error once both addresses have failed.
    fn connect(&mut self) -> Result<bool, Errno> {
        loop {
            match &self.state {
                State::Start => match begin((Ipv4Addr::LOCALHOST, self.port).into()) {
                    Ok(socket) => self.state = State::Connecting { socket, failed: None },
                    Err(first) => self.try_second(first)?,
                },
                State::Connecting { socket, failed } => match outcome(socket) {
                    Ok(false) => return Ok(false),
                    Ok(true) => {
                        let connecting = std::mem::replace(&mut self.state, State::Connected);
                        if let State::Connecting { socket, .. } = connecting {
                            let socket = Rc::new(socket);
                            self.input.connect(Rc::clone(&socket));
                            self.output.connect(socket);
                        }
                        return Ok(true);
                    }
                    Err(error) => match *failed {
                        None => self.try_second(error)?,
                        // The first address is the one people mean.
                        Some(first) => return Err(first),
                    },
                },
                State::Connected => return Ok(true),
            }
        }
    }

    fn try_second(&mut self, first: Errno) -> Result<(), Errno> {
        let socket = begin((Ipv6Addr::LOCALHOST, self.port).into()).map_err(|_| first)?;
        self.state = State::Connecting { socket, failed: Some(first) };
        Ok(())
    }
}

fn begin(address: SocketAddr) -> Result<OwnedFd, Errno> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    match rustix::net::connect(&socket, &address) {
        Ok(()) | Err(Errno::INPROGRESS | Errno::INTR) => Ok(socket),
        Err(error) => Err(error),
    }
}

fn outcome(socket: &OwnedFd) -> Result<bool, Errno> {
    rustix::net::sockopt::socket_error(socket)??;
    match rustix::net::getpeername(socket) {
        // With nobody listening, a port of the range for callers can end up connected to itself.
        Ok(peer) if peer == Some(rustix::net::getsockname(socket)?) => Err(Errno::CONNREFUSED),
        Ok(_) => Ok(true),
        Err(Errno::NOTCONN) => Ok(false),
        Err(error) => Err(error),
    }
}

impl Stream for Dial {
    fn interests<'a>(&'a self, congested: bool, into: &mut Vec<PollFd<'a>>) {
        if let State::Connecting { socket, .. } = &self.state {
            into.push(PollFd::new(socket, PollFlags::OUT));
        }
        self.input.interests(into);
        self.output.interests(congested, into);
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        let link = &mut shared.link;
        if !matches!(self.state, State::Connected) {
            match self.connect() {
                Ok(true) => link.send(&accepted_frame(stream)),
                Ok(false) => return Progress::Open,
                Err(error) => {
                    link.send(&failure(RefusalCode::Failed, error.raw_os_error()).frame(stream));
                    return Progress::Done;
                }
            }
        }
        self.input.flush(stream, link);
        if self.output.pump(stream, link).is_err() || self.input.broken() {
            link.send(&reset_frame(stream));
            return Progress::Done;
        }
        if self.input.finished() && self.output.ended() {
            link.send(&Exit::Code(0).frame(stream));
            return Progress::Done;
        }
        Progress::Open
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
}
