//! Worktrees of the user's own repository, on the host and beside it.
//!
//! Services may have a worktree mounted and write to it, its `.git` file included. So git is never asked *in* one: its
//! repository and its working tree are named from what the main repository knows, and the questions are guarded. Making
//! a worktree is the user's own checkout, with their filters and hooks, as by hand.

use crate::git::{Git, GitError, Repository};
use crate::place::{NotUsable, ask};
use crate::refs::{BranchName, ObjectId};
use crate::status::{Change, Status};
use palisade_core::{HostPath, printable};
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt as _, OsStringExt as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// A checkout of the largest repository, its large files downloaded.
const CHECKOUT: Duration = Duration::from_secs(3600);
/// Commits that are told of; more are counted.
const TOLD: usize = 20;

/// The worktrees of a repository. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Worktrees {
    /// Guarded, at the top of the main working tree.
    repository: Repository,
    /// As the user's git is.
    plain: Repository,
}

/// A worktree that git knows of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Worktree {
    pub path: HostPath,
    /// `None` where no branch is checked out.
    pub branch: Option<BranchName>,
    pub checkout: Checkout,
    /// Where git keeps what is its own.
    administration: PathBuf,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Checkout {
    Whole,
    /// Whoever made it was killed before all files were there.
    Partial,
}

/// What a branch of a new worktree starts from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The branch does not exist; it begins at the commit that the main working tree is at.
    Head,
    Existing,
}

/// What would be lost, or seen by nobody else, without the worktree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unfinished {
    pub changes: Vec<Change>,
    /// Commits that are in no other branch and that no remote has, newest first.
    pub commits: Vec<UnsharedCommit>,
    /// How many more there are.
    pub more_commits: usize,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnsharedCommit {
    pub id: ObjectId,
    pub subject: String,
}

impl Unfinished {
    pub fn is_empty(&self) -> bool {
        self.changes.is_empty() && self.commits.is_empty()
    }
}

impl Worktrees {
    /// Of the repository that this directory is in, be it in the main working tree or in another.
    pub async fn of(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        let (version, found) = tokio::join!(git.require(), ask(git, directory));
        version?;
        let mut found = found?;
        if found.repository.places().own != found.repository.places().common {
            let main = entries(&found.repository).await?.into_iter().next();
            let main = main.and_then(|entry| HostPath::new(entry.path).ok());
            found = ask(git, &main.ok_or_else(|| NotUsable::NoRepository(directory.clone()))?).await?;
        } else if found.root != *directory {
            // Again from the top, whose configuration may differ from that of a directory below it.
            found = ask(git, &found.root).await?;
        }
        if found.at.len() < 2 {
            return Err(NotUsable::NoCommit(found.root));
        }
        Ok(Self { plain: git.unguarded(&found.root), repository: found.repository })
    }

    /// The top of the main working tree.
    pub fn main(&self) -> &HostPath {
        self.repository.directory()
    }

    pub async fn all(&self) -> Result<Vec<Worktree>, GitError> {
        Ok(self.linked(entries(&self.repository).await?))
    }

    /// The branch that the main working tree is at, and every other worktree.
    pub async fn with_main(&self) -> Result<(Option<BranchName>, Vec<Worktree>), GitError> {
        let entries = entries(&self.repository).await?;
        Ok((entries.first().and_then(|entry| entry.branch.clone()), self.linked(entries)))
    }

    fn linked(&self, entries: Vec<Entry>) -> Vec<Worktree> {
        let mut found = Vec::new();
        for entry in entries {
            // The main working tree has no directory of administration, and is none of ours to remove.
            let Some(administration) = self.administration_of(&entry.path) else { continue };
            let Ok(path) = HostPath::new(entry.path) else { continue };
            let checkout =
                if administration.join("index").exists() { Checkout::Whole } else { Checkout::Partial };
            found.push(Worktree { path, branch: entry.branch, checkout, administration });
        }
        found
    }

    /// The worktree that has its top exactly here.
    pub async fn at(&self, path: &HostPath) -> Result<Option<Worktree>, GitError> {
        Ok(self.all().await?.into_iter().find(|tree| tree.path == *path))
    }

    pub async fn has_branch(&self, branch: &BranchName) -> Result<bool, GitError> {
        self.repository.git(["show-ref", "--verify", "--quiet", &branch.full()]).holds().await
    }

    /// Makes a worktree, one at a time. A git that outlives us keeps the lock, so that the next one finds it done.
    pub async fn add(&self, path: &HostPath, branch: &BranchName, start: Start) -> Result<(), GitError> {
        let _lock = self.repository.lock().await?;
        let mut arguments: Vec<OsString> = ["worktree", "add", "--quiet"].map(OsString::from).into();
        match start {
            Start::Head => {
                arguments.extend(["--no-track", "-b", branch.as_str()].map(OsString::from));
                arguments.extend([path.as_path().into(), "HEAD".into()]);
            }
            Start::Existing => arguments.extend([path.as_path().into(), branch.as_str().into()]),
        }
        self.as_by_hand(&self.plain, arguments).await
    }

    /// Lays the files of a worktree whose maker was killed. It never was whole, so nothing of anybody's is in it.
    pub async fn complete(&self, tree: &Worktree) -> Result<(), GitError> {
        let _lock = self.repository.lock().await?;
        let io = |source| GitError::Io { what: "worktree repair".into(), source };
        let mut pointer = OsString::from("gitdir: ");
        pointer.push(&tree.administration);
        pointer.push("\n");
        std::fs::create_dir_all(&tree.path).map_err(io)?;
        std::fs::write(tree.path.join(".git"), pointer.as_bytes()).map_err(io)?;
        for left in ["index.lock", "locked"] {
            let _ = std::fs::remove_file(tree.administration.join(left));
        }
        self.as_by_hand(&self.inside(&self.plain, tree), ["reset", "--hard", "--quiet"]).await
    }

    async fn as_by_hand<T: Into<OsString>>(
        &self,
        repository: &Repository,
        arguments: impl IntoIterator<Item = T>,
    ) -> Result<(), GitError> {
        let checkout = repository.git(arguments).limit(CHECKOUT).env("GIT_NO_LAZY_FETCH", "0");
        checkout.bytes().await.map(drop)
    }

    /// What stands in the way of removing it.
    pub async fn unfinished(&self, tree: &Worktree) -> Result<Unfinished, GitError> {
        let inside = self.inside(&self.repository, tree);
        let mut log: Vec<OsString> = ["log", "-z", "--format=%H %s", "HEAD"].map(OsString::from).into();
        log.extend(tree.branch.iter().map(|branch| branch.full().into()));
        log.extend(["--not", "--remotes"].map(OsString::from));
        log.extend(tree.branch.iter().map(|branch| format!("--exclude={branch}").into()));
        log.push("--branches".into());
        log.push("--".into());
        let (status, log) = tokio::try_join!(Status::look(&inside), inside.git(log).modest().bytes())?;
        let log = String::from_utf8_lossy(&log);
        let mut commits = Vec::new();
        for line in log.split('\0').filter(|line| !line.is_empty()) {
            let (id, subject) = line.split_once(' ').unwrap_or((line, ""));
            let id = crate::facts::object("log", id)?;
            commits.push(UnsharedCommit { id, subject: printable(subject) });
        }
        let more_commits = commits.len().saturating_sub(TOLD);
        commits.truncate(TOLD);
        Ok(Unfinished { changes: status.changes, commits, more_commits })
    }

    /// Forgets a worktree whose files are gone, or were never there; its branch stays.
    pub async fn forget(&self, path: &HostPath) -> Result<(), GitError> {
        let _lock = self.repository.lock().await?;
        let Some(administration) = self.administration_of(path.as_path()) else { return Ok(()) };
        match std::fs::remove_dir_all(administration) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                Err(GitError::Io { what: "worktree remove".into(), source })
            }
            _ => Ok(()),
        }
    }

    /// Files of the main working tree that git ignores and that these patterns, in the syntax of `.gitignore`, name.
    pub async fn ignored_files(&self, patterns: &HostPath) -> Result<Vec<PathBuf>, GitError> {
        let mut from = OsString::from("--exclude-from=");
        from.push(patterns.as_path());
        let named: [&OsStr; 5] =
            ["ls-files".as_ref(), "-z".as_ref(), "--others".as_ref(), "--ignored".as_ref(), &from];
        let named = self.repository.git(named).bytes().await?;
        if named.is_empty() {
            return Ok(Vec::new());
        }
        let (_, ignored) =
            self.repository.git(["check-ignore", "-z", "--stdin"]).input(named).words().await?;
        Ok(ignored.into_iter().map(PathBuf::from).collect())
    }

    /// Git for a worktree, which is told where everything is and looks for nothing itself.
    fn inside(&self, repository: &Repository, tree: &Worktree) -> Repository {
        repository.placed(&tree.path, &tree.administration)
    }

    fn administration_of(&self, path: &Path) -> Option<PathBuf> {
        linked_administration(&self.repository, path)
    }
}

/// The directory in which git says that a linked worktree is here.
fn linked_administration(repository: &Repository, path: &Path) -> Option<PathBuf> {
    let all = std::fs::read_dir(repository.places().common.join("worktrees")).ok()?;
    all.flatten().map(|entry| entry.path()).find(|administration| {
        let Ok(mut pointer) = std::fs::read(administration.join("gitdir")) else { return false };
        while pointer.last() == Some(&b'\n') {
            pointer.pop();
        }
        let pointer = administration.join(OsString::from_vec(pointer));
        lexically_normal(&pointer) == path.join(".git")
    })
}

/// Where git keeps the state of a working tree.
pub(crate) fn administration(repository: &Repository, entry: &Entry) -> Option<PathBuf> {
    match entry.is_main {
        true => Some(repository.places().common.clone()),
        false => linked_administration(repository, &entry.path),
    }
}

/// Git may write the way to a worktree relative to its own directory.
fn lexically_normal(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            std::path::Component::ParentDir => drop(normal.pop()),
            other => normal.push(other),
        }
    }
    normal
}

/// As `git worktree list` tells it, the main working tree first.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Entry {
    pub(crate) path: PathBuf,
    pub(crate) is_main: bool,
    pub(crate) branch: Option<BranchName>,
}

pub(crate) async fn entries(repository: &Repository) -> Result<Vec<Entry>, GitError> {
    Ok(parse(&repository.git(["worktree", "list", "--porcelain", "-z"]).bytes().await?))
}

/// Lines ended by NULs, worktrees ended by an empty line.
fn parse(bytes: &[u8]) -> Vec<Entry> {
    let mut entries: Vec<Entry> = Vec::new();
    for line in bytes.split(|byte| *byte == 0) {
        if let Some(path) = line.strip_prefix(b"worktree ") {
            let (path, is_main) = (PathBuf::from(OsString::from_vec(path.to_vec())), entries.is_empty());
            entries.push(Entry { path, is_main, branch: None });
        } else if let Some(branch) = line.strip_prefix(b"branch refs/heads/")
            && let Some(entry) = entries.last_mut()
        {
            entry.branch = std::str::from_utf8(branch).ok().and_then(|name| BranchName::new(name).ok());
        }
    }
    entries
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_list_of_worktrees_is_read_with_odd_names() {
        let text = b"worktree /a\0HEAD 1\0branch refs/heads/main\0\0worktree /b\nc\0HEAD 2\0detached\0\0";
        let branch = Some(BranchName::new("main").unwrap());
        let expected = [
            Entry { path: "/a".into(), is_main: true, branch },
            Entry { path: "/b\nc".into(), is_main: false, branch: None },
        ];
        assert_eq!(parse(text), expected);
        assert_eq!(parse(b""), []);
    }
}
