//! A person at a terminal: a program on a pseudo-terminal of its own, typed at and read by the test.
#![allow(unsafe_code, reason = "a new session with a terminal can only be made between fork and exec")]

use crate::PATIENCE;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use rustix::pty::OpenptFlags;
use rustix::termios::{Winsize, tcgetattr, tcsetwinsize};
use std::os::fd::OwnedFd;
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::process::{Child, Command};
use std::time::Instant;

#[derive(Debug)]
pub struct Pty {
    master: OwnedFd,
    /// Held, so that the terminal and its attributes outlive the program.
    slave: OwnedFd,
    child: Child,
    held: OwnedFd,
    original: String,
    seen: Vec<u8>,
    /// How much of `seen` has been waited for.
    read: usize,
}

impl Pty {
    /// Starts the command as the leader of a session on a new terminal of this size.
    pub fn start(command: &mut Command, rows: u16, columns: u16) -> Self {
        let (master, slave) = on_new_terminal(command, rows, columns);
        let original = attributes(&slave);
        let child = command.spawn().expect("the program starts");
        let pid = Pid::from_child(&child);
        let held = pidfd_open(pid, PidfdFlags::empty()).expect("hold the program");
        Self { master, slave, child, held, original, seen: Vec::new(), read: 0 }
    }

    pub fn type_keys(&self, keys: &str) {
        let mut left = keys.as_bytes();
        while !left.is_empty() {
            let written = rustix::io::write(&self.master, left).expect("type");
            left = &left[written..];
        }
    }

    /// Waits until `text` appears after what was waited for last; returns what came, up to its end.
    #[track_caller]
    pub fn wait_for(&mut self, text: &str) -> String {
        let deadline = Instant::now() + PATIENCE;
        loop {
            let new = &self.seen[self.read..];
            if let Some(at) = new.windows(text.len()).position(|window| window == text.as_bytes()) {
                let end = at + text.len();
                let found = String::from_utf8_lossy(&new[..end]).into_owned();
                self.read += end;
                return found;
            }
            let ready = self.step(deadline);
            assert!(ready != Ready::Nothing, "{text:?} did not appear; the screen: {}", self.screen());
            assert!(ready != Ready::Ended, "ended without {text:?}; the screen: {}", self.screen());
        }
    }

    /// Everything that was ever shown.
    pub fn screen(&self) -> String {
        String::from_utf8_lossy(&self.seen).into_owned()
    }

    /// Changes the size; the kernel tells the programs on the terminal.
    pub fn resize(&self, rows: u16, columns: u16) {
        tcsetwinsize(&self.master, size(rows, columns)).expect("set the size");
    }

    /// Whether the terminal's attributes are those it had before the program started.
    pub fn is_as_before(&self) -> bool {
        attributes(&self.slave) == self.original
    }

    pub fn signal(&self, signal: Signal) {
        pidfd_send_signal(&self.held, signal).expect("signal the program");
    }

    /// Waits for the program's end: its exit code, or minus the signal. The terminal stays.
    #[track_caller]
    pub fn wait(&mut self) -> i32 {
        let deadline = Instant::now() + PATIENCE;
        loop {
            match self.step(deadline) {
                Ready::Output => {}
                Ready::Nothing => panic!("it does not end; the screen: {}", self.screen()),
                Ready::Ended => break,
            }
        }
        let status = self.child.wait().expect("the program's end");
        status.code().or_else(|| status.signal().map(|signal| -signal)).expect("a code or a signal")
    }

    /// Takes one piece of output, or the end once there is none left.
    fn step(&mut self, deadline: Instant) -> Ready {
        let left = Timespec::try_from(deadline.saturating_duration_since(Instant::now())).ok();
        let mut waited = [PollFd::new(&self.master, PollFlags::IN), PollFd::new(&self.held, PollFlags::IN)];
        if poll(&mut waited, left.as_ref()).expect("wait for output") == 0 {
            return Ready::Nothing;
        }
        if waited[0].revents().is_empty() {
            return Ready::Ended;
        }
        let mut buffer = [0; 4096];
        let count = rustix::io::read(&self.master, &mut buffer).expect("read the terminal");
        self.seen.extend_from_slice(&buffer[..count]);
        Ready::Output
    }
}

/// Lets the command start as the leader of a session on a new terminal, whose two sides this gives.
pub(crate) fn on_new_terminal(command: &mut Command, rows: u16, columns: u16) -> (OwnedFd, OwnedFd) {
    let flags = OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC;
    let master = rustix::pty::openpt(flags).expect("a pseudo-terminal");
    rustix::pty::unlockpt(&master).expect("unlock the terminal");
    let slave = rustix::pty::ioctl_tiocgptpeer(&master, flags).expect("the terminal's other side");
    tcsetwinsize(&master, size(rows, columns)).expect("set the size");
    let side = || slave.try_clone().expect("another descriptor of the terminal");
    command.stdin(side()).stdout(side()).stderr(side());
    // SAFETY: both are plain system calls; nothing is allocated or locked between fork and exec.
    unsafe {
        command.pre_exec(|| {
            rustix::process::setsid()?;
            rustix::process::ioctl_tiocsctty(rustix::stdio::stdin())?;
            Ok(())
        });
    }
    (master, slave)
}

#[derive(Debug, PartialEq, Eq)]
enum Ready {
    Output,
    Ended,
    Nothing,
}

/// All of them, as text that can be compared.
fn attributes(terminal: &OwnedFd) -> String {
    format!("{:?}", tcgetattr(terminal).expect("the terminal's attributes"))
}

fn size(rows: u16, columns: u16) -> Winsize {
    Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 }
}

impl Drop for Pty {
    fn drop(&mut self) {
        // After a failed test the program may still run; after a good one it has ended already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
