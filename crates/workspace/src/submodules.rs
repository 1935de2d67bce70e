//! Submodules whose files are on the host: they go into the sandbox as repositories of their own.

use crate::git::{Git, GitError};
use crate::host_tree::HostTree;
use palisade_core::ProjectPath;

/// How deep submodules of submodules are looked for.
const MAX_DEPTH: usize = 8;

/// A submodule whose files are there.
#[derive(Debug, Clone)]
pub(crate) struct Submodule {
    /// From the top of the outermost working tree.
    pub(crate) path: ProjectPath,
    pub(crate) tree: HostTree,
}

impl HostTree {
    /// All submodules whose files are there, an outer one before those in it.
    pub(crate) async fn submodules(&self, git: &Git) -> Result<Vec<Submodule>, GitError> {
        let mut found = Vec::new();
        let mut pending = vec![(String::new(), self.clone(), 0)];
        while let Some((prefix, tree, depth)) = pending.pop() {
            for path in tree.gitlinks().await? {
                let place = tree.root.join(&path);
                if depth >= MAX_DEPTH || std::fs::symlink_metadata(place.join(".git")).is_err() {
                    continue;
                }
                // One that cannot be used stays what it is: an empty directory inside.
                let Ok(inner) = HostTree::find(git, &place).await else { continue };
                let whole = format!("{prefix}{path}");
                let Ok(project_path) = ProjectPath::new(&whole) else { continue };
                pending.push((format!("{whole}/"), inner.clone(), depth + 1));
                found.push(Submodule { path: project_path, tree: inner });
            }
        }
        found.sort_by(|a, b| a.path.cmp(&b.path));
        Ok(found)
    }

    /// Whether it has submodules whose files are not there.
    pub(crate) async fn has_empty_submodules(&self) -> Result<bool, GitError> {
        let links = self.gitlinks().await?;
        Ok(links.iter().any(|path| std::fs::symlink_metadata(self.root.join(path).join(".git")).is_err()))
    }

    /// The paths in the index that are other repositories.
    async fn gitlinks(&self) -> Result<Vec<String>, GitError> {
        if !self.root.join(".gitmodules").as_path().exists()
            && !self.repository.common_directory().join("modules").exists()
        {
            return Ok(Vec::new());
        }
        let list =
            self.repository.git(["ls-files", "--stage", "-z"]).env("GIT_OPTIONAL_LOCKS", "0").bytes().await?;
        let entries = list.split(|byte| *byte == 0).filter(|entry| entry.starts_with(b"160000 "));
        let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
        Ok(paths.filter_map(|path| String::from_utf8(path.to_vec()).ok()).collect())
    }
}
