//! All that the repositories in a directory hold and that a person would miss: commits by every name there is, and
//! files that are not committed.
//!
//! The answer is `none` where there is no repository. Otherwise records, each word ended by a NUL:
//! - `repository PATH KIND`: begins a repository, by its path below the directory (empty for the directory itself);
//!   `main`, or `nested` with work of its own, or `plain` without.
//! - `ref NAME ID`
//! - `stash ID MESSAGE`: the newest first.
//! - `tip WHERE ID`: a commit that only a file of git's or a reflog names.
//! - `tree PATH BRANCH HEAD SNAPSHOT FILES OPERATIONS`: a working tree with its branch (empty: detached), its commit
//!   (empty: none yet), and, where something is not committed, the snapshot and the tree of all files.
//! - `shallow TEXT`: where the history ends in a shallow clone, as git's own file says it.
//! - `push REMOTE TARGET ID FORCE`: a push that was asked for inside; without an id, of nothing.
//! - `large OID SIZE`: a file that Git LFS keeps.
//! - `left-out PATH REASON`: what could not be recorded, by its path below the directory.

use super::git::{Git, GitFailure};
use super::large;
use super::records::{Records, bytes, is_id};
use super::remote::{self, RecordedPush};
use super::snapshot::{self, LeftOut, Snapshot};
use super::state;
use super::status::Status;
use super::working_tree::WorkingTree;
use std::collections::HashSet;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};
use std::{fs, io};

/// More repositories than anybody nests on purpose.
const MAX_REPOSITORIES: usize = 64;
/// The most directories that are named because they cannot be read.
const MAX_UNREADABLE: usize = 1000;
/// The mode of a path in the index that is another repository.
const GITLINK: &str = "160000";

/// How much of the repositories is looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Scope {
    Everything,
    /// One repository, without files and repositories in its working trees: the host sees these files itself.
    Commits,
}

pub(crate) fn survey(directory: &Path, scope: Scope) -> Result<Vec<u8>, GitFailure> {
    if fs::symlink_metadata(directory.join(".git")).is_err() {
        let mut records = Records::default();
        records.add(&[b"none"]);
        return Ok(records.into_bytes());
    }
    let unusable = |error: io::Error| GitFailure::new("open the repository", error.to_string());
    let main = WorkingTree::open(directory).map_err(unusable)?;
    let mut records = Records::default();
    let mut seen = HashSet::from([main.common.clone()]);
    let mut pending = vec![(main.clone(), Kind::Main)];
    while let Some((tree, kind)) = pending.pop() {
        let place = tree.path.strip_prefix(&main.path).unwrap_or(&tree.path).to_owned();
        let found = match Repository::look(&tree, kind, scope) {
            Ok(found) => found,
            Err(failure) if kind == Kind::Main => return Err(failure),
            Err(failure) => {
                records.add(&[b"left-out", bytes(&place), failure.to_string().as_bytes()]);
                continue;
            }
        };
        for path in &found.nested {
            match WorkingTree::open(path) {
                Ok(nested) if seen.insert(nested.common.clone()) => {
                    if seen.len() > MAX_REPOSITORIES {
                        let nested = nested.path.strip_prefix(&main.path).unwrap_or(&nested.path).to_owned();
                        records.add(&[
                            b"left-out",
                            bytes(&nested),
                            b"there are too many nested repositories",
                        ]);
                    } else {
                        pending.push((nested, Kind::Nested));
                    }
                }
                Ok(_) => {}
                Err(error) => {
                    let path = path.strip_prefix(&main.path).unwrap_or(path);
                    let why = format!("its repository cannot be opened: {error}");
                    records.add(&[b"left-out", bytes(path), why.as_bytes()]);
                }
            }
        }
        found.write(&place, kind, &main.path, &mut records);
    }
    Ok(records.into_bytes())
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    Main,
    Nested,
}

/// What one repository holds.
struct Repository {
    /// By name. Git allows any bytes but a few in one.
    refs: Vec<(Vec<u8>, String)>,
    stashes: Vec<(String, String)>,
    tips: Vec<(String, String)>,
    trees: Vec<TreeState>,
    /// Other repositories in its working trees.
    nested: Vec<PathBuf>,
    has_own_commits: bool,
    shallow: Vec<u8>,
    pushes: Vec<RecordedPush>,
    large: Vec<(String, u64)>,
}

/// What one working tree holds.
struct TreeState {
    path: PathBuf,
    branch: Option<String>,
    head: Option<String>,
    snapshot: Option<Snapshot>,
    operations: String,
    left_out: Vec<LeftOut>,
    nested: Vec<PathBuf>,
    tips: Vec<(&'static str, String)>,
}

impl Repository {
    fn look(tree: &WorkingTree, kind: Kind, scope: Scope) -> Result<Self, GitFailure> {
        let git = Git::at(&tree.path);
        let trees = tree.with_linked();
        std::thread::scope(|threads| {
            let looks: Vec<_> =
                trees.iter().map(|tree| threads.spawn(move || TreeState::look(tree, scope))).collect();
            let reflog = threads.spawn(|| reflog_tips(&git));
            let refs = refs(&git)?;
            let stashes = match refs.iter().find(|(name, _)| name == b"refs/stash") {
                Some((_, newest)) => stashes(&git, newest)?,
                None => Vec::new(),
            };
            let has_own_commits = kind == Kind::Nested && has_own_commits(&git, &refs);
            let mut states = Vec::new();
            for look in looks {
                states.push(look.join().map_err(|_| GitFailure::new("status", "it did not end".into()))??);
            }
            let reflog = reflog.join().unwrap_or_default();
            let mut tips: Vec<(String, String)> =
                reflog.into_iter().map(|id| ("reflog".into(), id)).collect();
            let mut nested = Vec::new();
            for state in &mut states {
                tips.extend(std::mem::take(&mut state.tips).into_iter().map(|(name, id)| (name.into(), id)));
                nested.append(&mut state.nested);
            }
            let shallow = fs::read(tree.common.join("shallow")).unwrap_or_default();
            let (pushes, large) = (remote::recorded(&tree.common), large::listed(&tree.common));
            Ok(Self { refs, stashes, tips, trees: states, nested, has_own_commits, shallow, pushes, large })
        })
    }

    fn has_own_work(&self) -> bool {
        self.has_own_commits
            || !self.stashes.is_empty()
            || self.trees.iter().any(|tree| tree.snapshot.is_some() || !tree.left_out.is_empty())
    }

    fn write(&self, place: &Path, kind: Kind, top: &Path, records: &mut Records) {
        let kind: &[u8] = match kind {
            Kind::Main => b"main",
            Kind::Nested if self.has_own_work() => b"nested",
            Kind::Nested => b"plain",
        };
        records.add(&[b"repository", bytes(place), kind]);
        if !self.shallow.is_empty() {
            records.add(&[b"shallow", &self.shallow]);
        }
        for (oid, size) in &self.large {
            records.add(&[b"large", oid.as_bytes(), size.to_string().as_bytes()]);
        }
        for push in &self.pushes {
            let words = [&push.remote, &push.target, &push.id, &push.force];
            let [remote, target, id, force] = words.map(String::as_bytes);
            records.add(&[b"push", remote, target, id, force]);
        }
        for (name, id) in &self.refs {
            records.add(&[b"ref", name, id.as_bytes()]);
        }
        for (id, message) in &self.stashes {
            records.add(&[b"stash", id.as_bytes(), message.as_bytes()]);
        }
        for (place, id) in &self.tips {
            records.add(&[b"tip", place.as_bytes(), id.as_bytes()]);
        }
        for tree in &self.trees {
            let text = |text: &Option<String>| text.clone().unwrap_or_default();
            let (snapshot, files) = match &tree.snapshot {
                Some(Snapshot { commit, files }) => (commit.as_str(), files.as_str()),
                None => ("", ""),
            };
            records.add(&[
                b"tree",
                bytes(&tree.path),
                text(&tree.branch).as_bytes(),
                text(&tree.head).as_bytes(),
                snapshot.as_bytes(),
                files.as_bytes(),
                tree.operations.as_bytes(),
            ]);
            for left_out in &tree.left_out {
                let path = tree.path.join(&left_out.path);
                let path = path.strip_prefix(top).unwrap_or(&path);
                records.add(&[b"left-out", bytes(path), left_out.why.as_bytes()]);
            }
        }
    }
}

impl TreeState {
    fn look(tree: &WorkingTree, scope: Scope) -> Result<Self, GitFailure> {
        match scope {
            Scope::Everything => Self::look_at_files(tree),
            Scope::Commits => Ok(Self::look_at_head(tree)),
        }
    }

    fn look_at_head(tree: &WorkingTree) -> Self {
        let git = Git::at(&tree.path);
        // Both fail where there is nothing to say: HEAD is detached, or there is no commit yet.
        let branch = git.line(&["symbolic-ref", "--quiet", "HEAD"]).ok();
        let branch = branch.and_then(|name| Some(name.strip_prefix("refs/heads/")?.to_owned()));
        let head = git.line(&["rev-parse", "--quiet", "--verify", "HEAD^{commit}"]).ok();
        Self {
            path: tree.path.clone(),
            operations: state::operations(&tree.own),
            tips: state::tips(&tree.own),
            branch,
            head: head.filter(|id| is_id(id)),
            snapshot: None,
            left_out: Vec::new(),
            nested: Vec::new(),
        }
    }

    fn look_at_files(tree: &WorkingTree) -> Result<Self, GitFailure> {
        let git = Git::at(&tree.path);
        let status = Status::read(&git)?;
        let (snapshot, mut left_out) = match status.is_clean() {
            true => (None, Vec::new()),
            false => snapshot::record(tree, &git, &status)?,
        };
        if status.has_unreadable {
            left_out.extend(unreadable(&git, &tree.path));
        }
        let mut nested: Vec<PathBuf> = status.nested.iter().map(|path| tree.path.join(path)).collect();
        nested.extend(populated_gitlinks(tree, &git)?);
        Ok(Self {
            path: tree.path.clone(),
            operations: state::operations(&tree.own),
            tips: state::tips(&tree.own),
            branch: status.branch,
            head: status.head,
            snapshot,
            left_out,
            nested,
        })
    }
}

fn lines(bytes: &[u8]) -> impl Iterator<Item = &str> {
    bytes.split(|byte| *byte == b'\n').filter_map(|line| std::str::from_utf8(line).ok())
}

pub(crate) fn refs(git: &Git) -> Result<Vec<(Vec<u8>, String)>, GitFailure> {
    let answer = git.run(&["for-each-ref", "--format=%(objectname) %(refname)"])?;
    let mut refs = Vec::new();
    for line in answer.output.split(|byte| *byte == b'\n') {
        let mut words = line.splitn(2, |byte| *byte == b' ');
        if let (Some(id), Some(name)) = (words.next(), words.next())
            && let Ok(id) = std::str::from_utf8(id)
            && is_id(id)
        {
            refs.push((name.to_owned(), id.to_owned()));
        }
    }
    Ok(refs)
}

/// All entries, the newest first: a fetch of the ref itself would bring only that one.
fn stashes(git: &Git, newest: &str) -> Result<Vec<(String, String)>, GitFailure> {
    let answer = git.run(&["log", "--walk-reflogs", "--format=%H %gs", "refs/stash", "--"])?;
    // A message is in whatever encoding the commit's is.
    let text = String::from_utf8_lossy(&answer.output);
    let entries = text.lines().map(|line| line.split_once(' ').unwrap_or((line, "")));
    let mut stashes: Vec<(String, String)> = entries
        .filter(|(id, _)| is_id(id))
        .map(|(id, message)| (id.to_owned(), message.to_owned()))
        .collect();
    // The log may be lost while the ref is there.
    if stashes.first().is_none_or(|(id, _)| id != newest) {
        stashes.insert(0, (newest.to_owned(), String::new()));
    }
    Ok(stashes)
}

/// Commits that reflogs name and no ref leads to; of those that lead to each other, the last.
fn reflog_tips(git: &Git) -> Vec<String> {
    // A reflog may name commits that are gone, which is no reason to miss the others.
    let Ok(answer) = git.run(&["rev-list", "--reflog", "--parents", "--not", "--all"]) else {
        return Vec::new();
    };
    let mut commits = Vec::new();
    let mut parents = HashSet::new();
    for line in lines(&answer.output) {
        let mut ids = line.split(' ').filter(|id| is_id(id));
        commits.extend(ids.next());
        parents.extend(ids);
    }
    commits.into_iter().filter(|id| !parents.contains(id)).map(str::to_owned).collect()
}

/// Whether a repository has commits that none of its remotes had.
pub(crate) fn has_own_commits(git: &Git, refs: &[(Vec<u8>, String)]) -> bool {
    if refs.is_empty() {
        return false;
    }
    let question = ["rev-list", "--max-count=1", "--branches", "HEAD", "--not", "--remotes", "--tags"];
    match git.run(&question) {
        Ok(answer) => !answer.output.is_empty(),
        // HEAD may be at no commit yet.
        Err(_) => true,
    }
}

/// Repositories that the index names as such and whose files are there: submodules, and others that were added.
fn populated_gitlinks(tree: &WorkingTree, git: &Git) -> Result<Vec<PathBuf>, GitFailure> {
    // As the index stores that mode. To look for it costs less than to have git list everything.
    const STORED: [u8; 4] = 0o160000u32.to_be_bytes();
    let holds = |path: &Path| fs::read(path).is_ok_and(|bytes| bytes.windows(4).any(|part| part == STORED));
    let shared = fs::read_dir(&tree.own).into_iter().flatten().flatten().map(|entry| entry.path());
    let mut shared = shared.filter(|path| bytes(path).windows(12).any(|part| part == b"sharedindex."));
    if !holds(&tree.own.join("index")) && !shared.any(|path| holds(&path)) {
        return Ok(Vec::new());
    }
    let answer = git.run(&["ls-files", "--stage", "-z"])?;
    let entries = answer.output.split(|byte| *byte == 0);
    let links = entries.filter(|entry| entry.starts_with(GITLINK.as_bytes()));
    let paths = links.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    let paths = paths.map(|path| tree.path.join(OsString::from_vec(path.to_vec())));
    Ok(paths.filter(|path| path.join(".git").exists()).collect())
}

/// Directories that cannot be looked into and that git does not ignore.
fn unreadable(git: &Git, top: &Path) -> Vec<LeftOut> {
    let mut found = Vec::new();
    let mut pending = vec![top.to_owned()];
    while let Some(directory) = pending.pop() {
        match fs::read_dir(&directory) {
            Ok(entries) => {
                let directories = entries.flatten().filter(|entry| {
                    entry.file_type().is_ok_and(|kind| kind.is_dir()) && entry.file_name() != ".git"
                });
                pending.extend(directories.map(|entry| entry.path()));
            }
            Err(error) if found.len() < MAX_UNREADABLE => {
                let ignored = git.run(&[
                    "check-ignore".as_ref(),
                    "--quiet".as_ref(),
                    "--".as_ref(),
                    directory.as_os_str(),
                ]);
                let path = directory.strip_prefix(top).unwrap_or(&directory).to_owned();
                if ignored.is_err() {
                    found.push(LeftOut { path, why: error.to_string() });
                }
            }
            Err(_) => return found,
        }
    }
    found
}
