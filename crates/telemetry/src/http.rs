//! One request to the collector: sent, and the status line of the answer read. Everything has one deadline, but for
//! looking the host's name up, which cannot be given one; whoever must not wait for that does not wait for the thread.

use crate::endpoint::Endpoint;
use crate::settings::Secret;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpStream, ToSocketAddrs};
use std::time::{Duration, Instant};

#[derive(Debug, thiserror::Error)]
pub(crate) enum Undelivered {
    #[error("its host was not found: {0}")]
    Unknown(#[source] std::io::Error),
    #[error("it cannot be reached: {0}")]
    Unreachable(#[source] std::io::Error),
    #[error("the connection broke: {0}")]
    Broken(#[source] std::io::Error),
    #[error("it did not answer in time")]
    Late,
    #[error("it answered with status {0}")]
    Refused(u16),
    #[error("its answer is not HTTP")]
    Unreadable,
}

/// Longer than any status line.
const LINE: usize = 1024;

pub(crate) struct Request<'a> {
    pub(crate) endpoint: &'a Endpoint,
    pub(crate) headers: &'a [(String, Secret)],
    pub(crate) content_type: &'static str,
    pub(crate) body: &'a [u8],
}

pub(crate) fn post(request: &Request<'_>, deadline: Instant) -> Result<(), Undelivered> {
    let mut stream = connect(request.endpoint, deadline)?;
    stream.set_write_timeout(Some(left(deadline)?)).map_err(Undelivered::Broken)?;
    let mut bytes = head(request).into_bytes();
    bytes.extend(request.body);
    stream.write_all(&bytes).map_err(broken)?;
    match status(&mut stream, deadline)? {
        200..=299 => Ok(()),
        status => Err(Undelivered::Refused(status)),
    }
}

fn head(request: &Request<'_>) -> String {
    let Request { endpoint, headers, content_type, body } = request;
    let mut head = format!(
        "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: palisade/{}\r\nConnection: close\r\n\
         Content-Type: {content_type}\r\nContent-Length: {}\r\n",
        endpoint.path,
        endpoint.authority(),
        env!("CARGO_PKG_VERSION"),
        body.len(),
    );
    for (name, Secret(value)) in *headers {
        head.extend([name, ": ", value, "\r\n"]);
    }
    head.push_str("\r\n");
    head
}

/// Tries every address that the host has, as long as there is time.
fn connect(endpoint: &Endpoint, deadline: Instant) -> Result<TcpStream, Undelivered> {
    let addresses =
        (endpoint.host.as_str(), endpoint.port).to_socket_addrs().map_err(Undelivered::Unknown)?;
    let mut failure = std::io::Error::from(ErrorKind::NotFound);
    for address in addresses {
        match TcpStream::connect_timeout(&address, left(deadline)?) {
            Ok(stream) => return Ok(stream),
            Err(error) => failure = error,
        }
    }
    Err(Undelivered::Unreachable(failure))
}

fn status(stream: &mut TcpStream, deadline: Instant) -> Result<u16, Undelivered> {
    let mut answer = Vec::new();
    let mut piece = [0; LINE];
    while !answer.contains(&b'\n') && answer.len() < LINE {
        stream.set_read_timeout(Some(left(deadline)?)).map_err(Undelivered::Broken)?;
        match stream.read(&mut piece).map_err(broken)? {
            0 => return Err(Undelivered::Unreadable),
            count => answer.extend(&piece[..count]),
        }
    }
    let line = answer.split(|&byte| byte == b'\n').next().unwrap_or_default();
    let mut words = line.split(|&byte| byte == b' ');
    let version = words.next().is_some_and(|word| word.starts_with(b"HTTP/1."));
    let code = words.next().and_then(|word| std::str::from_utf8(word).ok()?.trim().parse().ok());
    code.filter(|_| version).ok_or(Undelivered::Unreadable)
}

fn left(deadline: Instant) -> Result<Duration, Undelivered> {
    match deadline.saturating_duration_since(Instant::now()) {
        Duration::ZERO => Err(Undelivered::Late),
        left => Ok(left),
    }
}

fn broken(error: std::io::Error) -> Undelivered {
    match error.kind() {
        ErrorKind::WouldBlock | ErrorKind::TimedOut => Undelivered::Late,
        _ => Undelivered::Broken(error),
    }
}
