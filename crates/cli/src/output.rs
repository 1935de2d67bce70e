//! The only place that writes: data to stdout, everything else to stderr. Colour only on a terminal.

use crate::Failure;
use palisade_core::printable;
use serde::Serialize;
use std::io::{IsTerminal, Write};

/// Writes to stderr. Where that fails there is no way left to say so; `eprintln!` would end the program with a panic.
macro_rules! write_text {
    ($($piece:tt)*) => {{
        let _ = write!(std::io::stderr().lock(), $($piece)*);
    }};
}

/// As [`write_text!`], with the end of a line. One write, so that lines of other programs do not come in between.
macro_rules! write_line {
    ($($piece:tt)*) => {{
        let line = format!($($piece)*) + "\n";
        let _ = std::io::stderr().lock().write_all(line.as_bytes());
    }};
}

pub(crate) fn stderr_is_terminal() -> bool {
    std::io::stderr().is_terminal()
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Colours {
    On,
    Off,
}

impl Colours {
    pub(crate) fn of_stderr() -> Self {
        let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
        if stderr_is_terminal() && wanted { Self::On } else { Self::Off }
    }

    /// In a colour by its number; as it is without one.
    pub(crate) fn paint(self, colour: &str, text: &str) -> String {
        match self {
            Self::On if !colour.is_empty() => format!("\x1b[{colour}m{text}\x1b[0m"),
            Self::On | Self::Off => text.to_owned(),
        }
    }
}

fn label(colour: &str, text: &str) -> String {
    Colours::of_stderr().paint(colour, text)
}

/// A message as it is shown: nothing in it drives the terminal, and its further lines, which another program may have
/// written, are indented, so that they do not pass for lines of ours.
fn shown(message: &str, indent: &str) -> String {
    let mut lines = message.lines().map(|line| printable(line.trim_end()));
    let mut text = lines.next().unwrap_or_default();
    for line in lines {
        text.push('\n');
        if !line.starts_with(indent) {
            text.push_str(indent);
        }
        text.push_str(&line);
    }
    text
}

pub(crate) fn error(message: &str, causes: &[String], details: &[String], hints: &[String]) {
    write_line!("{} {}", label("1;31", "error:"), shown(message, "  "));
    for cause in causes {
        write_line!("  {} {}", label("31", "cause:"), shown(cause, "    "));
    }
    for detail in details {
        write_line!("{detail}");
    }
    for hint in hints {
        write_line!("{} {hint}", label("1;36", "hint:"));
    }
}

pub(crate) fn warning(message: &str) {
    write_line!("{} {}", label("1;33", "warning:"), shown(message, "  "));
}

pub(crate) fn note(message: &str) {
    write_line!("{message}");
}

/// A question, whose answer is typed behind it.
pub(crate) fn prompt(question: &str) {
    write_text!("{question}");
}

/// A line that the next one of its kind replaces.
pub(crate) fn moving(message: &str) {
    write_text!("\r\x1b[K{message}");
}

/// Data for whoever reads stdout. A reader that has gone away is not an error worth telling.
pub(crate) fn data(text: &str) -> Result<(), Failure> {
    bytes(text.as_bytes())
}

/// As [`data`], for what need not be text, such as a path.
pub(crate) fn bytes(data: &[u8]) -> Result<(), Failure> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(data).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != std::io::ErrorKind::BrokenPipe => {
            Err(Failure::failed("io", format!("cannot write to stdout: {error}")))
        }
        _ => Ok(()),
    }
}

pub(crate) fn json(value: &impl Serialize) -> Result<(), Failure> {
    let text = serde_json::to_string_pretty(value)
        .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))?;
    data(&format!("{text}\n"))
}

/// Columns padded to their widest cell; the last one is left as it is.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> String {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|cell| cell.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let line = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:<width$}", width = *width)).collect();
        format!("{}\n", padded.join("  ").trim_end())
    };
    let mut text = line(&mut header.iter().copied());
    for row in rows {
        text.push_str(&line(&mut row.iter().map(String::as_str)));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn further_lines_of_a_message_are_indented_and_cannot_drive_the_terminal() {
        let said = palisade_core::printable_lines("remote: \x1b[2Jno\nhint: run this\n");
        assert_eq!(
            shown(&format!("git push failed: {said}"), "  "),
            "git push failed:\n  remote: \\u{1b}[2Jno\n  hint: run this"
        );
        assert_eq!(shown("one\x07", "  "), "one\\u{7}");
        assert_eq!(shown("list:\n  item\n other", "  "), "list:\n  item\n   other");
    }

    #[test]
    fn columns_line_up_and_lines_end_clean() {
        let rows = vec![
            vec!["a".into(), "running".into(), "x".into()],
            vec!["longer".into(), "é".into(), String::new()],
        ];
        assert_eq!(
            table(&["NAME", "STATE", "C"], &rows),
            "NAME    STATE    C\na       running  x\nlonger  é\n"
        );
    }
}
