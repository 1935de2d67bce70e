//! Env files from which Compose reads back exactly the bytes that were put in.
//!
//! Compose interpolates what stands unquoted or in double quotes, and has no escapes in single quotes. So a value
//! goes into single quotes, where nothing has a meaning, unless it holds what would end them; then into double quotes,
//! with every character that means something there escaped. Tried against the real Compose by
//! `tests/env_file.rs`.

use palisade_core::{Secret, VariableName};

/// The file of a slot with the ports, the project's variables and the name of its compose project.
pub(crate) const SANDBOX: &str = ".env.sandbox";
/// The file of a slot with the secrets.
pub(crate) const SECRETS: &str = ".env.secrets";

/// The longest value: as much as one variable may have on Linux, less its name.
pub const LONGEST_VALUE: usize = 120 * 1024;

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum UnwritableValue {
    #[error("the value of {0} holds a NUL, which no variable can")]
    Nul(VariableName),
    #[error("the value of {0} is longer than {LONGEST_VALUE} bytes, which no process could be started with")]
    TooLong(VariableName),
}

/// Adds a line, or the lines, that set a variable.
pub fn write(file: &mut String, name: &VariableName, value: &str) -> Result<(), UnwritableValue> {
    if value.contains('\0') {
        return Err(UnwritableValue::Nul(name.clone()));
    }
    if value.len() > LONGEST_VALUE {
        return Err(UnwritableValue::TooLong(name.clone()));
    }
    file.push_str(name.as_str());
    file.push('=');
    // A backslash before the closing quote, or any other, would keep it from closing.
    if value.contains(['\'', '\\']) {
        double_quoted(file, value)
    } else {
        single_quoted(file, value)
    }
    file.push('\n');
    Ok(())
}

fn single_quoted(file: &mut String, value: &str) {
    file.push('\'');
    file.push_str(value);
    file.push('\'');
}

fn double_quoted(file: &mut String, value: &str) {
    file.push('"');
    for character in value.chars() {
        match character {
            '\n' => file.push_str("\\n"),
            '\r' => file.push_str("\\r"),
            '\\' | '"' | '$' => {
                file.push('\\');
                file.push(character);
            }
            other => file.push(other),
        }
    }
    file.push('"');
}

/// The variables of a file that [`write`] wrote; what it cannot have written ends the list.
pub(crate) fn read(file: &str) -> Vec<(VariableName, Secret)> {
    let mut found = Vec::new();
    let mut rest = file;
    while let Some((name, value)) = rest.split_once('=') {
        let Ok(name) = VariableName::new(name) else { break };
        let Some((value, after)) = unquoted(value) else { break };
        found.push((name, Secret::new(value)));
        rest = after.strip_prefix('\n').unwrap_or(after);
    }
    found
}

/// A quoted value, and what comes after it.
fn unquoted(text: &str) -> Option<(String, &str)> {
    if let Some(text) = text.strip_prefix('\'') {
        let (value, after) = text.split_once('\'')?;
        return Some((value.to_owned(), after));
    }
    let text = text.strip_prefix('"')?;
    let mut value = String::new();
    let mut characters = text.char_indices();
    while let Some((at, character)) = characters.next() {
        match character {
            '"' => return Some((value, &text[at + 1..])),
            '\\' => match characters.next()?.1 {
                'n' => value.push('\n'),
                'r' => value.push('\r'),
                escaped => value.push(escaped),
            },
            other => value.push(other),
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    fn written(value: &str) -> String {
        let mut file = String::new();
        write(&mut file, &VariableName::new("A").unwrap(), value).unwrap();
        file
    }

    #[test]
    fn a_value_is_quoted_so_that_nothing_in_it_has_a_meaning() {
        for (value, line) in [
            ("", "A=''\n"),
            ("${X} # $(id) \"y\"", "A='${X} # $(id) \"y\"'\n"),
            (" two\nlines ", "A=' two\nlines '\n"),
            ("it's $5", "A=\"it's \\$5\"\n"),
            ("C:\\", "A=\"C:\\\\\"\n"),
            ("'\r\n\"", "A=\"'\\r\\n\\\"\"\n"),
        ] {
            assert_eq!(written(value), line);
        }
    }

    #[test]
    fn what_no_variable_can_hold_is_refused_by_name() {
        let name = VariableName::new("TOKEN").unwrap();
        let refused = |value: &str| write(&mut String::new(), &name, value).unwrap_err().to_string();
        assert_eq!(refused("a\0b"), "the value of TOKEN holds a NUL, which no variable can");
        let long = "x".repeat(LONGEST_VALUE + 1);
        assert!(refused(&long).starts_with("the value of TOKEN is longer than 122880 bytes"));
    }

    #[test]
    fn what_was_written_is_read_back() {
        let values = ["", "plain", "it's $5", "C:\\", "'\r\n\"", " two\nlines=1 ", "\\n", "A='b'\nB='c'"];
        let mut file = String::new();
        for (index, value) in values.iter().enumerate() {
            write(&mut file, &VariableName::new(&format!("V{index}")).unwrap(), value).unwrap();
        }
        let read = read(&file);
        assert_eq!(read.iter().map(|(_, value)| value.expose()).collect::<Vec<_>>(), values);
        assert_eq!(read[7].0.as_str(), "V7");
        assert!(super::read("A=b\n").is_empty() && super::read("A='b").is_empty());
    }
}
