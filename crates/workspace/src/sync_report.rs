//! What became of a sandbox's work in a sync, or would become of it.

use crate::autorun::Autorun;
use crate::refs::{BranchName, ObjectId};
use crate::survey::{RecordedPush, StashEntry};
use crate::tree_apply::TreeReport;
use palisade_core::{GuestPath, HostPath};
use std::path::PathBuf;

/// What became of a sandbox's work.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct SyncReport {
    /// Branches with something to report; the others are as they were.
    pub branches: Vec<BranchReport>,
    pub trees: Vec<TreeOutcome>,
    pub tags: Vec<TagReport>,
    pub stashes: Vec<StashEntry>,
    /// What was pushed inside and is not at the remote yet, as far as the host knows.
    pub pushes: Vec<RecordedPush>,
    /// Commits that no branch has, by the working tree that is at them.
    pub detached: Vec<(GuestPath, ObjectId)>,
    /// Branches that showed waiting commits and are gone, because the user has those now.
    pub removed_branches: Vec<String>,
    /// Working trees of the sandbox with uncommitted files that were not asked for.
    pub not_asked: Vec<(GuestPath, Option<BranchName>)>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BranchReport {
    pub name: BranchName,
    pub commits: CommitsOutcome,
    /// What the host's branch was at, and what it is at now, where it has moved.
    pub from: Option<ObjectId>,
    pub to: Option<ObjectId>,
    /// Changed files that run by themselves.
    pub autorun: Vec<Autorun>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CommitsOutcome {
    /// There is nothing new.
    Nothing,
    /// The host's branch has moved: so many commits came, and so many that the sandbox has rewritten went.
    Moved {
        count: u32,
        dropped: u32,
    },
    /// A new branch was made under this name.
    Created {
        count: u32,
        name: String,
    },
    Merged {
        count: u32,
    },
    Waiting(WaitingCommits),
}

/// Commits that wait for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingCommits {
    pub count: u32,
    pub why: WhyWaiting,
    /// The branch that shows them.
    pub branch: String,
    /// Whether they were replayed on the host's branch.
    pub replayed: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyWaiting {
    /// The host's branch has so many commits that the sandbox's lacks.
    Diverged {
        hosts: u32,
    },
    HostRewrote,
    HostDeleted,
    SandboxRewrote,
    /// The user has changes at these paths.
    HostChanges(Vec<PathBuf>),
    /// A merge was asked for and has conflicts, which are in the working tree now.
    Conflicts(Vec<PathBuf>),
    /// A merge was asked for and would have conflicts; the branch is checked out nowhere.
    WouldConflict(Vec<PathBuf>),
    /// The user is in the middle of a merge, a rebase or the like.
    HostBusy(&'static str),
    /// Only some paths were asked for.
    NotAsked,
}

/// What became of the files of one working tree of the sandbox.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeOutcome {
    pub path: GuestPath,
    pub branch: Option<BranchName>,
    pub files: FilesOutcome,
    /// Where its files are archived: `git show ARCHIVE/PATH` shows one.
    pub archive: Option<String>,
}

impl TreeOutcome {
    /// Written files that run by themselves.
    pub fn autorun(&self) -> &[Autorun] {
        match &self.files {
            FilesOutcome::Applied { report, .. } => &report.autorun,
            _ => &[],
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FilesOutcome {
    Applied {
        /// The user's working tree.
        place: HostPath,
        report: TreeReport,
    },
    /// There are changes, and they wait.
    Waiting(WhyFilesWait),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyFilesWait {
    /// The user has another branch checked out, or none.
    OtherBranch(Option<BranchName>),
    /// The user is in the middle of something.
    HostBusy(&'static str),
    /// The agent is in the middle of something.
    SandboxBusy(String),
    /// HEAD is detached in the sandbox.
    Detached,
    /// The host has no commit yet.
    NoCommit,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TagReport {
    pub name: String,
    pub id: ObjectId,
    pub made: bool,
}

impl SyncReport {
    /// Whether something needs the user.
    pub fn needs_user(&self) -> bool {
        let waits = |report: &BranchReport| matches!(report.commits, CommitsOutcome::Waiting(_));
        let files = |outcome: &TreeOutcome| match &outcome.files {
            FilesOutcome::Waiting(_) => true,
            FilesOutcome::Applied { report, .. } => {
                !report.conflicts.is_empty() || !report.waiting.is_empty()
            }
        };
        self.branches.iter().any(waits) || self.trees.iter().any(files) || !self.detached.is_empty()
    }

    /// Whether something in the sandbox is not in the user's branches and working trees: for a plan.
    pub fn has_unapplied_work(&self) -> bool {
        let files = |outcome: &TreeOutcome| match &outcome.files {
            FilesOutcome::Waiting(_) => true,
            FilesOutcome::Applied { report, .. } => report.has_news(),
        };
        self.branches.iter().any(|report| report.commits != CommitsOutcome::Nothing)
            || self.trees.iter().any(files)
            || !self.detached.is_empty()
            || !self.stashes.is_empty()
            || !self.tags.is_empty()
    }
}

impl TreeReport {
    pub fn has_news(&self) -> bool {
        !(self.written.is_empty()
            && self.merged.is_empty()
            && self.taken_back.is_empty()
            && self.conflicts.is_empty()
            && self.waiting.is_empty())
    }
}
