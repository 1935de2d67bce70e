//! Descriptors that whoever started us left open are nobody's business further down.
#![allow(unsafe_code, reason = "close_range(2) and signal(2), which neither std nor rustix offers")]

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
    fn a_descriptor_without_the_flag_gets_it() {
        let file = std::fs::File::open("/dev/null").unwrap();
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).unwrap();
        keep_to_ourselves().unwrap();
        assert!(file.as_raw_fd() >= 3);
        assert_eq!(rustix::io::fcntl_getfd(&file).unwrap(), rustix::io::FdFlags::CLOEXEC);
    }
}
