//! One line on the terminal that says what is under way, and goes when that is done. Elsewhere only results are told.

use crate::output;
use std::io::IsTerminal;

#[derive(Debug)]
pub(crate) struct MovingLine {
    terminal: bool,
    /// What is on the screen and has no end yet.
    shown: Option<String>,
}

impl MovingLine {
    pub(crate) fn new() -> Self {
        Self { terminal: std::io::stderr().is_terminal(), shown: None }
    }

    pub(crate) fn show(&mut self, line: String) {
        if self.terminal && self.shown.as_ref() != Some(&line) {
            output::moving(&line);
            self.shown = Some(line);
        }
    }

    /// Takes it off the screen.
    pub(crate) fn clear(&mut self) {
        if self.shown.take().is_some() {
            output::moving("");
        }
    }
}

impl Drop for MovingLine {
    fn drop(&mut self) {
        self.clear();
    }
}
