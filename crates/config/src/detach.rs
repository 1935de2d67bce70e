//! The two keys that leave an attached terminal while what runs there goes on.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;

/// A key as people name it: `ctrl-\`, `d`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Key {
    /// With the control key; the character in lower case.
    Control(u8),
    /// A printable character of ASCII.
    Plain(u8),
}

impl Key {
    /// The byte that a terminal sends for it, unless a program has asked for longer forms.
    pub fn byte(self) -> u8 {
        match self {
            Key::Control(character) => character & 0x1f,
            Key::Plain(character) => character,
        }
    }
}

/// First a key that is held back, then the one that decides. The first one twice is the first one, typed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct DetachKeys {
    pub first: Key,
    pub second: Key,
}

impl Default for DetachKeys {
    /// Agents, editors, shells and multiplexers leave this pair alone.
    fn default() -> Self {
        Self { first: Key::Control(b'\\'), second: Key::Plain(b'd') }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct InvalidKeys(String);

fn refuse<T>(reason: impl Into<String>) -> Result<T, InvalidKeys> {
    Err(InvalidKeys(reason.into()))
}

impl FromStr for Key {
    type Err = InvalidKeys;

    fn from_str(text: &str) -> Result<Self, InvalidKeys> {
        match (text.strip_prefix("ctrl-"), text.as_bytes()) {
            (None, [character @ 0x21..=0x7e]) => Ok(Key::Plain(*character)),
            (Some(named), _) => match named.as_bytes() {
                [b'i' | b'I' | b'm' | b'M' | b'['] => {
                    refuse(format!("'{text}' is what Tab, Enter or Escape sends; write another key"))
                }
                [character @ (b'a'..=b'z' | b'A'..=b'Z' | b'\\' | b']' | b'^' | b'_' | b'@')] => {
                    Ok(Key::Control(character.to_ascii_lowercase()))
                }
                _ => refuse(format!(
                    "'{}' is no key; with ctrl- go a to z and \\ ] ^ _ @",
                    text.escape_debug()
                )),
            },
            _ => refuse(format!("'{}' is no key; write ctrl-X or one character", text.escape_debug())),
        }
    }
}

impl FromStr for DetachKeys {
    type Err = InvalidKeys;

    fn from_str(text: &str) -> Result<Self, InvalidKeys> {
        let Some((first, second)) = text.split_once(',') else {
            return refuse(format!(
                "'{}' is not two keys; write both with a comma between",
                text.escape_debug()
            ));
        };
        let (first, second): (Key, Key) = (first.trim().parse()?, second.trim().parse()?);
        match first {
            Key::Plain(_) => {
                refuse(format!("'{first}' is typed all the time; write ctrl-X for the first key"))
            }
            Key::Control(_) if first == second => refuse(
                "has the same key twice, which is how that key itself is typed; write two different ones",
            ),
            Key::Control(_) => Ok(Self { first, second }),
        }
    }
}

impl fmt::Display for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Key::Control(character) => write!(f, "ctrl-{}", char::from(*character)),
            Key::Plain(character) => write!(f, "{}", char::from(*character)),
        }
    }
}

impl fmt::Display for DetachKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{},{}", self.first, self.second)
    }
}

impl Serialize for DetachKeys {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_read_as_people_write_them() {
        for (text, first, second) in [
            (r"ctrl-\,d", Key::Control(b'\\'), Key::Plain(b'd')),
            ("ctrl-p, ctrl-q", Key::Control(b'p'), Key::Control(b'q')),
            ("ctrl-A,D", Key::Control(b'a'), Key::Plain(b'D')),
            ("ctrl-^,,", Key::Control(b'^'), Key::Plain(b',')),
        ] {
            assert_eq!(text.parse(), Ok(DetachKeys { first, second }), "{text}");
        }
        assert_eq!(
            (Key::Control(b'\\').byte(), Key::Control(b'a').byte(), Key::Plain(b'd').byte()),
            (0x1c, 1, b'd')
        );
        assert_eq!(DetachKeys::default().to_string().parse(), Ok(DetachKeys::default()));
    }

    #[test]
    fn what_cannot_be_a_detach_key_is_refused_with_the_reason() {
        let reason = |text: &str| text.parse::<DetachKeys>().unwrap_err().to_string();
        assert_eq!(reason("ctrl-p"), "'ctrl-p' is not two keys; write both with a comma between");
        assert_eq!(reason("a,b"), "'a' is typed all the time; write ctrl-X for the first key");
        assert_eq!(reason("ctrl-[,d"), "'ctrl-[' is what Tab, Enter or Escape sends; write another key");
        assert_eq!(reason("ctrl-1,d"), "'ctrl-1' is no key; with ctrl- go a to z and \\ ] ^ _ @");
        assert_eq!(reason("ctrl-p,esc"), "'esc' is no key; write ctrl-X or one character");
        assert_eq!(reason("ctrl-p,\u{7}"), r"'\u{7}' is no key; write ctrl-X or one character");
        assert!(reason("ctrl-p,ctrl-p").starts_with("has the same key twice"));
    }
}
