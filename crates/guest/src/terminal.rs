//! A pseudo-terminal. The guest holds its other side open as long as the command lives, so that a command which
//! closes its terminal for a moment does not look like one that ended.

use palisade_protocol::Size;
use rustix::pty::OpenptFlags;
use rustix::termios::Winsize;
use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};

/// What may still be read from a terminal after its command ended: more than the kernel buffers.
pub(crate) const LEFT_BEHIND: usize = 256 * 1024;

#[derive(Debug)]
pub(crate) struct Terminal {
    master: OwnedFd,
    slave: OwnedFd,
}

impl Terminal {
    pub(crate) fn open(size: Size) -> io::Result<Self> {
        let master = rustix::pty::openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC)?;
        rustix::pty::unlockpt(&master)?;
        let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
        let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags)?;
        crate::spawn::set_nonblocking(&master)?;
        let terminal = Self { master, slave };
        terminal.resize(size);
        Ok(terminal)
    }

    /// Another descriptor of the side that the command uses.
    pub(crate) fn command_side(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.slave, 3)?)
    }

    /// Another descriptor of the side that the guest reads and writes.
    pub(crate) fn guest_side(&self) -> io::Result<OwnedFd> {
        Ok(rustix::io::fcntl_dupfd_cloexec(&self.master, 3)?)
    }

    pub(crate) fn resize(&self, size: Size) {
        let size = Winsize { ws_row: size.rows, ws_col: size.columns, ws_xpixel: 0, ws_ypixel: 0 };
        // A terminal accepts every size; one that is gone needs none.
        let _ = rustix::termios::tcsetwinsize(&self.master, size);
    }

    /// The process group in the foreground.
    pub(crate) fn foreground(&self) -> Option<i32> {
        rustix::termios::tcgetpgrp(&self.master).ok().map(|group| group.as_raw_nonzero().get())
    }
}

impl AsFd for Terminal {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.master.as_fd()
    }
}
