//! The host's working tree as git would record it, without touching the user's index; and its change into another tree.

use crate::git::{GitError, Invocation, Repository};
use crate::index::OwnIndex;
use crate::refs::ObjectId;
use crate::status::Status;
use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

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
        self.extend(&difference(repository, from, to).await?);
        Ok(())
    }

    fn extend(&mut self, differences: &[Difference]) {
        for Difference { path, after, .. } in differences {
            self.0.entry(path.clone()).or_default().insert(after.clone());
        }
    }

    fn hold(&self, path: &Path, entry: &Entry) -> bool {
        self.0.get(path).is_some_and(|entries| entries.contains(entry))
    }
}

/// A path where two trees differ, with what the second has there.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Difference {
    pub(crate) path: PathBuf,
    before: Entry,
    after: Entry,
}

const NOTHING: &str = "000000";
const SUBMODULE: &str = "160000";
pub(crate) const LINK: &str = "120000";

impl Difference {
    /// The first has nothing there.
    pub(crate) fn added(&self) -> bool {
        self.before.0 == NOTHING
    }

    pub(crate) fn removed(&self) -> bool {
        self.after.0 == NOTHING
    }

    pub(crate) fn mode(&self) -> &str {
        &self.after.0
    }

    /// The content before and after, where it is a file's or a link's.
    pub(crate) fn contents(&self) -> (Option<&str>, Option<&str>) {
        fn content((mode, id): &Entry) -> Option<&str> {
            (mode != NOTHING && mode != SUBMODULE).then_some(id)
        }
        (content(&self.before), content(&self.after))
    }
}

/// How the last run that laid something ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Last {
    Finished,
    Unfinished,
}

pub(crate) async fn difference(
    repository: &Repository,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<Arc<[Difference]>, GitError> {
    if from == to {
        return Ok(Arc::default());
    }
    if let Some(known) = repository.answers().difference(from, to) {
        return Ok(known);
    }
    // With an end of the ids: what is none would be a path else, and nothing would differ there.
    let ends = [from.as_str(), to.as_str(), "--"];
    let arguments =
        ["diff-tree", "-r", "-z", "--raw", "--no-renames", "--full-index"].into_iter().chain(ends);
    remember(repository, from, to, &repository.git(arguments).modest().bytes().await?)
}

/// Told a commit and another, it tells how the first differs from the second.
const COMMITS_DIFFER: [&str; 8] =
    ["diff-tree", "--stdin", "--no-commit-id", "-r", "-z", "--raw", "--no-renames", "--full-index"];

/// Told contents, it tells how large they are.
const SIZES: [&str; 3] = ["cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer"];

/// What git is asked to weigh the difference of two commits.
pub(crate) fn questions_to_weigh(repository: &Repository) -> [Invocation<'_>; 2] {
    [repository.git(COMMITS_DIFFER).modest(), repository.git(SIZES)]
}

/// As [`difference`], of two commits, by git that may wait for them already.
pub(crate) async fn difference_of_commits(
    repository: &Repository,
    from: &ObjectId,
    to: &ObjectId,
) -> Result<Arc<[Difference]>, GitError> {
    if from == to || repository.answers().difference(from, to).is_some() {
        return difference(repository, from, to).await;
    }
    let question = repository.git(COMMITS_DIFFER).modest().input(format!("{to} {from}\n"));
    let answer = question.bytes().await?;
    // Git says nothing, and nothing is wrong, also when it knows no such commit.
    if answer.is_empty() {
        difference(repository, from, to).await
    } else {
        remember(repository, from, to, &answer)
    }
}

fn remember(
    repository: &Repository,
    from: &ObjectId,
    to: &ObjectId,
    answer: &[u8],
) -> Result<Arc<[Difference]>, GitError> {
    let found = parse_difference(answer)
        .ok_or_else(|| GitError::Answer { what: "diff-tree".into(), answer: "an unknown format".into() })?;
    Ok(repository.answers().remember_difference(from, to, found))
}

/// How many bytes of files laying a difference would write.
pub(crate) async fn weight(repository: &Repository, changed: &[Difference]) -> Result<u64, GitError> {
    let contents = || changed.iter().filter_map(|found| found.contents().1);
    let answers = repository.answers();
    let unknown: Vec<&str> = contents().filter(|id| answers.size(id).is_none()).collect();
    if !unknown.is_empty() {
        let sizes = repository.git(SIZES).input(unknown.join("\n") + "\n").text().await?;
        let sizes = sizes.lines().filter_map(|line| line.split_once(' '));
        answers.remember_sizes(sizes.filter_map(|(id, size)| Some((id.to_owned(), size.parse().ok()?))));
    }
    Ok(contents().filter_map(|id| answers.size(id)).fold(0, u64::saturating_add))
}

/// `:old-mode new-mode old-id new-id letter NUL path NUL`, again and again, and nothing else.
fn parse_difference(mut bytes: &[u8]) -> Option<Vec<Difference>> {
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let mut words = bytes.splitn(3, |byte| *byte == 0);
        let (header, path) = (words.next()?, words.next()?);
        bytes = words.next()?;
        let header = std::str::from_utf8(header).ok()?.strip_prefix(':')?;
        let fields: Vec<&str> = header.split(' ').collect();
        let [old_mode, new_mode, old, new, _letter] = fields[..] else { return None };
        let entry = |mode: &str, id: &str| (mode.to_owned(), id.to_owned());
        let path = PathBuf::from(OsString::from_vec(path.to_vec()));
        found.push(Difference { path, before: entry(old_mode, old), after: entry(new_mode, new) });
    }
    Some(found)
}

/// The working tree as it is now, in an index of our own.
#[derive(Debug)]
pub(crate) struct WorkingTree<'a> {
    repository: &'a Repository,
    index: OwnIndex<'a>,
    /// A tree, or the commit whose tree it is.
    tree: ObjectId,
    /// Changes that are not ours, or would be in the way: nothing may be laid over them.
    pub(crate) strange: Vec<PathBuf>,
    /// What it was looked at for, and how far that is.
    target: ObjectId,
    to_target: Arc<[Difference]>,
}

impl<'a> WorkingTree<'a> {
    /// Looks at all that differs from the commit; what `ours` says may be replaced, and so may what `target` has.
    pub(crate) async fn look(
        repository: &'a Repository,
        status: &Status,
        ours: &Entries,
        last: Last,
        target: &ObjectId,
    ) -> Result<Self, GitError> {
        let head = &status.head;
        let to_target = difference(repository, head, target).await?;
        let mut wanted = Entries::default();
        wanted.extend(&to_target);
        let concerns = |path: &Path| ours.0.contains_key(path) || wanted.0.contains_key(path);
        let relevant = status.changes.iter().filter(|change| !change.untracked() || concerns(&change.path));
        // Another repository of the user's is named with a slash at the end, and cannot be recorded.
        let (foreign, relevant): (Vec<&Path>, Vec<&Path>) = relevant
            .map(|change| change.path.as_path())
            .partition(|path| path.as_os_str().as_bytes().ends_with(b"/"));
        let index = OwnIndex::copy(repository)?;
        let root = repository.directory().as_path();
        let mut strange: BTreeSet<PathBuf> = foreign.into_iter().map(Path::to_owned).collect();
        let (tree, to_target) = if relevant.is_empty() {
            (head.clone(), to_target)
        } else {
            let tree = index.record(&relevant).await?;
            for found in difference(repository, head, &tree).await?.iter() {
                let known = ours.hold(&found.path, &found.after) || wanted.hold(&found.path, &found.after);
                let half = last == Last::Unfinished && half_written(repository, root, ours, found).await;
                if !known && !half {
                    strange.insert(found.path.clone());
                }
            }
            let to_target = difference(repository, &tree, target).await?;
            (tree, to_target)
        };
        // Files that git leaves out of its status, ignored ones above all, would be overwritten in silence.
        let (new, leaving): (Vec<_>, Vec<_>) = to_target.iter().partition(|difference| difference.added());
        let leaving: BTreeSet<&Path> = leaving.iter().map(|difference| difference.path.as_path()).collect();
        strange.extend(new.iter().filter_map(|new| in_the_way(root, &new.path, &leaving)));
        let strange = strange.into_iter().collect();
        Ok(Self { repository, index, tree, strange, target: target.clone(), to_target })
    }

    /// Changes the files from what they are to what `target` has, and the index to what `commit` has, with a mark at
    /// new files so that `git diff` shows them. Tells the paths that differ between the two. The files may be so many
    /// bytes.
    pub(crate) async fn become_tree(
        &self,
        commit: &ObjectId,
        target: &ObjectId,
        most: u64,
    ) -> Result<Vec<PathBuf>, GitError> {
        self.weigh(target, most).await?;
        self.index.update_files(&self.tree, target).await?;
        let repository = self.repository.guarded_again().await?;
        let uncommitted = difference(&repository, commit, target).await?;
        // A submodule's directory is empty, and nothing that git could be told of.
        let new = uncommitted.iter().filter(|found| found.added() && found.mode() != SUBMODULE);
        let new: Vec<&Path> = new.map(|difference| difference.path.as_path()).collect();
        let index = self.index.seen_by(&repository);
        if !uncommitted.is_empty() {
            index.go_back_to(commit, &new).await?;
        }
        index.install(commit, &new).await?;
        Ok(uncommitted.iter().map(|difference| difference.path.clone()).collect())
    }

    /// Refuses what would fill the disk: a small pack can hold very large files.
    async fn weigh(&self, target: &ObjectId, most: u64) -> Result<(), GitError> {
        let other = if *target == self.target {
            None
        } else {
            Some(difference(self.repository, &self.tree, target).await?)
        };
        let changed = other.as_ref().unwrap_or(&self.to_target);
        let bytes = weight(self.repository, changed).await?;
        if bytes > most {
            return Err(GitError::TooLarge { bytes, most });
        }
        let free = rustix::fs::statvfs(self.repository.directory().as_path())
            .map(|space| space.f_bavail.saturating_mul(space.f_frsize));
        match free {
            Ok(free) if bytes > free => Err(GitError::NoRoom { bytes, free }),
            _ => Ok(()),
        }
    }
}

/// Whether a file is what a run of ours left that ended while it wrote it: nothing, or the beginning of what it was to
/// be.
async fn half_written(repository: &Repository, root: &Path, ours: &Entries, found: &Difference) -> bool {
    let Some(entries) = ours.0.get(&found.path) else { return false };
    if found.removed() {
        return true;
    }
    let place = root.join(&found.path);
    if !std::fs::symlink_metadata(&place).is_ok_and(|metadata| metadata.is_file()) {
        return false;
    }
    let Ok(content) = std::fs::read(place) else { return false };
    let before = found.contents().0.into_iter();
    for id in entries.iter().map(|(_, id)| id.as_str()).chain(before) {
        let whole = repository.git(["cat-file", "blob", id]).bytes().await;
        if whole.is_ok_and(|whole| whole.starts_with(&content)) {
            return true;
        }
    }
    false
}

/// What stands where a new file is to be made: something at its own place, or a file where it needs a directory.
/// `leaving` are known files that go or change in the same step.
fn in_the_way(root: &Path, path: &Path, leaving: &BTreeSet<&Path>) -> Option<PathBuf> {
    let mut place = PathBuf::new();
    for component in path.components() {
        place.push(component);
        let found = std::fs::symlink_metadata(root.join(&place)).ok()?;
        if found.is_dir() && place != path {
            continue;
        }
        let goes =
            if found.is_dir() { all_leave(root, &place, leaving) } else { leaving.contains(place.as_path()) };
        return (!goes).then_some(place);
    }
    None
}

/// Whether a directory holds nothing but what leaves.
fn all_leave(root: &Path, directory: &Path, leaving: &BTreeSet<&Path>) -> bool {
    let Ok(entries) = std::fs::read_dir(root.join(directory)) else { return false };
    entries.flatten().all(|entry| {
        let place = directory.join(entry.file_name());
        match entry.file_type() {
            Ok(kind) if kind.is_dir() => all_leave(root, &place, leaving),
            _ => leaving.contains(place.as_path()),
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_difference_is_read_with_what_the_second_has() {
        let (old, new) = ("1".repeat(40), "2".repeat(40));
        let none = "0".repeat(40);
        let bytes = format!(
            ":100644 100755 {old} {new} M\0a b\0:100644 000000 {old} {none} D\0gone\0:000000 100644 {none} {new} A\0new\0"
        );
        let difference = |path: &str, before: (&str, &String), after: (&str, &String)| Difference {
            path: path.into(),
            before: (before.0.to_owned(), before.1.clone()),
            after: (after.0.to_owned(), after.1.clone()),
        };
        assert_eq!(
            parse_difference(bytes.as_bytes()).unwrap(),
            [
                difference("a b", ("100644", &old), ("100755", &new)),
                difference("gone", ("100644", &old), (NOTHING, &none)),
                difference("new", (NOTHING, &none), ("100644", &new))
            ]
        );
        assert_eq!(parse_difference(b"").unwrap(), []);
        // The last is how git repeats a question that it has no answer to.
        for other in ["nonsense\0path\0", ":1 2 3 4 M\0path", ":1 2 3 4 M\0", "1 2\n"] {
            assert_eq!(parse_difference(other.as_bytes()), None, "{other:?}");
        }
    }

    /// A repository whose last commit is a merge that renames, removes and changes what its first has.
    fn merged(place: &Path) -> (Repository, ObjectId, ObjectId) {
        let script = "git init -q -b main . && git config user.name a && git config user.email a@b &&
            echo 1 >one && echo 2 >two && echo 3 >'odd \nname' && git add . && git commit -qm first &&
            git switch -qc other && echo 4 >four && git add . && git commit -qm four &&
            git switch -q main && git mv one three && git rm -q two && chmod +x odd* && git add . &&
            git commit -qm second && git merge -q --no-edit other &&
            git rev-parse HEAD~2 HEAD";
        let output = std::process::Command::new("sh")
            .args(["-euc", script])
            .current_dir(place)
            .env("GIT_CONFIG_GLOBAL", "/dev/null")
            .output()
            .unwrap();
        let ids = String::from_utf8(output.stdout).unwrap();
        let mut ids = ids.lines().map(|id| ObjectId::parse(id).unwrap());
        let environment = std::env::vars_os().filter(|(name, _)| name == "PATH");
        let directory = palisade_core::HostPath::new(place).unwrap();
        let repository = crate::Git::new("git", environment).unguarded(&directory);
        (repository, ids.next().unwrap(), ids.next().unwrap())
    }

    #[tokio::test]
    async fn commits_differ_as_their_trees_do_whether_git_waits_for_them_or_not() {
        let place = tempfile::tempdir().unwrap();
        let (repository, first, last) = merged(place.path());
        let found = difference(&repository, &first, &last).await.unwrap();
        assert_eq!(found.len(), 5, "{found:?}");
        questions_to_weigh(&repository).into_iter().for_each(Invocation::ready);
        for waiting in [true, false] {
            assert_eq!(repository.has_ready(), waiting);
            repository.answers().forget();
            let by_commits = difference_of_commits(&repository, &first, &last).await.unwrap();
            assert_eq!(by_commits, found);
            let back = difference(&repository, &last, &first).await.unwrap();
            repository.answers().forget();
            assert_eq!(difference_of_commits(&repository, &last, &first).await.unwrap(), back);
            assert_eq!(weight(&repository, &found).await.unwrap(), 3 * 2);
        }
        let missing = ObjectId::parse(&"1".repeat(40)).unwrap();
        assert!(difference_of_commits(&repository, &first, &missing).await.is_err());
    }

    #[test]
    fn what_stands_in_the_way_is_found_without_following_links() {
        let root = tempfile::tempdir().unwrap();
        std::fs::write(root.path().join("file"), "").unwrap();
        std::fs::create_dir_all(root.path().join("dir/sub/empty")).unwrap();
        std::fs::write(root.path().join("dir/sub/file"), "").unwrap();
        std::os::unix::fs::symlink("/etc", root.path().join("link")).unwrap();
        let way_past = |path: &str, leaving: &[&str]| {
            let leaving = leaving.iter().map(Path::new).collect();
            in_the_way(root.path(), Path::new(path), &leaving).map(|path| path.display().to_string())
        };
        let way = |path: &str| way_past(path, &[]);
        assert_eq!(way("file"), Some("file".into()));
        assert_eq!(way("file/below"), Some("file".into()));
        assert_eq!(way("link/passwd"), Some("link".into()));
        assert_eq!(way("dir/sub"), Some("dir/sub".into()));
        assert_eq!((way("dir/new"), way("new/er")), (None, None));
        assert_eq!((way("dir/sub/empty"), way_past("file/below", &["file"])), (None, None));
        assert_eq!(way_past("dir", &["dir/sub/file"]), None);
        std::fs::write(root.path().join("dir/other"), "").unwrap();
        assert_eq!(way_past("dir", &["dir/sub/file"]), Some("dir".into()));
    }
}
