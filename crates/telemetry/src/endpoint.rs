//! Where the collector is. Only `http://`: a collector or an agent of one on the same machine or network takes it from
//! there, and the program needs no TLS for it (see docs/adr/0017).

use std::fmt;

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Endpoint {
    /// Without the brackets of an IPv6 address.
    pub(crate) host: String,
    pub(crate) port: u16,
    /// Starts with `/`.
    pub(crate) path: String,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum NotAnEndpoint {
    #[error("https is not supported; name a collector at an http:// address, which may pass it on")]
    Https,
    #[error("it does not start with http://")]
    Scheme,
    #[error("it holds a user or a password, which belongs in OTEL_EXPORTER_OTLP_HEADERS")]
    UserInfo,
    #[error("it is not of the form http://HOST[:PORT][/PATH]")]
    Form,
}

const TRACES: &str = "/v1/traces";

impl Endpoint {
    /// The address for spans below a general endpoint.
    pub(crate) fn below(text: &str) -> Result<Self, NotAnEndpoint> {
        let mut endpoint = Self::whole(text)?;
        endpoint.path = endpoint.path.trim_end_matches('/').to_owned() + TRACES;
        Ok(endpoint)
    }

    /// An address that is taken as it is.
    pub(crate) fn whole(text: &str) -> Result<Self, NotAnEndpoint> {
        let text = text.trim();
        let (scheme, rest) = text.split_once("://").ok_or(NotAnEndpoint::Scheme)?;
        match scheme.to_ascii_lowercase().as_str() {
            "http" => {}
            "https" => return Err(NotAnEndpoint::Https),
            _ => return Err(NotAnEndpoint::Scheme),
        }
        // It becomes part of a request, so nothing may end a line or a word of that.
        if !rest.bytes().all(|byte| byte.is_ascii_graphic()) || rest.contains('#') {
            return Err(NotAnEndpoint::Form);
        }
        let (authority, path) = match rest.find(['/', '?']) {
            Some(at) => rest.split_at(at),
            None => (rest, "/"),
        };
        if authority.contains('@') {
            return Err(NotAnEndpoint::UserInfo);
        }
        let (host, port) = host_and_port(authority).ok_or(NotAnEndpoint::Form)?;
        let path = if path.starts_with('?') { format!("/{path}") } else { path.to_owned() };
        Ok(Self { host, port, path })
    }

    /// As a request names it.
    pub(crate) fn authority(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }
}

fn host_and_port(authority: &str) -> Option<(String, u16)> {
    let (host, rest) = match authority.strip_prefix('[') {
        Some(bracketed) => bracketed.split_once(']')?,
        None => authority.split_at(authority.find(':').unwrap_or(authority.len())),
    };
    let port = match rest {
        "" => 80,
        _ => rest.strip_prefix(':')?.parse().ok().filter(|port| *port != 0)?,
    };
    (!host.is_empty()).then(|| (host.to_owned(), port))
}

/// Without the path, in which some services expect a key.
impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "http://{}", self.authority())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn endpoint(host: &str, port: u16, path: &str) -> Endpoint {
        Endpoint { host: host.into(), port, path: path.into() }
    }

    #[test]
    fn the_path_for_traces_is_appended_to_a_general_endpoint_only() {
        assert_eq!(Endpoint::below("http://localhost:4318"), Ok(endpoint("localhost", 4318, "/v1/traces")));
        assert_eq!(Endpoint::below("HTTP://h/base/"), Ok(endpoint("h", 80, "/base/v1/traces")));
        assert_eq!(Endpoint::whole("http://h:1/custom?a=b"), Ok(endpoint("h", 1, "/custom?a=b")));
        assert_eq!(Endpoint::whole("http://[::1]:4318"), Ok(endpoint("::1", 4318, "/")));
        assert_eq!(Endpoint::whole("http://[::1]:4318").map(|it| it.authority()), Ok("[::1]:4318".into()));
    }

    #[test]
    fn an_endpoint_that_cannot_be_used_says_why() {
        for (text, reason) in [
            ("https://h", NotAnEndpoint::Https),
            ("h:4318", NotAnEndpoint::Scheme),
            ("unix:///run/x", NotAnEndpoint::Scheme),
            ("http://user:word@h", NotAnEndpoint::UserInfo),
            ("http://", NotAnEndpoint::Form),
            ("http://h:0", NotAnEndpoint::Form),
            ("http://h:99999", NotAnEndpoint::Form),
            ("http://h/a b", NotAnEndpoint::Form),
            ("http://h/\r\nX: y", NotAnEndpoint::Form),
            ("http://[::1", NotAnEndpoint::Form),
        ] {
            assert_eq!(Endpoint::whole(text), Err(reason), "{text}");
        }
    }
}
