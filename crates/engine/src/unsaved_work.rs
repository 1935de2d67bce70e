//! Work in a sandbox that may exist nowhere else. What ends or removes a sandbox asks here first, whichever surface the
//! request came from; the engine itself knows nothing of repositories.

use crate::session::Connection;
use palisade_core::{BoxFuture, Diagnostic};
use palisade_store::Row;

/// A failure of whatever knows about the work.
pub type WorkError = Box<dyn Diagnostic + Send + Sync>;

/// Why work is archived.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ArchiveCause {
    Stop,
    Remove,
}

/// Work of a sandbox that is not in the user's own branches and files, in lines for people.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct UnsavedReport {
    /// Archived on the host, and nowhere else.
    pub unapplied: Vec<String>,
    /// Not even archived, with the reason.
    pub not_archived: Vec<String>,
}

impl UnsavedReport {
    pub fn is_empty(&self) -> bool {
        self.unapplied.is_empty() && self.not_archived.is_empty()
    }
}

/// Where the work of a sandbox is kept.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchivedWork {
    /// For people: the refs of archives.
    pub archives: Vec<String>,
    /// What could not be archived, with the reason.
    pub not_archived: Vec<String>,
    /// What is never archived and goes with the sandbox: files that git ignores.
    pub ignored_files: u64,
    pub ignored_bytes: u64,
    /// Whether an agent's conversations go with the sandbox.
    pub has_conversations: bool,
}

/// Knows the work of sandboxes.
pub trait UnsavedWork: Send + Sync {
    /// Whether a sandbox may hold work of a user's repository. Others are ended and removed without a look.
    fn concerns(&self, sandbox: &Row) -> bool;

    /// The session in which an agent works that must not be ended unasked.
    fn is_agent_session(&self, session: &str) -> bool;

    /// Whether an agent works in the sandbox outside of any session.
    fn has_working_agent(&self, sandbox: &Row) -> bool;

    /// Archives everything, and lists what is not in the user's branches and files.
    fn list<'a>(&'a self, connection: &'a Connection) -> BoxFuture<'a, Result<UnsavedReport, WorkError>>;

    /// Archives everything.
    fn archive<'a>(
        &'a self,
        connection: &'a Connection,
        cause: ArchiveCause,
    ) -> BoxFuture<'a, Result<ArchivedWork, WorkError>>;

    /// For a sandbox that is nothing of ours: repositories in it with commits that none of their remotes had.
    fn unpublished<'a>(&'a self, connection: &'a Connection)
    -> BoxFuture<'a, Result<Vec<String>, WorkError>>;
}
