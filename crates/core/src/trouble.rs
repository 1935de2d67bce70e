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
    #[error("cannot {what}: no more processes or threads may be started")]
    TooManyProcesses { what: String },
    #[error("cannot {what}: there is not enough memory")]
    NoMemory { what: String },
}

impl HostTrouble {
    /// The trouble behind an error, if it is one of these.
    pub fn of(what: &str, error: &Error) -> Option<Self> {
        const NO_MEMORY: i32 = 12;
        const TOO_MANY_HERE: i32 = 24;
        const TOO_MANY_ON_THE_MACHINE: i32 = 23;
        let what = what.to_owned();
        match (error.kind(), error.raw_os_error()) {
            (ErrorKind::StorageFull | ErrorKind::QuotaExceeded | ErrorKind::FileTooLarge, _) => {
                Some(Self::Full { what })
            }
            (ErrorKind::ReadOnlyFilesystem, _) => Some(Self::ReadOnly { what }),
            (_, Some(TOO_MANY_HERE | TOO_MANY_ON_THE_MACHINE)) => Some(Self::TooManyFiles { what }),
            (_, Some(NO_MEMORY)) => Some(Self::NoMemory { what }),
            _ => None,
        }
    }

    /// As [`HostTrouble::of`], for the start of a process or a thread, where EAGAIN means that a limit is reached.
    pub fn of_start(what: &str, error: &Error) -> Option<Self> {
        match error.kind() {
            ErrorKind::WouldBlock => Some(Self::TooManyProcesses { what: what.to_owned() }),
            _ => Self::of(what, error),
        }
    }

    /// The trouble that another program complains of in the words of the C library.
    pub fn of_complaint(what: &str, said: &str) -> Option<Self> {
        let what = what.to_owned();
        let says = |words: &str| said.contains(words);
        if says("Too many open files") || says("No file descriptors available") {
            Some(Self::TooManyFiles { what })
        } else if says("Resource temporarily unavailable") {
            Some(Self::TooManyProcesses { what })
        } else if says("Cannot allocate memory") || says("Out of memory") {
            Some(Self::NoMemory { what })
        } else {
            None
        }
    }
}

impl Diagnostic for HostTrouble {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Full { .. } => "disk-full",
            Self::ReadOnly { .. } => "read-only",
            Self::TooManyFiles { .. } => "too-many-files",
            Self::TooManyProcesses { .. } => "too-many-processes",
            Self::NoMemory { .. } => "no-memory",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Full { .. }
            | Self::ReadOnly { .. }
            | Self::TooManyFiles { .. }
            | Self::TooManyProcesses { .. }
            | Self::NoMemory { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::Full { .. } => "free some space on that file system and try again",
            Self::ReadOnly { .. } => "mount it writable, or set XDG_STATE_HOME to a place that is",
            Self::TooManyFiles { .. } => "raise the limit (ulimit -n), or end programs that hold many files",
            Self::TooManyProcesses { .. } => {
                "raise the limit (ulimit -u, or pids.max of the control group), or end programs that you do not need"
            }
            Self::NoMemory { .. } => {
                "end programs that need much memory, or raise the limit (ulimit -v, or that of the control group)"
            }
        };
        vec![hint.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_ran_out_is_found_by_number_and_by_words() {
        let code = |trouble: Option<HostTrouble>| trouble.map(|trouble| trouble.code());
        let number = |errno| Error::from_raw_os_error(errno);
        assert_eq!(code(HostTrouble::of("x", &number(12))), Some("no-memory"));
        assert_eq!(code(HostTrouble::of("x", &number(24))), Some("too-many-files"));
        // Only at a start does it mean a limit.
        assert_eq!(code(HostTrouble::of("x", &number(11))), None);
        assert_eq!(code(HostTrouble::of_start("x", &number(11))), Some("too-many-processes"));
        assert_eq!(code(HostTrouble::of_start("x", &number(28))), Some("disk-full"));
        let said = |words| code(HostTrouble::of_complaint("x", words));
        assert_eq!(said("bwrap: Can't open /proc/self/fd: Too many open files"), Some("too-many-files"));
        assert_eq!(said("bwrap: fork failed: Resource temporarily unavailable"), Some("too-many-processes"));
        assert_eq!(said("bwrap: Creating new namespace failed: Cannot allocate memory"), Some("no-memory"));
        assert_eq!(said("bwrap: Operation not permitted"), None);
    }
}
