//! The ports a service publishes, in the short syntax (`[ADDRESS:]HOST:CONTAINER[/PROTOCOL]`) and the long one
//! (`target`, `published`), and which of them would collide between two sandboxes.

use crate::interpolation::{Otherwise, references};
use crate::yaml::{Kind, NodeId, Tree};

/// The host's side of a published port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Published {
    /// The engine takes any free port: nothing collides.
    Any,
    /// Written out, so that two sandboxes collide.
    Fixed { first: u16, last: u16 },
    /// A variable already, with its default when that is a port.
    Variable { name: String, default: Option<u16> },
    /// Something else, as it is written.
    Other(String),
}

/// One entry of a service's `ports`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Port {
    pub published: Published,
    /// The service's own port, the first of a range, when it is written as a number.
    pub target: Option<u16>,
    /// How many ports of the service there are, when they are written as numbers.
    pub(crate) targets: Option<u16>,
    pub protocol: Protocol,
    pub(crate) place: Place,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Protocol {
    Tcp,
    Udp,
    Other,
}

/// Where the host's side is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Place {
    /// The bytes of this part of the text of a short entry.
    Short { entry: NodeId, address: String, rest: String },
    /// The value of `published` in a long entry.
    Long { published: NodeId, entry: NodeId, target: NodeId },
    /// No host's side.
    None,
}

/// The ports of a service's `ports` list.
pub(crate) fn ports(tree: &Tree, list: NodeId) -> Vec<Port> {
    tree.elements(list).iter().filter_map(|entry| port(tree, *entry)).collect()
}

fn port(tree: &Tree, entry: NodeId) -> Option<Port> {
    match &tree.node(entry).kind {
        Kind::Scalar { text, .. } => Some(short(entry, text)),
        Kind::Mapping(_) => long(tree, entry),
        Kind::Sequence(_) => None,
    }
}

fn short(entry: NodeId, text: &str) -> Port {
    let (ports, protocol) = match cut_outside_variables(text, b'/') {
        Some(at) => (&text[..at], protocol(&text[at + 1..])),
        None => (text, Protocol::Tcp),
    };
    let Some(last) = cut_outside_variables(ports, b':') else {
        return Port::new(Published::Any, ports, protocol, Place::None);
    };
    let (host, target) = (&ports[..last], &ports[last + 1..]);
    let (address, host) = match cut_outside_variables(host, b':') {
        Some(at) => host.split_at(at + 1),
        None => ("", host),
    };
    if host.is_empty() {
        // `127.0.0.1::80` takes any port of that address.
        return Port::new(Published::Any, target, protocol, Place::None);
    }
    let place = Place::Short { entry, address: address.to_owned(), rest: text[last..].to_owned() };
    Port::new(published(host), target, protocol, place)
}

fn long(tree: &Tree, entry: NodeId) -> Option<Port> {
    let target = tree.get(entry, "target")?;
    let inner = tree.text(target)?;
    let protocol = tree.get(entry, "protocol").and_then(|it| tree.text(it)).map_or(Protocol::Tcp, protocol);
    let Some(host) = tree.get(entry, "published") else {
        return Some(Port::new(Published::Any, inner, protocol, Place::None));
    };
    let place = Place::Long { published: host, entry, target };
    Some(Port::new(published(tree.text(host)?), inner, protocol, place))
}

fn published(text: &str) -> Published {
    let range = text.split_once('-').map_or((text, text), |ends| ends);
    if let (Ok(first), Ok(last)) = (range.0.parse(), range.1.parse()) {
        return match first {
            0 => Published::Any,
            _ if first <= last => Published::Fixed { first, last },
            _ => Published::Other(text.to_owned()),
        };
    }
    match &references(text)[..] {
        [only] if only.bytes == (0..text.len()) => {
            let default = match &only.otherwise {
                Otherwise::Default(text) => text.parse().ok(),
                Otherwise::Nothing | Otherwise::Refused(_) | Otherwise::Replaced(_) => None,
            };
            match default {
                // The engine takes any free one, unless somebody says otherwise.
                Some(0) => Published::Any,
                default => Published::Variable { name: only.name.clone(), default },
            }
        }
        _ => Published::Other(text.to_owned()),
    }
}

fn protocol(text: &str) -> Protocol {
    match text {
        "tcp" => Protocol::Tcp,
        "udp" => Protocol::Udp,
        _ => Protocol::Other,
    }
}

impl Port {
    fn new(published: Published, target: &str, protocol: Protocol, place: Place) -> Self {
        let (first, last) = target.split_once('-').unwrap_or((target, target));
        let (first, last): (Option<u16>, Option<u16>) = (first.parse().ok(), last.parse().ok());
        let targets = first.zip(last).and_then(|(first, last)| last.checked_sub(first)?.checked_add(1));
        let target = first.filter(|port| *port != 0);
        Self { published, target, targets, protocol, place }
    }
}

/// The last `separator` that belongs neither to a variable nor to an address in brackets.
fn cut_outside_variables(text: &str, separator: u8) -> Option<usize> {
    let variables = references(text);
    let brackets = text.find('[').zip(text.find(']')).map(|(open, close)| open..close);
    text.bytes().enumerate().rev().filter(|(_, byte)| *byte == separator).map(|(at, _)| at).find(|at| {
        !variables.iter().any(|it| it.bytes.contains(at))
            && !brackets.as_ref().is_some_and(|it| it.contains(at))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(entry: &str) -> (Published, Option<u16>, Protocol) {
        let tree = Tree::read(&format!("- {entry}\n")).unwrap();
        let port = ports(&tree, tree.root().unwrap()).remove(0);
        (port.published, port.target, port.protocol)
    }

    fn fixed(first: u16, last: u16) -> Published {
        Published::Fixed { first, last }
    }

    fn variable(name: &str, default: Option<u16>) -> Published {
        Published::Variable { name: name.into(), default }
    }

    #[test]
    fn short_entries() {
        for (entry, published, target, protocol) in [
            ("80", Published::Any, Some(80), Protocol::Tcp),
            ("8080:80", fixed(8080, 8080), Some(80), Protocol::Tcp),
            ("'127.0.0.1:8080:80/udp'", fixed(8080, 8080), Some(80), Protocol::Udp),
            ("\"[::1]:8080:80\"", fixed(8080, 8080), Some(80), Protocol::Tcp),
            ("127.0.0.1::80", Published::Any, Some(80), Protocol::Tcp),
            ("3000-3005:3000-3005", fixed(3000, 3005), Some(3000), Protocol::Tcp),
            ("${PORT:-8080}:80", variable("PORT", Some(8080)), Some(80), Protocol::Tcp),
            ("${PORT}:80", variable("PORT", None), Some(80), Protocol::Tcp),
            ("$PORT:$INNER", variable("PORT", None), None, Protocol::Tcp),
            ("${HOST:-0.0.0.0}:${PORT:?set it}:80/tcp", variable("PORT", None), Some(80), Protocol::Tcp),
            ("1${N}00:80", Published::Other("1${N}00".into()), Some(80), Protocol::Tcp),
            ("0:80", Published::Any, Some(80), Protocol::Tcp),
            ("${PORT:-0}:80", Published::Any, Some(80), Protocol::Tcp),
            ("53:53/sctp", fixed(53, 53), Some(53), Protocol::Other),
        ] {
            assert_eq!(read(entry), (published, target, protocol), "{entry}");
        }
    }

    #[test]
    fn long_entries() {
        for (entry, published, target) in [
            ("{target: 80}", Published::Any, Some(80)),
            ("{target: 80, published: 8080, mode: host}", fixed(8080, 8080), Some(80)),
            ("{target: 80, published: \"8000-8010\"}", fixed(8000, 8010), Some(80)),
            ("{target: 80, published: \"${P:-81}\"}", variable("P", Some(81)), Some(80)),
        ] {
            assert_eq!(read(entry), (published, target, Protocol::Tcp), "{entry}");
        }
    }
}
