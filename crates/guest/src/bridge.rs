//! Another way to the host, for an engine that closes a container's input for good when whoever was attached goes away.
//!
//! The host then has the engine start this very program once more in the container, as `bridge`. It hands its own input
//! and output to the first process, which goes on over these, and stays until that lets go of it.
//!
//! Invariant: only what was started from outside is a bridge. A process that enters a pid namespace has no parent in it,
//! and nothing inside can make itself such a one: whoever loses its parent gets the first process for one. Whoever else
//! connects is turned away, although it would gain nothing: it would command a guest that can do what it can do itself.

use crate::{processes, system};
use rustix::event::{PollFd, PollFlags};
use rustix::net::{
    AddressFamily, RecvAncillaryBuffer, RecvAncillaryMessage, RecvFlags, SendAncillaryBuffer,
    SendAncillaryMessage, SendFlags, SocketAddrUnix, SocketFlags, SocketType,
};
use std::io::{self, IoSlice, IoSliceMut};
use std::mem::MaybeUninit;
use std::os::fd::{AsFd, OwnedFd};

/// In the abstract namespace, which belongs to the sandbox's network: nothing of it is in a file system.
const NAME: &[u8] = b"palisade-bridge";
const BACKLOG: i32 = 16;
/// Input and output.
const ENDS: usize = 2;

/// Where bridges arrive.
#[derive(Debug)]
pub(crate) struct Bridgehead {
    listener: OwnedFd,
    /// One that is from outside and has not said anything yet.
    arriving: Option<OwnedFd>,
}

/// A way to the host.
#[derive(Debug)]
pub(crate) struct Bridge {
    pub(crate) input: OwnedFd,
    pub(crate) output: OwnedFd,
    /// Closed, it lets the process at its other end go.
    pub(crate) held: OwnedFd,
}

fn socket() -> io::Result<OwnedFd> {
    Ok(rustix::net::socket_with(AddressFamily::UNIX, SocketType::STREAM, SocketFlags::CLOEXEC, None)?)
}

impl Bridgehead {
    pub(crate) fn open() -> io::Result<Self> {
        let listener = socket()?;
        rustix::net::bind(&listener, &SocketAddrUnix::new_abstract_name(NAME)?)?;
        rustix::net::listen(&listener, BACKLOG)?;
        rustix::io::ioctl_fionbio(&listener, true)?;
        Ok(Self { listener, arriving: None })
    }

    pub(crate) fn interests<'a>(&'a self, mut wait: impl FnMut(PollFd<'a>)) {
        wait(PollFd::new(&self.listener, PollFlags::IN));
        self.arriving.iter().for_each(|arriving| wait(PollFd::new(arriving, PollFlags::IN)));
    }

    /// Takes in what has arrived; a bridge when one is complete.
    pub(crate) fn progress(&mut self) -> Option<Bridge> {
        while let Ok(peer) =
            rustix::net::accept_with(&self.listener, SocketFlags::CLOEXEC | SocketFlags::NONBLOCK)
        {
            if is_from_outside(&peer) {
                self.arriving = Some(peer);
            }
        }
        let arriving = self.arriving.take()?;
        match receive(&arriving) {
            Ok(Some((input, output))) => Some(Bridge { input, output, held: arriving }),
            Ok(None) => None,
            Err(rustix::io::Errno::AGAIN | rustix::io::Errno::INTR) => {
                self.arriving = Some(arriving);
                None
            }
            Err(_) => None,
        }
    }
}

fn is_from_outside(peer: &OwnedFd) -> bool {
    let Ok(peer) = system::peer(peer.as_fd()) else { return false };
    peer.uid == rustix::process::getuid().as_raw() && peer.pid > 1 && processes::parent(peer.pid) == Some(0)
}

/// Both descriptors, ready to be used without waiting; none when it sent something else.
fn receive(from: &OwnedFd) -> rustix::io::Result<Option<(OwnedFd, OwnedFd)>> {
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ENDS))];
    let mut ancillary = RecvAncillaryBuffer::new(&mut space);
    let mut byte = [0];
    rustix::net::recvmsg(
        from,
        &mut [IoSliceMut::new(&mut byte)],
        &mut ancillary,
        RecvFlags::CMSG_CLOEXEC | RecvFlags::DONTWAIT,
    )?;
    let mut ends = Vec::new();
    for message in ancillary.drain() {
        if let RecvAncillaryMessage::ScmRights(descriptors) = message {
            ends.extend(descriptors);
        }
    }
    let Ok([input, output]) = <[OwnedFd; ENDS]>::try_from(ends) else { return Ok(None) };
    for end in [&input, &output] {
        rustix::io::ioctl_fionbio(end, true)?;
    }
    Ok(Some((input, output)))
}

/// Becomes a bridge, until the first process has no use for it any more.
pub(crate) fn cross() -> io::Result<()> {
    rustix::process::set_dumpable_behavior(rustix::process::DumpableBehavior::NotDumpable)?;
    // A request to end that goes to everybody is not meant for what carries the last words.
    let _signals = system::take_signals()?;
    let guest = socket()?;
    rustix::net::connect(&guest, &SocketAddrUnix::new_abstract_name(NAME)?)?;
    let (input, output) = (io::stdin(), io::stdout());
    let ends = [input.as_fd(), output.as_fd()];
    let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(ENDS))];
    let mut ancillary = SendAncillaryBuffer::new(&mut space);
    if !ancillary.push(SendAncillaryMessage::ScmRights(&ends)) {
        return Err(io::Error::other("two descriptors do not fit into a message"));
    }
    rustix::net::sendmsg(&guest, &[IoSlice::new(&[0])], &mut ancillary, SendFlags::NOSIGNAL)?;
    system::silence_standard()?;
    loop {
        match rustix::io::read(&guest, &mut [0]) {
            Ok(0) => return Ok(()),
            Ok(_) | Err(rustix::io::Errno::INTR) => {}
            Err(error) => return Err(error.into()),
        }
    }
}
