//! What can go wrong with a wrapper.

use palisade_core::{Diagnostic, ErrorCode, ExitCode, Method};

#[derive(Debug, thiserror::Error)]
pub enum WrapperError {
    #[error("there is no program '{0}'")]
    NoProgram(String),
    #[error("'{0}' is no program that can be executed")]
    NotExecutable(String),
    #[error("'{program}' cannot be reached from inside: {reason}")]
    Unreachable { program: String, reason: String, fix: String },
    #[error("method '{method}' cannot be used: {reason}")]
    Preflight { method: Method, reason: String, fixes: Vec<String> },
    #[error("{0} exists already")]
    Exists(String),
    #[error("there is no wrapper at {0}")]
    NotFound(String),
    #[error("{0} is no wrapper of this installation, so it is left alone")]
    Foreign(String),
    #[error("{0} has been changed since it was made, so it is left alone")]
    Changed(String),
    #[error("the wrapper {0} is running")]
    Running(String),
    #[error("this wrapper has been removed, or its state directory was moved")]
    Removed,
    #[error("the wrapper's record {path} cannot be used: {reason}")]
    Unreadable { path: String, reason: String },
}

impl Diagnostic for WrapperError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NoProgram(_) => "program-not-found",
            Self::NotExecutable(_) => "program-not-executable",
            Self::Unreachable { .. } => "program-unreachable",
            Self::Preflight { .. } => "method-unavailable",
            Self::Exists(_) => "file-exists",
            Self::NotFound(_) | Self::Removed => "wrapper-not-found",
            Self::Foreign(_) => "not-a-wrapper",
            Self::Changed(_) => "wrapper-changed",
            Self::Running(_) => "wrapper-running",
            Self::Unreadable { .. } => "wrapper-unreadable",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::NoProgram(_) | Self::NotFound(_) | Self::Removed => ExitCode::NotFound,
            Self::NotExecutable(_) | Self::Unreachable { .. } => ExitCode::Usage,
            Self::Preflight { .. } => ExitCode::Preflight,
            Self::Exists(_) | Self::Foreign(_) | Self::Changed(_) | Self::Running(_) => ExitCode::Conflict,
            Self::Unreadable { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NoProgram(_) => "give its path, or a name that is on the PATH",
            Self::NotExecutable(_) => "make it executable with chmod +x, or name the program that runs it",
            Self::Unreachable { fix, .. } => fix,
            Self::Preflight { fixes, .. } => return fixes.clone(),
            Self::Exists(_) => "choose another --output, or remove that file first",
            Self::NotFound(_) => "`palisade wrap --ls` lists the wrappers of this installation",
            Self::Foreign(_) => {
                "`palisade wrap --ls` lists the wrappers of this installation; remove other files by hand"
            }
            Self::Changed(_) => {
                "remove the file by hand; then `palisade wrap --rm` removes the wrapper's record"
            }
            Self::Running(_) => "end what runs in it first",
            Self::Removed => {
                return vec![
                    "after a move, have the wrappers follow it with: palisade wrap --ls".into(),
                    "or make it again with `palisade wrap`".into(),
                ];
            }
            Self::Unreadable { .. } => {
                "remove its directory, and make the wrapper again with `palisade wrap`"
            }
        };
        vec![hint.to_owned()]
    }
}
