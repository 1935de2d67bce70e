//! What the user of a sandbox was told of: marks beside the refs of its work. What only came by itself has none, and is
//! not let go of with the sandbox. A mark that is missing keeps too much, so it may come late, and never early.

use crate::exchange::Known;
use crate::git::{GitError, Repository};
use crate::refs::SandboxRefs;
use std::collections::BTreeSet;
use std::fmt::Write;

/// Changes of refs after which everything that is known of a sandbox is marked, as git reads them.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct Marks {
    gone: String,
    new: String,
}

impl Marks {
    pub(crate) fn plan(refs: &SandboxRefs, known: &Known) -> Self {
        let all = refs.all();
        let below = |name: &str, part: &str| -> Option<String> {
            let rest = name.strip_prefix(&all)?.strip_prefix(part)?;
            Some(format!("{all}seen/{part}{rest}"))
        };
        let mut marks = Self::default();
        let mut current = BTreeSet::new();
        for (name, id) in known.iter() {
            let Some(seen) = below(name, "heads/").or_else(|| below(name, "work/")) else { continue };
            if known.get(&seen) != Some(id) {
                let _ = write!(marks.new, "update {seen}\0{id}\0\0");
            }
            current.insert(seen);
        }
        let there =
            known.iter().map(|(name, _)| name).filter(|name| name.starts_with(&format!("{all}seen/")));
        for name in there.filter(|name| !current.contains(*name)) {
            let _ = write!(marks.gone, "delete {name}\0\0");
        }
        marks
    }

    /// Those that fit into a transaction with others; the rest has to go first.
    pub(crate) async fn into_transaction(self, repository: &Repository) -> Result<String, GitError> {
        // `feature` may have become `feature/one`, and refs are files.
        change(repository, self.gone).await?;
        Ok(self.new)
    }

    pub(crate) async fn set(self, repository: &Repository) -> Result<(), GitError> {
        let new = self.into_transaction(repository).await?;
        change(repository, new).await
    }
}

async fn change(repository: &Repository, changes: String) -> Result<(), GitError> {
    if changes.is_empty() {
        return Ok(());
    }
    repository.git(["update-ref", "--stdin", "-z"]).input(changes).bytes().await.map(drop)
}
