//! The sandbox's own side of the way out: a name server, a proxy and listeners on loopback, which turn what programs
//! do into questions to the host. Nothing is decided here; the host knows the rules.
//!
//! A name gets an address of its own in 127/8 ([`names`]), and one listener on all addresses takes connections to it:
//! the address it was called by tells which name was meant. Programs that want a proxy find one ([`proxy`]).
//!
//! Everybody inside may call, so everything is bounded: callers that have not said what they want yet by number and
//! time, connections by number, names by number.

mod dns;
mod http;
mod names;
mod outward;
mod proxy;
mod question;

use crate::stream::Stream;
use names::Names;
use outward::Outward;
use palisade_protocol::{EgressRequest, Open, Refusal, RefusalCode};
use proxy::{Manner, Step, Talk, Wish};
use question::{Reply, ask};
use rustix::event::{PollFd, PollFlags};
use rustix::io::Errno;
use rustix::net::{AddressFamily, SocketFlags, SocketType, sockopt};
use std::collections::BTreeMap;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpStream, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::rc::Rc;
use std::time::{Duration, Instant};

const DNS: u16 = 53;
/// Callers that have not said yet what they want.
const MOST_CALLERS: usize = 256;
/// How long a caller may take for that.
const PATIENCE: Duration = Duration::from_secs(30);
/// Connections and packets taken in one turn of the loop, so that others get theirs.
const MOST_AT_ONCE: usize = 64;
const BACKLOG: i32 = 4096;
/// Longer than any question.
const PACKET: usize = 4096;

/// What a listener takes connections for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Purpose {
    /// The name or the host port that was called.
    Called {
        host_port: bool,
    },
    Proxy,
    Names,
}

#[derive(Debug)]
struct Door {
    socket: OwnedFd,
    port: u16,
    purpose: Purpose,
}

/// Somebody who has not said yet what to do.
#[derive(Debug)]
struct Caller {
    socket: Rc<OwnedFd>,
    deadline: Instant,
    talk: Conversation,
}

#[derive(Debug)]
enum Conversation {
    Proxy(Talk),
    /// A question with its length in front.
    Names(Vec<u8>),
}

#[derive(Debug)]
pub(crate) struct Egress {
    doors: Vec<Door>,
    dns: UdpSocket,
    pub(in crate::egress) names: Names,
    callers: BTreeMap<u32, Caller>,
    called: u32,
}

/// One of the places that are waited at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Place {
    Packets,
    Door(usize),
    Caller(u32),
}

/// A stream to be asked for, and what it will serve.
#[derive(Debug)]
pub(crate) struct Ask {
    pub(crate) open: Open,
    pub(crate) stream: Box<dyn Stream>,
}

impl Egress {
    /// Listens wherever the host says; all of it or nothing. After an earlier host's, names go on to mean what they
    /// meant to programs that remember their addresses.
    pub(crate) fn open(request: &EgressRequest, earlier: Option<Egress>) -> Result<Self, Refusal> {
        let names = earlier.map(|earlier| earlier.names).unwrap_or_default();
        let failed = |port: u16| {
            move |error: io::Error| {
                let text = format!("cannot listen on port {port} of the sandbox's loopback: {error}");
                Refusal::new(RefusalCode::Failed, error.raw_os_error().unwrap_or(0), text)
            }
        };
        let local = IpAddr::from(Ipv4Addr::LOCALHOST);
        let any = IpAddr::from(Ipv4Addr::UNSPECIFIED);
        let mut doors = Vec::new();
        let mut add = |address: IpAddr, port: u16, purpose: Purpose| {
            listen((address, port).into()).map(|socket| doors.push(Door { socket, port, purpose }))
        };
        add(local, DNS, Purpose::Names).map_err(failed(DNS))?;
        add(local, request.proxy, Purpose::Proxy).map_err(failed(request.proxy))?;
        for &port in &request.ports {
            let host_port = request.host_ports.contains(&port);
            add(any, port, Purpose::Called { host_port }).map_err(failed(port))?;
        }
        for &port in &request.host_ports {
            let purpose = Purpose::Called { host_port: true };
            if !request.ports.contains(&port) {
                add(local, port, purpose).map_err(failed(port))?;
            }
            // There may be no IPv6 in here; programs then use the other address.
            let _ = add(Ipv6Addr::LOCALHOST.into(), port, purpose);
        }
        let dns = UdpSocket::bind((Ipv4Addr::LOCALHOST, DNS)).map_err(failed(DNS))?;
        dns.set_nonblocking(true).map_err(failed(DNS))?;
        Ok(Self { doors, dns, names, callers: BTreeMap::new(), called: 0 })
    }

    /// The ports that are ours, and nothing that a program in here has to offer.
    pub(crate) fn listens_on(&self, port: u16) -> bool {
        self.doors.iter().any(|door| door.port == port)
    }

    pub(crate) fn interests<'a>(&'a self, mut add: impl FnMut(Place, PollFd<'a>)) {
        add(Place::Packets, PollFd::new(&self.dns, PollFlags::IN));
        let full = self.callers.len() >= MOST_CALLERS;
        for (index, door) in self.doors.iter().enumerate() {
            if !full || matches!(door.purpose, Purpose::Called { .. }) {
                add(Place::Door(index), PollFd::new(&door.socket, PollFlags::IN));
            }
        }
        for (number, caller) in &self.callers {
            add(Place::Caller(*number), PollFd::new(&caller.socket, PollFlags::IN));
        }
    }

    /// When somebody's patience ends.
    pub(crate) fn due(&self) -> Option<Instant> {
        self.callers.values().map(|caller| caller.deadline).min()
    }

    pub(crate) fn tidy(&mut self) {
        if !self.callers.is_empty() {
            let now = Instant::now();
            self.callers.retain(|_, caller| caller.deadline > now);
        }
    }

    /// Does what can be done at a place that is ready; the streams to ask for.
    pub(crate) fn progress(&mut self, place: Place) -> Vec<Ask> {
        match place {
            Place::Packets => self.packets(),
            Place::Door(index) => self.accept(index),
            Place::Caller(number) => self.hear(number).into_iter().collect(),
        }
    }

    fn packets(&mut self) -> Vec<Ask> {
        let mut asks = Vec::new();
        let mut packet = [0; PACKET];
        for _ in 0..MOST_AT_ONCE {
            let Ok((length, from)) = self.dns.recv_from(&mut packet) else { break };
            asks.extend(ask(self, &packet[..length], Reply::Packet(from)));
        }
        asks
    }

    fn accept(&mut self, index: usize) -> Vec<Ask> {
        let Some(door) = self.doors.get(index) else { return Vec::new() };
        let (port, purpose) = (door.port, door.purpose);
        let mut taken = Vec::new();
        for _ in 0..MOST_AT_ONCE {
            match rustix::net::accept_with(&door.socket, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK) {
                Ok(socket) => taken.push(socket),
                Err(Errno::INTR | Errno::CONNABORTED) => {}
                Err(_) => break,
            }
        }
        let mut asks = Vec::new();
        for socket in taken {
            // Bytes are passed on as they come.
            let _ = sockopt::set_tcp_nodelay(&socket, true);
            let talk = match purpose {
                Purpose::Called { host_port } => {
                    match self.called_for(&socket, port, host_port) {
                        Some(open) => asks.push(Outward::ask(open, socket, Manner::Silent, Vec::new())),
                        None => hang_up(&socket),
                    }
                    continue;
                }
                Purpose::Proxy => Conversation::Proxy(Talk::default()),
                Purpose::Names => Conversation::Names(Vec::new()),
            };
            let deadline = Instant::now() + PATIENCE;
            self.called = self.called.wrapping_add(1);
            self.callers.insert(self.called, Caller { socket: Rc::new(socket), deadline, talk });
        }
        asks
    }

    /// What somebody meant who called this port, by the address.
    fn called_for(&self, socket: &OwnedFd, port: u16, host_port: bool) -> Option<Open> {
        let called = local_address(socket)?;
        if host_port && called.is_loopback() && self.name_of(called).is_none() {
            let own = called == Ipv4Addr::LOCALHOST || called == Ipv6Addr::LOCALHOST;
            return own.then_some(Open::HostPort { port });
        }
        Some(Open::Outward { host: self.name_of(called)?.to_owned(), port })
    }

    fn name_of(&self, address: IpAddr) -> Option<&str> {
        match address {
            IpAddr::V4(address) => self.names.of(address),
            IpAddr::V6(_) => None,
        }
    }

    fn hear(&mut self, number: u32) -> Option<Ask> {
        let caller = self.callers.get_mut(&number)?;
        let mut bytes = [0; PACKET];
        let read = match rustix::io::read(&caller.socket, &mut bytes) {
            Ok(read @ 1..) => read,
            Err(Errno::AGAIN | Errno::INTR) => return None,
            _ => {
                self.callers.remove(&number);
                return None;
            }
        };
        match &mut caller.talk {
            Conversation::Names(said) => {
                said.extend_from_slice(&bytes[..read]);
                let (length, rest) = said.split_first_chunk::<2>()?;
                let question = rest.get(..usize::from(u16::from_be_bytes(*length)))?.to_vec();
                let socket = self.callers.remove(&number)?.socket;
                ask(self, &question, Reply::Connection(socket))
            }
            Conversation::Proxy(talk) => {
                let mut step = talk.hear(&bytes[..read]);
                while let Step::Say(words) = step {
                    // A few bytes into an empty buffer: there is room, or nobody is left to read them.
                    let _ = rustix::io::write(&caller.socket, words);
                    step = talk.hear(&[]);
                }
                match step {
                    Step::More | Step::Say(_) => None,
                    Step::Close(words) => {
                        let caller = self.callers.remove(&number)?;
                        let _ = rustix::io::write(&caller.socket, &words);
                        None
                    }
                    Step::Ask(wish) => {
                        let socket = self.callers.remove(&number)?.socket;
                        Some(self.wish(wish, socket))
                    }
                }
            }
        }
    }

    fn wish(&self, wish: Wish, socket: Rc<OwnedFd>) -> Ask {
        // A program may have looked the name up itself and name the address it got.
        let named = wish.host.parse().ok().and_then(|address| self.name_of(address)).map(str::to_owned);
        let open = Open::Outward { host: named.unwrap_or(wish.host), port: wish.port };
        Outward::ask(open, socket, wish.manner, wish.first)
    }

    fn send(&self, packet: &[u8], to: SocketAddr) {
        // Whoever asked will ask again.
        let _ = self.dns.send_to(packet, to);
    }
}

fn listen(address: SocketAddr) -> io::Result<OwnedFd> {
    let family = if address.is_ipv4() { AddressFamily::INET } else { AddressFamily::INET6 };
    let flags = SocketFlags::CLOEXEC | SocketFlags::NONBLOCK;
    let socket = rustix::net::socket_with(family, SocketType::STREAM, flags, None)?;
    sockopt::set_socket_reuseaddr(&socket, true)?;
    rustix::net::bind(&socket, &address)?;
    rustix::net::listen(&socket, BACKLOG)?;
    Ok(socket)
}

fn local_address(socket: &OwnedFd) -> Option<IpAddr> {
    let stream = TcpStream::from(socket.as_fd().try_clone_to_owned().ok()?);
    stream.local_addr().ok().map(|address| address.ip())
}

/// Lets the other end know that something went wrong, which a plain close would hide.
fn hang_up(socket: impl AsFd) {
    let _ = sockopt::set_socket_linger(socket, Some(Duration::ZERO));
}

#[cfg(test)]
mod tests {
    /// Bytes without a pattern, the same in every run.
    #[derive(Debug)]
    pub(super) struct Noise(u64);

    impl Default for Noise {
        fn default() -> Self {
            Self(0x9e37_79b9_7f4a_7c15)
        }
    }

    impl Noise {
        fn next(&mut self) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0
        }

        /// At most so many.
        pub(super) fn bytes(&mut self, most: u64) -> Vec<u8> {
            let length = self.next() % (most + 1);
            (0..length).map(|_| self.next() as u8).collect()
        }
    }
}
