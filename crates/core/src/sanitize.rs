//! Text that came from a sandbox or another program is shown with its control characters escaped, so that it cannot drive
//! the user's terminal. Names stay on one line; what a program wrote keeps its lines.

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

/// What another program wrote, for the end of a message. One line follows the message; several stand on lines of their own,
/// which [`crate::one_line`] joins again where there is room for one only. Every line is [`printable`]; of a line that was
/// written over, as progress is, the last state is kept.
pub fn printable_lines(text: &str) -> String {
    let line = |line: &str| {
        let line = line.trim_end();
        let last = line.rsplit('\r').next().unwrap_or(line);
        printable(&last.replace('\t', "    "))
    };
    let lines: Vec<String> = text.lines().map(line).filter(|line| !line.is_empty()).collect();
    match lines.as_slice() {
        [one] => one.trim_start().to_owned(),
        [] => String::new(),
        several => format!("\n{}", several.join("\n")),
    }
}

/// A message on one line, for tables and records that have a line for each.
pub fn one_line(message: &str) -> String {
    let mut out = String::with_capacity(message.len());
    for line in message.lines().map(str::trim).filter(|line| !line.is_empty()) {
        if !out.is_empty() {
            out.push_str(if out.ends_with([':', ',', ';']) { " " } else { "; " });
        }
        out.push_str(&printable(line));
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

    #[test]
    fn lines_of_a_program_stay_lines_and_nothing_else_does() {
        assert_eq!(printable_lines("fatal: no\n"), "fatal: no");
        assert_eq!(printable_lines(" \n\n"), "");
        assert_eq!(
            printable_lines("Writing: 1%\rWriting: 9%\nerror: \x1b[2Jx\r\n\n\tfile\n"),
            "\nWriting: 9%\nerror: \\u{1b}[2Jx\n    file"
        );
    }

    #[test]
    fn a_message_of_several_lines_fits_on_one() {
        let message = format!("git push failed: {}", printable_lines("remote: no\nfatal: \x07end"));
        assert_eq!(one_line(&message), "git push failed: remote: no; fatal: \\u{7}end");
        assert_eq!(one_line("plain"), "plain");
    }
}
