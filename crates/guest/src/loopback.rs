//! Brings the loopback interface up in a fresh network namespace, where it starts down.

#![allow(unsafe_code, reason = "interface flags are only reachable by ioctl on a C structure")]

use rustix::net::{AddressFamily, SocketFlags, SocketType};
use std::io;
use std::os::fd::AsRawFd;

pub(crate) fn bring_up() -> io::Result<()> {
    let socket =
        rustix::net::socket_with(AddressFamily::INET, SocketType::DGRAM, SocketFlags::CLOEXEC, None)?;
    // SAFETY: the structure is plain data, for which all zeroes are valid.
    let mut request: libc::ifreq = unsafe { std::mem::zeroed() };
    for (to, from) in request.ifr_name.iter_mut().zip(b"lo") {
        *to = *from as libc::c_char;
    }
    // SAFETY: the descriptor is open and the request a valid, terminated name.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCGIFFLAGS, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    // SAFETY: the call above filled in the flags.
    let flags = unsafe { request.ifr_ifru.ifru_flags };
    let up = (libc::IFF_UP | libc::IFF_RUNNING) as libc::c_short;
    if flags & libc::IFF_UP as libc::c_short != 0 {
        return Ok(());
    }
    request.ifr_ifru.ifru_flags = flags | up;
    // SAFETY: as above, with flags set.
    if unsafe { libc::ioctl(socket.as_raw_fd(), libc::SIOCSIFFLAGS, &raw mut request) } < 0 {
        return Err(io::Error::last_os_error());
    }
    Ok(())
}
