//! Paths in which two trees differ.

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a tree may hold at a path, as far as it matters here.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(crate) enum EntryMode {
    File,
    Executable,
    Link,
    /// Another repository, of which only a commit is named.
    Gitlink,
}

impl EntryMode {
    /// `Some(None)` for nothing, `None` for a mode that a tree does not have.
    pub(crate) fn parse(text: &str) -> Option<Option<Self>> {
        Some(Some(match text {
            "000000" => return Some(None),
            "100755" => Self::Executable,
            "120000" => Self::Link,
            "160000" => Self::Gitlink,
            _ if text.starts_with("100") => Self::File,
            _ => return None,
        }))
    }

    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::File => "100644",
            Self::Executable => "100755",
            Self::Link => "120000",
            Self::Gitlink => "160000",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) struct TreeEntry {
    pub(crate) mode: EntryMode,
    pub(crate) id: ObjectId,
}

/// A path where two trees differ.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeChange {
    pub(crate) path: PathBuf,
    pub(crate) before: Option<TreeEntry>,
    pub(crate) after: Option<TreeEntry>,
}

impl Repository {
    /// The paths in which two trees differ, in git's order. Commits stand for their trees.
    pub(crate) async fn tree_diff(
        &self,
        from: &ObjectId,
        to: &ObjectId,
    ) -> Result<Arc<[TreeChange]>, GitError> {
        if from == to {
            return Ok(Arc::default());
        }
        if let Some(known) = self.answers().difference(from, to) {
            return Ok(known);
        }
        let options = ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index"];
        // With an end of the ids, so that git takes nothing for a path.
        let arguments = options.into_iter().chain([from.as_str(), to.as_str(), "--"]);
        let answer = self.git(arguments).modest().bytes().await?;
        let found = parse(&answer).ok_or_else(|| unknown_format("diff-tree"))?;
        Ok(self.answers().remember_difference(from, to, found))
    }

    /// What is staged: the paths in which the index differs from a commit. Unmerged paths have no `after`. A file that was
    /// only announced (`git add --intent-to-add`) has nothing staged.
    pub(crate) async fn staged(&self, commit: &ObjectId) -> Result<Vec<TreeChange>, GitError> {
        const DIFF: [&str; 7] = [
            "diff-index",
            "--cached",
            "--ita-invisible-in-index",
            "-z",
            "--raw",
            "--no-renames",
            "--full-index",
        ];
        let arguments = DIFF.into_iter().chain([commit.as_str(), "--"]);
        let answer = self.git(arguments).env("GIT_OPTIONAL_LOCKS", "0").bytes().await?;
        parse(&answer).ok_or_else(|| unknown_format("diff-index"))
    }

    /// What a commit has at a path.
    pub(crate) async fn entry_at(
        &self,
        commit: &ObjectId,
        path: &Path,
    ) -> Result<Option<TreeEntry>, GitError> {
        let words: [&OsStr; 5] =
            ["ls-tree".as_ref(), "-z".as_ref(), commit.as_str().as_ref(), "--".as_ref(), path.as_os_str()];
        let answer = self.git(words).env("GIT_LITERAL_PATHSPECS", "1").text().await?;
        let mut fields = answer.split(['\t', '\0']).next().unwrap_or_default().split(' ');
        let (mode, _kind, id) = (fields.next(), fields.next(), fields.next());
        let entry =
            mode.zip(id).and_then(|(mode, id)| Some((EntryMode::parse(mode)??, ObjectId::parse(id)?)));
        Ok(entry.map(|(mode, id)| TreeEntry { mode, id }))
    }

    /// The tree of each commit.
    pub(crate) async fn trees_of(&self, commits: &[&ObjectId]) -> Result<Vec<ObjectId>, GitError> {
        let known = |commit: &ObjectId| self.answers().tree(commit);
        let unknown: Vec<&ObjectId> = commits.iter().copied().filter(|id| known(id).is_none()).collect();
        let found = self.objects(unknown.iter().map(|id| format!("{id}^{{tree}}"))).await?;
        for (commit, tree) in unknown.into_iter().zip(found) {
            let tree = tree.ok_or_else(|| unknown_format("cat-file"))?;
            self.answers().remember_tree(commit, tree.id);
        }
        commits.iter().map(|id| known(id).ok_or_else(|| unknown_format("cat-file"))).collect()
    }

    /// How many bytes of files writing these entries would take.
    pub(crate) async fn weigh(&self, entries: impl Iterator<Item = &TreeEntry>) -> Result<u64, GitError> {
        let files = entries.filter(|entry| entry.mode != EntryMode::Gitlink);
        let found = self.objects(files.map(|entry| &entry.id)).await?;
        Ok(found.into_iter().flatten().map(|object| object.size).fold(0, u64::saturating_add))
    }
}

fn unknown_format(what: &str) -> GitError {
    GitError::Answer { what: what.into(), answer: "an unknown format".into() }
}

/// `:old-mode new-mode old-id new-id letter NUL path NUL`, again and again, and nothing else.
fn parse(mut bytes: &[u8]) -> Option<Vec<TreeChange>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut words = bytes.splitn(3, |byte| *byte == 0);
        let (header, path) = (words.next()?, words.next()?);
        bytes = words.next()?;
        let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
        let fields: Vec<&str> = header.split(' ').collect();
        let [old_mode, new_mode, old, new, _letter] = fields[..] else { return None };
        let entry = |mode: &str, id: &str| -> Option<Option<TreeEntry>> {
            let id = ObjectId::parse(id)?;
            Some(EntryMode::parse(mode)?.map(|mode| TreeEntry { mode, id }))
        };
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        found.push(TreeChange { path, before: entry(old_mode, old)?, after: entry(new_mode, new)? });
    }
    Some(found)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_read_with_both_sides() {
        let (old, new, none) = ("1".repeat(40), "2".repeat(40), "0".repeat(40));
        let bytes = format!(
            ":100644 100755 {old} {new} M\0a b\0:100664 000000 {old} {none} D\0gone\0:000000 160000 {none} {new} A\0new\0"
        );
        let entry = |mode, id: &str| Some(TreeEntry { mode, id: ObjectId::parse(id).unwrap() });
        let change = |path: &str, before, after| TreeChange { path: path.into(), before, after };
        assert_eq!(
            parse(bytes.as_bytes()).unwrap(),
            [
                change("a b", entry(EntryMode::File, &old), entry(EntryMode::Executable, &new)),
                change("gone", entry(EntryMode::File, &old), None),
                change("new", None, entry(EntryMode::Gitlink, &new)),
            ]
        );
        assert_eq!(parse(b"").unwrap(), []);
        for other in ["nonsense\0path\0", ":1 2 3 4 M\0path", ":1 2 3 4 M\0", "1 2\n"] {
            assert_eq!(parse(other.as_bytes()), None, "{other:?}");
        }
    }
}
