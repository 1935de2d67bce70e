//! Variables for a command inside, as people give them: `NAME=VALUE`, or `NAME` alone for the value it has on the
//! host. A name is `[A-Za-z_][A-Za-z0-9_]*`, so that every shell can read it; a value is any bytes without NUL.

use crate::sanitize::printable;
use std::ffi::{OsStr, OsString};
use std::fmt;
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct VariableName(String);

/// A variable and the value to give it; without one, the host's own value is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Assignment {
    pub name: VariableName,
    pub value: Option<OsString>,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidVariable {
    #[error("'{0}' is not the name of a variable")]
    Name(String),
    #[error("the value of {0} holds a NUL, which no variable can")]
    Value(VariableName),
}

impl VariableName {
    pub fn new(text: &str) -> Result<Self, InvalidVariable> {
        Self::parse(text.as_bytes())
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn parse(bytes: &[u8]) -> Result<Self, InvalidVariable> {
        let good = |byte: &u8| byte.is_ascii_alphanumeric() || *byte == b'_';
        let text = String::from_utf8_lossy(bytes);
        match bytes.first() {
            Some(first) if !first.is_ascii_digit() && bytes.iter().all(good) => Ok(Self(text.into_owned())),
            _ => Err(InvalidVariable::Name(printable(&text))),
        }
    }
}

impl fmt::Display for VariableName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl Assignment {
    /// Everything behind the first `=` is the value.
    pub fn parse(word: &OsStr) -> Result<Self, InvalidVariable> {
        let bytes = word.as_bytes();
        let Some(at) = bytes.iter().position(|byte| *byte == b'=') else {
            return Ok(Self { name: VariableName::parse(bytes)?, value: None });
        };
        let name = VariableName::parse(&bytes[..at])?;
        let value = &bytes[at + 1..];
        if value.contains(&0) {
            return Err(InvalidVariable::Value(name));
        }
        Ok(Self { name, value: Some(OsString::from_vec(value.to_vec())) })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(word: &[u8]) -> Result<(String, Option<Vec<u8>>), String> {
        Assignment::parse(OsStr::from_bytes(word))
            .map(|Assignment { name, value }| (name.to_string(), value.map(OsString::into_vec)))
            .map_err(|error| error.to_string())
    }

    #[test]
    fn a_value_is_everything_behind_the_first_equals_sign() {
        assert_eq!(parse(b"A=b=c\xff\n"), Ok(("A".into(), Some(b"b=c\xff\n".to_vec()))));
        assert_eq!(parse(b"_a1="), Ok(("_a1".into(), Some(vec![]))));
        assert_eq!(parse(b"PATH"), Ok(("PATH".into(), None)));
    }

    #[test]
    fn names_that_no_shell_can_read_are_refused_by_name() {
        for (word, shown) in
            [(&b"=x"[..], ""), (b"", ""), (b"1A=x", "1A"), (b"a-b", "a-b"), (b"a\x1b=", "a\\u{1b}")]
        {
            assert_eq!(parse(word), Err(format!("'{shown}' is not the name of a variable")));
        }
    }

    #[test]
    fn a_value_with_a_nul_is_refused_by_the_name_of_its_variable() {
        assert_eq!(parse(b"A=x\0B=y"), Err("the value of A holds a NUL, which no variable can".into()));
    }
}
