//! Text that came from a sandbox is shown with its control characters escaped, so that it cannot drive the
//! user's terminal.

use std::fmt::Write as _;

/// Escapes control characters and the invisible ones that reorder text; other characters stay.
pub fn printable(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        let reorders =
            matches!(c, '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
        if c.is_control() || reorders {
            // Writing to a String cannot fail.
            let _ = write!(out, "{}", c.escape_unicode());
        } else {
            out.push(c);
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn escapes_are_made_visible_and_text_stays() {
        assert_eq!(printable("héllo\tx"), "héllo\\u{9}x");
        assert_eq!(printable("\x1b]52;c;AAAA\x07"), "\\u{1b}]52;c;AAAA\\u{7}");
        assert_eq!(printable("a\u{202e}b\u{9b}31m"), "a\\u{202e}b\\u{9b}31m");
    }
}
