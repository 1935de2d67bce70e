//! Puts the terminal back when this program was killed and can't.
//!
//! A second process, this program again under a hidden command, waits at the other end of a pipe. It is told what to
//! write whenever that changes. When the pipe ends without a dismissal, it writes that and puts the line back, unless
//! somebody else (a shell that noticed the death first) has taken the terminal over by then. It holds nothing but the
//! pipe and the terminal, and is gone with the end of whoever started it.

use super::same_line;
use crate::{OK, Status};
use rustix::termios::{
    ControlModes, InputModes, LocalModes, OptionalActions, OutputModes, SpecialCodeIndex, Termios, tcgetattr,
    tcsetattr,
};
use std::io::{Read, Write};
use std::os::fd::AsFd;
use std::os::unix::process::CommandExt;
use std::process::{Child, ChildStdin, Command, Stdio};

/// Instead of a length: there is nothing left to do.
const DISMISSED: u16 = u16::MAX;

#[derive(Debug)]
pub(crate) struct Watch {
    child: Child,
    pipe: ChildStdin,
}

impl Watch {
    /// `None` where no process can be started: then there is no watch, and all else works.
    pub(super) fn start(original: &Termios) -> Option<Self> {
        let program = std::env::current_exe().ok()?;
        let line = rustix::stdio::stdin().try_clone_to_owned().ok()?;
        let mut command = Command::new(program);
        command.arg(crate::arguments::WATCH).args(words(original)).env_clear().current_dir("/");
        // In a group of its own, so that what is meant for this program does not end the watch as well.
        command.process_group(0).stdin(Stdio::piped()).stdout(Stdio::inherit()).stderr(line);
        let mut child = command.spawn().ok()?;
        let pipe = child.stdin.take()?;
        Some(Self { child, pipe })
    }

    /// What to write in the end, from now on.
    pub(super) fn tell(&mut self, undo: &[u8]) {
        let Some(length) = u16::try_from(undo.len()).ok().filter(|length| *length != DISMISSED) else {
            return;
        };
        let mut message = length.to_be_bytes().to_vec();
        message.extend_from_slice(undo);
        // A watch that is gone can't be told.
        let _ = self.pipe.write_all(&message);
    }

    /// All is done. No trace of the watch is left afterwards, and it is not waited for until it has even begun.
    pub(super) fn dismiss(mut self) {
        let _ = self.pipe.write_all(&DISMISSED.to_be_bytes());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// Leaves it to the watch, without waiting.
    pub(super) fn let_go(self) {
        drop(self.pipe);
    }
}

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    input: u32,
    output: u32,
    control: u32,
    local: u32,
    least: u8,
    time: u8,
}

/// What raw mode changes of a line's attributes; the rest stays as it is.
fn words(line: &Termios) -> [String; 6] {
    [
        line.input_modes.bits().to_string(),
        line.output_modes.bits().to_string(),
        line.control_modes.bits().to_string(),
        line.local_modes.bits().to_string(),
        line.special_codes[SpecialCodeIndex::VMIN].to_string(),
        line.special_codes[SpecialCodeIndex::VTIME].to_string(),
    ]
}

impl Arguments {
    fn on(&self, line: &Termios) -> Termios {
        let mut line = line.clone();
        line.input_modes = InputModes::from_bits_retain(self.input);
        line.output_modes = OutputModes::from_bits_retain(self.output);
        line.control_modes = ControlModes::from_bits_retain(self.control);
        line.local_modes = LocalModes::from_bits_retain(self.local);
        line.special_codes[SpecialCodeIndex::VMIN] = self.least;
        line.special_codes[SpecialCodeIndex::VTIME] = self.time;
        line
    }
}

/// The watch itself: the pipe is its standard input, the terminal to write to its standard output, and the one whose
/// line it puts back its standard error.
pub(crate) fn run(arguments: &Arguments) -> Status {
    // It is never in the foreground, and must not be stopped for writing.
    palisade_host::descriptors::ignore_stops_for_writing();
    let mut pipe = std::io::stdin().lock();
    let mut undo = Vec::new();
    let mut length = [0; 2];
    while pipe.read_exact(&mut length).is_ok() {
        let length = u16::from_be_bytes(length);
        if length == DISMISSED {
            return OK;
        }
        let mut text = vec![0; usize::from(length)];
        if pipe.read_exact(&mut text).is_ok() {
            undo = text;
        }
    }
    let line = rustix::stdio::stderr();
    if let Ok(now) = tcgetattr(line.as_fd()) {
        let original = arguments.on(&now);
        let mut raw = original.clone();
        raw.make_raw();
        if same_line(&now, &raw) {
            let _ = tcsetattr(line, OptionalActions::Now, &original);
        }
    }
    super::show(&undo);
    OK
}
