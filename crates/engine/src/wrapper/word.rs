//! A word of a command line or a path in a record: text where it is text, and its bytes where it is not.

use serde::{Deserialize, Serialize};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub enum Word {
    Text(String),
    Bytes(Vec<u8>),
}

impl Word {
    /// For people: what is not text is replaced.
    pub fn lossy(&self) -> String {
        OsString::from(self.clone()).to_string_lossy().into_owned()
    }
}

impl From<&OsStr> for Word {
    fn from(word: &OsStr) -> Self {
        match word.to_str() {
            Some(text) => Self::Text(text.to_owned()),
            None => Self::Bytes(word.as_bytes().to_vec()),
        }
    }
}

impl From<Word> for OsString {
    fn from(word: Word) -> Self {
        match word {
            Word::Text(text) => text.into(),
            Word::Bytes(bytes) => OsString::from_vec(bytes),
        }
    }
}

impl From<Word> for PathBuf {
    fn from(word: Word) -> Self {
        OsString::from(word).into()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_word_reads_back_as_it_was() {
        for bytes in [&b"plain"[..], b"", b"a b'\n\"$x", "h\u{e9}".as_bytes(), b"\xff\xfe", b"-\x80"] {
            let word = Word::from(OsStr::from_bytes(bytes));
            let json = serde_json::to_string(&word).unwrap();
            let back: Word = serde_json::from_str(&json).unwrap();
            assert_eq!(OsString::from(back).as_bytes(), bytes, "{json}");
        }
    }
}
