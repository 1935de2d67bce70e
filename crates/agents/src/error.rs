//! What can go wrong between a repository and an agent.

use crate::login::LoginError;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, HostTrouble, SandboxName};
use palisade_engine::EngineError;
use palisade_workspace::{BoundError, Change, ExchangeError, GitError, GitVersion, NotUsable, SandboxError};

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
    #[error("sandbox '{name}' was not made for an agent")]
    NotAnAgents { name: SandboxName },
    #[error("sandbox '{name}' belongs to another repository: {}", .other.as_path().display())]
    OtherRepository { name: SandboxName, other: HostPath },
    #[error("the repository of sandbox '{name}' is not at {} any more", .was.as_path().display())]
    RepositoryGone { name: SandboxName, was: HostPath },
    #[error("{agent} has no conversation in {directory} to continue")]
    NoConversation { agent: String, directory: String },
    #[error("there is no archive '{reference}'")]
    NoArchive { reference: String },
    #[error("'{reference}' may be any of several archives: {}", .references.join(", "))]
    SeveralArchives { reference: String, references: Vec<String> },
    #[error("this is a partial clone: some objects that the sandbox needs are not here")]
    PartialClone,
    #[error("there is no git repository in the workspace of the sandbox")]
    NoRepositoryInside,
    #[error("the files in the sandbox keep changing while they are looked at")]
    Restless,
    #[error("git does not take the sandbox's objects: {0}")]
    Objects(String),
    #[error(transparent)]
    Login(#[from] LoginError),
    #[error(transparent)]
    Git(GitError),
    #[error(transparent)]
    Inside(#[from] SandboxError),
    #[error("there is no worktree '{branch}' in sandbox '{name}'")]
    NoWorktree { name: SandboxName, branch: String },
    #[error("no working tree of the sandbox has the branch '{branch}'")]
    NoTree { branch: String },
    #[error("another sync is bringing artifacts to {}", .root.as_path().display())]
    ArtifactsBusy { root: HostPath },
    #[error(transparent)]
    Bound(BoundError),
    #[error("commits that were made in sandbox '{sandbox}' are not in {directory} yet")]
    CommitsLeft { sandbox: String, directory: HostPath },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl From<GitError> for AgentError {
    fn from(error: GitError) -> Self {
        // A git that is there and cannot be started for want of something needs no other git.
        let trouble = match &error {
            GitError::NotStarted { source, .. } => HostTrouble::of_start("start git", source),
            _ => None,
        };
        trouble.map_or(Self::Git(error), |trouble| Self::Engine(EngineError::Host(trouble)))
    }
}

impl From<ExchangeError> for AgentError {
    fn from(error: ExchangeError) -> Self {
        match error {
            ExchangeError::Host(error) => error.into(),
            ExchangeError::Git(error) => error.into(),
            ExchangeError::Sandbox(error) => Self::Inside(error),
            ExchangeError::Receive(error) => Self::Objects(error.to_string()),
            ExchangeError::Send(_) => Self::PartialClone,
            ExchangeError::Uncommitted { root, changes } => Self::Uncommitted { root, changes },
            ExchangeError::NoRepositoryInside => Self::NoRepositoryInside,
            ExchangeError::NoWorktree(branch) => Self::NoTree { branch: branch.to_string() },
            ExchangeError::Restless => Self::Restless,
        }
    }
}

impl From<BoundError> for AgentError {
    fn from(error: BoundError) -> Self {
        match error {
            BoundError::NotUsable(NotUsable::Git(git)) => Self::Git(git),
            other => Self::Bound(other),
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
            Self::RepositoryGone { .. } => "repository-gone",
            Self::NoConversation { .. } => "conversation-not-found",
            Self::NoArchive { .. } => "archive-not-found",
            Self::SeveralArchives { .. } => "archive-ambiguous",
            Self::PartialClone => "partial-clone",
            Self::NoRepositoryInside => "git-inside-broken",
            Self::Restless => "sandbox-restless",
            Self::Objects(_) => "objects-refused",
            Self::Login(error) => error.code(),
            Self::Git(GitError::Old { .. }) => "git-too-old",
            Self::Git(GitError::NotStarted { .. }) => "git-missing",
            Self::Git(_) => "git",
            Self::Inside(SandboxError::OldGuest { .. }) => "guest-too-old",
            Self::Inside(SandboxError::Failed { .. } | SandboxError::Answer { .. }) => "git-inside-broken",
            Self::Inside(_) => "git-inside",
            Self::NoWorktree { .. } | Self::NoTree { .. } => "worktree-not-found",
            Self::ArtifactsBusy { .. } => "sync-busy",
            Self::Bound(_) => "host-directory-refused",
            Self::CommitsLeft { .. } => "commits-left",
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
            | Self::PartialClone
            | Self::Restless
            | Self::Bound(
                BoundError::Unfinished { .. }
                | BoundError::EmptyGit { .. }
                | BoundError::Planted { .. }
                | BoundError::MadeMeanwhile { .. }
                | BoundError::FilterMissing { .. },
            )
            | Self::CommitsLeft { .. }
            | Self::RepositoryGone { .. } => ExitCode::Conflict,
            Self::NoArchive { .. } | Self::NoConversation { .. } => ExitCode::NotFound,
            Self::SeveralArchives { .. } => ExitCode::Usage,
            Self::Inside(error) if error.is_timeout() => ExitCode::Timeout,
            Self::Git(GitError::Old { .. } | GitError::NotStarted { .. }) => ExitCode::Preflight,
            Self::Git(GitError::Slow { .. }) => ExitCode::Timeout,
            Self::NoName { .. } => ExitCode::Usage,
            Self::NoWorktree { .. } | Self::NoTree { .. } => ExitCode::NotFound,
            Self::Git(_)
            | Self::Inside(_)
            | Self::NoRepositoryInside
            | Self::Objects(_)
            | Self::Bound(_)
            | Self::Io { .. } => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let one = |hint: String| vec![hint];
        match self {
            Self::Engine(error) => error.hints(),
            Self::Login(error) => error.hints(),
            Self::Repository(error) => one(error.hint().into()),
            Self::Uncommitted { .. } => {
                vec![
                    "commit or stash them".into(),
                    "or send them in as they are: --include-changes".into(),
                    "or leave them out: --allow-dirty".into(),
                ]
            }
            Self::NoName { .. } => one("give one: --name NAME".into()),
            Self::NotAnAgents { name } => {
                one(format!("choose another name with --name, or remove it: palisade rm {name}"))
            }
            Self::OtherRepository { .. } => one("choose another name with --name".into()),
            Self::RepositoryGone { name, was } => vec![
                "if you have moved it, run this command in the place where it is now".into(),
                format!(
                    "if it was a worktree that you have removed, make it again: git worktree add {} BRANCH",
                    was.as_path().display()
                ),
                format!(
                    "if it is gone, give up what is in the sandbox: palisade agent rm {name} --discard {name}"
                ),
            ],
            Self::NoConversation { .. } => one("begin one: leave --resume out".into()),
            Self::NoArchive { .. } => one("list them: palisade agent history".into()),
            Self::SeveralArchives { .. } => one("name one of them in full".into()),
            Self::PartialClone => {
                one("bring the missing objects first: git fetch --refetch --no-filter, then try again".into())
            }
            Self::NoRepositoryInside => vec![
                "put one there, from the repository: palisade agent start".into(),
                "or look at the files: palisade shell NAME".into(),
                "or remove the sandbox and keep its files as a tar file: palisade rm --force NAME".into(),
            ],
            Self::Bound(error) => one(error.hint()),
            Self::CommitsLeft { directory, .. } => {
                one(format!("bring them back: palisade run -w {directory} -- true"))
            }
            Self::Restless => one("wait until the agent is idle, then try again".into()),
            Self::Git(GitError::IndexLocked { .. }) => vec![
                "wait for that process to end, then try again".into(),
                "if no git process runs there, it was left by a crash: remove the file".into(),
            ],
            Self::ArtifactsBusy { .. } => one("wait for it, then try again".into()),
            Self::NoTree { .. } => one("list them: palisade agent worktree ls".into()),
            Self::NoWorktree { name, .. } => one(format!("list them: palisade agent worktree ls {name}")),
            Self::Git(GitError::Old { .. }) => vec![
                "an agent's work is merged with git merge-tree --write-tree, which older versions lack"
                    .into(),
                install_git(),
            ],
            Self::Git(GitError::NotStarted { .. }) => vec![install_git()],
            Self::Inside(SandboxError::OldGuest { .. }) => {
                one("restart it, which keeps everything in it: palisade stop NAME, then palisade start NAME"
                    .into())
            }
            Self::Inside(SandboxError::Failed { .. } | SandboxError::Answer { .. }) => {
                one("to remove the sandbox and keep its files as a tar file: palisade rm --force NAME".into())
            }
            Self::Git(_) | Self::Inside(_) | Self::Objects(_) | Self::Io { .. } => Vec::new(),
        }
    }
}
