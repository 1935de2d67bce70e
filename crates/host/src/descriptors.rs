//! Descriptors that whoever started us left open: taken over when they are meant for us, and else nobody's business
//! further down.
#![allow(
    unsafe_code,
    reason = "close_range(2), signal(2) and inherited numbers, for which neither std nor rustix has a safe form"
)]

use std::os::fd::{FromRawFd, OwnedFd, RawFd};

/// A descriptor that we were given under a number, if it is open: a copy, which nobody else closes.
pub fn inherited(number: RawFd) -> std::io::Result<OwnedFd> {
    if number < 3 {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    // SAFETY: of a number that is not open, the kernel makes no copy; of one that is, the copy is ours alone.
    let copy = unsafe { libc::fcntl(number, libc::F_DUPFD_CLOEXEC, 3) };
    if copy < 0 {
        return Err(std::io::ErrorKind::NotFound.into());
    }
    // SAFETY: just made, and nobody else's.
    Ok(unsafe { OwnedFd::from_raw_fd(copy) })
}

/// Marks every descriptor but the standard three so that no program we start inherits it. Called once, first thing:
/// a keeper would hold a caller's locks and files for as long as its sandbox runs.
pub fn keep_to_ourselves() -> std::io::Result<()> {
    const FIRST: libc::c_int = 3;
    // SAFETY: it only sets a flag on descriptors; none is closed.
    let result =
        unsafe { libc::syscall(libc::SYS_close_range, FIRST, libc::c_int::MAX, libc::CLOSE_RANGE_CLOEXEC) };
    if result == 0 { Ok(()) } else { Err(std::io::Error::last_os_error()) }
}

/// As the runtime of every Rust program does before `main`.
pub fn ignore_broken_pipes() {
    // SAFETY: no handler is installed, the signal is only ignored.
    unsafe { libc::signal(libc::SIGPIPE, libc::SIG_IGN) };
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::fd::AsRawFd;

    #[test]
    fn only_an_open_descriptor_beyond_the_standard_three_is_taken_over() {
        let file = std::fs::File::open("/dev/null").unwrap();
        let copy = inherited(file.as_raw_fd()).unwrap();
        assert_ne!(copy.as_raw_fd(), file.as_raw_fd());
        assert_eq!(rustix::fs::fstat(&copy).unwrap().st_rdev, rustix::fs::fstat(&file).unwrap().st_rdev);
        for other in [-1, 0, 2, 1 << 20] {
            assert!(inherited(other).is_err(), "{other}");
        }
    }

    #[test]
    fn a_descriptor_without_the_flag_gets_it() {
        let file = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        keep_to_ourselves().unwrap();
        assert!(file.as_raw_fd() >= 3);
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), rustix::io::FdFlags::CLOEXEC);
    }
}
