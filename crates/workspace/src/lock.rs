//! One at a time brings work into a repository: several sandboxes of one repository may come home at once.

use crate::git::{GitError, Repository};
use std::ffi::OsString;
use std::fs::File;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;
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
        let common = ["rev-parse", "--path-format=absolute", "--git-common-dir"];
        let directory = self.git(common).bytes().await?;
        let directory = PathBuf::from(OsString::from_vec(directory.trim_ascii_end().to_vec()));
        let take = move || {
            let options = File::options()
                .create(true)
                .truncate(false)
                .write(true)
                .open(directory.join("palisade.lock"));
            let file = options?;
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
