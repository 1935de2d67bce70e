//! A repository's way into a sandbox, and its work's way back.
//!
//! Host git never has a sandbox's directory as its repository, working tree or alternate: git inside packs its objects,
//! and host git checks every one of them before anything refers to it. What the user's own configuration would run on a
//! sandbox's content is off throughout (see `guard`). Questions about the sandbox's working trees are answered inside,
//! and the answers are only ever names and numbers that are checked.
//!
//! Everything in a sandbox is archived (`archive`) before anything is moved or removed. What both sides have in common
//! is remembered in `refs/palisade/base/<id>/`, and decides what becomes of commits (`commits`) and files (`files`).

mod answers;
mod archive;
mod artifacts;
mod autorun;
mod bound;
mod commits;
mod conflicts;
mod exchange;
mod facts;
mod files;
mod git;
mod guard;
mod history;
mod host_changes;
mod host_files;
mod host_refs;
mod host_tree;
mod ignored;
mod index_lock;
mod large_files;
mod lock;
mod loose_ref;
mod merging;
mod nested;
mod object_reader;
mod object_writer;
mod pack;
mod partial_clone;
mod place;
mod placing;
mod progress;
mod quarantine;
mod refs;
mod remotes;
mod sandbox;
mod send;
mod shared_objects;
mod staging;
mod status;
mod submodules;
mod survey;
mod sync;
mod sync_report;
mod transaction;
mod tree_apply;
mod tree_diff;
mod version;
mod waiting;
mod worktrees;
mod worktrees_inside;
mod written_files;

pub use archive::{
    Archive, ArchiveOutcome, ArchiveReason, ArchiveSubject, EntryKind, ListedArchive, Manifest,
    ManifestEntry, ManifestLeftOut, Refused, Restored, RestoredRef,
};
pub use artifacts::{ArtifactPath, Fingerprint, InvalidArtifact, Memory, Tracked, link_stays};
pub use autorun::Autorun;
pub use bound::{
    Base, BoundError, BoundRepository, BoundTree, BringBack, BroughtBack, Contents, FileContent, FollowHost,
    FollowOutcome, GitContents, Head, HostSide, Moves, NeededFilter, PendingFiles, PendingRepository,
    PlaceLock, PlaceRecord, PrivatePlace, RecordedRepository, SettingsOf, has_commits, missing_filters,
    unpin,
};
pub use commits::WaitReason;
pub use exchange::{
    ArchiveReport, Arrival, Exchange, ExchangeError, ExchangeReport, OnUnapplied, OnUncommitted,
    StartOptions, StartReport, WhyStayed,
};
pub use facts::Limit;
pub use git::{Git, GitError, Identity, Invocation, Repository};
pub use host_changes::HostChanges;
pub use host_refs::HostRefs;
pub use host_tree::HostTree;
pub use large_files::LargeFilesReport;
pub use lock::RepositoryLock;
pub use nested::{NestedArchive, NestedRepository};
pub use pack::ReceiveError;
pub use place::{NotUsable, Place};
pub use progress::Progress;
pub use refs::{BranchName, InvalidBranch, ObjectId, SandboxRefs};
pub use sandbox::{
    CommandEnd, CommandRunner, SandboxError, SandboxRepository, TransferError, TransferLimits,
};
pub use send::{SendError, SendRequest, Sent, TreeTarget};
pub use shared_objects::{Growth, SharedObjects, SharedObjectsRequest};
pub use status::Change;
pub use survey::{
    LargeFile, LeftOut, NestedSurvey, RecordedPush, RepositorySurvey, Snapshot, StashEntry, Survey,
    TreeSurvey,
};
pub use sync::{BranchSelection, MergeMode, SyncOptions, TagMode};
pub use sync_report::{
    BranchReport, CommitsOutcome, FilesOutcome, SyncReport, TagReport, TreeOutcome, WaitingCommits,
    WhyFilesWait, WhyWaiting,
};
pub use tree_apply::TreeReport;
pub use version::GitVersion;
pub use worktrees::{Checkout, Start, Unfinished, UnsharedCommit, Worktree, Worktrees};
