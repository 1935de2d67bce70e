//! The recent output of a terminal, bounded, addressed by its position in all the output there ever was.
//!
//! What is replayed to a terminal must not begin inside an escape sequence or a character, so the bytes that
//! fall out of the ring pass through a small scanner that knows where sequences end.

use std::collections::VecDeque;

pub(crate) const CAPACITY: usize = 256 * 1024;

#[derive(Debug, Default)]
pub(crate) struct Scrollback {
    bytes: VecDeque<u8>,
    /// The position of the oldest byte kept.
    start: u64,
    /// What a terminal would be in the middle of, having seen everything before `start`.
    scanner: Scanner,
}

impl Scrollback {
    pub(crate) fn start(&self) -> u64 {
        self.start
    }

    pub(crate) fn end(&self) -> u64 {
        self.start + self.bytes.len() as u64
    }

    /// `data` must be shorter than the capacity, as every read is.
    pub(crate) fn push(&mut self, data: &[u8]) {
        let surplus = (self.bytes.len() + data.len()).saturating_sub(CAPACITY).min(self.bytes.len());
        for byte in self.bytes.drain(..surplus) {
            self.scanner.step(byte);
        }
        self.start += surplus as u64;
        self.bytes.extend(data);
    }

    /// The oldest position from which output makes sense on a fresh terminal: the beginning of everything, else
    /// of a line, else of anything that is not the inside of a sequence.
    pub(crate) fn safe_start(&self) -> u64 {
        if self.start == 0 {
            return 0;
        }
        let mut scanner = self.scanner;
        let mut first = None;
        for (position, byte) in (self.start..).zip(&self.bytes) {
            if scanner.between_characters() && first.is_none() {
                first = Some(position);
            }
            scanner.step(*byte);
            if *byte == b'\n' && scanner.between_characters() {
                return position + 1;
            }
        }
        first.unwrap_or(self.end())
    }

    /// What is kept from `position` on, up to where the ring wraps; empty at the end.
    pub(crate) fn from(&self, position: u64) -> &[u8] {
        let offset = position.saturating_sub(self.start) as usize;
        let (front, back) = self.bytes.as_slices();
        match front.get(offset..) {
            Some(rest) if !rest.is_empty() => rest,
            _ => back.get(offset.saturating_sub(front.len())..).unwrap_or_default(),
        }
    }

    /// Gives back what will not be needed once nothing more comes.
    pub(crate) fn close(&mut self) {
        self.bytes.shrink_to_fit();
    }
}

/// As much of a terminal's parser as it takes to know the boundaries.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
enum Scanner {
    #[default]
    Ground,
    /// Inside a character of so many more bytes.
    Character(u8),
    Escape,
    /// `ESC [ …` up to its final byte.
    Control,
    /// `ESC ] …`, `ESC P …` and their like, up to a bell or a terminator.
    Text,
    TextEscape,
}

const BELL: u8 = 0x07;
/// The bytes that cancel any sequence.
const CANCEL: u8 = 0x18;
const SUBSTITUTE: u8 = 0x1a;
const ESCAPE: u8 = 0x1b;

impl Scanner {
    fn between_characters(self) -> bool {
        self == Scanner::Ground
    }

    fn step(&mut self, byte: u8) {
        use Scanner::{Character, Control, Escape, Ground, Text, TextEscape};
        *self = match (*self, byte) {
            (Character(1), 0x80..=0xbf) => Ground,
            (Character(left), 0x80..=0xbf) => Character(left - 1),
            (Text | TextEscape, BELL) | (_, CANCEL | SUBSTITUTE) => Ground,
            (Text, ESCAPE) => TextEscape,
            (Text, _) => Text,
            (_, ESCAPE) => Escape,
            (TextEscape, b'\\') => Ground,
            (Escape | TextEscape, b'[') => Control,
            (Escape | TextEscape, b']' | b'P' | b'_' | b'^' | b'X') => Text,
            (Escape | TextEscape, 0x20..=0x2f) => Escape,
            (Control, 0x00..=0x3f) => Control,
            (_, 0xc2..=0xdf) => Character(1),
            (_, 0xe0..=0xef) => Character(2),
            (_, 0xf0..=0xf4) => Character(3),
            _ => Ground,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all_from(scrollback: &Scrollback, mut position: u64) -> Vec<u8> {
        let mut all = Vec::new();
        while position < scrollback.end() {
            let piece = scrollback.from(position);
            all.extend_from_slice(piece);
            position += piece.len() as u64;
        }
        all
    }

    /// A ring that has lost its first `lost` bytes of `text`, and holds the rest.
    fn after_losing(lost: usize, text: &[u8]) -> Scrollback {
        let mut scrollback = Scrollback::default();
        scrollback.push(text);
        for _ in 0..2 {
            // Fills what is left with one long line, to push exactly `lost` bytes out.
            let room = CAPACITY - scrollback.bytes.len();
            scrollback.push(&vec![b'.'; if room > 0 { room } else { lost }]);
        }
        assert_eq!(scrollback.start(), lost as u64);
        scrollback
    }

    #[test]
    fn while_nothing_was_lost_everything_is_replayed() {
        let mut scrollback = Scrollback::default();
        scrollback.push(b"no newline yet");
        assert_eq!((scrollback.safe_start(), all_from(&scrollback, 0)), (0, b"no newline yet".to_vec()));
    }

    #[test]
    fn after_a_loss_the_replay_begins_with_a_whole_line() {
        let scrollback = after_losing(2, b"first\nsecond");
        assert!(all_from(&scrollback, scrollback.safe_start()).starts_with(b"second"));
    }

    #[test]
    fn without_a_line_it_begins_behind_the_sequence_or_character_that_was_cut() {
        for text in [
            "\u{1b}[38;5;17mred".as_bytes(),
            "\u{1b}]0;title\u{7}red".as_bytes(),
            "\u{1b}]8;;x\ny\u{1b}\\red".as_bytes(),
            "\u{1b}Pq\n\nsixel\u{1b}\\red".as_bytes(),
            "\u{1b}(Bred".as_bytes(),
            "\u{20ac}red".as_bytes(),
            "\u{1f980}red".as_bytes(),
        ] {
            for lost in 1..text.len() - 3 {
                let scrollback = after_losing(lost, text);
                let replayed = all_from(&scrollback, scrollback.safe_start());
                assert!(replayed.starts_with(b"red"), "{text:?} without its first {lost} bytes");
            }
        }
    }

    #[test]
    fn memory_stays_within_the_capacity_and_positions_go_on() {
        let mut scrollback = Scrollback::default();
        for _ in 0..100 {
            scrollback.push(&[b'x'; 65_536]);
        }
        assert_eq!((scrollback.end(), scrollback.bytes.len()), (6_553_600, CAPACITY));
        assert_eq!(scrollback.start(), 6_553_600 - CAPACITY as u64);
    }
}
