//! One at a time brings work into a repository: several sandboxes of one repository may come home at once.

use crate::git::{GitError, Repository};
use rustix::fs::{FlockOperation, flock};
use std::fs::File;
use std::time::Duration;

/// Longer than any other's turn takes.
const PATIENCE: Duration = Duration::from_secs(300);

/// Held until dropped, also by a process that is killed.
#[derive(Debug)]
pub struct Turn {
    #[allow(dead_code, reason = "the lock lives as long as the open file")]
    file: File,
    came: Came,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Came {
    AtOnce,
    AfterAnother,
}

impl Turn {
    /// Whether nobody else had it when it was asked for.
    pub fn came_at_once(&self) -> bool {
        self.came == Came::AtOnce
    }
}

impl Repository {
    /// Waits for the turn to change this repository.
    pub async fn turn(&self) -> Result<Turn, GitError> {
        const WHAT: &str = "lock";
        let io = |source| GitError::Io { what: WHAT.into(), source };
        let place = self.places().common.join("palisade.lock");
        let file = File::options().create(true).truncate(false).write(true).open(place).map_err(io)?;
        // Git that we start holds it too, and goes on when somebody kills us: its work is part of the turn.
        rustix::io::fcntl_setfd(&file, rustix::io::FdFlags::empty()).map_err(|error| io(error.into()))?;
        match flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(Turn { file, came: Came::AtOnce }),
            Err(rustix::io::Errno::WOULDBLOCK) => {}
            Err(error) => return Err(io(error.into())),
        }
        let take = move || {
            flock(&file, FlockOperation::LockExclusive)?;
            Ok(Turn { file, came: Came::AfterAnother })
        };
        match tokio::time::timeout(PATIENCE, tokio::task::spawn_blocking(take)).await {
            Ok(Ok(turn)) => turn.map_err(io),
            Ok(Err(error)) => Err(io(std::io::Error::other(error))),
            Err(_) => Err(GitError::Slow { what: WHAT.into(), limit: PATIENCE }),
        }
    }
}
