//! A thin seam over the few system calls that have no safe wrapper. Nothing here decides anything.

#![allow(unsafe_code, reason = "fork, exec, signals and raw descriptors have no safe form")]

use rustix::fs::{Mode, OFlags};
use rustix::process::Pid;
use std::ffi::{CStr, CString};
use std::io;
use std::os::fd::{AsFd, AsRawFd, BorrowedFd, FromRawFd, IntoRawFd, OwnedFd, RawFd};

/// The signals that the loop reads from its signal descriptor instead of being interrupted by them.
const READ_SIGNALS: [i32; 2] = [libc::SIGCHLD, libc::SIGTERM];
/// The signals of a terminal the guest may share with its host, and of a host that went away: not ours to die of.
const IGNORED_SIGNALS: [i32; 5] = [libc::SIGPIPE, libc::SIGINT, libc::SIGHUP, libc::SIGQUIT, libc::SIGTSTP];
const LAST_SIGNAL: i32 = 64;

fn check(result: i32) -> io::Result<i32> {
    if result < 0 { Err(io::Error::last_os_error()) } else { Ok(result) }
}

/// Takes over a descriptor that was inherited under a known number.
pub(crate) fn inherited(number: RawFd) -> io::Result<OwnedFd> {
    // SAFETY: F_GETFD only asks whether the descriptor is open.
    check(unsafe { libc::fcntl(number, libc::F_GETFD) })?;
    // SAFETY: it is open, and nothing else in this program knows about it.
    Ok(unsafe { OwnedFd::from_raw_fd(number) })
}

/// A write to a pipe without a reader fails, and ends nothing. Programs that this one starts begin with the default again.
pub(crate) fn ignore_broken_pipes() {
    // SAFETY: no handler is installed, and no thread runs yet.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

/// Closes every descriptor from `first` to `last`, both included.
pub(crate) fn close_range(first: RawFd, last: RawFd) {
    if first > last {
        return;
    }
    // SAFETY: called only with ranges that no owned descriptor lies in.
    if unsafe { libc::close_range(first as u32, last as u32, 0) } == 0 {
        return;
    }
    // Kernels before 5.9 do not have the call; what was inherited has small numbers.
    for number in first..=last.min(first.saturating_add(4096)) {
        // SAFETY: as above; closing a number that is not open does nothing.
        unsafe { libc::close(number) };
    }
}

/// Points a standard descriptor at `fd`.
pub(crate) fn replace_standard(fd: BorrowedFd<'_>, standard: RawFd) -> io::Result<()> {
    // SAFETY: numbers 0 to 2 are owned by nobody in this program.
    check(unsafe { libc::dup2(fd.as_raw_fd(), standard) }).map(drop)
}

/// Points all of them at nothing.
pub(crate) fn silence_standard() -> io::Result<()> {
    let null = rustix::fs::open("/dev/null", OFlags::RDWR | OFlags::CLOEXEC, Mode::empty())?;
    for standard in 0..=2 {
        replace_standard(null.as_fd(), standard)?;
    }
    // Where 0 to 2 were not open at all, the null device itself landed on one of them and has to stay.
    if null.as_raw_fd() <= 2 {
        let _ = null.into_raw_fd();
    }
    Ok(())
}

/// Who is at the other end of a local socket, as of when it connected. The number is 0 for a process that has none in
/// this pid namespace, which is why no safe wrapper's type will do.
pub(crate) fn peer(socket: BorrowedFd<'_>) -> io::Result<libc::ucred> {
    let mut peer = libc::ucred { pid: 0, uid: 0, gid: 0 };
    let mut length = size_of::<libc::ucred>() as libc::socklen_t;
    // SAFETY: the structure is ours and as long as said.
    check(unsafe {
        libc::getsockopt(
            socket.as_raw_fd(),
            libc::SOL_SOCKET,
            libc::SO_PEERCRED,
            (&raw mut peer).cast(),
            &raw mut length,
        )
    })?;
    Ok(peer)
}

/// Ignores what must not end the guest, blocks what it reads, and gives the descriptor to read that from.
pub(crate) fn take_signals() -> io::Result<OwnedFd> {
    for signal in IGNORED_SIGNALS {
        // SAFETY: ignoring a signal installs no handler.
        unsafe { libc::signal(signal, libc::SIG_IGN) };
    }
    // SAFETY: an all-zero set is valid memory, and sigemptyset makes it a valid set.
    let mut set: libc::sigset_t = unsafe { std::mem::zeroed() };
    // SAFETY: the set is ours, the signal numbers are valid.
    unsafe {
        libc::sigemptyset(&raw mut set);
        for signal in READ_SIGNALS {
            libc::sigaddset(&raw mut set, signal);
        }
    }
    // SAFETY: the set is initialised; the old mask is not asked for.
    check(unsafe { libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut()) })?;
    // SAFETY: the set is initialised; the new descriptor is ours.
    let fd = check(unsafe { libc::signalfd(-1, &raw const set, libc::SFD_CLOEXEC | libc::SFD_NONBLOCK) })?;
    // SAFETY: signalfd just made it.
    Ok(unsafe { OwnedFd::from_raw_fd(fd) })
}

/// Default dispositions and an empty mask, as every program expects to start.
pub(crate) fn reset_signals() {
    // The kernel's own structure, all zeroes: the default disposition. The C library would leave out the two
    // signals it uses itself, which whoever started us may have ignored.
    let default = [0u64; 8];
    for signal in 1..=LAST_SIGNAL {
        // SAFETY: the memory is longer than the structure; no handler is installed; the old one is not asked for.
        unsafe {
            libc::syscall(libc::SYS_rt_sigaction, signal, default.as_ptr(), 0, size_of::<u64>());
        }
    }
    // SAFETY: an all-zero set is valid memory, made a valid empty set, and used for nothing else.
    unsafe {
        let mut set: libc::sigset_t = std::mem::zeroed();
        libc::sigemptyset(&raw mut set);
        libc::sigprocmask(libc::SIG_SETMASK, &raw const set, std::ptr::null_mut());
    }
}

/// `None` in the child.
pub(crate) fn fork() -> io::Result<Option<Pid>> {
    // SAFETY: the guest has one thread, so the child's copy of memory is consistent.
    let pid = check(unsafe { libc::fork() })?;
    Ok(Pid::from_raw(pid))
}

/// Ends a child without running anything that belongs to its parent.
pub(crate) fn exit_now(code: u8) -> ! {
    // SAFETY: ends the process, nothing more.
    unsafe { libc::_exit(i32::from(code)) }
}

/// Replaces this process; returns only with the reason why not.
pub(crate) fn execute(path: &CStr, argv: &[CString], env: &[CString]) -> i32 {
    let pointers = |strings: &[CString]| -> Vec<*const libc::c_char> {
        strings.iter().map(|string| string.as_ptr()).chain([std::ptr::null()]).collect()
    };
    let (argv, env) = (pointers(argv), pointers(env));
    // SAFETY: both are null-terminated arrays of strings that outlive the call.
    unsafe { libc::execve(path.as_ptr(), argv.as_ptr(), env.as_ptr()) };
    io::Error::last_os_error().raw_os_error().unwrap_or(libc::EIO)
}

/// `kill(2)`: a process, a group when negative, or with -1 everything there is.
pub(crate) fn kill(target: i32, signal: i32) -> io::Result<()> {
    // SAFETY: takes two numbers.
    check(unsafe { libc::kill(target, signal) }).map(drop)
}
