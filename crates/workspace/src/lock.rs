//! One at a time brings work into a repository: several sandboxes of one repository may come home at once.

use crate::git::{GitError, Repository};
use std::fs::File;
use std::time::Duration;

/// Longer than any other's turn takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Held until dropped, also by a process that is killed.
#[derive(Debug)]
pub struct Turn(#[allow(dead_code, reason = "the lock lives as long as the open file")] File);

impl Repository {
    /// Waits for the turn to change this repository.
    pub async fn turn(&self) -> Result<Turn, GitError> {
        const WHAT: &str = "lock";
        let io = |source| GitError::Io { what: WHAT.into(), source };
        let place = self.places().common.join("palisade.lock");
        let take = move || {
            let file = File::options().create(true).truncate(false).write(true).open(place)?;
            // Git that we start holds it too, and goes on when somebody kills us: its work is part of the turn.
            rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty())?;
            rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive)?;
            Ok(Turn(file))
        };
        match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(take)).await {
            Ok(Ok(turn)) => turn.map_err(io),
            Ok(Err(error)) => Err(io(std::io::Error::other(error))),
            Err(_) => Err(GitError::Slow { what: WHAT.into(), limit: PATIENCE }),
        }
    }
}
