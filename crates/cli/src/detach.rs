//! Finds the detach keys in what is typed, and passes everything else on.
//!
//! Invariants:
//! - How the input is cut into pieces does not matter.
//! - The first key is held back until the next one decides; followed by itself it is passed on once, followed by
//!   anything else both are passed on.
//! - A program inside may have asked the terminal for longer forms of keys (the kitty protocol, modifyOtherKeys, as
//!   agents do). The keys are recognised in those, too.
//! - Inside a bracketed paste nothing is a key.
//!
//! The beginning of an escape sequence is held back as well, since only its end tells which key it is. A lone Escape
//! looks the same: whoever feeds the matcher calls [`Matcher::settle`] when nothing has followed for a moment.

use palisade_config::{DetachKeys, Key};

const ESCAPE: u8 = 0x1b;
const PASTE_END: &[u8] = b"\x1b[201~";
/// No key has a longer sequence.
const LONGEST: usize = 48;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Stay,
    /// Whatever was typed behind the keys is dropped.
    Detach,
}

#[derive(Debug)]
pub(crate) struct Matcher {
    keys: DetachKeys,
    /// The first key as it came, while the next one is awaited.
    held: Vec<u8>,
    state: State,
}

#[derive(Debug, PartialEq, Eq)]
enum State {
    Ground,
    /// From an Escape on, as long as it may be a key.
    Sequence(Vec<u8>),
    /// The rest of a sequence that is none: a mouse report, an answer of the terminal.
    Foreign,
    /// So many bytes of an old mouse report, which may be anything.
    Mouse(u8),
    /// In a paste, with so much of its end seen.
    Paste(usize),
}

/// What a unit of input is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Unit {
    Press(Press),
    OtherKey,
    /// Not typed, or the release of a key: does not come between the two keys.
    Neutral,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Press {
    character: u32,
    /// What the key gives with shift, where the terminal says so.
    shifted: Option<u32>,
    shift: bool,
    control: bool,
}

impl Press {
    fn is(self, key: Key) -> bool {
        let (control, wanted) = match key {
            Key::Control(character) => (true, u32::from(character)),
            Key::Plain(character) => (false, u32::from(character)),
        };
        let character = if self.shift { self.shifted } else { Some(self.character) };
        self.control == control && character == Some(wanted)
    }
}

impl Matcher {
    pub(crate) fn new(keys: DetachKeys) -> Self {
        Self { keys, held: Vec::new(), state: State::Ground }
    }

    /// Takes input, and appends to `pass` what is to be passed on.
    pub(crate) fn feed(&mut self, input: &[u8], pass: &mut Vec<u8>) -> Verdict {
        for &byte in input {
            if self.step(byte, pass) == Verdict::Detach {
                return Verdict::Detach;
            }
        }
        Verdict::Stay
    }

    /// Whether [`settle`](Self::settle) would do anything.
    pub(crate) fn is_unsettled(&self) -> bool {
        matches!(self.state, State::Sequence(_))
    }

    /// Nothing has followed: what looked like the beginning of a sequence is the key Escape.
    pub(crate) fn settle(&mut self, pass: &mut Vec<u8>) {
        if let State::Sequence(bytes) = std::mem::replace(&mut self.state, State::Ground) {
            // No detach key begins with Escape.
            let _ = self.unit(Unit::OtherKey, &bytes, pass);
        }
    }

    fn step(&mut self, byte: u8, pass: &mut Vec<u8>) -> Verdict {
        match std::mem::replace(&mut self.state, State::Ground) {
            State::Ground if byte == ESCAPE => {
                self.state = State::Sequence(vec![ESCAPE]);
                Verdict::Stay
            }
            State::Ground => self.unit(of_byte(byte, self.keys), &[byte], pass),
            State::Sequence(bytes) => self.continue_sequence(bytes, byte, pass),
            State::Foreign => {
                pass.push(byte);
                if !(0x40..=0x7e).contains(&byte) {
                    self.state = State::Foreign;
                }
                Verdict::Stay
            }
            State::Mouse(left) => {
                pass.push(byte);
                if left > 1 {
                    self.state = State::Mouse(left - 1);
                }
                Verdict::Stay
            }
            State::Paste(seen) => {
                pass.push(byte);
                // The first byte of the end occurs nowhere else in it.
                let seen = if PASTE_END[seen] == byte { seen + 1 } else { usize::from(byte == ESCAPE) };
                if seen < PASTE_END.len() {
                    self.state = State::Paste(seen);
                }
                Verdict::Stay
            }
        }
    }

    fn continue_sequence(&mut self, mut bytes: Vec<u8>, byte: u8, pass: &mut Vec<u8>) -> Verdict {
        if byte == ESCAPE {
            self.state = State::Sequence(vec![ESCAPE]);
            return self.unit(Unit::OtherKey, &bytes, pass);
        }
        bytes.push(byte);
        if bytes.len() == 2 && byte != b'[' {
            return self.unit(Unit::OtherKey, &bytes, pass);
        }
        match byte {
            _ if bytes.len() == 2 => self.state = State::Sequence(bytes),
            b'0'..=b'9' | b':' | b';' if bytes.len() < LONGEST => self.state = State::Sequence(bytes),
            0x40..=0x7e => return self.complete(&bytes, pass),
            _ => {
                self.state = State::Foreign;
                return self.unit(Unit::Neutral, &bytes, pass);
            }
        }
        Verdict::Stay
    }

    fn complete(&mut self, bytes: &[u8], pass: &mut Vec<u8>) -> Verdict {
        match bytes {
            b"\x1b[200~" => {
                let verdict = self.unit(Unit::OtherKey, bytes, pass);
                self.state = State::Paste(0);
                verdict
            }
            b"\x1b[M" => {
                self.state = State::Mouse(3);
                self.unit(Unit::Neutral, bytes, pass)
            }
            _ => self.unit(of_sequence(bytes), bytes, pass),
        }
    }

    fn unit(&mut self, unit: Unit, bytes: &[u8], pass: &mut Vec<u8>) -> Verdict {
        let is = |key: Key| matches!(unit, Unit::Press(press) if press.is(key));
        if unit == Unit::Neutral {
            pass.extend_from_slice(bytes);
        } else if self.held.is_empty() {
            match is(self.keys.first) {
                true => self.held.extend_from_slice(bytes),
                false => pass.extend_from_slice(bytes),
            }
        } else if is(self.keys.second) {
            self.held.clear();
            return Verdict::Detach;
        } else {
            pass.append(&mut self.held);
            if !is(self.keys.first) {
                pass.extend_from_slice(bytes);
            }
        }
        Verdict::Stay
    }
}

fn of_byte(byte: u8, keys: DetachKeys) -> Unit {
    // Which character a control byte stands for is not known, only that it is one of the two keys'.
    let found = [keys.first, keys.second].into_iter().find(|key| key.byte() == byte);
    match found {
        Some(Key::Control(character)) => {
            let character = u32::from(character);
            Unit::Press(Press { character, shifted: None, shift: false, control: true })
        }
        Some(Key::Plain(character)) => {
            let character = u32::from(character);
            Unit::Press(Press { character, shifted: None, shift: false, control: false })
        }
        None => Unit::OtherKey,
    }
}

/// `ESC [ character:shifted:base ; modifiers:event ; text u`, `ESC [ 27 ; modifiers ; character ~`, and the many
/// others, of which only the event counts.
fn of_sequence(bytes: &[u8]) -> Unit {
    const RELEASE: u32 = 3;
    let (Some(body), Some(end)) = (bytes.get(2..bytes.len() - 1), bytes.last()) else {
        return Unit::OtherKey;
    };
    let Ok(text) = std::str::from_utf8(body) else { return Unit::OtherKey };
    let field = |index: usize, part: usize| -> Option<u32> {
        text.split(';').nth(index)?.split(':').nth(part)?.parse().ok()
    };
    if field(1, 1) == Some(RELEASE) || (body.is_empty() && matches!(end, b'I' | b'O')) {
        return Unit::Neutral;
    }
    match (end, field(0, 0)) {
        (b'u', Some(character)) if is_modifier(character) => Unit::Neutral,
        (b'u', Some(character)) => press(character, field(0, 1), field(1, 0)),
        (b'~', Some(27)) => match field(2, 0) {
            Some(character) => press(character, Some(character), field(1, 0)),
            None => Unit::OtherKey,
        },
        _ => Unit::OtherKey,
    }
}

/// The keys that only change others, which terminals report when asked for every key.
fn is_modifier(character: u32) -> bool {
    matches!(character, 57_358..=57_360 | 57_441..=57_454)
}

fn press(character: u32, shifted: Option<u32>, modifiers: Option<u32>) -> Unit {
    const SHIFT: u32 = 1;
    const CONTROL: u32 = 4;
    const LOCKS: u32 = 64 | 128;
    let modifiers = modifiers.unwrap_or(1).saturating_sub(1) & !LOCKS;
    if modifiers & !(SHIFT | CONTROL) != 0 {
        return Unit::OtherKey;
    }
    let (shift, control) = (modifiers & SHIFT != 0, modifiers & CONTROL != 0);
    Unit::Press(Press { character, shifted, shift, control })
}

#[cfg(test)]
mod tests;
