//! What can go wrong with the store, told so that the reader knows what to do next.

use palisade_core::{
    Diagnostic, ErrorCode, ExitCode, HostTrouble, IllegalTransition, SandboxId, State, printable,
};
use rusqlite::ErrorCode as Sqlite;
use std::path::{Path, PathBuf};

#[derive(Debug, thiserror::Error)]
pub enum StoreError {
    #[error("a sandbox named '{name}' already exists (id {}, {state})", printable(.id))]
    NameTaken { name: String, id: String, state: String },
    /// `names` are those that exist, for a did-you-mean.
    #[error("there is no sandbox '{}'", printable(.given))]
    NotFound { given: String, names: Vec<String> },
    #[error("'{}' is the start of more than one sandbox id: {}", printable(.given), .ids.join(", "))]
    Ambiguous { given: String, ids: Vec<String> },
    #[error("sandbox {id}: {source}")]
    Illegal {
        id: SandboxId,
        #[source]
        source: IllegalTransition,
    },
    #[error("sandbox {id} is {found} now, not {}", states(.expected))]
    StateChanged { id: SandboxId, found: State, expected: Vec<State> },
    #[error("the record of sandbox '{}' cannot be read: {why}", printable(.id))]
    BadRow { id: String, why: String },
    #[error("no host uid is free from {base} up")]
    NoFreeUid { base: u32 },
    #[error("{} has version {found}, and this palisade knows versions up to {known}", .file.display())]
    Newer { file: PathBuf, found: i64, known: i64 },
    #[error("{} is damaged and cannot be read: {why}", .file.display())]
    Corrupt { file: PathBuf, why: String },
    #[error("{} can be written by other users", .directory.display())]
    Exposed { directory: PathBuf },
    #[error("cannot {what}: no space is left for {}", .file.display())]
    Full { file: PathBuf, what: &'static str },
    #[error("cannot {what}: {} cannot be written", .file.display())]
    ReadOnly { file: PathBuf, what: &'static str },
    #[error("cannot {what}: too many files are open to open {}", .file.display())]
    TooManyFiles { file: PathBuf, what: &'static str },
    #[error("cannot {what}: {} was kept locked by another process for too long", .file.display())]
    Locked { file: PathBuf, what: &'static str },
    #[error("cannot {what}: {}: {why}", .file.display())]
    Unopenable { file: PathBuf, what: &'static str, why: String },
    #[error("cannot {what}: {}: {}", .file.display(), without_statement(.source))]
    Sqlite {
        file: PathBuf,
        what: &'static str,
        #[source]
        source: rusqlite::Error,
    },
}

/// The existing name that a mistyped one most likely meant.
fn similar<'a>(given: &str, names: &'a [String]) -> Option<&'a String> {
    const LIKELY: f64 = 0.8;
    let score = |name: &String| strsim::jaro_winkler(given, name);
    let best = names.iter().max_by(|a, b| score(a).total_cmp(&score(b)))?;
    (score(best) >= LIKELY).then_some(best)
}

/// What SQLite says, without the statement that it says it of.
fn without_statement(source: &rusqlite::Error) -> String {
    match source {
        rusqlite::Error::SqlInputError { msg, .. } => msg.clone(),
        other => other.to_string(),
    }
}

fn states(expected: &[State]) -> String {
    expected.iter().map(|state| state.as_str()).collect::<Vec<_>>().join(" or ")
}

impl StoreError {
    /// Tells the conditions a user can do something about from those that are a defect of ours.
    pub(crate) fn from_sqlite(file: &Path, what: &'static str, source: rusqlite::Error) -> Self {
        let file = file.to_owned();
        match source.sqlite_error_code() {
            Some(Sqlite::NotADatabase | Sqlite::DatabaseCorrupt) => {
                Self::Corrupt { file, why: source.to_string() }
            }
            Some(Sqlite::DiskFull) => Self::Full { file, what },
            Some(Sqlite::ReadOnly) => Self::ReadOnly { file, what },
            Some(Sqlite::DatabaseBusy | Sqlite::DatabaseLocked) => Self::Locked { file, what },
            Some(Sqlite::CannotOpen | Sqlite::PermissionDenied | Sqlite::SystemIoFailure) => {
                Self::unopenable(file, what, source.to_string())
            }
            _ => Self::Sqlite { file, what, source },
        }
    }

    pub(crate) fn from_io(file: &Path, what: &'static str, source: &std::io::Error) -> Self {
        let file = file.to_owned();
        match HostTrouble::of(what, source) {
            Some(HostTrouble::Full { .. }) => Self::Full { file, what },
            Some(HostTrouble::ReadOnly { .. }) => Self::ReadOnly { file, what },
            Some(HostTrouble::TooManyFiles { .. }) => Self::TooManyFiles { file, what },
            Some(HostTrouble::TooManyProcesses { .. } | HostTrouble::NoMemory { .. }) | None => {
                Self::Unopenable { file, what, why: source.to_string() }
            }
        }
    }

    /// SQLite tells only that a system call failed, so the system is asked again why it would.
    fn unopenable(file: PathBuf, what: &'static str, why: String) -> Self {
        use rustix::fs::{Access, StatVfsMountFlags, access, statvfs};
        let directory = file.parent().unwrap_or(&file);
        if let Err(error) = std::fs::File::open("/dev/null")
            && let Some(HostTrouble::TooManyFiles { .. }) = HostTrouble::of(what, &error)
        {
            return Self::TooManyFiles { file, what };
        }
        let system = statvfs(directory).ok();
        if system.as_ref().is_some_and(|system| system.f_flag.contains(StatVfsMountFlags::RDONLY)) {
            return Self::ReadOnly { file, what };
        }
        // SQLite's own files grow by so much at once.
        const STEP: u64 = 64 * 1024;
        let is_full = |system: rustix::fs::StatVfs| {
            system.f_bavail.saturating_mul(system.f_frsize) < STEP
                || (system.f_files > 0 && system.f_favail == 0)
        };
        if system.is_some_and(is_full) {
            return Self::Full { file, what };
        }
        if access(directory, Access::WRITE_OK) == Err(rustix::io::Errno::ACCESS) {
            return Self::ReadOnly { file, what };
        }
        Self::Unopenable { file, what, why }
    }
}

impl Diagnostic for StoreError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::NameTaken { .. } => "name-taken",
            Self::NotFound { .. } => "sandbox-not-found",
            Self::Ambiguous { .. } => "sandbox-ambiguous",
            Self::Illegal { .. } => "illegal-transition",
            Self::StateChanged { .. } => "state-changed",
            Self::BadRow { .. } => "store-bad-row",
            Self::NoFreeUid { .. } => "no-free-uid",
            Self::Newer { .. } => "store-newer",
            Self::Corrupt { .. } => "store-corrupt",
            Self::Exposed { .. } => "store-exposed",
            Self::Full { .. } => "store-full",
            Self::ReadOnly { .. } => "store-read-only",
            Self::TooManyFiles { .. } => "store-too-many-files",
            Self::Locked { .. } => "store-locked",
            Self::Unopenable { .. } => "store-unopenable",
            Self::Sqlite { .. } => "store-internal",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::NameTaken { .. } | Self::Illegal { .. } | Self::StateChanged { .. } => ExitCode::Conflict,
            Self::NotFound { .. } => ExitCode::NotFound,
            Self::Ambiguous { .. } => ExitCode::Usage,
            Self::Locked { .. } => ExitCode::Timeout,
            Self::Sqlite { .. } => ExitCode::Internal,
            Self::Newer { .. } => ExitCode::Configuration,
            Self::BadRow { .. }
            | Self::NoFreeUid { .. }
            | Self::Corrupt { .. }
            | Self::Exposed { .. }
            | Self::Full { .. }
            | Self::ReadOnly { .. }
            | Self::TooManyFiles { .. }
            | Self::Unopenable { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::NameTaken { name, .. } => {
                format!("choose another name, or remove that one with: palisade rm {name}")
            }
            Self::NotFound { given, names } => match similar(given, names) {
                Some(name) => format!("did you mean '{name}'? List the sandboxes with: palisade ls"),
                None => "list the sandboxes with: palisade ls".into(),
            },
            Self::Ambiguous { .. } => "give more characters of the id, or the name".into(),
            Self::Illegal { .. } | Self::StateChanged { .. } => {
                "another command may have changed it meanwhile; look with: palisade ls".into()
            }
            Self::BadRow { id, .. } => {
                format!("remove it and all it has with: palisade rm --discard {}", printable(id))
            }
            Self::NoFreeUid { .. } => "remove sandboxes no longer used, or lower root.uid_base".into(),
            Self::Newer { .. } => {
                "it was written by a newer palisade, and nothing was changed; upgrade palisade, or set \
                 XDG_STATE_HOME to use a state of its own"
                    .into()
            }
            Self::Corrupt { .. } => {
                "it is set aside beside its place when the next command opens it: try again".into()
            }
            Self::Exposed { directory } => {
                format!("close it to others with: chmod go-w {}", directory.display())
            }
            Self::Full { .. } => {
                "free some space on that file system, for example with: palisade rm NAME; nothing was changed"
                    .into()
            }
            Self::ReadOnly { .. } => "make that directory writable for this user; nothing was changed".into(),
            Self::TooManyFiles { .. } => {
                "raise the limit (ulimit -n) and try again; nothing was changed".into()
            }
            Self::Locked { .. } => "try again; if it stays, look for a palisade process that hangs".into(),
            Self::Unopenable { .. } => "see whether the directory exists and belongs to this user".into(),
            Self::Sqlite { .. } => return Vec::new(),
        };
        vec![hint]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_failure_of_sqlite_is_told_without_the_statement() {
        let connection = rusqlite::Connection::open_in_memory().unwrap();
        let source = connection.execute_batch("SELECT secret_column FROM sandboxes").unwrap_err();
        let error = StoreError::from_sqlite(Path::new("/s/state.db"), "look", source);
        assert_eq!(error.to_string(), "cannot look: /s/state.db: no such table: sandboxes");
    }
}
