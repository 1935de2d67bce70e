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
const PATIENCE: Duration = Duration::from_secs(60);
/// Rows and columns.
const SIZE: (u16, u16) = (40, 120);

/// A program on a terminal.
pub(crate) struct OnTerminal<'a> {
    program: &'a Program,
    terminal: File,
    child: Option<Child>,
    /// What is drawn: a program may move the cursor from word to word, so the bytes that it sends tell little.
    drawn: vt100::Parser,
}

impl<'a> OnTerminal<'a> {
    pub(crate) fn start(program: &'a Program) -> Result<Self> {
        let io =
            |error: rustix::io::Errno| Failure::Io { what: "make a terminal".into(), source: error.into() };
        let terminal = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY | OpenptFlags::CLOEXEC).map_err(io)?;
        grantpt(&terminal).and_then(|()| unlockpt(&terminal)).map_err(io)?;
        // Without a size, a program that draws a screen draws nothing.
        let (rows, columns) = SIZE;
        let size = Winsize { ws_row: rows, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&terminal, size).map_err(io)?;
        let name = ptsname(&terminal, Vec::new()).map_err(io)?;
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
        let drawn = vt100::Parser::new(rows, columns, 0);
        Ok(Self { program, terminal: terminal.into(), child: Some(child), drawn })
    }

    /// Waits until something is on the screen.
    pub(crate) fn wait_for(&mut self, text: &str) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        while !self.drawn.screen().contents().contains(text) {
            if !self.draw(deadline)? {
                return Err(Failure::Hangs { command: self.program.to_string(), patience: PATIENCE });
            }
        }
        Ok(())
    }

    /// Takes the next of what the program draws; false when nothing comes in time, or ever again.
    fn draw(&mut self, deadline: Instant) -> Result<bool> {
        let left = deadline.saturating_duration_since(Instant::now());
        let left = Timespec { tv_sec: left.as_secs() as i64, tv_nsec: i64::from(left.subsec_nanos()) };
        let ready = poll(&mut [PollFd::new(&self.terminal, PollFlags::IN)], Some(&left))
            .map_err(|error| Failure::Io { what: "watch the terminal".into(), source: error.into() })?;
        let mut buffer = [0u8; 4096];
        // A terminal that nobody has open any more is an error to read.
        let count = if ready == 0 { 0 } else { self.terminal.read(&mut buffer).unwrap_or(0) };
        self.drawn.process(&buffer[..count]);
        Ok(count > 0)
    }

    /// Types something, and waits for the program's end. What it draws meanwhile is taken, so that it need not wait.
    pub(crate) fn end_with(mut self, keys: &[u8]) -> Result<()> {
        let deadline = Instant::now() + PATIENCE;
        self.terminal.write_all(keys).map_err(Failure::io("type"))?;
        while self.draw(deadline)? {}
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
