//! What an error tells its reader: a stable code, what failed and why, what to do, and the exit code.

use serde::Serialize;

/// Exit codes of the program; `docs/reference/exit-codes.md` and the manual pages are made from them.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[repr(u8)]
pub enum ExitCode {
    Ok = 0,
    Failed = 1,
    Usage = 2,
    Configuration = 3,
    Preflight = 4,
    Provisioning = 5,
    NotFound = 6,
    Conflict = 7,
    Timeout = 8,
    Internal = 70,
}

impl ExitCode {
    pub const ALL: [ExitCode; 10] = [
        ExitCode::Ok,
        ExitCode::Failed,
        ExitCode::Usage,
        ExitCode::Configuration,
        ExitCode::Preflight,
        ExitCode::Provisioning,
        ExitCode::NotFound,
        ExitCode::Conflict,
        ExitCode::Timeout,
        ExitCode::Internal,
    ];

    pub fn name(self) -> &'static str {
        match self {
            ExitCode::Ok => "ok",
            ExitCode::Failed => "failed",
            ExitCode::Usage => "usage",
            ExitCode::Configuration => "configuration",
            ExitCode::Preflight => "preflight",
            ExitCode::Provisioning => "provisioning",
            ExitCode::NotFound => "not found",
            ExitCode::Conflict => "conflict",
            ExitCode::Timeout => "timeout",
            ExitCode::Internal => "internal",
        }
    }

    /// When a command ends with it, for the reference page.
    pub fn meaning(self) -> &'static str {
        match self {
            ExitCode::Ok => "the command did what it was asked",
            ExitCode::Failed => "it could not, for a reason the message gives",
            ExitCode::Usage => "the command line is wrong",
            ExitCode::Configuration => {
                "a setting is unknown, does not parse, or may not be set where it stands"
            }
            ExitCode::Preflight => {
                "the method cannot be used here, lacks what was asked for, or is not in this build"
            }
            ExitCode::Provisioning => "a part of what a sandbox needs could not be had",
            ExitCode::NotFound => "there is no such sandbox, wrapper or program",
            ExitCode::Conflict => {
                "the name is taken, the directory is in use, or the state does not allow it"
            }
            ExitCode::Timeout => "something did not answer in time",
            ExitCode::Internal => "a mistake of ours; please report it",
        }
    }
}

/// A stable, documented identifier of a kind of error, such as `sandbox-not-found`.
pub type ErrorCode = &'static str;

/// Implemented by every error a user can meet. `Display` says what failed and why.
pub trait Diagnostic: std::error::Error {
    fn code(&self) -> ErrorCode;
    fn exit(&self) -> ExitCode;
    /// What to do about it, a sentence each.
    fn hints(&self) -> Vec<String> {
        Vec::new()
    }
}
