//! One connection out of several addresses: the next is tried when one fails or takes its time, and the first to
//! answer wins.

use crate::rules::Reason;
use std::io::{self, ErrorKind};
use std::net::SocketAddr;
use std::time::Duration;
use tokio::net::TcpStream;
use tokio::task::JoinSet;

/// How long one address may take before the next is tried beside it.
const STAGGER: Duration = Duration::from_millis(300);
/// How long all of them together may take.
const PATIENCE: Duration = Duration::from_secs(15);

pub(crate) async fn connect(addresses: &[SocketAddr]) -> Result<TcpStream, Reason> {
    match tokio::time::timeout(PATIENCE, race(addresses)).await {
        Ok(Ok(stream)) => {
            // Bytes are passed on as they come; waiting for more to go with them is the sender's business.
            let _ = stream.set_nodelay(true);
            Ok(stream)
        }
        Ok(Err(error)) => Err(reason(&error)),
        Err(_) => Err(Reason::TimedOut),
    }
}

async fn race(addresses: &[SocketAddr]) -> io::Result<TcpStream> {
    // The usual case needs no tasks.
    if let [only] = addresses {
        return TcpStream::connect(only).await;
    }
    let mut attempts = JoinSet::new();
    let mut waiting = addresses.iter().copied();
    let mut first_error = None;
    loop {
        if let Some(address) = waiting.next() {
            attempts.spawn(TcpStream::connect(address));
        }
        let more = waiting.len() > 0;
        let ended = tokio::select! {
            ended = attempts.join_next() => ended,
            () = tokio::time::sleep(STAGGER), if more => continue,
        };
        match ended {
            Some(Ok(Ok(stream))) => return Ok(stream),
            Some(Ok(Err(error))) => drop(first_error.get_or_insert(error)),
            Some(Err(error)) => drop(first_error.get_or_insert(io::Error::other(error))),
            None if !more => {
                return Err(first_error.unwrap_or_else(|| ErrorKind::AddrNotAvailable.into()));
            }
            None => {}
        }
    }
}

fn reason(error: &io::Error) -> Reason {
    match error.kind() {
        ErrorKind::ConnectionRefused | ErrorKind::ConnectionReset => Reason::ConnectionRefused,
        ErrorKind::TimedOut => Reason::TimedOut,
        _ => Reason::Unreachable,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::Ipv4Addr;
    use tokio::net::TcpListener;

    #[tokio::test]
    async fn the_first_address_that_answers_is_used() {
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        let there = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap();
        let address = there.local_addr().unwrap();
        let stream = connect(&[gone, address]).await.unwrap();
        assert_eq!(stream.peer_addr().unwrap(), address);
    }

    #[tokio::test]
    async fn when_nobody_answers_the_reason_is_told() {
        let gone = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await.unwrap().local_addr().unwrap();
        assert_eq!(connect(&[gone]).await.unwrap_err(), Reason::ConnectionRefused);
        assert_eq!(connect(&[gone, gone]).await.unwrap_err(), Reason::ConnectionRefused);
        assert_eq!(connect(&[]).await.unwrap_err(), Reason::Unreachable);
    }
}
