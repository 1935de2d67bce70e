//! A proxy request in HTTP/1: `CONNECT host:port`, or a whole request for `http://host/…`, which goes on to the host
//! in the form it would have had without a proxy. One request for one connection, so that a second cannot go to a
//! host that it was not meant for.

use super::proxy::{Manner, Step, Wish};

/// A longer head is nobody's.
const LONGEST_HEAD: usize = 16 * 1024;

pub(crate) fn answer(status: &str, text: &str) -> Vec<u8> {
    let body = format!("palisade: {text}\n");
    format!(
        "HTTP/1.1 {status}\r\nContent-Type: text/plain; charset=utf-8\r\nContent-Length: {}\r\nConnection: close\r\n\r\n{body}",
        body.len()
    )
    .into_bytes()
}

fn bad(text: &str) -> Step {
    Step::Close(answer("400 Bad Request", text))
}

/// What to do about the bytes said so far.
pub(crate) fn read(said: &[u8]) -> Step {
    let Some(end) = said.windows(4).position(|window| window == b"\r\n\r\n") else {
        return if said.len() > LONGEST_HEAD {
            bad("the head of the request is too long")
        } else {
            Step::More
        };
    };
    let Ok(head) = std::str::from_utf8(&said[..end]) else { return bad("the request is not text") };
    let mut lines = head.split("\r\n");
    let mut words = lines.next().unwrap_or_default().split(' ');
    let (Some(method), Some(target), Some(version), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return bad("this is no HTTP request");
    };
    if !version.starts_with("HTTP/1.") {
        return bad("this proxy speaks HTTP/1");
    }
    let rest = &said[end + 4..];
    if method == "CONNECT" {
        return match authority(target, None) {
            Some((host, port)) => {
                Step::Ask(Wish { host, port, manner: Manner::Connect, first: rest.to_vec() })
            }
            None => bad("CONNECT needs host:port"),
        };
    }
    let Some(address) =
        target.get(..7).filter(|scheme| scheme.eq_ignore_ascii_case("http://")).map(|_| &target[7..])
    else {
        return bad("this is a proxy: ask for http://host/path, or use CONNECT");
    };
    let split = address.find(['/', '?', '#']).unwrap_or(address.len());
    let (place, path) = address.split_at(split);
    let place = place.rsplit_once('@').map_or(place, |(_, place)| place);
    let Some((host, port)) = authority(place, Some(80)) else { return bad("the address names no host") };
    let slash = if path.starts_with('/') { "" } else { "/" };
    let mut first = format!("{method} {slash}{path} {version}\r\nHost: {place}\r\n").into_bytes();
    for line in lines {
        let name = line.split(':').next().unwrap_or_default().trim().to_ascii_lowercase();
        if !matches!(name.as_str(), "host" | "connection" | "keep-alive") && !name.starts_with("proxy-") {
            first.extend_from_slice(line.as_bytes());
            first.extend_from_slice(b"\r\n");
        }
    }
    first.extend_from_slice(b"Connection: close\r\n\r\n");
    first.extend_from_slice(rest);
    Step::Ask(Wish { host, port, manner: Manner::Http, first })
}

/// `host:port`, `[address]:port`; the port may be left out when there is one by default.
fn authority(text: &str, default: Option<u16>) -> Option<(String, u16)> {
    let (host, port) = match text.strip_prefix('[') {
        Some(rest) => {
            let (host, rest) = rest.split_once(']')?;
            (host, rest.strip_prefix(':').or_else(|| rest.is_empty().then_some(""))?)
        }
        None => text.split_once(':').unwrap_or((text, "")),
    };
    let port = match port {
        "" => default?,
        digits if digits.bytes().all(|byte| byte.is_ascii_digit()) => digits.parse().ok()?,
        _ => return None,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn wish(said: &str) -> (String, u16, Manner, String) {
        match read(said.as_bytes()) {
            Step::Ask(wish) => (wish.host, wish.port, wish.manner, String::from_utf8(wish.first).unwrap()),
            other => panic!("{said:?}: {other:?}"),
        }
    }

    #[test]
    fn connect_asks_for_its_host_and_passes_on_what_follows() {
        assert_eq!(read(b"CONNECT example.org:443 HTTP/1.1\r\n"), Step::More);
        assert_eq!(
            wish("CONNECT example.org:443 HTTP/1.1\r\nHost: x\r\n\r\nhello"),
            ("example.org".into(), 443, Manner::Connect, "hello".into())
        );
        assert_eq!(wish("CONNECT [::1]:80 HTTP/1.1\r\n\r\n").0, "::1");
    }

    #[test]
    fn a_whole_request_goes_on_as_if_there_were_no_proxy() {
        let said = "GET http://user@example.org:8080/a?b HTTP/1.1\r\nHost: other.org\r\nProxy-Connection: keep-alive\r\n\
                    Connection: keep-alive\r\nAccept: */*\r\n\r\n";
        assert_eq!(
            wish(said),
            (
                "example.org".into(),
                8080,
                Manner::Http,
                "GET /a?b HTTP/1.1\r\nHost: example.org:8080\r\nAccept: */*\r\nConnection: close\r\n\r\n"
                    .into()
            )
        );
        assert_eq!(
            wish("POST HTTP://h HTTP/1.0\r\nContent-Length: 2\r\n\r\nhi").3,
            "POST / HTTP/1.0\r\nHost: h\r\nContent-Length: 2\r\nConnection: close\r\n\r\nhi"
        );
        assert!(wish("GET http://h?q HTTP/1.1\r\n\r\n").3.starts_with("GET /?q HTTP/1.1\r\n"));
    }

    #[test]
    fn what_is_no_proxy_request_is_answered_and_closed() {
        for said in [
            "GET / HTTP/1.1\r\n\r\n",
            "GET https://example.org/ HTTP/1.1\r\n\r\n",
            "CONNECT example.org HTTP/1.1\r\n\r\n",
            "CONNECT example.org:x HTTP/1.1\r\n\r\n",
            "CONNECT :80 HTTP/1.1\r\n\r\n",
            "GET http:// HTTP/1.1\r\n\r\n",
            "hello\r\n\r\n",
            "GET http://h/ HTTP/2\r\n\r\n",
            "GET http://h/ a HTTP/1.1\r\n\r\n",
        ] {
            assert!(
                matches!(read(said.as_bytes()), Step::Close(answer) if answer.starts_with(b"HTTP/1.1 400")),
                "{said}"
            );
        }
        assert!(matches!(read(&[b'a'; LONGEST_HEAD + 1]), Step::Close(_)));
    }
}
