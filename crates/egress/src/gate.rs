//! Where every stream that a guest asks for is answered: decide, resolve, check, connect, relay, and write down.
//!
//! What is refused is refused at once, without a task; what takes time is bounded in number.

use crate::address::is_own;
use crate::connect::connect;
use crate::ledger::{Ledger, What};
use crate::relay::relay;
use crate::resolve::Resolve;
use crate::rules::{Destination, IsOwn, Reason, Rules};
use palisade_protocol::client::{Door, Incoming};
use palisade_protocol::{EgressRequest, Open, Refusal, RefusalCode};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::sync::Semaphore;

/// Connections that one sandbox may have at once, those under way included. Each may hold a stream's credit of bytes that
/// the other side does not take.
const MOST_CONNECTIONS: usize = 1024;
/// Lookups at once: each holds a thread of this process.
const MOST_LOOKUPS: usize = 8;
/// How long a lookup may take, waiting for its turn included.
const LOOKUP: Duration = Duration::from_secs(15);
/// Of a name's addresses, so many are looked at.
const MOST_ADDRESSES: usize = 16;

pub struct Gate {
    rules: Rules,
    resolver: Box<dyn Resolve>,
    ledger: Arc<Ledger>,
    connections: Arc<Semaphore>,
    lookups: Semaphore,
}

impl std::fmt::Debug for Gate {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Gate").field("rules", &self.rules).finish_non_exhaustive()
    }
}

impl Gate {
    pub fn new(rules: Rules, resolver: Box<dyn Resolve>, ledger: Arc<Ledger>) -> Self {
        let (connections, lookups) =
            (Arc::new(Semaphore::new(MOST_CONNECTIONS)), Semaphore::new(MOST_LOOKUPS));
        Self { rules, resolver, ledger, connections, lookups }
    }

    /// What the guest has to be asked for, so that anything arrives here.
    pub fn request(&self) -> EgressRequest {
        self.rules.request()
    }

    pub fn ledger(&self) -> &Arc<Ledger> {
        &self.ledger
    }

    /// As the one who answers a guest's streams. To be called within the runtime.
    pub fn door(self: Arc<Self>) -> Door {
        Arc::new(move |incoming| self.answer(incoming))
    }

    fn answer(self: &Arc<Self>, incoming: Incoming) {
        match &incoming.open {
            Open::Name { host } => match self.rules.name(host) {
                Ok(_) => {
                    self.ledger.note(What::Name, host, None, None, None);
                    incoming.answer();
                }
                Err(reason) => {
                    self.ledger.note(What::Name, host, None, None, Some(reason));
                    incoming.refuse(&refusal(reason));
                }
            },
            Open::Outward { host, port } => {
                let (host, port) = (host.clone(), *port);
                match self.rules.destination(&host, port) {
                    Ok(destination) => {
                        self.spawn(
                            incoming,
                            move |gate| async move { gate.leave(&host, port, destination).await },
                        )
                    }
                    Err(reason) => {
                        self.ledger.note(What::Connect, &host, Some(port), None, Some(reason));
                        incoming.refuse(&refusal(reason));
                    }
                }
            }
            Open::HostPort { port } => {
                let port = *port;
                match self.rules.host_port(port) {
                    Ok(host_port) => {
                        self.spawn(incoming, move |gate| async move { gate.host_port(host_port).await })
                    }
                    Err(reason) => {
                        self.ledger.note(What::HostPort, "localhost", Some(port), None, Some(reason));
                        incoming.refuse(&refusal(reason));
                    }
                }
            }
            _ => {
                let text = "a sandbox may ask for the way out and nothing else";
                incoming.refuse(&Refusal::new(RefusalCode::Unsupported, 0, text));
            }
        }
    }

    fn spawn<F>(self: &Arc<Self>, incoming: Incoming, reach: impl FnOnce(Arc<Self>) -> F + Send + 'static)
    where
        F: Future<Output = Result<TcpStream, Reason>> + Send,
    {
        let Ok(permit) = Arc::clone(&self.connections).try_acquire_owned() else {
            let reason = Reason::TooManyConnections;
            self.ledger.note(What::Connect, "(any)", None, None, Some(reason));
            return incoming.refuse(&refusal(reason));
        };
        let gate = Arc::clone(self);
        tokio::spawn(async move {
            match reach(gate).await {
                Ok(connection) => {
                    let (sender, receiver) = incoming.accept();
                    relay(connection, sender, receiver).await;
                }
                Err(reason) => incoming.refuse(&refusal(reason)),
            }
            drop(permit);
        });
    }

    /// Connects to a destination that the rules allow, if its addresses are allowed, too.
    async fn leave(&self, host: &str, port: u16, destination: Destination) -> Result<TcpStream, Reason> {
        let note = |address: Option<IpAddr>, reason| {
            self.ledger.note(What::Connect, host, Some(port), address, reason);
        };
        let addresses = match destination {
            Destination::Address(address) => vec![address],
            Destination::Name(name) => match self.lookup(&name).await {
                Ok(addresses) => addresses,
                Err(reason) => {
                    note(None, Some(reason));
                    return Err(reason);
                }
            },
        };
        let (mut checked, mut refused) = (Vec::new(), None);
        for address in addresses {
            let own = if is_own(address) { IsOwn::Yes } else { IsOwn::No };
            match self.rules.address(address, port, own) {
                Ok(()) => checked.push(SocketAddr::new(address, port)),
                Err(reason) => drop(refused.get_or_insert((address, reason))),
            }
        }
        if let (true, Some((address, reason))) = (checked.is_empty(), refused) {
            note(Some(address), Some(reason));
            return Err(reason);
        }
        match connect(&checked).await {
            Ok(connection) => {
                note(connection.peer_addr().ok().map(|peer| peer.ip()), None);
                Ok(connection)
            }
            Err(reason) => {
                note(checked.first().map(SocketAddr::ip), Some(reason));
                Err(reason)
            }
        }
    }

    async fn lookup(&self, name: &palisade_core::HostName) -> Result<Vec<IpAddr>, Reason> {
        let found = async {
            let _turn = self.lookups.acquire().await.map_err(std::io::Error::other)?;
            self.resolver.resolve(name).await
        };
        let mut addresses = match tokio::time::timeout(LOOKUP, found).await {
            Err(_) => return Err(Reason::TimedOut),
            Ok(Err(_)) => return Err(Reason::NotFound),
            Ok(Ok(addresses)) => addresses,
        };
        addresses.truncate(MOST_ADDRESSES);
        if addresses.is_empty() { Err(Reason::NotFound) } else { Ok(addresses) }
    }

    async fn host_port(&self, port: u16) -> Result<TcpStream, Reason> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
        let connected = connect(&[address]).await;
        self.ledger.note(
            What::HostPort,
            "localhost",
            Some(port),
            Some(address.ip()),
            connected.as_ref().err().copied(),
        );
        connected
    }
}

/// What the guest is told; it makes an HTTP status or a SOCKS reply of it.
fn refusal(reason: Reason) -> Refusal {
    let (code, errno) = match reason {
        Reason::NotFound => (RefusalCode::NotFound, 0),
        Reason::ConnectionRefused => (RefusalCode::Failed, ECONNREFUSED),
        Reason::TimedOut => (RefusalCode::Failed, ETIMEDOUT),
        Reason::Unreachable => (RefusalCode::Failed, EHOSTUNREACH),
        Reason::TooManyConnections => (RefusalCode::Limit, 0),
        _ => (RefusalCode::Forbidden, 0),
    };
    Refusal::new(code, errno, reason.to_string())
}

/// As Linux numbers them; the guest is always a Linux program.
const ETIMEDOUT: i32 = 110;
const ECONNREFUSED: i32 = 111;
const EHOSTUNREACH: i32 = 113;

#[cfg(test)]
mod tests;
