//! From an inherited process to a clean one: the stream to the host is the only thing kept.

use crate::arguments::{Arguments, Endpoint};
use crate::bridge::Bridgehead;
use crate::guest::Guest;
use crate::link::Link;
use crate::spawn::Spawner;
use crate::{loopback, system};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd, RawFd};

pub(crate) fn prepare(arguments: &Arguments) -> io::Result<Guest> {
    // Opened while the process is still dumpable: afterwards its files in /proc belong to root.
    let spawner = Spawner::open();
    // Others with our user id may not attach to us, read our memory or take our descriptors.
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    let (input, output) = take_stream(arguments.endpoint)?;
    for end in [&input, &output] {
        let flags = rustix::fs::fcntl_getfl(end)?;
        rustix::fs::fcntl_setfl(end, flags | OFlags::NONBLOCK)?;
    }
    system::silence_standard()?;
    close_others([input.as_raw_fd(), output.as_raw_fd()].into_iter().chain(spawner.descriptor()).collect());
    let signals = system::take_signals()?;
    rustix::process::umask(Mode::from_raw_mode(0o022));
    rustix::process::chdir("/")?;
    if arguments.subreaper {
        rustix::process::set_child_subreaper(Some(rustix::process::getpid()))?;
    }
    // A sandbox without loopback is of less use, but it is a sandbox.
    let _ = loopback::bring_up();
    let bridgehead = match arguments.bridge {
        true => Some(Bridgehead::open()?),
        false => None,
    };
    Ok(Guest::new(Link::new(input, output), signals, spawner, arguments.on_eof, bridgehead))
}

/// Waits until the host is there, or gone. Podman starts a container again, without a word of how it ended, when somebody
/// attaches to it too late.
pub(crate) fn wait_for_host(endpoint: Endpoint) {
    let Ok((input, _output)) = take_stream(endpoint) else { return };
    let mut ready = [PollFd::new(&input, PollFlags::IN)];
    while poll(&mut ready, None) == Err(Errno::INTR) {}
}

/// Both directions of the stream, away from the standard descriptors and not for children.
fn take_stream(endpoint: Endpoint) -> io::Result<(OwnedFd, OwnedFd)> {
    let away = |fd: &OwnedFd| rustix::io::fcntl_dupfd_cloexec(fd, 3);
    match endpoint {
        Endpoint::Inherited(number) => {
            let fd = system::inherited(number)?;
            let both = (away(&fd)?, away(&fd)?);
            // The numbers 0 to 2 are about to be replaced, not closed.
            if number <= 2 {
                let _ = std::os::fd::IntoRawFd::into_raw_fd(fd);
            }
            Ok(both)
        }
        Endpoint::Stdio => {
            let input = rustix::io::fcntl_dupfd_cloexec(io::stdin().as_fd(), 3)?;
            let output = rustix::io::fcntl_dupfd_cloexec(io::stdout().as_fd(), 3)?;
            Ok((input, output))
        }
    }
}

fn close_others(mut kept: Vec<RawFd>) {
    kept.sort_unstable();
    let mut next = 3;
    for fd in kept {
        system::close_range(next, fd - 1);
        next = fd + 1;
    }
    system::close_range(next, RawFd::MAX);
}
