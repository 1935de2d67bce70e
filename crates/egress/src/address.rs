//! What kind of address a name resolved to. Everything that is not plainly somebody else's public machine has a kind
//! of its own, and is reached only when it was listed.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Kind {
    Public,
    /// The host itself, by its loopback or "this host": never reached, listed or not.
    Loopback,
    /// The host itself, by an address of one of its interfaces.
    OwnHost,
    Private,
    LinkLocal,
    /// Where clouds hand out credentials.
    Metadata,
    /// Shared between customers of one provider.
    CarrierNat,
    Multicast,
    /// Carries an IPv4 address inside, which some gateway would unpack.
    Embedded,
    /// For documentation, benchmarks, or nobody yet.
    Reserved,
}

impl fmt::Display for Kind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Kind::Public => "a public address",
            Kind::Loopback => "the host's own loopback",
            Kind::OwnHost => "an address of this host",
            Kind::Private => "a private address",
            Kind::LinkLocal => "a link-local address",
            Kind::Metadata => "a metadata address",
            Kind::CarrierNat => "an address of the provider's own network",
            Kind::Multicast => "a multicast address",
            Kind::Embedded => "an address with another one inside",
            Kind::Reserved => "a reserved address",
        })
    }
}

/// A block of addresses: how it begins, the length of that beginning, and what it is.
type Block<T> = (T, u8, Kind);

/// The first match counts, so the narrow ones come first.
const BLOCKS_4: &[Block<[u8; 4]>] = &[
    ([169, 254, 169, 254], 32, Kind::Metadata),
    ([169, 254, 170, 2], 32, Kind::Metadata),
    ([169, 254, 170, 23], 32, Kind::Metadata),
    ([100, 100, 100, 200], 32, Kind::Metadata),
    ([168, 63, 129, 16], 32, Kind::Metadata),
    ([192, 0, 0, 192], 32, Kind::Metadata),
    ([0, 0, 0, 0], 8, Kind::Loopback),
    ([127, 0, 0, 0], 8, Kind::Loopback),
    ([10, 0, 0, 0], 8, Kind::Private),
    ([172, 16, 0, 0], 12, Kind::Private),
    ([192, 168, 0, 0], 16, Kind::Private),
    ([169, 254, 0, 0], 16, Kind::LinkLocal),
    ([100, 64, 0, 0], 10, Kind::CarrierNat),
    ([192, 0, 0, 0], 24, Kind::Reserved),
    ([192, 0, 2, 0], 24, Kind::Reserved),
    ([192, 88, 99, 0], 24, Kind::Embedded),
    ([198, 18, 0, 0], 15, Kind::Reserved),
    ([198, 51, 100, 0], 24, Kind::Reserved),
    ([203, 0, 113, 0], 24, Kind::Reserved),
    ([224, 0, 0, 0], 4, Kind::Multicast),
    ([240, 0, 0, 0], 4, Kind::Reserved),
];

const BLOCKS_6: &[Block<[u16; 8]>] = &[
    ([0xfd00, 0x0ec2, 0, 0, 0, 0, 0, 0x254], 128, Kind::Metadata),
    ([0xfd20, 0x00ce, 0, 0, 0, 0, 0, 0x254], 128, Kind::Metadata),
    ([0, 0, 0, 0, 0, 0, 0, 0], 128, Kind::Loopback),
    ([0, 0, 0, 0, 0, 0, 0, 1], 128, Kind::Loopback),
    ([0, 0, 0, 0, 0, 0xffff, 0, 0], 96, Kind::Embedded),
    ([0, 0, 0, 0, 0, 0, 0, 0], 96, Kind::Embedded),
    ([0x64, 0xff9b, 0, 0, 0, 0, 0, 0], 96, Kind::Embedded),
    ([0x64, 0xff9b, 1, 0, 0, 0, 0, 0], 48, Kind::Embedded),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 32, Kind::Embedded),
    ([0x2002, 0, 0, 0, 0, 0, 0, 0], 16, Kind::Embedded),
    ([0x2001, 0x0db8, 0, 0, 0, 0, 0, 0], 32, Kind::Reserved),
    ([0x2001, 0, 0, 0, 0, 0, 0, 0], 23, Kind::Reserved),
    ([0x3fff, 0, 0, 0, 0, 0, 0, 0], 20, Kind::Reserved),
    ([0xfc00, 0, 0, 0, 0, 0, 0, 0], 7, Kind::Private),
    ([0xfe80, 0, 0, 0, 0, 0, 0, 0], 10, Kind::LinkLocal),
    ([0xfec0, 0, 0, 0, 0, 0, 0, 0], 10, Kind::Private),
    ([0xff00, 0, 0, 0, 0, 0, 0, 0], 8, Kind::Multicast),
    ([0x2000, 0, 0, 0, 0, 0, 0, 0], 3, Kind::Public),
    ([0, 0, 0, 0, 0, 0, 0, 0], 0, Kind::Reserved),
];

/// The kind of an address, and the length of the prefix of the block that makes it so.
pub(crate) fn kind(address: IpAddr) -> (Kind, u8) {
    match address {
        IpAddr::V4(address) => {
            let bits = address.to_bits();
            let within = |(start, prefix, _): &&Block<[u8; 4]>| {
                let mask = u32::MAX.checked_shl(32 - u32::from(*prefix)).unwrap_or(0);
                Ipv4Addr::from(*start).to_bits() == bits & mask
            };
            BLOCKS_4.iter().find(within).map_or((Kind::Public, 0), |(_, prefix, kind)| (*kind, *prefix))
        }
        IpAddr::V6(address) => {
            let bits = address.to_bits();
            let within = |(start, prefix, _): &&Block<[u16; 8]>| {
                let mask = u128::MAX.checked_shl(128 - u32::from(*prefix)).unwrap_or(0);
                Ipv6Addr::from(*start).to_bits() == bits & mask
            };
            BLOCKS_6.iter().find(within).map_or((Kind::Reserved, 0), |(_, prefix, kind)| (*kind, *prefix))
        }
    }
}

/// Whether this machine itself answers at the address: then its route leads back to it. Sends nothing.
pub(crate) fn is_own(address: IpAddr) -> bool {
    let any: IpAddr = match address {
        IpAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        IpAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    let route = || -> std::io::Result<IpAddr> {
        let socket = std::net::UdpSocket::bind((any, 0))?;
        socket.connect((address, 9))?;
        Ok(socket.local_addr()?.ip())
    };
    route().is_ok_and(|source| source == address)
}

#[cfg(test)]
mod tests;
