//! A user namespace that exists only to describe an id mapping to the kernel.
#![allow(unsafe_code, reason = "clone(2) of a process into a new user namespace, which std cannot do")]

use rustix::fd::{AsRawFd, OwnedFd, RawFd};
use rustix::process::{Pid, Signal};
use std::io;

/// Files of one owner on disk appear as, and are created by, another.
#[derive(Debug)]
pub(crate) struct IdMap {
    namespace: OwnedFd,
}

impl IdMap {
    pub(crate) fn new(on_disk: (u32, u32), shown: (u32, u32)) -> io::Result<Self> {
        let parent = std::process::id();
        // The namespace needs a process to be born in; it waits until it is killed and does nothing else.
        // SAFETY: like fork; the child only makes system calls, which is safe in a copy of a threaded process.
        let pid = unsafe { libc::syscall(libc::SYS_clone, libc::CLONE_NEWUSER | libc::SIGCHLD, 0, 0, 0, 0) };
        match pid {
            -1 => return Err(io::Error::last_os_error()),
            0 => loop {
                // Whoever kills us must not leave it behind, not even before it has said so.
                // SAFETY: numbers only; `pause` returns only on a signal.
                unsafe {
                    libc::prctl(libc::PR_SET_PDEATHSIG, libc::SIGKILL);
                    if libc::getppid() as u32 != parent {
                        libc::_exit(0);
                    }
                    libc::pause();
                }
            },
            _ => {}
        }
        let describe = || -> io::Result<OwnedFd> {
            let line = |from: u32, to: u32| format!("{from} {to} 1\n");
            std::fs::write(format!("/proc/{pid}/uid_map"), line(on_disk.0, shown.0))?;
            std::fs::write(format!("/proc/{pid}/gid_map"), line(on_disk.1, shown.1))?;
            Ok(std::fs::File::open(format!("/proc/{pid}/ns/user"))?.into())
        };
        let namespace = describe();
        if let Some(child) = Pid::from_raw(pid as i32) {
            // The child is ours and unreaped, so the number cannot have passed to another.
            let _ = rustix::process::kill_process(child, Signal::KILL);
            let _ = rustix::process::waitpid(Some(child), rustix::process::WaitOptions::empty());
        }
        Ok(Self { namespace: namespace? })
    }
}

impl AsRawFd for IdMap {
    fn as_raw_fd(&self) -> RawFd {
        self.namespace.as_raw_fd()
    }
}
