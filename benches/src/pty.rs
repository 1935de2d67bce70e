//! A terminal of our own, to see what a person would see and when.

use crate::comparison::Result;
use crate::failure::Failure;
use crate::program::Program;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt};
use rustix::termios::{Winsize, tcsetwinsize};
use std::fs::File;
use std::io::{Read, Write};
use std::process::Child;
use std::time::{Duration, Instant};

/// Far more than any screen takes.
const PATIENCE: Duration = Duration::from_secs(20);

/// A program on a terminal.
#[derive(Debug)]
pub(crate) struct OnTerminal<'a> {
    program: &'a Program,
    screen: File,
    child: Option<Child>,
    shown: Vec<u8>,
}

impl<'a> OnTerminal<'a> {
    pub(crate) fn start(program: &'a Program) -> Result<Self> {
        let io =
            |error: rustix::io::Errno| Failure::Io { what: "make a terminal".into(), source: error.into() };
        let screen = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(io)?;
        grantpt(&screen).and_then(|()| unlockpt(&screen)).map_err(io)?;
        // Without a size, a program that draws a screen draws nothing.
        tcsetwinsize(&screen, Winsize { ws_row: 40, ws_col: 120, ws_xpixel: 0, ws_ypixel: 0 }).map_err(io)?;
        let name = ptsname(&screen, Vec::new()).map_err(io)?;
        let name = name.to_string_lossy().into_owned();
        let side = || {
            let file = File::options().read(true).write(true).open(&name);
            file.map_err(Failure::io(format!("open {name}")))
        };
        let child = program
            .command()
            .env("TERM", "xterm-256color")
            .stdin(side()?)
            .stdout(side()?)
            .stderr(side()?)
            .spawn()
            .map_err(Failure::io(format!("start {program}")))?;
        Ok(Self { program, screen: screen.into(), child: Some(child), shown: Vec::new() })
    }

    /// Waits until something is shown.
    pub(crate) fn wait_for(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        let mut buffer = [0u8; 4096];
        while !self.shown.windows(text.len()).any(|window| window == text.as_bytes()) {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
            let ready = poll(&mut [PollFd::new(&self.screen, PollFlags::IN)], Some(&left))
                .map_err(|error| Failure::Io { what: "watch the terminal".into(), source: error.into() })?;
            if ready == 0 {
                return Err(Failure::Hangs { command: self.program.to_string(), patience: PATIENCE });
            }
            let count = self.screen.read(&mut buffer).map_err(Failure::io("read the terminal"))?;
            self.shown.extend_from_slice(&buffer[..count]);
        }
        Ok(())
    }

    /// Types something, and waits for the program's end.
    pub(crate) fn end_with(mut self, keys: &[u8]) -> Result<()> {
        self.screen.write_all(keys).map_err(Failure::io("type"))?;
        match self.child.take() {
            Some(child) => self.program.end(child, PATIENCE).map(drop),
            None => Ok(()),
        }
    }
}

impl Drop for OnTerminal<'_> {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            let _ = child.kill();
            let _ = child.wait();
        }
    }
}
