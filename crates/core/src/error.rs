//! What an error tells its reader: a stable code, what failed and why, what to do, and the exit code.

use serde::Serialize;

/// Exit codes of the program; `docs/reference` and the tests hold the same table.
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
