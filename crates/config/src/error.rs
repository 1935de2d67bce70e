//! Everything wrong with the configuration, at once. Texts from files are shown with control characters escaped:
//! a project's file is somebody else's.

use palisade_core::{Diagnostic, ErrorCode, ExitCode};
use std::fmt;

/// More problems than this are counted, not listed.
const LISTED: usize = 20;

/// One thing wrong. `file` and `place` are for people: printable already, `place` being `file:line`, a variable
/// or a flag.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum Problem {
    #[error("{file}: cannot be read: {reason}")]
    Unreadable { file: String, reason: String },
    #[error("{file}: refused: {reason}")]
    Refused { file: String, reason: &'static str },
    #[error("{file}:{line}: not valid TOML: {reason}")]
    Syntax { file: String, line: usize, reason: String },
    #[error("{file}:{line}: unknown key '{key}'{}", did_you_mean(.suggestion))]
    UnknownKey { file: String, line: usize, key: String, suggestion: Option<&'static str> },
    #[error("{file}:{line}: unknown key '{key}'{}", did_you_mean(.suggestion))]
    UnknownField { file: String, line: usize, key: String, suggestion: Option<&'static str> },
    #[error("{file}:{line}: unknown key '{key}'{}", did_you_mean(.suggestion))]
    UnknownDeclaration { file: String, line: usize, key: String, suggestion: Option<&'static str> },
    #[error("{file}:{line}: name: '{name}' is taken by {holder}")]
    NameTaken { file: String, line: usize, name: String, holder: String },
    #[error("{place}: {key} = {value} is wider than allowed: {reason}")]
    TooWide { place: String, key: &'static str, value: String, reason: String, allow: String },
    #[error("{place}: {key}: {reason}")]
    InvalidValue { place: String, key: &'static str, reason: String },
    #[error("{file}:{line}: {key} cannot be set by a project, only in the system's or the user's file")]
    NotInProject { file: String, line: usize, key: &'static str },
    #[error("{file}:{line}: {key} = {value} widens the policy: {reason}")]
    Widens { file: String, line: usize, key: &'static str, value: String, reason: String },
}

fn did_you_mean(suggestion: &Option<&'static str>) -> String {
    suggestion.map(|key| format!("; did you mean '{key}'?")).unwrap_or_default()
}

impl Problem {
    pub fn code(&self) -> ErrorCode {
        match self {
            Self::Unreadable { .. } => "config-unreadable",
            Self::Refused { .. } => "config-refused",
            Self::Syntax { .. } => "config-syntax",
            Self::UnknownKey { .. } => "config-unknown-key",
            Self::UnknownField { .. } => "environment-unknown-key",
            Self::UnknownDeclaration { .. } => "infra-unknown-key",
            Self::NameTaken { .. } => "environment-name-taken",
            Self::TooWide { .. } => "environment-too-wide",
            Self::InvalidValue { .. } => "config-invalid-value",
            Self::NotInProject { .. } => "config-not-in-project",
            Self::Widens { .. } => "config-widens-policy",
        }
    }

    fn hint(&self) -> Option<String> {
        let hint = match self {
            Self::Widens { .. } => {
                "read the project's file, and if you agree with it, allow exactly this version with: palisade trust"
            }
            Self::Refused { .. } => "replace it by a regular file of its own, of at most 1 MiB",
            Self::UnknownKey { suggestion: None, .. } => "see every key with: palisade config show",
            Self::UnknownField { suggestion: None, .. } => {
                "see every field of an environment with: palisade env show bash"
            }
            Self::UnknownDeclaration { suggestion: None, .. } => {
                return Some(format!("the sections of infra.toml are {}", crate::infra::headings()));
            }
            Self::NameTaken { .. } => "give it a name of its own",
            Self::TooWide { allow, .. } => {
                return Some(format!(
                    "ask for less in that file, or allow it in your own config.toml, below [environments]: {allow}"
                ));
            }
            _ => return None,
        };
        Some(hint.to_owned())
    }
}

/// At least one problem. The code is that of the first.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ConfigError {
    problems: Vec<Problem>,
}

impl ConfigError {
    /// `Ok` when nothing is wrong.
    pub(crate) fn unless_empty(problems: Vec<Problem>) -> Result<(), ConfigError> {
        if problems.is_empty() { Ok(()) } else { Err(Self { problems }) }
    }

    /// Of problems that are there.
    pub(crate) fn of(problems: Vec<Problem>) -> Self {
        Self { problems }
    }

    pub fn problems(&self) -> &[Problem] {
        &self.problems
    }
}

impl From<Problem> for ConfigError {
    fn from(problem: Problem) -> Self {
        Self { problems: vec![problem] }
    }
}

impl fmt::Display for ConfigError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if let [problem] = &self.problems[..] {
            return write!(f, "{problem}");
        }
        write!(f, "{} problems in the configuration:", self.problems.len())?;
        for problem in self.problems.iter().take(LISTED) {
            write!(f, "\n  {problem}")?;
        }
        match self.problems.len().saturating_sub(LISTED) {
            0 => Ok(()),
            more => write!(f, "\n  and {more} more"),
        }
    }
}

impl std::error::Error for ConfigError {}

impl Diagnostic for ConfigError {
    fn code(&self) -> ErrorCode {
        self.problems.first().map_or("config-invalid-value", Problem::code)
    }

    fn exit(&self) -> ExitCode {
        ExitCode::Configuration
    }

    fn hints(&self) -> Vec<String> {
        let mut hints: Vec<String> = Vec::new();
        for hint in self.problems.iter().filter_map(Problem::hint) {
            if !hints.contains(&hint) {
                hints.push(hint);
            }
        }
        hints
    }
}
