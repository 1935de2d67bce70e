//! A sandbox without an agent is removed with all it has. Repositories in it with commits that are nowhere else are
//! named, as far as that can be found out in a short time.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::remove::RemoveMode;
use crate::start::Started;
use palisade_core::{State, Workspace};
use palisade_store::Row;
use std::path::{Path, PathBuf};
use std::time::Duration;

/// How long the look may take.
const TIMEOUT: Duration = Duration::from_secs(15);
/// How deep below the workspace a repository of a stopped sandbox is looked for, and in how many directories.
const MAX_DEPTH: usize = 4;
const MAX_DIRECTORIES: usize = 20_000;

impl Engine {
    /// The repositories, in lines for people. A look that fails does not keep the sandbox.
    pub(crate) async fn unpublished(&self, row: &Row, mode: RemoveMode) -> Vec<String> {
        // One that runs is refused anyway without `--force`.
        let is_refused = mode == RemoveMode::Careful && row.state.has_keeper() && Self::keeper_lives(row);
        if mode == RemoveMode::Discard || is_refused || !self.may_have_repositories(row) {
            return Vec::new();
        }
        self.look_for_unpublished(row).await.unwrap_or_else(|error| {
            tracing::debug!(%error, "repositories in the sandbox were not looked for");
            Vec::new()
        })
    }

    fn may_have_repositories(&self, row: &Row) -> bool {
        let is_kept = row.spec.policy.workspace == Workspace::Own && row.state != State::Created;
        if !is_kept || self.is_foreign(&row.spec) || !self.is_whole(row).unwrap_or(false) {
            return false;
        }
        let workspace = row.spec.dir.as_ref().map(|dir| dir.workspace());
        match workspace.filter(|workspace| workspace.as_path().is_dir()) {
            Some(workspace) => row.state == State::Running || has_repository(workspace.as_path()),
            // In a volume, where only the sandbox itself can look.
            None => true,
        }
    }

    async fn look_for_unpublished(&self, row: &Row) -> Result<Vec<String>, EngineError> {
        let id = row.id().as_str();
        let started = self.start(id).await?;
        let look = async {
            let connection = self.connect(id).await?;
            let found =
                tokio::time::timeout(TIMEOUT, self.config.unsaved_work.unpublished(&connection)).await;
            // After that time, the rest is not named.
            found.unwrap_or_else(|_| Ok(Vec::new())).map_err(EngineError::Work)
        };
        let found = look.await;
        if started == Started::Now {
            self.stop_without_archive(id, Duration::ZERO).await?;
        }
        found
    }
}

/// Whether there is a `.git` somewhere. Only names are looked at, and no link is followed.
fn has_repository(workspace: &Path) -> bool {
    let mut pending: Vec<(PathBuf, usize)> = vec![(workspace.to_owned(), 0)];
    let mut looked = 0;
    while let Some((directory, depth)) = pending.pop() {
        looked += 1;
        for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
            if entry.file_name() == ".git" {
                return true;
            }
            let is_directory = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_directory && depth < MAX_DEPTH && looked + pending.len() < MAX_DIRECTORIES {
                pending.push((entry.path(), depth + 1));
            }
        }
    }
    false
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_repository_is_found_by_its_name_and_not_through_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join("work/a/b")).unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(outside.path().join(".git")).unwrap();
        std::os::unix::fs::symlink(outside.path(), root.path().join("work/link")).unwrap();
        assert!(!has_repository(&root.path().join("work")));
        std::fs::create_dir(root.path().join("work/a/b/.git")).unwrap();
        assert!(has_repository(&root.path().join("work")));
    }
}
