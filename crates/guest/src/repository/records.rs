//! The words of an answer.

use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// Words that are ended by a NUL each. What a record has is fixed by its first word.
#[derive(Debug, Default)]
pub(crate) struct Records(Vec<u8>);

impl Records {
    pub(crate) fn add(&mut self, words: &[&[u8]]) {
        for word in words {
            self.0.extend_from_slice(word);
            self.0.push(0);
        }
    }

    pub(crate) fn into_bytes(self) -> Vec<u8> {
        self.0
    }
}

pub(crate) fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

/// Whether these are the hexadecimal digits of an object's id.
pub(crate) fn is_id(text: &str) -> bool {
    matches!(text.len(), 40 | 64) && text.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'))
}
