//! What can go wrong with a verb.

use crate::copied_directory::CopyError;
use crate::unsaved_work::WorkError;
use crate::wrapper::WrapperError;
use palisade_core::{
    BackendError, Diagnostic, ErrorCode, ExitCode, HostPath, HostTrouble, Method, SandboxId, SandboxName,
    State,
};
use palisade_host::fault::{self, Step};
use palisade_protocol::client::ClientError;
use palisade_store::StoreError;

#[derive(Debug, thiserror::Error)]
pub enum EngineError {
    #[error(transparent)]
    Store(#[from] StoreError),
    #[error(transparent)]
    Backend(#[from] BackendError),
    #[error(transparent)]
    Client(#[from] ClientError),
    #[error(transparent)]
    Wrapper(#[from] WrapperError),
    #[error(transparent)]
    Copied(#[from] CopyError),
    /// Whatever knows about the work in a sandbox could not save it.
    #[error("{0}")]
    Work(WorkError),
    #[error("sandbox '{name}' has work that is not in your branches and files:{}", lines(.unapplied, .not_archived))]
    UnsavedWork { name: SandboxName, unapplied: Vec<String>, not_archived: Vec<String> },
    #[error("some work in sandbox '{name}' could not be archived:{}", lines(.items, &[]))]
    NotArchived { name: SandboxName, items: Vec<String> },
    /// It stays, since what is in it could not be saved.
    #[error("{error}")]
    WorkNotSaved { name: SandboxName, error: WorkError },
    /// It could not be started, so nothing is known of what is in it.
    #[error("the work in sandbox '{name}' could not be looked at: {source}")]
    WorkUnknown { name: SandboxName, source: Box<EngineError> },
    #[error("an agent is working in sandbox '{name}'{}", .session.as_ref().map(|session| format!(" (session '{session}')")).unwrap_or_default())]
    AgentWorking { name: SandboxName, session: Option<String> },
    #[error("sandbox '{name}' is {state}, so {verb} is not possible")]
    WrongState { name: SandboxName, state: State, verb: &'static str, hint: String },
    /// While somebody was connected to it.
    #[error("sandbox '{name}' has ended meanwhile: {why}")]
    Ended { name: SandboxName, why: String },
    /// Somebody was connected to it, and it goes on all the same.
    #[error("the connection to sandbox '{name}' was lost: its keeper died")]
    KeeperDied { name: SandboxName },
    /// The sandbox goes on, as far as is known.
    #[error("sandbox '{name}' cannot be reached: {why}")]
    EngineLost { name: SandboxName, why: String },
    /// Its socket is gone, or of another place.
    #[error("the keeper of sandbox '{name}' cannot be reached: {source}")]
    KeeperUnreachable {
        name: SandboxName,
        #[source]
        source: std::io::Error,
    },
    #[error("sandbox '{name}' was not stopped: {reason}")]
    NotStopped { name: SandboxName, reason: String },
    #[error("sandbox '{name}' was removed meanwhile")]
    Removed { name: SandboxName },
    #[error("another command is at work on sandbox '{name}'")]
    Busy { name: SandboxName },
    #[error(
        "the files of sandbox '{name}' belong to another installation, of which this state directory is a copy"
    )]
    Foreign { name: SandboxName },
    #[error("{engine} could not be asked what is left there: {source}")]
    NotAsked {
        engine: Method,
        #[source]
        source: Box<BackendError>,
        /// What says that the engine was used, when nothing else does.
        forget: Option<HostPath>,
    },
    #[error("there is no record of sandbox {id}, so nothing can tell what work is in its files")]
    UnrecordedFiles { id: SandboxId },
    #[error("another command is at work on sandbox {id}, of which there is no record")]
    UnrecordedBusy { id: SandboxId },
    #[error("sandbox '{name}' was stopped before it was up")]
    StoppedMeanwhile { name: SandboxName },
    #[error("the {verb} of sandbox '{name}' was interrupted, so it is not whole")]
    Interrupted { name: SandboxName, verb: &'static str },
    #[error("sandbox '{name}' did not {what} within {seconds} s")]
    Timeout { name: SandboxName, what: &'static str, seconds: u64 },
    #[error("the keeper of sandbox '{name}' could not be started: {reason}")]
    Keeper { name: SandboxName, reason: String },
    /// What a keeper process reported of its own failure, carried over with its code.
    #[error("{message}")]
    Reported { code: String, exit: u8, message: String, hints: Vec<String> },
    #[error(transparent)]
    Host(#[from] HostTrouble),
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
    #[error("the sandbox's way out could not be opened: {reason}")]
    WayOut { reason: String },
    #[error("{path}: {reason}")]
    Copy { path: String, reason: String },
    #[error("{path} has {bytes} bytes, and {left} are left of what may come out of a sandbox at once")]
    CopyTooLarge { path: String, bytes: u64, left: u64 },
    #[error("{path} has more files than may come out of a sandbox at once")]
    CopyTooMany { path: String },
    #[error("{path} needs {bytes} bytes, and the disk has {room}")]
    CopyNoRoom { path: String, bytes: u64, room: u64 },
}

/// Items for people, a line each.
fn lines(items: &[String], others: &[String]) -> String {
    items.iter().chain(others).map(|item| format!("\n  {item}")).collect()
}

impl EngineError {
    /// Fails here when a test wants it to; see [`palisade_host::fault`].
    pub(crate) fn step(step: Step) -> Result<(), Self> {
        fault::at(step).map_err(Self::io("carry on"))
    }

    /// The method that could not be asked what is left of it, when that is what this is about.
    pub(crate) fn unasked(&self) -> Option<Method> {
        match self {
            Self::NotAsked { engine, .. } => Some(*engine),
            _ => None,
        }
    }

    pub(crate) fn keeper_unreachable(name: &SandboxName, source: std::io::Error) -> Self {
        match HostTrouble::of(&format!("reach the keeper of sandbox '{name}'"), &source) {
            Some(trouble) => Self::Host(trouble),
            None => Self::KeeperUnreachable { name: name.clone(), source },
        }
    }

    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| match HostTrouble::of(&what, &source) {
            Some(trouble) => Self::Host(trouble),
            None => Self::Io { what, source },
        }
    }
}

impl Diagnostic for EngineError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Store(error) => error.code(),
            Self::Backend(error) => error.code(),
            Self::Host(trouble) => trouble.code(),
            Self::Client(ClientError::Silent { .. }) => "sandbox-silent",
            Self::Client(_) => "guest-connection",
            Self::Wrapper(error) => error.code(),
            Self::Copied(error) => error.code(),
            Self::Work(error) => error.code(),
            Self::UnsavedWork { .. } => "unsynced-work",
            Self::NotArchived { .. } => "work-not-archived",
            Self::WorkUnknown { source, .. } => source.code(),
            Self::WorkNotSaved { error, .. } => error.code(),
            Self::AgentWorking { .. } => "agent-working",
            Self::WrongState { .. } => "wrong-state",
            Self::Ended { .. } | Self::Removed { .. } => "sandbox-ended",
            Self::KeeperDied { .. } => "keeper-died",
            Self::KeeperUnreachable { .. } => "keeper-unreachable",
            Self::EngineLost { .. } | Self::NotStopped { .. } => "engine-lost",
            Self::Busy { .. } | Self::UnrecordedBusy { .. } => "sandbox-busy",
            Self::NotAsked { source, .. } => source.code(),
            Self::UnrecordedFiles { .. } => "wrong-state",
            Self::Foreign { .. } => "sandbox-foreign",
            Self::StoppedMeanwhile { .. } => "stopped-meanwhile",
            Self::Interrupted { .. } => "sandbox-interrupted",
            Self::Timeout { .. } => "timeout",
            Self::Keeper { .. } => "keeper-failed",
            Self::Reported { code, .. } => known_code(code),
            Self::Io { .. } => "io",
            Self::WayOut { .. } => "egress-unavailable",
            Self::Copy { .. } => "copy-failed",
            Self::CopyTooLarge { .. } | Self::CopyTooMany { .. } => "copy-too-large",
            Self::CopyNoRoom { .. } => "disk-full",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Client(ClientError::Silent { .. }) => ExitCode::Timeout,
            Self::Store(error) => error.exit(),
            Self::Backend(error) => error.exit(),
            Self::Host(trouble) => trouble.exit(),
            Self::Wrapper(error) => error.exit(),
            Self::Copied(error) => error.exit(),
            Self::Work(error) => error.exit(),
            Self::WorkUnknown { source, .. } => source.exit(),
            Self::WorkNotSaved { error, .. } => error.exit(),
            Self::UnsavedWork { .. } | Self::NotArchived { .. } | Self::AgentWorking { .. } => {
                ExitCode::Conflict
            }
            Self::Client(_)
            | Self::Keeper { .. }
            | Self::Ended { .. }
            | Self::KeeperDied { .. }
            | Self::KeeperUnreachable { .. }
            | Self::Removed { .. }
            | Self::Io { .. }
            | Self::Copy { .. }
            | Self::CopyTooLarge { .. }
            | Self::CopyTooMany { .. }
            | Self::CopyNoRoom { .. } => ExitCode::Failed,
            Self::WrongState { .. }
            | Self::Busy { .. }
            | Self::UnrecordedBusy { .. }
            | Self::UnrecordedFiles { .. }
            | Self::Foreign { .. }
            | Self::StoppedMeanwhile { .. }
            | Self::Interrupted { .. } => ExitCode::Conflict,
            Self::Timeout { .. } => ExitCode::Timeout,
            Self::NotAsked { source, .. } => source.exit(),
            Self::WayOut { .. } | Self::EngineLost { .. } | Self::NotStopped { .. } => ExitCode::Preflight,
            Self::Reported { exit, .. } => known_exit(*exit),
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Store(error) => error.hints(),
            Self::Backend(error) => error.hints(),
            Self::Host(trouble) => trouble.hints(),
            Self::Wrapper(error) => error.hints(),
            Self::Copied(error) => error.hints(),
            Self::Work(error) => error.hints(),
            Self::UnsavedWork { name, not_archived, .. } => vec![
                format!("bring it into your branches: palisade agent sync {name}"),
                match not_archived.is_empty() {
                    true => "or archive it and go on: repeat the command with --force".into(),
                    false => format!(
                        "or give up what cannot be archived, by name: repeat the command with --discard {name}"
                    ),
                },
            ],
            Self::NotArchived { name, .. } => {
                vec![format!("give it up by name: repeat the command with --discard {name}")]
            }
            Self::WorkUnknown { name, source } => {
                let discard = format!("or give up what is in it by name: palisade rm --discard {name}");
                source.hints().into_iter().chain([discard]).collect()
            }
            Self::WorkNotSaved { name, error } => {
                let mut hints = error.hints();
                if !hints.iter().any(|hint| hint.contains("--discard")) {
                    hints.push(format!(
                        "the sandbox stays; to give up what is in it, by name: palisade rm --discard {name}"
                    ));
                }
                hints
            }
            Self::AgentWorking { .. } => vec![
                "wait for it to end, or end it: repeat the command with --force; its work is archived first"
                    .into(),
            ],
            Self::WrongState { hint, .. } => vec![hint.clone()],
            Self::Client(ClientError::Silent { sandbox, .. }) => {
                let end = sandbox.as_ref().map(|name| format!("; to end it: palisade stop {name}"));
                let hint = "it may be paused, stopped by a signal, or overloaded".to_owned();
                vec![hint + end.as_deref().unwrap_or_default()]
            }
            Self::Client(ClientError::Closed) => vec![
                "the sandbox has ended, or the engine that runs it cannot be reached; to see what still runs: palisade ls"
                    .into(),
                "what is left of a run is removed by the next command, or with: palisade gc".into(),
            ],
            Self::Ended { name, .. } => {
                vec![format!("what was written in it is kept; start it again with: palisade start {name}")]
            }
            Self::KeeperDied { .. } => {
                vec!["it goes on with its sessions, and the next command finds it another: try again".into()]
            }
            Self::KeeperUnreachable { name, .. } => {
                vec![format!("its files are kept; end what runs with: palisade stop {name}; then start it again")]
            }
            Self::EngineLost { .. } => vec![
                "it goes on with its sessions as far as is known; see whether the engine answers, then try again"
                    .into(),
            ],
            Self::NotStopped { .. } => {
                vec!["it may still run; see whether the engine answers, then try again".into()]
            }
            Self::Busy { .. } | Self::UnrecordedBusy { .. } => vec!["wait for it, then try again".into()],
            Self::NotAsked { source, forget, .. } => {
                let gone = |file: &HostPath| format!("if that engine is gone for good, remove {file}");
                source.hints().into_iter().chain(forget.as_ref().map(gone)).collect()
            }
            Self::UnrecordedFiles { id } => {
                vec![format!("give up its files with: palisade rm --discard {id}")]
            }
            Self::Foreign { name } => vec![format!(
                "use it from the state directory it was made in; forget it here with: palisade rm {name}"
            )],
            Self::StoppedMeanwhile { name } => {
                vec![format!("another command stopped it; start it again with: palisade start {name}")]
            }
            Self::Interrupted { name, .. } => {
                vec![format!("put it in order with: palisade gc; or remove it with: palisade rm {name}")]
            }
            Self::Keeper { .. } => vec!["`palisade doctor` tells whether the method works here".into()],
            Self::Timeout { name, .. } => {
                vec![format!("`palisade rm --force {name}` ends it whatever it does")]
            }
            Self::WayOut { .. } => {
                vec!["leave out --network, --allow and --host-port, or choose other ports".into()]
            }
            Self::Reported { hints, .. } => hints.clone(),
            Self::CopyTooLarge { .. } => {
                vec!["bring less of it by naming files, or raise copy.max_size in the user's settings".into()]
            }
            Self::CopyTooMany { .. } => {
                vec![
                    "bring less of it by naming files, or raise copy.max_files in the user's settings".into(),
                ]
            }
            Self::CopyNoRoom { .. } => vec!["free some space on that file system and try again".into()],
            Self::Client(_) | Self::Removed { .. } | Self::Io { .. } | Self::Copy { .. } => Vec::new(),
        }
    }
}

/// Codes are static; one that came as text from a keeper of another build may be unknown here.
fn known_code(text: &str) -> ErrorCode {
    const CODES: [ErrorCode; 23] = [
        "objects-missing",
        "egress-unavailable",
        "files-missing",
        "engine-refused",
        "engine-silent",
        "image-missing",
        "io",
        "tools-missing",
        "method-unavailable",
        "method-unsupported",
        "limit-not-enforceable",
        "host-directory-refused",
        "host-directory-busy",
        "timeout",
        "wrong-state",
        "stopped-meanwhile",
        "disk-full",
        "read-only",
        "too-many-files",
        "store-full",
        "store-read-only",
        "store-too-many-files",
        "store-locked",
    ];
    CODES.into_iter().find(|code| *code == text).unwrap_or("keeper-failed")
}

fn known_exit(number: u8) -> ExitCode {
    let exits = [
        ExitCode::Preflight,
        ExitCode::Provisioning,
        ExitCode::NotFound,
        ExitCode::Conflict,
        ExitCode::Timeout,
        ExitCode::Configuration,
    ];
    exits.into_iter().find(|exit| *exit as u8 == number).unwrap_or(ExitCode::Failed)
}
