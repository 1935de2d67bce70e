//! A working tree of the user's that a sandbox's work is brought to.

use crate::git::{Git, GitError, Repository};
use crate::place::{Found, NotUsable, ask};
use crate::refs::{BranchName, ObjectId};
use crate::worktrees::{Entry, administration, entries};
use palisade_core::HostPath;
use std::path::Path;

/// A working tree, whatever it is at: also in the middle of a rebase, or without a branch.
#[derive(Debug, Clone)]
pub struct HostTree {
    pub repository: Repository,
    /// The top of the working tree.
    pub root: HostPath,
    pub branch: Option<BranchName>,
    pub head: Option<ObjectId>,
    /// What the user is in the middle of.
    pub operation: Option<&'static str>,
    /// Branches that are not checked out, because of that operation, and that it moves or checks out when it ends.
    pub held: Vec<BranchName>,
}

/// What shows that an operation is in progress.
const OPERATIONS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

impl HostTree {
    /// The working tree whose top is exactly here.
    pub async fn find(git: &Git, top: &HostPath) -> Result<Self, NotUsable> {
        let (version, found) = tokio::join!(git.require(), ask(git, top));
        version?;
        Self::at(found?, top)
    }

    /// The same, where the version of git is looked at only when the program is another one than the last time.
    pub(crate) async fn find_again(git: &Git, top: &HostPath) -> Result<Self, NotUsable> {
        let found = ask(git, top).await?;
        git.require_once(&found.repository.places().common).await?;
        Self::at(found, top)
    }

    fn at(found: Found, top: &HostPath) -> Result<Self, NotUsable> {
        // One further up is another repository.
        if found.root != *top {
            return Err(NotUsable::NoRepository(top.clone()));
        }
        let text = |line: &Vec<u8>| String::from_utf8_lossy(line).into_owned();
        let head = found.at.first().map(text).and_then(|id| ObjectId::parse(&id));
        let branch = found.at.get(2).map(text).filter(|_| head.is_some());
        let branch = branch.and_then(|name| BranchName::new(name.strip_prefix("refs/heads/")?).ok());
        let own = &found.repository.places().own;
        let (operation, held) = (operation(own), held(own));
        Ok(Self { repository: found.repository, root: found.root, branch, head, operation, held })
    }

    /// What a sandbox starts from: a branch with a commit.
    pub fn require_branch(&self) -> Result<(&BranchName, &ObjectId), NotUsable> {
        match (&self.branch, &self.head) {
            (Some(branch), Some(head)) => Ok((branch, head)),
            (None, Some(_)) => Err(NotUsable::Detached(self.root.clone())),
            (_, None) => Err(NotUsable::NoCommit(self.root.clone())),
        }
    }

    /// The working tree that a directory lies in.
    pub async fn around(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        // From the top, whose configuration may differ from that of a directory below it.
        let top = ask(git, directory).await?.root;
        Self::find(git, &top).await
    }

    /// Another working tree of the same repository that has a branch checked out, or holds it in an operation.
    pub async fn other_with(&self, git: &Git, branch: &BranchName) -> Result<Option<HostTree>, NotUsable> {
        for entry in entries(&self.repository).await? {
            if entry.branch.as_ref() != Some(branch) && !self.held_in(&entry).contains(branch) {
                continue;
            }
            let Ok(path) = HostPath::new(entry.path) else { continue };
            match Self::find(git, &path).await {
                // What lies there may have been made to look like a working tree of another repository.
                Ok(tree) if tree.repository.places().common == self.repository.places().common => {
                    return Ok(Some(tree));
                }
                Ok(_) | Err(NotUsable::Missing(_) | NotUsable::NoRepository(_)) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(None)
    }

    /// The branches that are checked out in any working tree, or held by an operation there.
    pub(crate) async fn checked_out(&self) -> Result<Vec<BranchName>, GitError> {
        let entries = entries(&self.repository).await?;
        let held: Vec<BranchName> = entries.iter().flat_map(|entry| self.held_in(entry)).collect();
        Ok(entries.into_iter().filter_map(|entry| entry.branch).chain(held).collect())
    }

    /// The branches that an operation in a working tree of this repository holds.
    fn held_in(&self, entry: &Entry) -> Vec<BranchName> {
        // An operation leaves no branch checked out where it holds one.
        match &entry.branch {
            Some(_) => Vec::new(),
            None => administration(&self.repository, entry).map(|own| held(&own)).unwrap_or_default(),
        }
    }
}

/// As git itself tells which branches are in use (`git branch -D` refuses these).
fn held(own: &Path) -> Vec<BranchName> {
    let lines = |file: &str| std::fs::read_to_string(own.join(file)).unwrap_or_default();
    let rebased = ["rebase-merge/head-name", "rebase-apply/head-name", "rebase-merge/update-refs"];
    let mut names = Vec::new();
    for text in rebased.map(lines) {
        names.extend(text.lines().filter_map(|line| line.strip_prefix("refs/heads/")).map(str::to_owned));
    }
    names.extend(lines("BISECT_START").lines().next().map(str::to_owned));
    names.iter().filter_map(|name| BranchName::new(name.trim_end()).ok()).collect()
}

fn operation(own: &Path) -> Option<&'static str> {
    OPERATIONS.iter().find(|(file, _)| own.join(file).exists()).map(|(_, operation)| *operation)
}
