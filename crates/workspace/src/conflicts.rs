//! A merge of commits that has conflicts, left in the user's working tree to be resolved there.
//!
//! `git merge` is not used for it: when a change of the user's is in its way, it resets the working tree and puts the
//! change back from a stash that nothing refers to, and a process that is killed in between loses it. So git only merges
//! the trees, and the files are placed like all others, never over a change of the user's.

use crate::facts::object;
use crate::git::{GitError, Repository};
use crate::index_lock::IndexCopy;
use crate::refs::ObjectId;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A merge into the commit that is checked out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ConflictedMerge {
    /// The merged files, with markers where there are conflicts.
    pub(crate) tree: ObjectId,
    theirs: ObjectId,
    message: String,
    unmerged: Vec<UnmergedEntry>,
    /// The paths that have a conflict.
    paths: BTreeSet<PathBuf>,
}

/// One side of a path with a conflict, as the index records it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct UnmergedEntry {
    /// `MODE ID STAGE`, as git prints and reads it.
    version: String,
    path: PathBuf,
}

impl ConflictedMerge {
    pub(crate) fn paths(&self) -> Vec<PathBuf> {
        self.paths.iter().cloned().collect()
    }

    pub(crate) fn has(&self, path: &Path) -> bool {
        self.paths.contains(path)
    }

    /// Puts the sides of each conflict into the index, in the place of the merged file.
    pub(crate) async fn mark_unmerged(&self, index: &IndexCopy<'_>) -> Result<(), GitError> {
        let mut entries = Vec::new();
        let mut add = |version: &str, path: &Path| {
            entries.extend_from_slice(version.as_bytes());
            entries.push(b'\t');
            entries.extend_from_slice(path.as_os_str().as_bytes());
            entries.push(0);
        };
        let removed = format!("0 {}", "0".repeat(self.tree.as_str().len()));
        self.paths.iter().for_each(|path| add(&removed, path));
        self.unmerged.iter().for_each(|entry| add(&entry.version, &entry.path));
        index.git(["update-index", "-z", "--index-info"]).input(entries).bytes().await.map(drop)
    }

    /// Writes the files by which git knows that a merge is in progress. `MERGE_HEAD` comes last: with it, it is.
    pub(crate) fn leave_in_progress(&self, repository: &Repository) -> io::Result<()> {
        let files = [
            ("AUTO_MERGE", format!("{}\n", self.tree)),
            ("MERGE_MODE", "no-ff".to_owned()),
            ("MERGE_MSG", format!("{}\n", self.message)),
            ("MERGE_HEAD", format!("{}\n", self.theirs)),
        ];
        let directory = &repository.places().own;
        files.iter().try_for_each(|(name, text)| std::fs::write(directory.join(name), text))
    }
}

impl Repository {
    /// Merges `theirs` into the commit that is checked out, which is `ours`. `None` when that has no conflicts, or when
    /// another commit is checked out by now.
    pub(crate) async fn merge_into_head(
        &self,
        ours: &ObjectId,
        theirs: &ObjectId,
        message: &str,
    ) -> Result<Option<ConflictedMerge>, GitError> {
        // By the name of HEAD, which then stands at the markers, as after any merge.
        let merge = ["merge-tree", "--write-tree", "-z", "--no-messages", "HEAD", theirs.as_str()];
        let (is_clean, words) = self.git(merge).words().await?;
        let head = self.commit_if_any("HEAD").await?;
        if is_clean || head.as_ref() != Some(ours) {
            return Ok(None);
        }
        let mut words = words.into_iter();
        let tree = object("merge-tree", &words.next().unwrap_or_default().to_string_lossy())?;
        let unmerged: Vec<UnmergedEntry> = words.filter_map(parse_unmerged).collect();
        let paths = unmerged.iter().map(|entry| entry.path.clone()).collect();
        let (theirs, message) = (theirs.clone(), message.to_owned());
        Ok(Some(ConflictedMerge { tree, theirs, message, unmerged, paths }))
    }
}

/// `MODE ID STAGE TAB PATH`.
fn parse_unmerged(entry: OsString) -> Option<UnmergedEntry> {
    let bytes = entry.into_vec();
    let tab = bytes.iter().position(|byte| *byte == b'\t')?;
    let version = std::str::from_utf8(bytes.get(..tab)?).ok()?.to_owned();
    let path = OsString::from_vec(bytes.get(tab + 1..)?.to_vec());
    Some(UnmergedEntry { version, path: path.into() })
}
