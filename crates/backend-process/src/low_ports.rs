//! Lets a sandbox's guest listen on ports below 1024 of its own network, where names are called on 22, 53, 80, 443.
//!
//! The guest has no capability, and bwrap cannot give it one that counts: the network belongs to a user namespace
//! above the guest's own. The kernel's own setting does it, for that one network namespace; whoever made the namespace
//! may write it, from inside.
#![allow(unsafe_code, reason = "fork, setns and an ioctl on a namespace, which std cannot do")]

use rustix::fd::{AsFd, AsRawFd, FromRawFd, OwnedFd};
use rustix::process::{Pid, WaitOptions};
use std::fs::File;
use std::io;
use std::os::unix::fs::MetadataExt;

const SETTING: &std::ffi::CStr = c"/proc/sys/net/ipv4/ip_unprivileged_port_start";
/// The user namespace that a namespace belongs to.
const NS_GET_USERNS: libc::c_ulong = 0xb701;

/// `guest` is the host's number of a process in the sandbox's network.
pub(crate) fn open(guest: u32) -> io::Result<()> {
    let network = File::open(format!("/proc/{guest}/ns/net"))?;
    let (own, theirs) = (std::fs::metadata("/proc/self/ns/net")?, network.metadata()?);
    if (own.dev(), own.ino()) == (theirs.dev(), theirs.ino()) {
        return Err(io::Error::other("the sandbox has no network of its own"));
    }
    let owner = owner_of(&network)?;
    // SAFETY: the child only makes system calls, which is safe in a copy of a threaded process, and leaves by `_exit`.
    match unsafe { libc::fork() } {
        -1 => Err(io::Error::last_os_error()),
        0 => {
            let code = write_inside(owner.as_raw_fd(), network.as_raw_fd());
            // SAFETY: ends this copy at once.
            unsafe { libc::_exit(code) }
        }
        pid => {
            let ended = rustix::process::waitpid(Pid::from_raw(pid), WaitOptions::empty())?;
            match ended.and_then(|(_, status)| status.exit_status()) {
                Some(0) => Ok(()),
                Some(code) => Err(io::Error::from_raw_os_error(code)),
                None => Err(io::Error::other("the helper was killed")),
            }
        }
    }
}

fn owner_of(namespace: impl AsFd) -> io::Result<OwnedFd> {
    // SAFETY: the descriptor is open; the call takes no argument and gives a new descriptor.
    let number = unsafe { libc::ioctl(namespace.as_fd().as_raw_fd(), NS_GET_USERNS) };
    if number < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// In the child: system calls only. The number of the error, or zero.
fn write_inside(owner: i32, network: i32) -> i32 {
    // SAFETY: plain numbers and a static string; nothing is allocated.
    unsafe {
        // Root of all namespaces may do without the first, and others cannot do without it.
        if libc::setns(owner, libc::CLONE_NEWUSER) < 0 && libc::geteuid() != 0 {
            return *libc::__errno_location();
        }
        if libc::setns(network, libc::CLONE_NEWNET) < 0 {
            return *libc::__errno_location();
        }
        let file = libc::open(SETTING.as_ptr(), libc::O_WRONLY | libc::O_CLOEXEC);
        if file < 0 {
            return *libc::__errno_location();
        }
        if libc::write(file, c"0".as_ptr().cast(), 1) < 0 {
            return *libc::__errno_location();
        }
    }
    0
}
