//! Who may be reached: the policy as questions with answers. Pure, so that every trick can be tried as a test.

use crate::address::{Kind, kind};
use palisade_core::reach::{InvalidName, PROXY_PORT, Target};
use palisade_core::{AllowRule, HostName, HostPort, Network, Policy};
use palisade_protocol::EgressRequest;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr};

/// The ports on which any name is taken under [`Network::Open`]: ssh, HTTP plain and encrypted, git. Other ports are
/// reached through the proxy, since a listener on each of them would leave none to the sandbox itself.
const OPEN_PORTS: [u16; 4] = [22, 80, 443, 9418];

/// Why somebody is not reached. A refusal is the policy's word; the last four are the world's.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Reason {
    NotListed,
    PortNotListed,
    NotAName,
    NotPublic,
    HostPortNotListed,
    Address(Kind),
    TooManyConnections,
    NotFound,
    ConnectionRefused,
    Unreachable,
    TimedOut,
}

impl Reason {
    /// Whether the policy said so.
    pub fn is_refusal(self) -> bool {
        !matches!(self, Reason::NotFound | Reason::ConnectionRefused | Reason::Unreachable | Reason::TimedOut)
    }
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Reason::NotListed => f.write_str("not on the allow list"),
            Reason::PortNotListed => f.write_str("allowed, but not on this port"),
            Reason::NotAName => f.write_str("neither a name nor an address"),
            Reason::NotPublic => f.write_str("not a public name"),
            Reason::HostPortNotListed => f.write_str("not a listed host port"),
            Reason::Address(kind) => write!(f, "it is {kind}, and that is not listed"),
            Reason::TooManyConnections => f.write_str("too many connections at once"),
            Reason::NotFound => f.write_str("the name is unknown"),
            Reason::ConnectionRefused => f.write_str("nobody listens there"),
            Reason::Unreachable => f.write_str("it cannot be reached"),
            Reason::TimedOut => f.write_str("it does not answer"),
        }
    }
}

/// Where a connection is to go, before anything is resolved.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Destination {
    Name(HostName),
    Address(IpAddr),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Rules {
    mode: Network,
    allow: Vec<AllowRule>,
    host_ports: Vec<HostPort>,
}

impl Rules {
    /// `None` when the sandbox has no way out at all.
    pub fn of(policy: &Policy) -> Option<Self> {
        if policy.network == Network::None {
            return None;
        }
        let (allow, host_ports) = (policy.allow.clone(), policy.host_ports.clone());
        Some(Self { mode: policy.network, allow, host_ports })
    }

    /// What the guest has to listen on.
    pub fn request(&self) -> EgressRequest {
        let named = self.allow.iter().filter(|rule| !matches!(rule.target(), Target::Addresses(_)));
        let mut ports: BTreeSet<u16> = named.flat_map(|rule| rule.ports()).copied().collect();
        if self.mode == Network::Open {
            ports.extend(OPEN_PORTS);
        }
        let host_ports: BTreeSet<u16> = self.host_ports.iter().map(|port| port.inside).collect();
        EgressRequest {
            ports: ports.into_iter().collect(),
            host_ports: host_ports.into_iter().collect(),
            proxy: PROXY_PORT,
        }
    }

    /// Whether a name may be asked for, on whatever port.
    pub fn name(&self, text: &str) -> Result<HostName, Reason> {
        let name = self.checked(text)?;
        let allowed = self.mode == Network::Open || self.rules_for(&name).next().is_some();
        if allowed { Ok(name) } else { Err(Reason::NotListed) }
    }

    /// Whether a connection may be tried. An address is asked for as such, in its usual form and no other.
    pub fn destination(&self, host: &str, port: u16) -> Result<Destination, Reason> {
        if port == 0 {
            return Err(Reason::PortNotListed);
        }
        if let Some(address) = literal(host) {
            self.address(address, port, IsOwn::Unknown)?;
            return match self.mode {
                Network::Open => Ok(Destination::Address(address)),
                _ if self.lists(address, port, 0) => Ok(Destination::Address(address)),
                _ => Err(Reason::NotListed),
            };
        }
        let name = self.checked(host)?;
        let (mut listed, mut with_port) = (false, self.mode == Network::Open);
        for rule in self.rules_for(&name) {
            listed = true;
            with_port |= rule.allows_port(port);
        }
        match (with_port, listed) {
            (true, _) => Ok(Destination::Name(name)),
            (false, true) => Err(Reason::PortNotListed),
            (false, false) => Err(Reason::NotListed),
        }
    }

    /// Whether an address, given as such or found for a name, may be connected to.
    pub fn address(&self, address: IpAddr, port: u16, own: IsOwn) -> Result<(), Reason> {
        let (kind, block) = kind(address);
        let single = if address.is_ipv4() { 32 } else { 128 };
        match (kind, own) {
            (Kind::Loopback, _) => Err(Reason::Address(kind)),
            // Whoever lists a whole network does not mean this machine in it.
            (_, IsOwn::Yes) if !self.lists(address, port, single) => Err(Reason::Address(Kind::OwnHost)),
            (Kind::Public, _) => Ok(()),
            // Only a range as narrow as the block itself means the block: 0.0.0.0/0 lists nothing private.
            _ if self.lists(address, port, block) => Ok(()),
            _ => Err(Reason::Address(kind)),
        }
    }

    /// The host's port behind one that is shown inside.
    pub fn host_port(&self, inside: u16) -> Result<u16, Reason> {
        let found = self.host_ports.iter().find(|port| port.inside == inside);
        found.map(|port| port.host).ok_or(Reason::HostPortNotListed)
    }

    fn checked(&self, text: &str) -> Result<HostName, Reason> {
        let name = HostName::new(text).map_err(|_: InvalidName| Reason::NotAName)?;
        if name.is_localhost() {
            return Err(Reason::Address(Kind::Loopback));
        }
        if self.mode == Network::Open && !name.is_qualified() && self.rules_for(&name).next().is_none() {
            return Err(Reason::NotPublic);
        }
        Ok(name)
    }

    fn rules_for<'a>(&'a self, name: &'a HostName) -> impl Iterator<Item = &'a AllowRule> {
        self.allow.iter().filter(move |rule| match rule.target() {
            Target::Name(listed) => listed == name,
            Target::Below(parent) => name.is_below(parent),
            Target::Addresses(_) => false,
        })
    }

    /// Whether a rule lists the address, by a range at least as narrow as that.
    fn lists(&self, address: IpAddr, port: u16, narrow: u8) -> bool {
        self.allow.iter().any(|rule| match rule.target() {
            Target::Addresses(range) => {
                range.prefix() >= narrow && range.contains(address) && rule.allows_port(port)
            }
            _ => false,
        })
    }
}

/// Whether an address is one of this machine's interfaces'.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IsOwn {
    Yes,
    No,
    /// Not looked up yet; it will be, before anybody connects.
    Unknown,
}

/// An address in its usual form; IPv6 perhaps in brackets.
fn literal(host: &str) -> Option<IpAddr> {
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']'));
    match bare {
        Some(inner) => inner.parse::<Ipv6Addr>().ok().map(IpAddr::V6),
        None => host.parse().ok(),
    }
}

#[cfg(test)]
mod tests;
