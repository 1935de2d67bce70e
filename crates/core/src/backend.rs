//! The seam every backend fills: a place where our guest runs, and a byte stream to it.

use crate::description::SandboxDescription;
use crate::error::{Diagnostic, ErrorCode, ExitCode};
use crate::id::SandboxId;
use crate::method::Method;
use crate::objects::{OBJECTS, ObjectStoreName};
use crate::path::HostPath;
use crate::policy::{GUEST, HOME, USER, WORKSPACE};
use crate::preflight::Preflight;
use crate::resources::Enforcement;
use crate::spec::SandboxSpec;
use crate::trouble::HostTrouble;
use serde::Serialize;
use std::future::Future;
use std::path::PathBuf;
use std::pin::Pin;
use tokio::io::{AsyncRead, AsyncWrite};

pub type BoxFuture<'a, T> = Pin<Box<dyn Future<Output = T> + Send + 'a>>;

/// The one byte stream to a guest.
pub trait ByteStream: AsyncRead + AsyncWrite + Send + Unpin {}
impl<T: AsyncRead + AsyncWrite + Send + Unpin> ByteStream for T {}
pub type Stream = Box<dyn ByteStream>;

/// Something a backend may or may not be able to do. Asking for what it lacks is an error before anything starts.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Capability {
    /// Code inside cannot reach the host's files, processes and network.
    Isolation,
    /// A host directory can be bound as the workspace.
    BindWorkspace,
    /// Extra host paths can be mounted.
    HostMounts,
    /// The network policy is enforced.
    NetworkPolicy,
    /// Memory, processor and process limits are enforced.
    Limits,
    /// The sandbox goes on when its keeper dies and can be adopted again.
    OutlivesKeeper,
    /// Sandboxes of one repository are shown the host's commits in one store, read-only.
    SharedObjects,
}

impl Capability {
    pub const ALL: [Capability; 7] = [
        Capability::Isolation,
        Capability::BindWorkspace,
        Capability::HostMounts,
        Capability::NetworkPolicy,
        Capability::Limits,
        Capability::OutlivesKeeper,
        Capability::SharedObjects,
    ];
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct Capabilities(pub Vec<Capability>);

impl Capabilities {
    pub fn has(&self, capability: Capability) -> bool {
        self.0.contains(&capability)
    }
}

/// What a backend knows of one sandbox's place right now.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Liveness {
    pub running: bool,
    /// Why it ended, when it did and the backend knows.
    pub detail: Option<String>,
    pub limits: Vec<Enforcement>,
}

/// Where a sandbox's places are, as its own processes see them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Layout {
    pub workspace: String,
    /// Where commands start: the workspace, unless the environment says otherwise.
    pub directory: String,
    pub home: String,
    pub user: String,
    /// Our own program inside, which also answers questions about repositories.
    pub guest: String,
    /// The store of the host's git objects, where there is one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<String>,
    /// What every command inside starts from; the caller's own variables come on top.
    pub environment: Vec<(String, String)>,
}

/// Where programs are looked for inside, after a sandbox's own tools.
pub const SYSTEM_PATH: [&str; 6] =
    ["/usr/local/sbin", "/usr/local/bin", "/usr/sbin", "/usr/bin", "/sbin", "/bin"];

/// Where the programs of a tool directory lie.
pub fn programs_of(tool: &HostPath) -> [PathBuf; 2] {
    [tool.as_path().join("bin"), tool.as_path().to_owned()]
}

impl Layout {
    /// As it is in every sandbox with a file system of its own.
    pub fn inside(spec: &SandboxSpec) -> Self {
        let policy = &spec.policy;
        let tools = policy.tools.iter().flat_map(programs_of).map(|path| path.display().to_string());
        let path: Vec<String> = tools.chain(SYSTEM_PATH.map(str::to_owned)).collect();
        let entry = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        let mut environment = vec![
            entry("PATH", &path.join(":")),
            entry("HOME", HOME),
            entry("USER", USER),
            entry("LOGNAME", USER),
            entry("SHELL", "/bin/bash"),
            entry("LANG", "C.UTF-8"),
        ];
        environment.extend(policy.proxy_environment());
        Self {
            workspace: WORKSPACE.into(),
            directory: spec.foundation.directory(WORKSPACE),
            home: HOME.into(),
            user: USER.into(),
            guest: GUEST.into(),
            objects: policy.objects.as_ref().map(|_| OBJECTS.into()),
            environment,
        }
    }
}

/// How long something that was made for a sandbox has its use.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Lasting {
    /// A cgroup, a container: made by every start, worth nothing afterwards.
    WhileItRuns,
    /// A volume: it holds somebody's work as long as there is a record of the sandbox, in whatever state.
    WithTheSandbox,
}

/// The directory of the objects that a sandbox is shown, which must be there.
pub fn require_objects(spec: &SandboxSpec, state: &HostPath) -> Result<Option<HostPath>, BackendError> {
    let directory = spec.policy.objects.as_ref().map(|name: &ObjectStoreName| name.directory(state));
    match directory {
        Some(path) if !path.join("pack").as_path().is_dir() => Err(BackendError::MissingObjects {
            sandbox: spec.name.as_ref().map_or_else(|| spec.id.to_string(), ToString::to_string),
            path: path.to_string(),
        }),
        directory => Ok(directory),
    }
}

/// Whom the sandboxes of a method run as on the host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum HostUsers {
    /// Each runs under the uid of its specification, which no other sandbox has.
    OnePerSandbox,
    /// The method decides; this says how, for people.
    Given(String),
}

/// Something that outlived the process it belonged to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Leftover {
    /// For people: `cgroup …`, `container …`.
    pub what: String,
    /// It belongs to this sandbox, so it only is a leftover when that has no use for it any more. Ask *after* it
    /// was found: a sandbox is always recorded before anything is made for it.
    pub sandbox: Option<(SandboxId, Lasting)>,
    /// Whether processes run in it.
    pub is_running: bool,
    /// What it says of the sandbox it belongs to, should the record be lost.
    pub says: Option<LeftoverLabels>,
    /// The backend's own name for it.
    pub key: String,
}

/// What something of a sandbox's, kept by an engine, says of that sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct LeftoverLabels {
    pub name: Option<String>,
    /// The whole sandbox; what an earlier version has made says less.
    pub description: Option<SandboxDescription>,
}

impl Leftover {
    /// Of a process that is gone, and of no sandbox with a record.
    pub fn of_process(what: String, key: String) -> Self {
        Self { what, sandbox: None, is_running: false, says: None, key }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum BackendError {
    #[error("method '{method}' cannot be used: {reason}")]
    Unavailable { method: Method, reason: String, fix: String },
    #[error("method '{method}' cannot do this: {what}")]
    Unsupported { method: Method, what: String, fix: String },
    #[error("the {limit} limit that was asked for cannot be enforced: {reason}")]
    Limit { limit: String, reason: String, fix: String },
    #[error("the sandbox does not start with its {limit} limit of {value}")]
    LimitTooLow { limit: &'static str, value: String },
    #[error("environment '{environment}' needs {tools}, which {place} does not have")]
    MissingTools { environment: String, tools: String, place: String, fix: String },
    #[error("cannot use {path} in a sandbox: {reason}")]
    HostDirectory { path: String, reason: String, fix: String },
    /// A path that was given once leads elsewhere, and it is not known that the user wanted that.
    #[error("{path} is not the place that was given: {reason}")]
    PathChanged { path: String, reason: String },
    #[error("Missing image: {image}. Run: {fix}")]
    MissingImage { image: String, fix: String },
    #[error("{engine} did not answer within {seconds} s: {what}")]
    EngineSilent { engine: Method, what: String, seconds: u64, fix: String },
    #[error("{engine} refused to {what}: {reason}")]
    EngineRefused { engine: Method, what: String, reason: String },
    #[error("the store of the repository's commits that sandbox '{sandbox}' relies on is missing: {path}")]
    MissingObjects { sandbox: String, path: String },
    #[error("{path} is in use by another sandbox")]
    DirectoryBusy { path: String },
    /// What `create` made for its files is not there any more.
    #[error("the files of sandbox '{sandbox}' are gone: there is no {}", .missing.join(" and no "))]
    FilesMissing { sandbox: String, missing: Vec<String> },
    /// A container of this sandbox runs already, and a client may connect to it.
    #[error("{engine} runs the sandbox already")]
    RunsAlready { engine: Method },
    #[error(transparent)]
    Host(#[from] HostTrouble),
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

impl BackendError {
    /// Something that another method may well be able to do.
    pub fn unsupported(method: Method, what: impl Into<String>) -> Self {
        let fix = "choose another method with --method, or leave that option out".into();
        Self::Unsupported { method, what: what.into(), fix }
    }

    /// For the start of a process or a thread.
    pub fn start(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| match HostTrouble::of_start(&what, &source) {
            Some(trouble) => Self::Host(trouble),
            None => Self::Io { what, source },
        }
    }

    pub fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| match HostTrouble::of(&what, &source) {
            Some(trouble) => Self::Host(trouble),
            None => Self::Io { what, source },
        }
    }
}

impl Diagnostic for BackendError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Unavailable { .. } => "method-unavailable",
            Self::Unsupported { .. } => "method-unsupported",
            Self::Limit { .. } => "limit-not-enforceable",
            Self::LimitTooLow { .. } => "limit-too-low",
            Self::MissingTools { .. } => "tools-missing",
            Self::HostDirectory { .. } => "host-directory-refused",
            Self::PathChanged { .. } => "host-path-changed",
            Self::MissingImage { .. } => "image-missing",
            Self::EngineSilent { .. } => "engine-silent",
            Self::EngineRefused { .. } => "engine-refused",
            Self::MissingObjects { .. } => "objects-missing",
            Self::DirectoryBusy { .. } => "host-directory-busy",
            Self::FilesMissing { .. } => "files-missing",
            Self::RunsAlready { .. } => "runs-already",
            Self::Host(trouble) => trouble.code(),
            Self::Io { .. } => "io",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Unavailable { .. }
            | Self::Unsupported { .. }
            | Self::Limit { .. }
            | Self::LimitTooLow { .. }
            | Self::MissingTools { .. } => ExitCode::Preflight,
            Self::HostDirectory { .. }
            | Self::PathChanged { .. }
            | Self::EngineRefused { .. }
            | Self::MissingObjects { .. } => ExitCode::Failed,
            Self::MissingImage { .. } | Self::FilesMissing { .. } => ExitCode::Provisioning,
            Self::EngineSilent { .. } => ExitCode::Timeout,
            Self::DirectoryBusy { .. } | Self::RunsAlready { .. } => ExitCode::Conflict,
            Self::Host(trouble) => trouble.exit(),
            Self::Io { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        match self {
            Self::Unavailable { fix, .. }
            | Self::Unsupported { fix, .. }
            | Self::Limit { fix, .. }
            | Self::MissingTools { fix, .. }
            | Self::HostDirectory { fix, .. }
            | Self::EngineSilent { fix, .. } => vec![fix.clone()],
            Self::PathChanged { .. } => vec![
                "look at it first: a sandbox can replace everything below a directory that it may write".into(),
                "to use what is there now: palisade rebind NAME, or PATH for a wrapper; a run is started again".into(),
            ],
            Self::LimitTooLow { limit, .. } => vec![format!("raise it with --{limit}")],
            Self::EngineRefused { engine, .. } => {
                vec![format!("the reason is {engine}'s own; look at its log for more")]
            }
            Self::MissingImage { .. } | Self::RunsAlready { .. } => Vec::new(),
            Self::MissingObjects { .. } => {
                vec!["run `palisade agent start` in the repository: it writes the store again".into()]
            }
            Self::FilesMissing { sandbox, .. } => vec![
                "put them back under that name, from a backup for example, and start it again".into(),
                format!("or give it up with: palisade rm {sandbox}"),
            ],
            Self::DirectoryBusy { .. } => {
                vec!["stop the sandbox that has it (palisade ls), give this one a copy with -w DIR:copy, or bind it read-only with :ro".into()]
            }
            Self::Host(trouble) => trouble.hints(),
            Self::Io { .. } => Vec::new(),
        }
    }
}

/// A method of isolation. Object-safe, held as `Arc<dyn Backend>`; every call is idempotent where it can be.
pub trait Backend: Send + Sync {
    fn method(&self) -> Method;

    fn capabilities(&self) -> Capabilities;

    /// Tries the method for real: a trivial command must have run isolated.
    fn preflight(&self) -> BoxFuture<'_, Preflight>;

    /// Whether such a sandbox can be had at all, asked before there is a record of it: what it is made from is there,
    /// and nothing is asked for that the method lacks. Makes nothing.
    fn admit<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Says whom the sandboxes of this method run as on the host.
    fn host_users(&self) -> BoxFuture<'_, HostUsers>;

    /// Makes what outlives a stop: directories, volumes.
    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>>;

    /// Brings along what a start needs and what may take long, before a keeper is given little time for it.
    fn prepare<'a>(&'a self, _spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    /// Starts the guest. For process-backed methods it dies with this process.
    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>>;

    /// The byte stream to a started guest.
    fn connect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Stream, BackendError>>;

    /// Ends the guest and everything inside, and frees what lived only while it ran. Also cleans up after a
    /// guest that some earlier process had started and that died; stopping a stopped sandbox is not an error.
    fn stop<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>>;

    /// Removes what `create` made.
    fn remove<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>>;

    fn layout(&self, spec: &SandboxSpec) -> Layout;

    /// Changes whenever a passed preflight might no longer hold: another tool, another version, another engine.
    /// Empty when nothing can be said, so that nothing is kept.
    fn tool_identity(&self) -> String {
        String::new()
    }

    /// Why a guest that was started gave no answer. Called once its stream ended without a handshake.
    fn explain<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, BackendError>;

    fn inspect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Liveness, BackendError>>;

    /// How many processes of a running sandbox the kernel has killed because the sandbox had reached its memory limit.
    /// `keeper` is the process that holds the sandbox. 0 also where this cannot be found out.
    fn memory_kills<'a>(&'a self, _spec: &'a SandboxSpec, _keeper: u32) -> BoxFuture<'a, u64> {
        Box::pin(std::future::ready(0))
    }

    /// The file of the state directory that says that this installation has used the backend, so that
    /// [`Backend::leftovers`] may find something, besides what belongs to the sandboxes of its records.
    fn use_note(&self) -> Option<HostPath> {
        None
    }

    /// What this owner's dead processes may have left behind, without touching it.
    fn leftovers<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<Vec<Leftover>, BackendError>>;

    /// Removes one of them.
    fn discard<'a>(&'a self, leftover: &'a Leftover) -> BoxFuture<'a, Result<(), BackendError>>;
}
