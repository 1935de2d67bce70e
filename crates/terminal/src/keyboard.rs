//! The kitty keyboard protocol: each screen has a stack of flags.

use std::io::Write;

/// Terminals keep no more than a few, and drop the oldest.
const DEEPEST: usize = 8;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Keyboard {
    flags: u8,
    /// What the flags were before each push.
    below: [u8; DEEPEST],
    depth: usize,
}

impl Keyboard {
    pub(crate) fn push(&mut self, flags: u8) {
        if self.depth == DEEPEST {
            self.below.rotate_left(1);
            self.depth -= 1;
        }
        self.below[self.depth] = self.flags;
        self.depth += 1;
        self.flags = flags;
    }

    pub(crate) fn pop(&mut self, count: usize) {
        for _ in 0..count.min(DEEPEST) {
            match self.depth.checked_sub(1) {
                Some(depth) => {
                    self.depth = depth;
                    self.flags = std::mem::take(&mut self.below[depth]);
                }
                None => self.flags = 0,
            }
        }
    }

    pub(crate) fn set(&mut self, flags: u8, how: u16) {
        match how {
            1 => self.flags = flags,
            2 => self.flags |= flags,
            3 => self.flags &= !flags,
            _ => {}
        }
    }

    fn stack(&self) -> impl Iterator<Item = u8> {
        let below = self.below.into_iter().take(self.depth);
        below.chain([self.flags])
    }

    pub(crate) fn undo(&self, out: &mut Vec<u8>) {
        // Writing to memory does not fail.
        if self.depth > 0 {
            let _ = write!(out, "\x1b[<{}u", self.depth);
        }
        if self.stack().next() != Some(0) {
            out.extend_from_slice(b"\x1b[=0;1u");
        }
    }

    pub(crate) fn redo(&self, out: &mut Vec<u8>) {
        for (level, flags) in self.stack().enumerate() {
            if level > 0 {
                let _ = write!(out, "\x1b[>{flags}u");
            } else if flags != 0 {
                let _ = write!(out, "\x1b[={flags};1u");
            }
        }
    }
}
