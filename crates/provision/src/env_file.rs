//! Env files from which Compose reads back exactly the bytes that were put in.
//!
//! Compose interpolates what stands unquoted or in double quotes, and has no escapes in single quotes. So a value
//! goes into single quotes, where nothing has a meaning, unless it holds what would end them; then into double quotes,
//! with every character that means something there escaped. Tried against the real Compose by
//! `tests/env_file.rs`.

use palisade_core::VariableName;

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
}
