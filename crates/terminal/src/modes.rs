//! The modes of a terminal that outlast the program which set them.

use crate::keyboard::Keyboard;
use crate::sequence::{Parser, Sequence};
use std::io::Write;

/// The private modes we follow, and whether a terminal begins with them on. Those that lead to the other screen come
/// first: it is entered before everything else is repeated.
const PRIVATE: [(u16, bool); 26] = [
    (47, false),
    (1047, false),
    (1049, false),
    // Cursor keys, reverse video, origin, wrapping, cursor.
    (1, false),
    (5, false),
    (6, false),
    (7, true),
    (25, true),
    // Keypad, left and right margins.
    (66, false),
    (69, false),
    // Mouse, focus, scrolling.
    (9, false),
    (1000, false),
    (1001, false),
    (1002, false),
    (1003, false),
    (1004, false),
    (1005, false),
    (1006, false),
    (1007, false),
    (1015, false),
    (1016, false),
    // Bracketed paste, held updates, grapheme clusters, reports of colours and of sizes.
    (2004, false),
    (2026, false),
    (2027, false),
    (2031, false),
    (2048, false),
];
/// How many of them lead to the other screen.
const SCREENS: usize = 3;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub struct Modes {
    parser: Parser,
    /// One bit for each private mode that is not as it was in the beginning.
    changed: u32,
    insert: bool,
    keypad: bool,
    /// Another character set than ASCII: the final byte that selected it, or zero.
    charset: u8,
    shifted_out: bool,
    margins: bool,
    styled: bool,
    cursor_style: u8,
    /// xterm's modifyOtherKeys.
    other_keys: u8,
    /// Of the main screen and of the other one.
    keyboards: [Keyboard; 2],
}

impl Modes {
    /// Follows output.
    pub fn see(&mut self, output: &[u8]) {
        for &byte in output {
            self.step(byte);
        }
    }

    pub fn step(&mut self, byte: u8) {
        let mut parser = self.parser;
        if let Some(sequence) = parser.step(byte) {
            self.apply(sequence);
        }
        self.parser = parser;
    }

    /// Whether a terminal that has seen everything so far is not in the middle of a sequence or a character.
    pub fn between_characters(&self) -> bool {
        self.parser.between_characters()
    }

    pub fn on_other_screen(&self) -> bool {
        self.changed & ((1 << SCREENS) - 1) != 0
    }

    fn apply(&mut self, sequence: Sequence<'_>) {
        match sequence {
            Sequence::Byte(0x0e) => self.shifted_out = true,
            Sequence::Byte(0x0f) => self.shifted_out = false,
            Sequence::Byte(_) => {}
            Sequence::Escape(None, b'=') => self.keypad = true,
            Sequence::Escape(None, b'>') => self.keypad = false,
            Sequence::Escape(None, b'c') => *self = Self::default(),
            Sequence::Escape(Some(b'('), set) => self.charset = if set == b'B' { 0 } else { set },
            Sequence::Escape(..) => {}
            Sequence::Control(body, end) => self.control(body, end),
        }
    }

    fn control(&mut self, body: &[u8], end: u8) {
        let (mark, numbers) = match body.split_first() {
            Some((mark @ b'<'..=b'?', numbers)) => (*mark, numbers),
            _ => (0, body),
        };
        let number = |index| parameter(numbers, index);
        match (mark, end) {
            (b'?', b'h' | b'l') => {
                for text in numbers.split(|&byte| byte == b';') {
                    self.private(parse(text).unwrap_or(0), end == b'h');
                }
            }
            (0, b'h' | b'l') if number(0) == Some(4) => self.insert = end == b'h',
            (0, b'm') => self.styled = !matches!(numbers, b"" | b"0"),
            (b'>', b'm') if number(0) == Some(4) => self.other_keys = number(1).unwrap_or(0) as u8,
            (0, b'r') => self.margins = !numbers.is_empty(),
            (0, b'q') if numbers.ends_with(b" ") => {
                self.cursor_style = parse(&numbers[..numbers.len() - 1]).unwrap_or(0) as u8;
            }
            (b'>', b'u') => self.keyboard().push(number(0).unwrap_or(0) as u8),
            (b'<', b'u') => self.keyboard().pop(usize::from(number(0).unwrap_or(1))),
            (b'=', b'u') => self.keyboard().set(number(0).unwrap_or(0) as u8, number(1).unwrap_or(1)),
            (0, b'p') if numbers == b"!" => self.soft_reset(),
            _ => {}
        }
    }

    fn private(&mut self, mode: u16, on: bool) {
        if let Some(index) = PRIVATE.iter().position(|(known, _)| *known == mode) {
            let bit = 1 << index;
            if on == PRIVATE[index].1 {
                self.changed &= !bit;
            } else {
                self.changed |= bit;
            }
        }
    }

    fn keyboard(&mut self) -> &mut Keyboard {
        let index = usize::from(self.on_other_screen());
        &mut self.keyboards[index]
    }

    fn soft_reset(&mut self) {
        for mode in [1, 6, 66] {
            self.private(mode, false);
        }
        self.private(25, true);
        *self = Self {
            insert: false,
            keypad: false,
            charset: 0,
            shifted_out: false,
            margins: false,
            styled: false,
            ..*self
        };
    }

    /// What brings a terminal back to where it was before any of the output; nothing when that changed nothing.
    pub fn undo(&self) -> Vec<u8> {
        const CANCEL: u8 = 0x18;
        let mut out = Vec::new();
        if !self.between_characters() {
            out.push(CANCEL);
        }
        if self.on_other_screen() {
            self.keyboards[1].undo(&mut out);
        }
        // Back on the main screen last, so that nothing else is undone there that was done on the other one.
        for (mode, initially) in self.changed_modes().rev() {
            switch(mode, initially, &mut out);
        }
        self.keyboards[0].undo(&mut out);
        let simple: [(bool, &[u8]); 8] = [
            (self.margins, b"\x1b7\x1b[r\x1b8"),
            (self.insert, b"\x1b[4l"),
            (self.keypad, b"\x1b>"),
            (self.charset != 0, b"\x1b(B"),
            (self.shifted_out, b"\x0f"),
            (self.styled, b"\x1b[0m"),
            (self.cursor_style != 0, b"\x1b[0 q"),
            (self.other_keys != 0, b"\x1b[>4;0m"),
        ];
        simple.iter().filter(|(needed, _)| *needed).for_each(|(_, text)| out.extend_from_slice(text));
        out
    }

    /// What brings a fresh terminal to where this one is, but for margins and colours, which belong to what is shown.
    pub fn redo(&self) -> Vec<u8> {
        let mut out = Vec::new();
        self.keyboards[0].redo(&mut out);
        for (mode, initially) in self.changed_modes() {
            switch(mode, !initially, &mut out);
        }
        if self.on_other_screen() {
            self.keyboards[1].redo(&mut out);
        }
        // Writing to memory does not fail.
        if self.insert {
            out.extend_from_slice(b"\x1b[4h");
        }
        if self.keypad {
            out.extend_from_slice(b"\x1b=");
        }
        if self.charset != 0 {
            out.extend_from_slice(&[0x1b, b'(', self.charset]);
        }
        if self.shifted_out {
            out.push(0x0e);
        }
        if self.cursor_style != 0 {
            let _ = write!(out, "\x1b[{} q", self.cursor_style);
        }
        if self.other_keys != 0 {
            let _ = write!(out, "\x1b[>4;{}m", self.other_keys);
        }
        out
    }

    /// Those that are not as they were, with what they were.
    fn changed_modes(&self) -> impl DoubleEndedIterator<Item = (u16, bool)> {
        let changed = self.changed;
        PRIVATE
            .into_iter()
            .enumerate()
            .filter(move |(index, _)| changed & (1 << index) != 0)
            .map(|(_, mode)| mode)
    }
}

fn switch(mode: u16, on: bool, out: &mut Vec<u8>) {
    // Writing to memory does not fail.
    let _ = write!(out, "\x1b[?{mode}{}", if on { 'h' } else { 'l' });
}

fn parameter(numbers: &[u8], index: usize) -> Option<u16> {
    parse(numbers.split(|&byte| byte == b';').nth(index)?)
}

fn parse(text: &[u8]) -> Option<u16> {
    std::str::from_utf8(text).ok()?.parse().ok()
}

#[cfg(test)]
mod tests;
