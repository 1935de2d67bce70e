//! Words for a POSIX shell.

use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};

/// One word, whatever its bytes: nothing but a quote ends a string in single quotes.
pub fn quoted(word: &OsStr) -> OsString {
    let mut text = vec![b'\''];
    for &byte in word.as_bytes() {
        match byte {
            b'\'' => text.extend_from_slice(b"'\\''"),
            _ => text.push(byte),
        }
    }
    text.push(b'\'');
    OsString::from_vec(text)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_quote_is_the_only_byte_that_needs_care() {
        for (word, expected) in [("", "''"), ("a b$`\\\n", "'a b$`\\\n'"), ("it's", "'it'\\''s'")] {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }
}
