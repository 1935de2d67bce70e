//! Names that people give to sandboxes: `[a-z0-9][a-z0-9-]{0,62}`, so that a name is safe as a host name,
//! a label, a file name and an argument.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// The longest name: one DNS label.
pub const MAX_LEN: usize = 63;

#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(try_from = "String", into = "String")]
pub struct SandboxName(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason}")]
pub struct InvalidName {
    reason: String,
}

/// The rule for names; `what` is who bears it, as in "a sandbox name".
pub(crate) fn checked(what: &str, text: &str) -> Result<String, InvalidName> {
    let refuse = |reason: String| Err(InvalidName { reason });
    if text.is_empty() {
        return refuse(format!("{what} cannot be empty"));
    }
    if text.len() > MAX_LEN {
        return refuse(format!("{what} has at most {MAX_LEN} characters, this one has {}", text.len()));
    }
    if text.starts_with('-') {
        return refuse(format!("{what} starts with a letter or a digit"));
    }
    let allowed = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || c == '-';
    match text.chars().find(|&c| !allowed(c)) {
        Some(bad) => {
            refuse(format!("{what} has only a-z, 0-9 and '-'; {} is not allowed", bad.escape_debug()))
        }
        None => Ok(text.to_owned()),
    }
}

impl SandboxName {
    pub fn new(text: &str) -> Result<Self, InvalidName> {
        checked("a sandbox name", text).map(Self)
    }

    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl FromStr for SandboxName {
    type Err = InvalidName;
    fn from_str(text: &str) -> Result<Self, InvalidName> {
        Self::new(text)
    }
}

impl TryFrom<String> for SandboxName {
    type Error = InvalidName;
    fn try_from(text: String) -> Result<Self, InvalidName> {
        Self::new(&text)
    }
}

impl From<SandboxName> for String {
    fn from(name: SandboxName) -> String {
        name.0
    }
}

impl fmt::Display for SandboxName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn good_names_are_taken_as_they_are() {
        for good in ["a", "0", "web-1", "a--b", "x-", &"a".repeat(63)] {
            assert_eq!(SandboxName::new(good).unwrap().as_str(), good);
        }
    }

    #[test]
    fn bad_names_say_why() {
        let long = "a".repeat(64);
        for (bad, why) in [
            ("", "empty"),
            (long.as_str(), "at most 63"),
            ("-rf", "starts with"),
            ("..", "is not allowed"),
            ("a/b", "is not allowed"),
            ("A", "is not allowed"),
            ("a\n", "\\n is not allowed"),
            ("é", "is not allowed"),
        ] {
            let reason = SandboxName::new(bad).unwrap_err().to_string();
            assert!(reason.contains(why), "{bad:?}: {reason}");
        }
    }

    proptest! {
        #[test]
        fn whatever_is_accepted_has_the_documented_form(text in ".{0,80}") {
            if let Ok(name) = SandboxName::new(&text) {
                let bytes = name.as_str().as_bytes();
                prop_assert!(!bytes.is_empty() && bytes.len() <= MAX_LEN);
                prop_assert!(bytes[0] != b'-');
                prop_assert!(bytes.iter().all(|b| b.is_ascii_lowercase() || b.is_ascii_digit() || *b == b'-'));
            }
        }
    }
}
