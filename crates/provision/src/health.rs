//! The health gate: asks the sandbox's service over HTTP until it answers with success, or time is up.
//!
//! What answers is a port of the host's loopback, on IPv4 or IPv6. The engine accepts connections for a container that
//! does not listen yet, so only an answer counts. The stack stays up whatever comes of it, for inspection.

use crate::stack::{ContainerState, FailedService, ServiceState, Stack};
use palisade_core::{Diagnostic, ErrorCode, ExitCode};
use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::TcpStream;
use tokio::time::{Instant, timeout};

/// A service that is fast is let through at once; one that is slow is not pestered.
const FIRST_PAUSE: Duration = Duration::from_millis(20);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);
/// An answer that takes longer is asked for again.
const ONE_ANSWER: Duration = Duration::from_secs(5);
/// How often the containers are looked at.
const LOOK: Duration = Duration::from_secs(2);
/// As much of an answer as holds its first line.
const MOST_HEAD: u64 = 4096;

/// What is asked, and for how long.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct HealthGate {
    pub port: u16,
    /// Begins with `/`.
    pub endpoint: String,
    pub timeout: Duration,
}

/// What came of asking once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Attempt {
    /// Nobody listens.
    Refused,
    /// Connected, but no answer came: the engine listens, the service does not.
    Silent,
    /// What came is not HTTP.
    NotHttp,
    Status(u16),
}

/// How the wait goes on. Told when something changes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HealthProgress {
    Attempt {
        attempt: Attempt,
        after: Duration,
    },
    /// The containers whose state is not that of the last look.
    Services(Vec<ServiceState>),
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum HealthError {
    #[error("{url} was not healthy within {} seconds: {last}", .patience.as_secs())]
    TimedOut { url: String, patience: Duration, last: Attempt, services: Vec<FailedService> },
    #[error("{url} will not become healthy: its service has ended")]
    Ended { url: String, services: Vec<FailedService> },
}

impl HealthGate {
    /// As a person asks for it.
    pub fn url(&self) -> String {
        format!("http://localhost:{}{}", self.port, self.endpoint)
    }

    /// Asks once, first on IPv4, then on IPv6.
    pub async fn ask(&self) -> Attempt {
        let mut first = Attempt::Refused;
        for address in
            [SocketAddr::from((Ipv4Addr::LOCALHOST, self.port)), (Ipv6Addr::LOCALHOST, self.port).into()]
        {
            let attempt = timeout(ONE_ANSWER, self.ask_at(address)).await.unwrap_or(Attempt::Silent);
            if attempt.is_success() {
                return attempt;
            }
            if first == Attempt::Refused {
                first = attempt;
            }
        }
        first
    }

    async fn ask_at(&self, address: SocketAddr) -> Attempt {
        let Ok(mut connection) = TcpStream::connect(address).await else { return Attempt::Refused };
        let request = format!(
            "GET {} HTTP/1.1\r\nHost: localhost:{}\r\nUser-Agent: palisade\r\nAccept: */*\r\nConnection: close\r\n\r\n",
            self.endpoint, self.port
        );
        if connection.write_all(request.as_bytes()).await.is_err() {
            return Attempt::Silent;
        }
        let (mut head, mut buffer) = (Vec::new(), [0; 512]);
        while !head.contains(&b'\n') && (head.len() as u64) < MOST_HEAD {
            match connection.read(&mut buffer).await {
                Ok(0) | Err(_) => break,
                Ok(read) => head.extend_from_slice(&buffer[..read]),
            }
        }
        if head.is_empty() {
            Attempt::Silent
        } else {
            status(&head).map_or(Attempt::NotHttp, Attempt::Status)
        }
    }

    /// Waits until the service answers with success, and tells how long that took.
    pub async fn wait(
        &self,
        stack: &Stack,
        mut progress: impl FnMut(HealthProgress),
    ) -> Result<Duration, HealthError> {
        let begin = Instant::now();
        let end = begin + self.timeout;
        let (mut pause, mut look) = (FIRST_PAUSE, begin + LOOK);
        let (mut last, mut seen) = (None, Vec::new());
        loop {
            let attempt = match tokio::time::timeout_at(end, self.ask()).await {
                Ok(attempt) if attempt.is_success() => return Ok(begin.elapsed()),
                Ok(attempt) => attempt,
                Err(_) => Attempt::Silent,
            };
            if last != Some(attempt) {
                progress(HealthProgress::Attempt { attempt, after: begin.elapsed() });
                last = Some(attempt);
            }
            let now = Instant::now();
            if now >= look
                && now < end
                && let Ok(Ok(states)) = tokio::time::timeout_at(end, stack.states()).await
            {
                let news: Vec<_> = states.iter().filter(|state| !seen.contains(*state)).cloned().collect();
                if !news.is_empty() {
                    progress(HealthProgress::Services(news));
                }
                if self.has_ended(&states) {
                    return Err(HealthError::Ended {
                        url: self.url(),
                        services: self.blame(stack, &states).await,
                    });
                }
                seen = states;
                look = Instant::now() + LOOK;
            }
            if Instant::now() + pause >= end {
                let states = stack.states().await.unwrap_or_default();
                let services = self.blame(stack, &states).await;
                return Err(HealthError::TimedOut {
                    url: self.url(),
                    patience: self.timeout,
                    last: attempt,
                    services,
                });
            }
            tokio::time::sleep(pause).await;
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    fn publishes(&self, state: &ServiceState) -> bool {
        state.ports.iter().any(|port| port.published == self.port)
    }

    /// Nothing publishes the port any more and something failed: waiting would not help.
    fn has_ended(&self, states: &[ServiceState]) -> bool {
        let may_come = |state: &ServiceState| {
            self.publishes(state)
                || matches!(state.state, ContainerState::Created | ContainerState::Restarting)
        };
        !states.is_empty() && !states.iter().any(may_come) && states.iter().any(ServiceState::has_failed)
    }

    /// The service behind the port, and every one that failed.
    async fn blame(&self, stack: &Stack, states: &[ServiceState]) -> Vec<FailedService> {
        let mut services: Vec<FailedService> = Vec::new();
        for state in states.iter().filter(|state| self.publishes(state) || state.has_failed()) {
            if services.iter().any(|known| known.service == state.service) {
                continue;
            }
            let lines = stack.last_lines(&state.service).await;
            services.push(FailedService { service: state.service.clone(), state: state.to_string(), lines });
        }
        services
    }
}

impl Attempt {
    /// A redirection is an answer of a service that works.
    pub(crate) fn is_success(self) -> bool {
        matches!(self, Attempt::Status(200..=399))
    }
}

impl fmt::Display for Attempt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Attempt::Refused => f.write_str("nothing listens on the port"),
            Attempt::Silent => f.write_str("the service does not answer"),
            Attempt::NotHttp => f.write_str("what answers is not HTTP"),
            Attempt::Status(code) => write!(f, "it answers with status {code}"),
        }
    }
}

/// From `HTTP/1.1 200 OK`.
fn status(head: &[u8]) -> Option<u16> {
    let line = std::str::from_utf8(head.split(|byte| *byte == b'\n').next()?).ok()?;
    let mut words = line.split_ascii_whitespace();
    words.next().filter(|version| version.starts_with("HTTP/"))?;
    words.next()?.parse().ok().filter(|code| (100..600).contains(code))
}

impl HealthError {
    pub fn services(&self) -> &[FailedService] {
        match self {
            Self::TimedOut { services, .. } | Self::Ended { services, .. } => services,
        }
    }
}

impl Diagnostic for HealthError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::TimedOut { .. } => "health-timeout",
            Self::Ended { .. } => "health-ended",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::TimedOut { .. } => ExitCode::Timeout,
            Self::Ended { .. } => ExitCode::Provisioning,
        }
    }

    fn hints(&self) -> Vec<String> {
        vec![
            "the services are still up; see what they say with: palisade sandbox logs".into(),
            "stop them, from the worktree, with: palisade sandbox stop".into(),
        ]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_status_is_read_from_the_first_line() {
        for (head, expected) in [
            (&b"HTTP/1.1 200 OK\r\nX: y\r\n"[..], Some(200)),
            (b"HTTP/1.0 503\r\n", Some(503)),
            (b"HTTP/2 204", Some(204)),
            (b"SSH-2.0-OpenSSH\r\n", None),
            (b"HTTP/1.1 9999 x", None),
            (b"\xff\xfe", None),
        ] {
            assert_eq!(status(head), expected);
        }
        assert!(Attempt::Status(204).is_success() && Attempt::Status(302).is_success());
        assert!(!Attempt::Status(404).is_success() && !Attempt::Status(500).is_success());
    }
}
