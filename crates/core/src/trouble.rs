//! What a host can run out of, told apart from other failures of input and output, because the user can do something
//! about each.

use crate::error::{Diagnostic, ErrorCode, ExitCode};
use std::io::{Error, ErrorKind};

#[derive(Debug, thiserror::Error)]
pub enum HostTrouble {
    #[error("cannot {what}: no space is left on the device")]
    Full { what: String },
    #[error("cannot {what}: the file system is read-only")]
    ReadOnly { what: String },
    #[error("cannot {what}: too many files are open")]
    TooManyFiles { what: String },
}

impl HostTrouble {
    /// The trouble behind an error, if it is one of these.
    pub fn of(what: &str, error: &Error) -> Option<Self> {
        const TOO_MANY_HERE: i32 = 24;
        const TOO_MANY_ON_THE_MACHINE: i32 = 23;
        let what = what.to_owned();
        match (error.kind(), error.raw_os_error()) {
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge, _) => {
                Some(Self::Full { what })
            }
            (ErrorKind::ReadOnlyFilesystem, _) => Some(Self::ReadOnly { what }),
            (_, Some(TOO_MANY_HERE | TOO_MANY_ON_THE_MACHINE)) => Some(Self::TooManyFiles { what }),
            _ => None,
        }
    }
}

impl Diagnostic for HostTrouble {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Full { .. } => "disk-full",
            Self::ReadOnly { .. } => "read-only",
            Self::TooManyFiles { .. } => "too-many-files",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Full { .. } | Self::ReadOnly { .. } | Self::TooManyFiles { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Full { .. } => "free some space on that file system and try again",
            Self::ReadOnly { .. } => "mount it writable, or set XDG_STATE_HOME to a place that is",
            Self::TooManyFiles { .. } => "raise the limit (ulimit -n), or end programs that hold many files",
        };
        vec![hint.into()]
    }
}
