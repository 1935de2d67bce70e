//! Everything that may stand between a person and a running stack, and what to do about it.

use crate::copying::FileFailure;
use crate::env_file::UnwritableValue;
use crate::feature::Feature;
use crate::health::HealthError;
use crate::overriding::{SlotCollision, UnknownServices};
use crate::reach::NotAgreed;
use crate::secrets::SecretFailure;
use crate::slots::SlotError;
use crate::stack::{FailedService, ScopeCheckError, ScopeError, StackError};
use palisade_config::ConfigError;
use palisade_config::infra::INFRA_FILE;
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, ProjectPath, printable, shell};
use palisade_workspace::{BranchName, GitError, NotUsable, Unfinished};

#[derive(Debug, thiserror::Error)]
pub enum ProvisionError {
    #[error(transparent)]
    Repository(NotUsable),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Config(#[from] ConfigError),
    #[error(transparent)]
    Slot(#[from] SlotError),
    #[error(transparent)]
    Stack(#[from] StackError),
    /// Services could not be stopped or removed.
    #[error(transparent)]
    NotDown(StackError),
    #[error(transparent)]
    Health(#[from] HealthError),
    #[error(transparent)]
    NotAgreed(#[from] NotAgreed),
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error(transparent)]
    UnknownServices(#[from] UnknownServices),
    #[error("two sandboxes cannot both have this: {}", .collisions.iter().map(ToString::to_string).collect::<Vec<_>>().join("; "))]
    Fixed { collisions: Vec<SlotCollision> },
    #[error("what was agreed to is not known: {reason}")]
    Memory { reason: String },
    #[error(transparent)]
    Unwritable(#[from] UnwritableValue),
    #[error("{root} has no {INFRA_FILE}, which says what its sandboxes need")]
    NotOnboarded { root: HostPath },
    #[error("{worktree} has no {file}")]
    NoComposeFile { worktree: HostPath, file: ProjectPath },
    #[error("{branch} is checked out at {at} already")]
    BranchInUse { branch: BranchName, at: HostPath },
    #[error("{worktree} is at {}, not at {wanted}", .found.as_ref().map_or("no branch", BranchName::as_str))]
    OnAnotherBranch { worktree: HostPath, wanted: BranchName, found: Option<BranchName> },
    #[error("{path} exists, and is no worktree of this repository")]
    InTheWay { path: HostPath },
    #[error("{worktree} exists, and its services do not run")]
    NotStarted { worktree: HostPath },
    #[error("the services of {worktree} do not run, so there is nothing to bring up to date")]
    NothingRuns { worktree: HostPath },
    #[error("there is no service '{}' here", printable(.service))]
    UnknownService { service: String, known: Vec<String> },
    #[error("the services of {feature} run already, from {worktree}")]
    Running { feature: Feature, worktree: HostPath },
    #[error("another command works on slot {slot}")]
    Busy { slot: String },
    #[error("the removal of {feature} was begun and interrupted")]
    BeingRemoved { feature: Feature },
    /// Told in a form of its own, since there may be many.
    #[error("{} of what the sandbox needs could not be had", .files.len() + .secrets.len())]
    Unmet { files: Vec<FileFailure>, secrets: Vec<SecretFailure> },
    #[error("{directory} is in no worktree of a sandbox")]
    NoSandboxHere { directory: HostPath },
    #[error("there is no sandbox of {feature}")]
    UnknownFeature { feature: Feature },
    #[error("several projects have a sandbox of {feature}: {}", .projects.join(", "))]
    Ambiguous { feature: Feature, projects: Vec<String> },
    #[error("{worktree} holds work that nobody else has:{}", listed(.work))]
    UnfinishedWork { feature: Feature, worktree: HostPath, work: Box<Unfinished> },
    #[error("{path} is no worktree that git knows of, so nobody knows what would be lost with it")]
    NotAWorktree { feature: Feature, path: HostPath },
    #[error("{worktree} could not be removed whole: {source}")]
    NotRemoved {
        worktree: HostPath,
        #[source]
        source: std::io::Error,
    },
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: std::io::Error,
    },
}

/// How much of a long list is told.
const TOLD: usize = 20;

fn listed(work: &Unfinished) -> String {
    let changes = work.changes.iter().take(TOLD).map(|change| {
        let kind = if change.untracked() { "untracked" } else { "uncommitted" };
        format!("\n  {kind}: {}", printable(&change.path.to_string_lossy()))
    });
    let commits = work.commits.iter();
    let commits = commits.map(|commit| format!("\n  unmerged: {} {}", commit.id.short(), commit.subject));
    let mut text: String = changes.collect();
    if work.changes.len() > TOLD {
        text.push_str(&format!("\n  and {} more files", work.changes.len() - TOLD));
    }
    text.extend(commits);
    if work.more_commits > 0 {
        text.push_str(&format!("\n  and {} more commits", work.more_commits));
    }
    text
}

/// A path in a command that the reader may paste into a shell.
fn word(path: impl AsRef<std::path::Path>) -> String {
    shell::shown(path.as_ref().as_os_str())
}

impl ProvisionError {
    /// The services that are the reason, with what they said last.
    pub fn services(&self) -> &[FailedService] {
        match self {
            Self::Stack(StackError::NotUp { services, .. }) => services,
            Self::Health(error) => error.services(),
            _ => &[],
        }
    }

    pub(super) fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl From<ScopeCheckError> for ProvisionError {
    fn from(error: ScopeCheckError) -> Self {
        match error {
            ScopeCheckError::Stack(error) => Self::Stack(error),
            ScopeCheckError::Scope(error) => Self::Scope(error),
        }
    }
}

impl From<NotUsable> for ProvisionError {
    fn from(error: NotUsable) -> Self {
        match error {
            NotUsable::Git(error) => Self::Git(error),
            error => Self::Repository(error),
        }
    }
}

impl Diagnostic for ProvisionError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Config(error) => error.code(),
            Self::Stack(error) | Self::NotDown(error) => error.code(),
            Self::Health(error) => error.code(),
            Self::Unwritable(_) => "value-unwritable",
            Self::NotAgreed(error) => error.code(),
            Self::Scope(error) => error.code(),
            Self::UnknownServices(error) => error.code(),
            Self::Fixed { .. } => "fixed-names",
            Self::Memory { .. } => "agreement-unknown",
            Self::Repository(_) => "repository-not-usable",
            Self::Git(GitError::Old { .. }) => "git-too-old",
            Self::Git(GitError::NotStarted { .. }) => "git-missing",
            Self::Git(_) => "git",
            Self::Slot(SlotError::NoneFree { .. }) => "no-free-slot",
            Self::Slot(SlotError::Taken { .. }) => "slot-taken",
            Self::Slot(SlotError::Gone { .. }) => "slot-gone",
            Self::NotOnboarded { .. } => "project-not-onboarded",
            Self::NoComposeFile { .. } => "compose-file-missing",
            Self::BranchInUse { .. } => "branch-in-use",
            Self::OnAnotherBranch { .. } => "worktree-on-another-branch",
            Self::InTheWay { .. } => "worktree-in-the-way",
            Self::NotStarted { .. } => "services-not-started",
            Self::NothingRuns { .. } => "services-not-running",
            Self::UnknownService { .. } => "service-not-found",
            Self::Running { .. } => "services-running",
            Self::Busy { .. } => "sandbox-busy",
            Self::BeingRemoved { .. } => "sandbox-being-removed",
            Self::Unmet { .. } => "provisioning-failed",
            Self::NoSandboxHere { .. } => "no-sandbox-here",
            Self::UnknownFeature { .. } => "feature-not-found",
            Self::Ambiguous { .. } => "feature-ambiguous",
            Self::UnfinishedWork { .. } => "unfinished-work",
            Self::NotAWorktree { .. } => "not-a-worktree",
            Self::NotRemoved { .. } => "worktree-not-removed",
            Self::Io { .. } | Self::Slot(SlotError::Io { .. }) => "io",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Config(error) => error.exit(),
            Self::Stack(error) | Self::NotDown(error) => error.exit(),
            Self::Health(error) => error.exit(),
            Self::NotAgreed(error) => error.exit(),
            Self::Scope(error) => error.exit(),
            Self::UnknownServices(error) => error.exit(),
            Self::Git(GitError::Old { .. } | GitError::NotStarted { .. }) => ExitCode::Preflight,
            Self::Git(GitError::Slow { .. }) => ExitCode::Timeout,
            Self::NotOnboarded { .. } | Self::NoComposeFile { .. } | Self::Unwritable(_) => {
                ExitCode::Configuration
            }
            Self::Unmet { .. } => ExitCode::Provisioning,
            Self::NoSandboxHere { .. } | Self::UnknownFeature { .. } | Self::UnknownService { .. } => {
                ExitCode::NotFound
            }
            Self::Ambiguous { .. } => ExitCode::Usage,
            Self::Repository(_)
            | Self::Slot(SlotError::NoneFree { .. } | SlotError::Taken { .. } | SlotError::Gone { .. })
            | Self::BranchInUse { .. }
            | Self::Fixed { .. }
            | Self::OnAnotherBranch { .. }
            | Self::InTheWay { .. }
            | Self::NotStarted { .. }
            | Self::NothingRuns { .. }
            | Self::Running { .. }
            | Self::Busy { .. }
            | Self::BeingRemoved { .. }
            | Self::NotAWorktree { .. }
            | Self::UnfinishedWork { .. } => ExitCode::Conflict,
            Self::Git(_)
            | Self::Io { .. }
            | Self::Memory { .. }
            | Self::NotRemoved { .. }
            | Self::Slot(SlotError::Io { .. }) => ExitCode::Failed,
        }
    }

    fn hints(&self) -> Vec<String> {
        let one = |hint: String| vec![hint];
        match self {
            Self::Config(error) => error.hints(),
            Self::Stack(error) => {
                let mut hints = error.hints();
                hints.push("once that is mended, go on from the worktree: palisade sandbox start".into());
                hints
            }
            Self::NotDown(error) => {
                let mut hints = error.hints();
                hints.push("nothing was removed; once that is mended, repeat the command".into());
                hints
            }
            Self::Health(error) => error.hints(),
            Self::NotAgreed(error) => error.hints(),
            Self::Scope(error) => error.hints(),
            Self::UnknownServices(error) => error.hints(),
            Self::Fixed { .. } => {
                one("give each sandbox its own with --fixed override, or leave them as they are with --fixed keep".into())
            }
            Self::Memory { .. } => one("see what is wrong with the state: palisade doctor".into()),
            Self::Repository(error) => one(error.hint().into()),
            Self::Git(GitError::Old { .. } | GitError::NotStarted { .. }) => {
                one("install a current git".into())
            }
            Self::NotOnboarded { .. } => one("write it once: palisade init".into()),
            Self::NoComposeFile { file, .. } => {
                one(format!("a worktree has what is committed: git add {} && git commit", word(file.as_str())))
            }
            Self::BranchInUse { .. } => one("work there, or choose another name or milestone".into()),
            Self::OnAnotherBranch { wanted, .. } => {
                one(format!("go back in it: git switch {wanted}; or choose another name or milestone"))
            }
            Self::InTheWay { .. } => one("move it away, or choose another name or milestone".into()),
            Self::NotStarted { worktree } => {
                vec![
                    format!("start them: cd {} && palisade sandbox start", word(worktree)),
                    "or have them started by the same command: --start".into(),
                ]
            }
            Self::NothingRuns { .. } => one("start them: palisade sandbox start".into()),
            Self::UnknownService { known, .. } if known.is_empty() => {
                one("nothing was started yet: palisade sandbox start".into())
            }
            Self::UnknownService { known, .. } => one(format!("the services are: {}", known.join(", "))),
            Self::Running { worktree, .. } => {
                one(format!("look at them: cd {} && palisade sandbox status", word(worktree)))
            }
            Self::Busy { .. } => one("wait for it to end, then try again".into()),
            Self::BeingRemoved { feature } => one(format!("finish it: palisade done {feature}")),
            Self::NoSandboxHere { .. } => vec![
                "list them: palisade slots".into(),
                "a worktree that was moved is found again by: palisade gc".into(),
            ],
            Self::UnknownFeature { .. } => one("list them: palisade slots".into()),
            Self::Ambiguous { .. } => one("call it in the repository that is meant".into()),
            Self::UnfinishedWork { feature, .. } => vec![
                "commit it, and merge or push the branch".into(),
                format!(
                    "or give up what is not committed; the branch stays: palisade done {feature} --force"
                ),
            ],
            Self::NotAWorktree { feature, .. } => one(format!(
                "move it away, or have it removed with all that is in it: palisade done {feature} --force"
            )),
            Self::Slot(SlotError::NoneFree { .. }) => {
                one("end what listens there, or a sandbox: palisade slots, palisade done NAME/MILESTONE"
                    .into())
            }
            Self::Slot(SlotError::Taken { .. } | SlotError::Gone { .. }) => one("try again".into()),
            Self::NotRemoved { worktree, .. } => one(format!(
                "a service may have left files of its own user: sudo rm -rf {}, then the same command again",
                word(worktree)
            )),
            Self::Unmet { .. }
            | Self::Unwritable(_)
            | Self::Git(_)
            | Self::Io { .. }
            | Self::Slot(SlotError::Io { .. }) => Vec::new(),
        }
    }
}
