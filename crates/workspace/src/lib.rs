//! A repository's way into a sandbox, and its work's way home.
//!
//! Host git never has a sandbox's directory as its repository, working tree or alternate: the pack programs run
//! inside, and what they send lands below `refs/palisade/<name>/`, checked object by object. What the user's own
//! configuration would run on a sandbox's content is off throughout (see `guard`). Questions about the sandbox's
//! working tree are answered by git inside, and its answers are only ever names and numbers that are checked.

mod apply;
mod exchange;
mod facts;
mod git;
mod guard;
mod inside;
mod lock;
mod refs;
pub mod transport;
mod tree;
mod version;

pub use apply::{Application, Applied, Commits, Divergence, Waits, Work};
pub use exchange::{Fetched, Link, Progress, Wanted};
pub use facts::{Change, Facts, Identity, Limit, NotUsable};
pub use git::{Git, GitError, Invocation, Repository};
pub use inside::{Arrival, Description, Inside, InsideError, Snapshot, Tree, Trees};
pub use lock::Turn;
pub use refs::{BranchName, InvalidBranch, ObjectId, SandboxRefs};
pub use version::GitVersion;
