//! Names and shell patterns of files below the top of a repository, as settings give them. Nothing that is written here
//! leads out of the repository: there is no absolute one, and no part of one is `.` or `..`.

use serde::Serialize;
use std::fmt;
use std::str::FromStr;

/// As git reads a glob: `*`, `?` and `[…]` within a part of the path, `**` over several parts.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize)]
#[serde(transparent)]
pub struct FilePattern(String);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{text}' {reason}")]
pub struct InvalidPattern {
    text: String,
    reason: &'static str,
}

/// Longer than any path in a repository that people work on.
const LONGEST: usize = 1024;

impl FilePattern {
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Whether it is the name of one file.
    pub fn is_name(&self) -> bool {
        !self.0.contains(['*', '?', '[', '\\'])
    }
}

impl FromStr for FilePattern {
    type Err = InvalidPattern;

    fn from_str(text: &str) -> Result<Self, InvalidPattern> {
        let refuse = |reason| {
            Err(InvalidPattern { text: text.chars().take(80).flat_map(char::escape_debug).collect(), reason })
        };
        if text.is_empty() || text.len() > LONGEST {
            return refuse("is empty or too long");
        }
        if text.starts_with('/') {
            return refuse("is absolute; write it from the top of the repository");
        }
        if text.chars().any(char::is_control) {
            return refuse("holds a control character");
        }
        if text.split('/').any(|part| matches!(part, "" | "." | "..")) {
            return refuse("has a part that is empty, '.' or '..'");
        }
        // Git's own files are none that an agent needs, and some of them hold credentials.
        if text.split('/').any(|part| part.eq_ignore_ascii_case(".git")) {
            return refuse("is in git's own directory");
        }
        Ok(Self(text.to_owned()))
    }
}

impl fmt::Display for FilePattern {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns_stay_below_the_top() {
        for good in [".env", ".env.*", "apps/*/.env", "**/.env.local", "...", "a\\*"] {
            assert_eq!(good.parse::<FilePattern>().unwrap().as_str(), good);
        }
        for (bad, reason) in [
            ("", "'' is empty or too long"),
            ("/etc/passwd", "'/etc/passwd' is absolute; write it from the top of the repository"),
            ("../.env", "'../.env' has a part that is empty, '.' or '..'"),
            ("a/../../.env", "'a/../../.env' has a part that is empty, '.' or '..'"),
            ("./.env", "'./.env' has a part that is empty, '.' or '..'"),
            ("a//b", "'a//b' has a part that is empty, '.' or '..'"),
            ("a/", "'a/' has a part that is empty, '.' or '..'"),
            (".git/config", "'.git/config' is in git's own directory"),
            ("a\n", "'a\\n' holds a control character"),
        ] {
            assert_eq!(bad.parse::<FilePattern>().unwrap_err().to_string(), reason);
        }
        assert!(
            " x".parse::<FilePattern>().unwrap().is_name() && !"a?".parse::<FilePattern>().unwrap().is_name()
        );
    }
}
