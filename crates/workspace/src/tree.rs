//! The host's working tree as git would record it, without touching the user's index; and its change into another tree.

use crate::exchange::Fetched;
use crate::facts::{Change, object};
use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// A file's mode and content; the content of a missing file is all zeros.
type Entry = (String, String);

/// What paths may hold and be ours.
#[derive(Debug, Clone, Default)]
pub(crate) struct Entries(BTreeMap<PathBuf, BTreeSet<Entry>>);

impl Entries {
    /// Adds what `to` has at the paths where it differs from `from`.
    pub(crate) async fn add(
        &mut self,
        repository: &Repository,
        from: &ObjectId,
        to: &ObjectId,
    ) -> Result<(), GitError> {
        for (path, entry) in difference(repository, from, to).await? {
            self.0.entry(path).or_default().insert(entry);
        }
        Ok(())
    }

    fn hold(&self, path: &Path, entry: &Entry) -> bool {
        self.0.get(path).is_some_and(|entries| entries.contains(entry))
    }
}

/// Where two trees differ, with what the second has there.
async fn difference(
    repository: &Repository,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<Vec<(PathBuf, Entry)>, GitError> {
    let arguments =
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index", from.as_str(), to.as_str()];
    let bytes = repository.git(arguments).bytes().await?;
    parse_difference(&bytes)
        .ok_or_else(|| GitError::Answer { what: "diff-tree".into(), answer: "an unknown format".into() })
}

/// `:old-mode new-mode old-id new-id letter NUL path NUL`, again and again.
fn parse_difference(bytes: &[u8]) -> Option<Vec<(PathBuf, Entry)>> {
    let mut words = bytes.split(|byte| *byte == 0);
    let mut found = Vec::new();
    while let (Some(header), Some(path)) = (words.next(), words.next()) {
        let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
        let mut fields = header.split(' ');
        let (mode, id) = (fields.nth(1)?, fields.nth(1)?);
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        found.push((path, (mode.to_owned(), id.to_owned())));
    }
    Some(found)
}

/// The working tree as it is now, in an index of our own.
#[derive(Debug)]
pub(crate) struct WorkingTree<'a> {
    repository: &'a Repository,
    index: PathBuf,
    tree: ObjectId,
    /// Changes that are not ours, or would be in the way: nothing may be laid over them.
    pub(crate) strange: Vec<PathBuf>,
}

impl<'a> WorkingTree<'a> {
    /// Looks at `changes`, all that differs from `head`; `ours` may be replaced.
    pub(crate) async fn look(
        repository: &'a Repository,
        head: &ObjectId,
        changes: &[Change],
        ours: &Entries,
        fetched: &Fetched,
    ) -> Result<Self, GitError> {
        let target = fetched.work.as_ref().unwrap_or(&fetched.commits);
        let mut wanted = Entries::default();
        wanted.add(repository, head, target).await?;
        let concerns = |path: &Path| ours.0.contains_key(path) || wanted.0.contains_key(path);
        let relevant: Vec<&Change> =
            changes.iter().filter(|change| !change.untracked() || concerns(&change.path)).collect();

        let directory = repository.git(["rev-parse", "--absolute-git-dir"]).bytes().await?;
        let directory = PathBuf::from(OsString::from_vec(directory.trim_ascii_end().to_vec()));
        let index = directory.join("palisade-index");
        copy_index(&directory.join("index"), &index)?;
        let mut paths = Vec::new();
        for change in &relevant {
            paths.extend_from_slice(change.path.as_os_str().as_bytes());
            paths.push(0);
        }
        repository
            .git(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"])
            .index(&index)
            .input(paths)
            .bytes()
            .await?;
        let tree = repository.git(["write-tree"]).index(&index).text().await?;
        let tree = object("write-tree", &tree)?;

        let mut strange: BTreeSet<PathBuf> = BTreeSet::new();
        for (path, entry) in difference(repository, head, &tree).await? {
            if !ours.hold(&path, &entry) && !wanted.hold(&path, &entry) {
                strange.insert(path);
            }
        }
        // Files that git leaves out of its status, ignored ones above all, would be overwritten in silence.
        let root = repository.directory().as_path();
        for path in repository.added(&tree, target).await? {
            strange.extend(in_the_way(root, &path));
        }
        Ok(Self { repository, index, tree, strange: strange.into_iter().collect() })
    }

    /// Changes the files from what they are to what `target` has.
    pub(crate) async fn become_tree(&self, target: &ObjectId) -> Result<(), GitError> {
        let arguments = ["read-tree", "-m", "-u", self.tree.as_str(), target.as_str()];
        self.repository.git(arguments).index(&self.index).bytes().await?;
        // A leftover is overwritten by whoever comes next.
        let _ = std::fs::remove_file(&self.index);
        Ok(())
    }

    /// Makes `git diff` show new files too, and tells all paths that differ.
    pub(crate) async fn mark_new(
        &self,
        commit: &ObjectId,
        target: &ObjectId,
    ) -> Result<Vec<PathBuf>, GitError> {
        let repository = self.repository;
        let mut list = Vec::new();
        for path in repository.added(commit, target).await? {
            list.extend_from_slice(path.as_os_str().as_bytes());
            list.push(0);
        }
        if !list.is_empty() {
            repository
                .git(["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"])
                .env("GIT_LITERAL_PATHSPECS", "1")
                .input(list)
                .bytes()
                .await?;
        }
        Ok(difference(repository, commit, target).await?.into_iter().map(|(path, _)| path).collect())
    }
}

impl Repository {
    /// Paths that the second tree has and the first has not.
    async fn added(&self, from: &ObjectId, to: &ObjectId) -> Result<Vec<PathBuf>, GitError> {
        let arguments = [
            "diff-tree",
            "-r",
            "-z",
            "--name-only",
            "--no-renames",
            "--diff-filter=A",
            from.as_str(),
            to.as_str(),
        ];
        let (_, words) = self.git(arguments).words().await?;
        Ok(words.into_iter().map(PathBuf::from).collect())
    }
}

fn copy_index(from: &Path, to: &Path) -> Result<(), GitError> {
    let io = |source| GitError::Io { what: "index".into(), source };
    match std::fs::copy(from, to) {
        Ok(_) => Ok(()),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let gone = std::fs::remove_file(to).or_else(|error| match error.kind() {
                std::io::ErrorKind::NotFound => Ok(()),
                _ => Err(error),
            });
            gone.map_err(io)
        }
        Err(error) => Err(io(error)),
    }
}

/// What stands where a new file is to be made: something at its own place, or a file where it needs a directory.
fn in_the_way(root: &Path, path: &Path) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for component in path.components() {
        place.push(component);
        let found = std::fs::symlink_metadata(root.join(&place)).ok()?;
        if place == path || !found.is_dir() {
            return Some(place);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_read_with_what_the_second_has() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let bytes =
            format!(":100644 100755 {old} {new} M\0a b\0:100644 000000 {old} {} D\0gone\0", "0".repeat(40));
        let entry = |mode: &str, id: String| (mode.to_owned(), id);
        assert_eq!(
            parse_difference(bytes.as_bytes()).unwrap(),
            [("a b".into(), entry("100755", new)), ("gone".into(), entry("000000", "0".repeat(40)))]
        );
        assert_eq!(parse_difference(b"").unwrap(), []);
        assert_eq!(parse_difference(b"nonsense\0path\0"), None);
    }

    #[test]
    fn what_stands_in_the_way_is_found_without_following_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::fs::create_dir_all(root.path().join("dir/sub")).unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
        let way =
            |path: &str| in_the_way(root.path(), Path::new(path)).map(|path| path.display().to_string());
        assert_eq!(way("file"), Some("file".into()));
        assert_eq!(way("file/below"), Some("file".into()));
        assert_eq!(way("link/passwd"), Some("link".into()));
        assert_eq!(way("dir/sub"), Some("dir/sub".into()));
        assert_eq!((way("dir/new"), way("new/er")), (None, None));
    }
}
