//! What a sandbox may reach beyond itself, as data: names and addresses on the allow list, and single ports of the
//! host's loopback. Whether a connection is made is decided by the room `egress`; here is only what can be said.
//!
//! Invariants: a name is kept in its one normal form (lower case, ASCII, no trailing dot), so comparing is comparing
//! bytes; what looks like a number is an address or nothing, never a name; the host's loopback cannot be listed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
use std::str::FromStr;

/// The ports a rule without one stands for: plain and encrypted HTTP.
pub const DEFAULT_PORTS: [u16; 2] = [80, 443];
/// Where the HTTP CONNECT and SOCKS5 proxy listens on a sandbox's loopback.
pub const PROXY_PORT: u16 = 1080;
/// Where names are answered on a sandbox's loopback.
pub const DNS_PORT: u16 = 53;

/// A fully qualified or single name of the DNS, in normal form.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct HostName(String);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidName {
    #[error("it is empty")]
    Empty,
    #[error("it is longer than 253 characters")]
    TooLong,
    #[error("write a name outside ASCII in its 'xn--' form")]
    NotAscii,
    #[error("a part between two dots is empty, longer than 63 characters, or begins or ends with '-'")]
    Label,
    #[error("a name has only letters, digits, '-', '_' and '.'")]
    Character,
    #[error("its last part is a number, so it is no name; write an address as 192.0.2.1 or [2001:db8::1]")]
    Numeric,
}

impl HostName {
    /// Brings a name into its normal form, or says why it is none. One trailing dot is dropped.
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        if !text.is_ascii() {
            return Err(InvalidName::NotAscii);
        }
        let text = text.strip_suffix('.').unwrap_or(text);
        if text.is_empty() {
            return Err(InvalidName::Empty);
        }
        if text.len() > 253 {
            return Err(InvalidName::TooLong);
        }
        let allowed = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if !text.bytes().all(allowed) {
            return Err(InvalidName::Character);
        }
        let good =
            |label: &str| matches!(label.len(), 1..=63) && !label.starts_with('-') && !label.ends_with('-');
        if !text.split('.').all(good) {
            return Err(InvalidName::Label);
        }
        let text = text.to_ascii_lowercase();
        // As the URL standard has it: resolvers read 127.1, 0x7f000001 and 017700000001 as addresses.
        let last = text.rsplit('.').next().unwrap_or_default();
        let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
        let hexadecimal =
            last.strip_prefix("0x").is_some_and(|rest| rest.bytes().all(|byte| byte.is_ascii_hexdigit()));
        if digits(last) || hexadecimal {
            return Err(InvalidName::Numeric);
        }
        Ok(Self(text))
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it has more than one part: a single one is somebody's local name, never a public one.
    pub fn is_qualified(&self) -> bool {
        self.0.contains('.')
    }

    /// Whether it always means the machine that asks.
    pub fn is_localhost(&self) -> bool {
        self.0 == "localhost" || self.0.ends_with(".localhost")
    }

    /// Whether it is a name below `parent`, at a boundary between parts.
    pub fn is_below(&self, parent: &HostName) -> bool {
        self.0.strip_suffix(parent.as_str()).is_some_and(|rest| rest.len() > 1 && rest.ends_with('.'))
    }
}

impl fmt::Display for HostName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A range of addresses by its prefix; a single address has the longest.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct AddressRange {
    address: IpAddr,
    prefix: u8,
}

impl AddressRange {
    fn new(address: IpAddr, prefix: u8) -> Option<Self> {
        let longest = if address.is_ipv4() { 32 } else { 128 };
        (prefix <= longest).then_some(Self { address, prefix })
    }

    pub fn prefix(&self) -> u8 {
        self.prefix
    }

    pub fn contains(&self, address: IpAddr) -> bool {
        match (self.address, address) {
            (IpAddr::V4(own), IpAddr::V4(other)) => {
                let mask = u32::MAX.checked_shl(32 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            (IpAddr::V6(own), IpAddr::V6(other)) => {
                let mask = u128::MAX.checked_shl(128 - u32::from(self.prefix)).unwrap_or(0);
                own.to_bits() & mask == other.to_bits() & mask
            }
            _ => false,
        }
    }

    /// Whether the whole range means the machine that asks.
    fn is_own_host(&self) -> bool {
        let own = |address: Ipv4Addr| address.is_loopback() || address.octets()[0] == 0;
        match self.address {
            IpAddr::V4(address) => own(address) && self.prefix >= 8,
            IpAddr::V6(address) => match address.to_ipv4_mapped() {
                Some(inside) => own(inside) && self.prefix >= 104,
                None => (address.is_loopback() || address.is_unspecified()) && self.prefix >= 127,
            },
        }
    }

    fn is_single(&self) -> bool {
        self.prefix == if self.address.is_ipv4() { 32 } else { 128 }
    }
}

impl fmt::Display for AddressRange {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.is_single(), self.address) {
            (true, address) => write!(f, "{address}"),
            (false, address) => write!(f, "{address}/{}", self.prefix),
        }
    }
}

/// Whom a rule is about.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum Target {
    /// This very name.
    Name(HostName),
    /// Every name below it, but not it itself; written `*.example.org`.
    Below(HostName),
    /// These addresses, asked for as such or as what an allowed name resolves to. Only this lets anyone reach a
    /// private range.
    Addresses(AddressRange),
}

/// One entry of the allow list: `HOST[:PORT]`.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct AllowRule {
    target: Target,
    /// `None` stands for [`DEFAULT_PORTS`].
    port: Option<u16>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidRule {
    #[error("'{given}' is not a host to allow: {reason}")]
    Name { given: String, reason: InvalidName },
    #[error("'{given}' is not a host to allow: write the host alone, without the rest of the address")]
    Url { given: String },
    #[error("'{given}' is not a host to allow: the port is a number from 1 to 65535")]
    Port { given: String },
    #[error("'{given}' is not a host to allow: '*' stands only at the front, as in *.example.org")]
    Wildcard { given: String },
    #[error("'{given}' is not a host to allow: write addresses as 192.0.2.1, 10.0.0.0/8, [2001:db8::1]:443")]
    Address { given: String },
    #[error("'{given}' is this very host: reach one of its ports with --host-port PORT")]
    OwnHost { given: String },
    #[error("'{given}' is not a host port; write PORT or PORT:HOSTPORT, each from 1 to 65535")]
    HostPort { given: String },
    #[error("port {port} of a sandbox's loopback is taken by its own {by}; write OTHER:{port}")]
    Taken { port: u16, by: &'static str },
}

impl AllowRule {
    pub fn target(&self) -> &Target {
        &self.target
    }

    pub fn ports(&self) -> &[u16] {
        self.port.as_slice().first().map_or(&DEFAULT_PORTS, |_| self.port.as_slice())
    }

    pub fn allows_port(&self, port: u16) -> bool {
        self.ports().contains(&port)
    }
}

impl FromStr for AllowRule {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let given = || text.escape_debug().to_string();
        if text.contains("//") {
            return Err(InvalidRule::Url { given: given() });
        }
        let (host, port) = split_port(text).ok_or_else(|| InvalidRule::Address { given: given() })?;
        let port =
            port.map(|port| number(port).ok_or_else(|| InvalidRule::Port { given: given() })).transpose()?;
        let target = match range(host) {
            Some(range) if range.is_own_host() => return Err(InvalidRule::OwnHost { given: given() }),
            Some(range) => Target::Addresses(range),
            None if host.contains(['/', ':', '[', ']']) => {
                return Err(InvalidRule::Address { given: given() });
            }
            None => {
                let (name, below) = match host.strip_prefix("*.") {
                    Some(name) => (name, true),
                    None => (host, false),
                };
                if name.contains('*') {
                    return Err(InvalidRule::Wildcard { given: given() });
                }
                let name =
                    HostName::new(name).map_err(|reason| InvalidRule::Name { given: given(), reason })?;
                if name.is_localhost() {
                    return Err(InvalidRule::OwnHost { given: given() });
                }
                if below { Target::Below(name) } else { Target::Name(name) }
            }
        };
        Ok(Self { target, port })
    }
}

/// `host`, `host:port`, `address`, `[address]`, `[address]:port`; a bare IPv6 address has no port.
fn split_port(text: &str) -> Option<(&str, Option<&str>)> {
    if let Some(rest) = text.strip_prefix('[') {
        let (host, rest) = rest.split_once(']')?;
        // Only an IPv6 address is written in brackets.
        if !host.contains(':') {
            return None;
        }
        return match rest {
            "" => Some((host, None)),
            rest => Some((host, Some(rest.strip_prefix(':')?))),
        };
    }
    match text.split_once(':') {
        Some((host, port)) if !port.contains(':') => Some((host, Some(port))),
        _ => Some((text, None)),
    }
}

fn number(text: &str) -> Option<u16> {
    let plain = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|port| plain && *port > 0)
}

/// An address in its usual form, or a range of them. Octal, hexadecimal and shortened forms are none.
fn range(text: &str) -> Option<AddressRange> {
    let (address, prefix) = match text.split_once('/') {
        Some((address, prefix)) => (address, Some(prefix)),
        None => (text, None),
    };
    let address = address
        .parse::<Ipv4Addr>()
        .map(IpAddr::V4)
        .or_else(|_| address.parse::<Ipv6Addr>().map(IpAddr::V6))
        .ok()?;
    let prefix = match prefix {
        None if address.is_ipv4() => 32,
        None => 128,
        Some("0") => 0,
        Some(prefix) => u8::try_from(number(prefix)?).ok()?,
    };
    AddressRange::new(address, prefix)
}

impl fmt::Display for AllowRule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.target, self.port) {
            (Target::Addresses(range), Some(port)) if range.address.is_ipv6() => {
                return write!(f, "[{range}]:{port}");
            }
            (Target::Addresses(range), _) => write!(f, "{range}")?,
            (Target::Name(name), _) => write!(f, "{name}")?,
            (Target::Below(name), _) => write!(f, "*.{name}")?,
        }
        match self.port {
            Some(port) => write!(f, ":{port}"),
            None => Ok(()),
        }
    }
}

/// A port of the host's loopback that a sandbox sees on its own: `PORT[:HOSTPORT]`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(try_from = "String", into = "String")]
pub struct HostPort {
    pub inside: u16,
    pub host: u16,
}

impl FromStr for HostPort {
    type Err = InvalidRule;

    fn from_str(text: &str) -> Result<Self, InvalidRule> {
        let (inside, host) = text.split_once(':').unwrap_or((text, text));
        let (Some(inside), Some(host)) = (number(inside), number(host)) else {
            return Err(InvalidRule::HostPort { given: text.escape_debug().to_string() });
        };
        match inside {
            DNS_PORT => Err(InvalidRule::Taken { port: inside, by: "name server" }),
            PROXY_PORT => Err(InvalidRule::Taken { port: inside, by: "proxy" }),
            _ => Ok(Self { inside, host }),
        }
    }
}

impl fmt::Display for HostPort {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.inside == self.host {
            true => write!(f, "{}", self.inside),
            false => write!(f, "{}:{}", self.inside, self.host),
        }
    }
}

macro_rules! as_text {
    ($type:ty, $name:literal) => {
        impl TryFrom<String> for $type {
            type Error = InvalidRule;
            fn try_from(text: String) -> Result<Self, InvalidRule> {
                text.parse()
            }
        }

        impl From<$type> for String {
            fn from(value: $type) -> Self {
                value.to_string()
            }
        }

        #[cfg(feature = "schema")]
        impl schemars::JsonSchema for $type {
            fn schema_name() -> std::borrow::Cow<'static, str> {
                $name.into()
            }
            fn json_schema(generator: &mut schemars::SchemaGenerator) -> schemars::Schema {
                String::json_schema(generator)
            }
        }
    };
}

as_text!(AllowRule, "AllowRule");
as_text!(HostPort, "HostPort");

#[cfg(test)]
mod tests;
