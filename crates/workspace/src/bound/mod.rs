//! Git data of a sandbox's own for a working tree that it shares with the host.
//!
//! Host git runs what a repository's git directory says. So a sandbox that may write a host directory never gets the
//! host's git data for writing: inside, `.git` is a directory that was made for this sandbox ([`contents`]). It has the
//! host's objects as read-only alternates and starts with the host's refs and index. Commits come back as packs, and only
//! refs and the index of the host change ([`BringBack`]): the files are there already, and host git never has this
//! tree as its working tree.

mod bring_back;
mod config;
mod contents;
mod filters;
mod follow;
mod head;
mod index;
mod pending;
mod place;
mod plain;

pub use bring_back::{BringBack, BroughtBack, Moves};
pub use contents::{BoundRepository, BoundTree, FileContent, GitContents, unpin};
pub use filters::{NeededFilter, missing_filters};
pub use follow::{FollowHost, FollowOutcome};
pub use head::{Base, Head, HostSide};
pub use pending::{PendingFiles, PendingRepository, has_commits};
pub use place::{Contents, PlaceLock, PlaceRecord, PrivatePlace, RecordedRepository};
pub use plain::SettingsOf;

use crate::git::GitError;
use crate::place::NotUsable;
use palisade_core::HostPath;
use std::path::PathBuf;

/// Why a sandbox cannot have a working tree for writing.
#[derive(Debug, thiserror::Error)]
pub enum BoundError {
    #[error(transparent)]
    NotUsable(#[from] NotUsable),
    #[error("a {operation} is in progress in {directory}")]
    Unfinished { directory: HostPath, operation: &'static str },
    #[error("the git data of {directory} is at {} in its working tree, where a sandbox could write it", .git.display())]
    GitDataInTree { directory: HostPath, git: PathBuf },
    #[error(
        "{directory} has an empty directory .git, which does not keep git from what a sandbox lays beside it"
    )]
    EmptyGit { directory: HostPath },
    #[error(
        "{directory} now looks like a git repository that the sandbox made, so its commits were not put there"
    )]
    Planted { directory: HostPath },
    #[error("commits that a sandbox made in {directory} are in {}: it was made a repository meanwhile", .pending.as_path().display())]
    MadeMeanwhile { directory: HostPath, pending: HostPath },
    #[error("{directory} needs the filter '{filter}', and its program {program} is not in the sandbox", filter = palisade_core::printable(.filter), program = palisade_core::printable(.program))]
    FilterMissing { directory: HostPath, filter: String, program: String },
    #[error("{what}: {source}")]
    Io { what: String, source: std::io::Error },
}

impl From<GitError> for BoundError {
    fn from(error: GitError) -> Self {
        Self::NotUsable(NotUsable::Git(error))
    }
}

impl BoundError {
    fn io(what: impl Into<String>) -> impl FnOnce(std::io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }

    pub fn hint(&self) -> String {
        match self {
            Self::NotUsable(error) => error.hint().into(),
            Self::Unfinished { .. } => {
                "finish it or abort it first, give the sandbox a copy with -w DIR:copy, or bind the directory read-only with :ro".into()
            }
            Self::EmptyGit { directory } => format!("remove it first: rmdir {directory}/.git"),
            Self::Planted { directory } => format!(
                "remove HEAD, objects and refs there, then .git, and bring the commits: palisade run -w {directory} -- true"
            ),
            Self::MadeMeanwhile { directory, pending } => {
                format!("fetch them: git -C {directory} fetch {pending} '+refs/heads/*:refs/heads/palisade/*'")
            }
            Self::FilterMissing { .. } => {
                "give the sandbox the program with --tool or another environment, or bind the directory with :copy or :ro".into()
            }
            Self::GitDataInTree { .. } | Self::Io { .. } => {
                "give the sandbox a copy with -w DIR:copy, or bind the directory read-only with :ro".into()
            }
        }
    }
}
