//! An agent that works in the foreground has no session; a lock in the sandbox's directory says that it is there.

use crate::error::AgentError;
use crate::worktrees::session_name;
use palisade_core::SandboxDir;
use palisade_store::Row;
use palisade_workspace::BranchName;
use rustix::fs::{FlockOperation, flock};
use std::fs::{File, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

/// Locks are named after the session that the agent would have.
const PREFIX: &str = "working-";

/// Held while an agent works in the foreground; the kernel gives it back when this program dies.
#[derive(Debug)]
pub struct WorkingLock {
    _file: File,
}

fn path(dir: &SandboxDir, session: &str) -> PathBuf {
    dir.path().as_path().join(format!("{PREFIX}{session}"))
}

impl WorkingLock {
    /// `None` when another agent works there.
    pub fn take(sandbox: &Row, worktree: Option<&BranchName>) -> Result<Option<Self>, AgentError> {
        let failed = || AgentError::io("note that an agent works");
        let Some(dir) = &sandbox.spec.dir else {
            return Err(failed()(std::io::Error::other("the sandbox has no directory")));
        };
        let mut options = OpenOptions::new();
        options.write(true).create(true).truncate(false).mode(0o600);
        let file = options.open(path(dir, &session_name(worktree))).map_err(failed())?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(Self { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed()(error.into())),
        }
    }
}

/// Whether an agent works in the foreground, in this worktree or in any.
pub(crate) fn is_working(sandbox: &Row, worktree: Option<Option<&BranchName>>) -> bool {
    let Some(dir) = &sandbox.spec.dir else { return false };
    let is_locked = |path: PathBuf| {
        let Ok(file) = OpenOptions::new().write(true).open(path) else { return false };
        flock(&file, FlockOperation::NonBlockingLockExclusive) == Err(rustix::io::Errno::WOULDBLOCK)
    };
    match worktree {
        Some(worktree) => is_locked(path(dir, &session_name(worktree))),
        None => {
            let entries = std::fs::read_dir(dir.path()).into_iter().flatten().flatten();
            let mut locks =
                entries.filter(|entry| entry.file_name().as_encoded_bytes().starts_with(PREFIX.as_bytes()));
            locks.any(|entry| is_locked(entry.path()))
        }
    }
}
