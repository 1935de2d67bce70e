//! Which TCP ports somebody listens on in here, told now and whenever that changes.

use crate::stream::{Progress, Shared, Stream};
use palisade_protocol::message::accepted_frame;
use palisade_protocol::{Report, StreamId};
use rustix::event::PollFd;
use std::collections::BTreeSet;
use std::time::{Duration, Instant};

/// How often to look; the kernel offers no event for it without privileges.
const INTERVAL: Duration = Duration::from_millis(500);
/// The state of a listening socket, as /proc writes it.
const LISTEN: &str = "0A";

/// The ports as last seen, for everybody who watches: the kernel takes its time to list them.
#[derive(Debug, Default)]
pub(crate) struct Ports {
    ports: BTreeSet<u16>,
    seen: Option<Instant>,
}

impl Ports {
    fn at(&mut self, now: Instant) -> &BTreeSet<u16> {
        // A little less than the interval, so that two watchers with nearly the same beat share one look.
        if self.seen.is_none_or(|seen| now.duration_since(seen) >= INTERVAL / 2) {
            self.ports = ["/proc/net/tcp", "/proc/net/tcp6"]
                .iter()
                .filter_map(|table| std::fs::read_to_string(table).ok())
                .flat_map(|table| listening(&table).collect::<Vec<_>>())
                .collect();
            self.seen = Some(now);
        }
        &self.ports
    }
}

#[derive(Debug)]
pub(crate) struct Listeners {
    told: Option<BTreeSet<u16>>,
    next: Instant,
}

impl Listeners {
    pub(crate) fn new(now: Instant) -> Self {
        Self { told: None, next: now }
    }
}

impl Stream for Listeners {
    fn interests<'a>(&'a self, _congested: bool, _into: &mut Vec<PollFd<'a>>) {}

    fn always_due(&self) -> bool {
        true
    }

    fn due(&self) -> Option<Instant> {
        Some(self.next)
    }

    fn progress(&mut self, stream: StreamId, shared: &mut Shared) -> Progress {
        let now = Instant::now();
        if now < self.next || shared.link.congested() {
            return Progress::Open;
        }
        self.next = now + INTERVAL;
        let egress = shared.egress.as_ref();
        let ours = |port: &u16| egress.is_some_and(|egress| egress.listens_on(*port));
        let ports: BTreeSet<u16> = shared.ports.at(now).iter().copied().filter(|port| !ours(port)).collect();
        if self.told.is_none() {
            shared.link.send(&accepted_frame(stream));
        }
        if self.told.as_ref() != Some(&ports) {
            shared.link.send(&Report::Listeners(ports.iter().copied().collect()).frame(stream));
            self.told = Some(ports);
        }
        Progress::Open
    }
}

/// `number: address:port remote:port state …`, in hexadecimal, after a line of titles.
fn listening(table: &str) -> impl Iterator<Item = u16> {
    table.lines().skip(1).filter_map(|line| {
        let mut fields = line.split_ascii_whitespace().skip(1);
        let (_, port) = fields.next()?.rsplit_once(':')?;
        (fields.nth(1)? == LISTEN).then(|| u16::from_str_radix(port, 16).ok()).flatten()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_sockets_that_listen_are_found() {
        let table = "  sl  local_address rem_address   st tx_queue\n\
                        0: 0100007F:1F90 00000000:0000 0A 00000000:00000000\n\
                        1: 0100007F:1F91 0100007F:0016 01 00000000:00000000\n\
                        2: 00000000000000000000000001000000:0BB8 00000000000000000000000000000000:0000 0A\n";
        assert_eq!(listening(table).collect::<Vec<_>>(), [8080, 3000]);
        assert_eq!(listening("").collect::<Vec<_>>(), Vec::<u16>::new());
    }
}
