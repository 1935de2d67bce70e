//! What can go wrong between a repository and an agent.

use crate::login::LoginError;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, SandboxName};
use palisade_engine::EngineError;
use palisade_workspace::{Change, GitError, GitVersion, InsideError, NotUsable};

#[derive(Debug, thiserror::Error)]
pub enum AgentError {
    #[error(transparent)]
    Engine(#[from] EngineError),
    #[error(transparent)]
    Repository(NotUsable),
    #[error("{} has {} that {} not committed: {}", .root.as_path().display(), files(.changes.len()), if .changes.len() == 1 { "is" } else { "are" }, few(.changes))]
    Uncommitted { root: HostPath, changes: Vec<Change> },
    #[error("{} has a name from which no sandbox's can be made", .root.as_path().display())]
    NoName { root: HostPath },
    #[error("sandbox '{name}' is none of an agent's")]
    NotAnAgents { name: SandboxName },
    #[error("sandbox '{name}' belongs to another repository: {}", .other.as_path().display())]
    OtherRepository { name: SandboxName, other: HostPath },
    #[error("sandbox '{name}' has work that is not on the host: {what}")]
    Unsynced { name: SandboxName, what: String },
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Inside(#[from] InsideError),
    #[error("there is no worktree '{branch}' in sandbox '{name}'")]
    NoWorktree { name: SandboxName, branch: String },
    #[error("another sync is bringing artifacts to {}", .root.as_path().display())]
    ArtifactsBusy { root: HostPath },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl From<NotUsable> for AgentError {
    /// A git that cannot be used is no fault of the repository's.
    fn from(error: NotUsable) -> Self {
        match error {
            NotUsable::Git(git @ (GitError::Old { .. } | GitError::NotStarted { .. })) => Self::Git(git),
            other => Self::Repository(other),
        }
    }
}

impl AgentError {
    pub(crate) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

fn install_git() -> String {
    format!("install git {} or later and put it first on the PATH", GitVersion::OLDEST)
}

fn files(count: usize) -> String {
    if count == 1 { "1 file".into() } else { format!("{count} files") }
}

/// The first few paths, as people read them.
fn few(changes: &[Change]) -> String {
    const SHOWN: usize = 5;
    let shown = changes.iter().take(SHOWN);
    let mut text: Vec<String> =
        shown.map(|change| palisade_core::printable(&change.path.to_string_lossy())).collect();
    if changes.len() > SHOWN {
        text.push(format!("and {} more", changes.len() - SHOWN));
    }
    text.join(", ")
}

impl Diagnostic for AgentError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Engine(error) => error.code(),
            Self::Repository(_) => "repository-not-usable",
            Self::Uncommitted { .. } => "uncommitted-changes",
            Self::NoName { .. } => "no-name",
            Self::NotAnAgents { .. } => "not-an-agents-sandbox",
            Self::OtherRepository { .. } => "other-repository",
            Self::Unsynced { .. } => "unsynced-work",
            Self::Login(error) => error.code(),
            Self::Git(GitError::Old { .. }) => "git-too-old",
            Self::Git(GitError::NotStarted { .. }) => "git-missing",
            Self::Git(_) => "git",
            Self::Inside(_) => "git-inside",
            Self::NoWorktree { .. } => "worktree-not-found",
            Self::ArtifactsBusy { .. } => "sync-busy",
            Self::Io { .. } => "io",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Engine(error) => error.exit(),
            Self::Login(error) => error.exit(),
            Self::Repository(NotUsable::Git(_)) => ExitCode::Failed,
            Self::Repository(_)
            | Self::Uncommitted { .. }
            | Self::NotAnAgents { .. }
            | Self::OtherRepository { .. }
            | Self::ArtifactsBusy { .. }
            | Self::Unsynced { .. } => ExitCode::Conflict,
            Self::Git(GitError::Old { .. } | GitError::NotStarted { .. }) => ExitCode::Preflight,
            Self::Git(GitError::Slow { .. }) | Self::Inside(InsideError::Slow { .. }) => ExitCode::Timeout,
            Self::NoName { .. } => ExitCode::Usage,
            Self::NoWorktree { .. } => ExitCode::NotFound,
            Self::Git(_) | Self::Inside(_) | Self::Io { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let one = |hint: String| vec![hint];
        match self {
            Self::Engine(error) => error.hints(),
            Self::Login(error) => error.hints(),
            Self::Repository(error) => one(error.hint().into()),
            Self::Uncommitted { .. } => {
                one("commit or stash them, or go on with what is committed: --allow-dirty".into())
            }
            Self::NoName { .. } => one("give one: --name NAME".into()),
            Self::NotAnAgents { name } => {
                one(format!("choose another name with --name, or remove it: palisade rm {name}"))
            }
            Self::OtherRepository { .. } => one("choose another name with --name".into()),
            Self::Unsynced { name, .. } => vec![
                format!("bring it home: palisade agent sync {name}"),
                format!("or give it up by name: --discard {name}"),
            ],
            Self::ArtifactsBusy { .. } => one("wait for it, then try again".into()),
            Self::NoWorktree { name, .. } => one(format!("list them: palisade agent worktree ls {name}")),
            Self::Git(GitError::Old { .. }) => vec![
                "an agent's work is merged with git merge-tree --write-tree, which older versions lack"
                    .into(),
                install_git(),
            ],
            Self::Git(GitError::NotStarted { .. }) => vec![install_git()],
            Self::Git(_) | Self::Inside(_) | Self::Io { .. } => Vec::new(),
        }
    }
}
