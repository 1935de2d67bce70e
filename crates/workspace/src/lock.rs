//! One exchange at a time per repository: several sandboxes of one repository may bring work at once.

use crate::git::{GitError, Repository};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::time::Duration;

/// Longer than an exchange takes.
const LOCK_TIMEOUT: Duration = Duration::from_secs(300);

/// Held until dropped, and given back by the kernel when its process dies.
#[derive(Debug)]
pub struct RepositoryLock {
    #[allow(dead_code, reason = "the lock lives as long as the open file")]
    file: File,
    was_free: bool,
}

impl RepositoryLock {
    /// Whether nothing else had it when it was asked for.
    pub fn was_free(&self) -> bool {
        self.was_free
    }
}

impl Repository {
    /// Waits for the lock on this repository.
    pub async fn lock(&self) -> Result<RepositoryLock, GitError> {
        const WHAT: &str = "lock";
        let io = |source| GitError::Io { what: WHAT.into(), source };
        let path = self.places().common.join("palisade.lock");
        let file = File::options().create(true).truncate(false).write(true).open(path).map_err(io)?;
        // Git that we start holds it, too, and goes on when we are killed: its work is part of the exchange.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).map_err(|error| io(error.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(RepositoryLock { file, was_free: true }),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(io(error.into())),
        }
        let take = move || {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(RepositoryLock { file, was_free: false })
        };
        match tokio::time::timeout(LOCK_TIMEOUT, tokio::task::spawn_blocking(take)).await {
            Ok(Ok(lock)) => lock.map_err(io),
            Ok(Err(error)) => Err(io(std::io::Error::other(error))),
            Err(_) => Err(GitError::Slow { what: WHAT.into(), limit: LOCK_TIMEOUT }),
        }
    }
}
