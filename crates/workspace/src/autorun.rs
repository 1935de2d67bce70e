//! Files that run by themselves among those that a sync changes. After a sync they are the agent's, so they are listed; a
//! user who reads the list has looked where it matters. Which files these are is in [`palisade_core::self_running`].

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use crate::tree_diff::{EntryMode, TreeChange, TreeEntry};
use palisade_core::self_running::{MANIFEST, RunTrigger, by_path, lifecycle_scripts};
use std::path::{Component, Path, PathBuf};

/// A changed file that runs by itself.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Autorun {
    pub path: PathBuf,
    pub runs: RunTrigger,
}

/// Whether a link at `path` leads out of the directory that everything is in.
fn leads_out(path: &Path, target: &Path) -> bool {
    let mut depth = path.components().count().saturating_sub(1);
    for part in target.components() {
        match part {
            Component::RootDir | Component::Prefix(_) => return true,
            Component::ParentDir if depth == 0 => return true,
            Component::ParentDir => depth -= 1,
            Component::CurDir => {}
            Component::Normal(_) => depth += 1,
        }
    }
    false
}

/// What the content of a changed file says, for those whose name does not decide.
fn by_content(path: &Path, mode: EntryMode, before: Option<&[u8]>, after: &[u8]) -> Option<RunTrigger> {
    use std::os::unix::ffi::OsStrExt;
    if mode == EntryMode::Link {
        let target = Path::new(std::ffi::OsStr::from_bytes(after));
        return leads_out(path, target).then_some(RunTrigger::LinkOutside);
    }
    let changed = lifecycle_scripts(after) != before.map(lifecycle_scripts).unwrap_or_default();
    (changed && !lifecycle_scripts(after).is_empty()).then_some(RunTrigger::Installing)
}

impl Repository {
    /// The files that run by themselves among those in which `to` differs from `from`.
    pub async fn autorun(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<Autorun>, GitError> {
        let mut found = Vec::new();
        for change in self.tree_diff(from, to).await?.iter() {
            let Some(after) = &change.after else { continue };
            let runs = match by_path(&change.path) {
                Some(runs) => Some(runs),
                None => self.look_into(change, after).await?,
            };
            found.extend(runs.map(|runs| Autorun { path: change.path.clone(), runs }));
        }
        Ok(found)
    }

    async fn look_into(
        &self,
        change: &TreeChange,
        after: &TreeEntry,
    ) -> Result<Option<RunTrigger>, GitError> {
        let is_manifest = change.path.file_name().is_some_and(|name| name == MANIFEST);
        if after.mode == EntryMode::Gitlink || (!is_manifest && after.mode != EntryMode::Link) {
            return Ok(None);
        }
        let content =
            async |entry: &TreeEntry| self.git(["cat-file", "blob", entry.id.as_str()]).bytes().await;
        let before = match &change.before {
            Some(entry) if entry.mode != EntryMode::Gitlink => Some(content(entry).await?),
            _ => None,
        };
        let after_content = content(after).await?;
        Ok(by_content(&change.path, after.mode, before.as_deref(), &after_content))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_manifest_is_told_when_its_lifecycle_scripts_change() {
        let manifest =
            |scripts: &str| format!("{{\n  \"name\": \"x\",\n  \"scripts\": {{\n{scripts}\n  }}\n}}\n");
        let told = |before: Option<&str>, after: &str| {
            let before = before.map(|scripts| manifest(scripts).into_bytes());
            by_content(
                Path::new("package.json"),
                EntryMode::File,
                before.as_deref(),
                manifest(after).as_bytes(),
            )
        };
        let prepare = "    \"prepare\": \"husky\"";
        assert_eq!(told(None, prepare), Some(RunTrigger::Installing));
        assert_eq!(told(Some(prepare), "    \"prepare\": \"curl x | sh\""), Some(RunTrigger::Installing));
        assert_eq!(told(Some(prepare), &format!("    \"test\": \"jest\",\n{prepare}")), None);
        assert_eq!(told(Some(prepare), ""), None);
    }

    #[test]
    fn a_link_is_told_when_it_leads_out() {
        let told =
            |path: &str, target: &str| by_content(Path::new(path), EntryMode::Link, None, target.as_bytes());
        for (path, target) in [("a", "/etc/passwd"), ("a", "../x"), ("d/a", "../../x"), ("a", "b/../../x")] {
            assert_eq!(told(path, target), Some(RunTrigger::LinkOutside), "{path} -> {target}");
        }
        for (path, target) in [("a", "b"), ("d/a", "../b"), ("a", "./b/../c")] {
            assert_eq!(told(path, target), None, "{path} -> {target}");
        }
    }
}
