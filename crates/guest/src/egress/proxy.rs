//! What a program says to the proxy before bytes flow: HTTP CONNECT, a plain HTTP request, or SOCKS5, told apart by
//! the first byte. Pure: bytes in, the next step out.

use super::http;
use palisade_protocol::{Refusal, RefusalCode};
use std::net::{Ipv4Addr, Ipv6Addr};

/// How the one who called wants to hear how it went.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Manner {
    /// Not at all: it thinks it speaks to the other side already.
    Silent,
    Connect,
    /// A plain request: only a failure is said.
    Http,
    Socks,
}

impl Manner {
    /// What to say when the way is open.
    pub(crate) fn yes(self) -> &'static [u8] {
        match self {
            Manner::Silent | Manner::Http => b"",
            Manner::Connect => b"HTTP/1.1 200 Connection established\r\n\r\n",
            Manner::Socks => &[5, 0, 0, 1, 0, 0, 0, 0, 0, 0],
        }
    }

    /// What to say when it is not.
    pub(crate) fn no(self, refusal: &Refusal) -> Vec<u8> {
        match self {
            Manner::Silent => Vec::new(),
            Manner::Connect | Manner::Http => {
                let status = match (refusal.code, refusal.errno) {
                    (RefusalCode::Forbidden, _) => "403 Forbidden",
                    (RefusalCode::Limit, _) => "503 Service Unavailable",
                    (_, libc::ETIMEDOUT) => "504 Gateway Timeout",
                    _ => "502 Bad Gateway",
                };
                http::answer(status, &refusal.text)
            }
            Manner::Socks => {
                let code = match (refusal.code, refusal.errno) {
                    (RefusalCode::Forbidden, _) => 2,
                    (RefusalCode::NotFound, _) | (_, libc::EHOSTUNREACH | libc::ETIMEDOUT) => 4,
                    (_, libc::ECONNREFUSED) => 5,
                    _ => 1,
                };
                vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]
            }
        }
    }
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Step {
    /// More is needed.
    More,
    /// This is to be said first; then more is needed.
    Say(&'static [u8]),
    Ask(Wish),
    /// This is to be said, and that is all.
    Close(Vec<u8>),
}

/// A connection that was asked for.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Wish {
    pub(crate) host: String,
    pub(crate) port: u16,
    pub(crate) manner: Manner,
    /// What goes to the other side first.
    pub(crate) first: Vec<u8>,
}

#[derive(Debug, Default)]
pub(crate) struct Talk {
    said: Vec<u8>,
    /// Whether SOCKS' greeting is behind us.
    greeted: bool,
}

impl Talk {
    pub(crate) fn hear(&mut self, bytes: &[u8]) -> Step {
        self.said.extend_from_slice(bytes);
        match self.said.first() {
            None => Step::More,
            Some(5) => self.socks(),
            Some(_) => http::read(&self.said),
        }
    }

    fn socks(&mut self) -> Step {
        const NO_PASSWORD: u8 = 0;
        if !self.greeted {
            let Some(&count) = self.said.get(1) else { return Step::More };
            let end = 2 + usize::from(count);
            let Some(methods) = self.said.get(2..end) else { return Step::More };
            if !methods.contains(&NO_PASSWORD) {
                return Step::Close(vec![5, 0xff]);
            }
            self.said.drain(..end);
            self.greeted = true;
            return Step::Say(&[5, NO_PASSWORD]);
        }
        let refuse = |code: u8| Step::Close(vec![5, code, 0, 1, 0, 0, 0, 0, 0, 0]);
        let (Some(&command), Some(&kind)) = (self.said.get(1), self.said.get(3)) else { return Step::More };
        if command != 1 {
            return refuse(7);
        }
        let (host, at) = match kind {
            1 => match self.said.get(4..8).and_then(|bytes| <[u8; 4]>::try_from(bytes).ok()) {
                Some(bytes) => (Ipv4Addr::from(bytes).to_string(), 8),
                None => return Step::More,
            },
            4 => match self.said.get(4..20).and_then(|bytes| <[u8; 16]>::try_from(bytes).ok()) {
                Some(bytes) => (Ipv6Addr::from(bytes).to_string(), 20),
                None => return Step::More,
            },
            3 => {
                let Some(&length) = self.said.get(4) else { return Step::More };
                let end = 5 + usize::from(length);
                match self.said.get(5..end) {
                    Some(bytes) => (String::from_utf8_lossy(bytes).into_owned(), end),
                    None => return Step::More,
                }
            }
            _ => return refuse(8),
        };
        let Some(&[high, low]) = self.said.get(at..at + 2) else { return Step::More };
        let port = u16::from_be_bytes([high, low]);
        Step::Ask(Wish { host, port, manner: Manner::Socks, first: self.said.split_off(at + 2) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn socks_names_and_addresses_are_asked_for() {
        let mut talk = Talk::default();
        assert_eq!(talk.hear(&[5, 2, 0]), Step::More);
        assert_eq!(talk.hear(&[2]), Step::Say(&[5, 0]));
        assert_eq!(talk.hear(b"\x05\x01\x00\x03\x0bexample.or"), Step::More);
        assert_eq!(
            talk.hear(b"g\x01\xbbearly"),
            Step::Ask(Wish {
                host: "example.org".into(),
                port: 443,
                manner: Manner::Socks,
                first: b"early".to_vec()
            })
        );
        let ask = |bytes: &[u8]| {
            let mut talk = Talk::default();
            assert_eq!(talk.hear(&[5, 1, 0]), Step::Say(&[5, 0]));
            talk.hear(bytes)
        };
        assert!(
            matches!(ask(&[5, 1, 0, 1, 10, 0, 0, 1, 0, 80]), Step::Ask(wish) if wish.host == "10.0.0.1" && wish.port == 80)
        );
        let six = [&[5, 1, 0, 4][..], &[0; 15], &[1], &[0, 80]].concat();
        assert!(matches!(ask(&six), Step::Ask(wish) if wish.host == "::1"));
        assert_eq!(ask(&[5, 2, 0, 1]), Step::Close(vec![5, 7, 0, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(ask(&[5, 1, 0, 9]), Step::Close(vec![5, 8, 0, 1, 0, 0, 0, 0, 0, 0]));
        assert_eq!(Talk::default().hear(&[5, 1, 2]), Step::Close(vec![5, 0xff]));
    }

    #[test]
    fn no_bytes_whatever_bring_the_conversation_down() {
        let mut noise = crate::egress::tests::Noise::default();
        for _ in 0..20_000 {
            let mut talk = Talk::default();
            if noise.bytes(1).is_empty() {
                talk.hear(&[5, 1, 0]);
            }
            for _ in 0..4 {
                let mut bytes = noise.bytes(40);
                if bytes.len() % 3 == 0 {
                    bytes.extend_from_slice(b" http://a:1/ HTTP/1.1\r\n\r\n");
                }
                if !matches!(talk.hear(&bytes), Step::More | Step::Say(_)) {
                    break;
                }
            }
        }
    }

    #[test]
    fn a_refusal_is_told_in_the_callers_own_manner() {
        let refusal = Refusal::new(RefusalCode::Forbidden, 0, "not on the allow list");
        let text = String::from_utf8(Manner::Connect.no(&refusal)).unwrap();
        assert!(text.starts_with("HTTP/1.1 403 Forbidden\r\n"), "{text}");
        assert!(text.ends_with("palisade: not on the allow list\n"), "{text}");
        assert_eq!(Manner::Socks.no(&refusal)[1], 2);
        assert_eq!(Manner::Silent.no(&refusal), b"");
    }
}
