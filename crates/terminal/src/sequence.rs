//! As much of a terminal's parser as it takes to know where sequences and characters begin and end.

const BELL: u8 = 0x07;
/// The bytes that cancel any sequence.
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESCAPE: u8 = 0x1b;

/// What comes between `ESC [` and the final byte; longer ones switch nothing that we follow.
const LONGEST: usize = 32;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum State {
    #[default]
    Ground,
    /// Inside a character of so many more bytes.
    Character(u8),
    Escape,
    /// `ESC` and this byte, which selects a character set or the like, up to its final byte.
    Intermediate(u8),
    /// `ESC [ …` up to its final byte.
    Control,
    /// `ESC ] …`, `ESC P …` and their like, up to a bell or a terminator.
    Text,
    TextEscape,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Parser {
    state: State,
    body: [u8; LONGEST],
    length: u8,
}

/// A sequence that is complete, or a single byte that switches something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sequence<'a> {
    /// `ESC`, perhaps one byte, and the final one.
    Escape(Option<u8>, u8),
    /// `ESC [`, what stands between, and the final byte.
    Control(&'a [u8], u8),
    Byte(u8),
}

impl Parser {
    pub(crate) fn between_characters(&self) -> bool {
        self.state == State::Ground
    }

    pub(crate) fn step(&mut self, byte: u8) -> Option<Sequence<'_>> {
        use State::{Character, Control, Escape, Ground, Intermediate, Text, TextEscape};
        let before = self.state;
        self.state = match (before, byte) {
            (Character(1), 0x80..=0xbf) => Ground,
            (Character(left), 0x80..=0xbf) => Character(left - 1),
            (Text | TextEscape, BELL) | (_, CANCEL | SUBSTITUTE) => Ground,
            (Text, ESCAPE) => TextEscape,
            (Text, _) => Text,
            (_, ESCAPE) => Escape,
            (TextEscape, b'\\') => Ground,
            (Escape | TextEscape, b'[') => {
                self.length = 0;
                Control
            }
            (Escape | TextEscape, b']' | b'P' | b'_' | b'^' | b'X') => Text,
            (Escape | TextEscape | Intermediate(_), 0x20..=0x2f) => Intermediate(byte),
            (Control, 0x00..=0x3f) => {
                self.keep(byte);
                Control
            }
            (_, 0xc2..=0xdf) => Character(1),
            (_, 0xe0..=0xef) => Character(2),
            (_, 0xf0..=0xf4) => Character(3),
            _ => Ground,
        };
        match (before, byte) {
            _ if self.state != Ground => None,
            (Escape | TextEscape, 0x30..=0x7e) => Some(Sequence::Escape(None, byte)),
            (Intermediate(first), 0x30..=0x7e) => Some(Sequence::Escape(Some(first), byte)),
            (Control, 0x40..=0x7e) => {
                let body = self.body.get(..usize::from(self.length))?;
                Some(Sequence::Control(body, byte))
            }
            (Ground, _) => Some(Sequence::Byte(byte)),
            _ => None,
        }
    }

    fn keep(&mut self, byte: u8) {
        if let Some(place) = self.body.get_mut(usize::from(self.length)) {
            *place = byte;
        }
        // Beyond the end, so that one that was cut is not taken for a whole one.
        self.length = self.length.saturating_add(1);
    }
}
