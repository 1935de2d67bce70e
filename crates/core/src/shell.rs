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

/// One word of a command that a person is shown, in quotes only where it needs them.
pub fn shown(word: &OsStr) -> String {
    let text = crate::printable(&word.to_string_lossy());
    let plain = |character: char| character.is_alphanumeric() || "/._-+,:@%=".contains(character);
    if !text.is_empty() && text.chars().all(plain) {
        return text;
    }
    quoted(OsStr::new(&text)).to_string_lossy().into_owned()
}

/// The word as it is where a shell reads nothing else into it, and otherwise in quotes: what starts a program of a single
/// plain word can do so without a shell.
pub fn word(word: &OsStr) -> OsString {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"/._-+".contains(byte);
    if !word.is_empty() && word.as_bytes().iter().all(plain) { word.to_owned() } else { quoted(word) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_plain_word_stays_as_it_is() {
        assert_eq!(word(OsStr::new("/usr/bin/a-b_1.0+")), "/usr/bin/a-b_1.0+");
        assert_eq!(word(OsStr::new("/a b")), "'/a b'");
        assert_eq!(word(OsStr::new("")), "''");
    }

    #[test]
    fn a_quote_is_the_only_byte_that_needs_care() {
        for (word, expected) in [("", "''"), ("a b$`\\\n", "'a b$`\\\n'"), ("it's", "'it'\\''s'")] {
            assert_eq!(quoted(OsStr::new(word)), expected);
        }
    }

    #[test]
    fn a_word_is_shown_in_quotes_where_it_needs_them() {
        for (word, expected) in [
            ("/home/me/shop-impl-x", "/home/me/shop-impl-x"),
            ("/home/me/my shop", "'/home/me/my shop'"),
            ("a;b", "'a;b'"),
            ("~x", "'~x'"),
            ("", "''"),
        ] {
            assert_eq!(shown(OsStr::new(word)), expected);
        }
    }
}
