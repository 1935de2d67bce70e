//! A repository's way into a sandbox, and its work's way home.
//!
//! Host git never has a sandbox's directory as its repository, working tree or alternate: the pack programs run
//! inside, and what they send lands below `refs/palisade/<name>/`, checked object by object. What the user's own
//! configuration would run on a sandbox's content is off throughout (see `guard`). Questions about the sandbox's
//! working tree are answered by git inside, and its answers are only ever names and numbers that are checked.

mod answers;
mod apply;
mod artifacts;
mod autorun;
mod exchange;
mod facts;
mod git;
mod guard;
mod handover;
mod ignored;
mod index;
mod inside;
mod lock;
mod place;
mod ready;
mod refs;
mod seen;
mod status;
mod survey;
pub mod transport;
mod tree;
mod version;
mod worktrees;

pub use apply::{Application, Applied, Commits, Divergence, Waits, Work};
pub use artifacts::{ArtifactPath, Fingerprint, InvalidArtifact, Memory, Tracked, link_stays};
pub use autorun::{Autorun, Runs, by_name};
pub use exchange::{Fetched, Known, Link, Progress, Wanted};
pub use facts::{Facts, Limit};
pub use git::{Git, GitError, Identity, Invocation, Repository};
pub use handover::{Handover, Inherited, hand_over};
pub use inside::{Arrival, Description, Inside, InsideError, Snapshot, Tree, Trees};
pub use lock::Turn;
pub use place::{NotUsable, Place};
pub use refs::{BranchName, InvalidBranch, ObjectId, SandboxRefs};
pub use status::{Change, Ground};
pub use survey::Survey;
pub use version::GitVersion;
pub use worktrees::{Checkout, Start, Unfinished, UnsharedCommit, Worktree, Worktrees};
