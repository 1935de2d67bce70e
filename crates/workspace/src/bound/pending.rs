//! Commits from a directory that is not a repository, until one can be made there.
//!
//! While the sandbox runs, a file stands at `.git`, and the sandbox has a mount over it: nothing can be put in its place. So the
//! commits come to a repository in the state directory first. It holds only objects that were checked. When the sandbox
//! has ended, the directory gets a repository of its own with them, in one step, unless the sandbox has made the
//! directory look like a repository itself.

use super::BoundError;
use super::head::{Base, Head};
use crate::git::Git;
use crate::host_tree::HostTree;
use palisade_core::HostPath;
use palisade_host::fence::{self, DirectoryLock};
use rustix::fs::{CWD, RenameFlags, renameat_with};
use std::fs::File;
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Of a git directory, what a repository that git has just made has itself, and our own locks and notes.
const NOT_COPIED: [&str; 6] = ["config", "description", "hooks", "info", "palisade", "palisade.lock"];

/// A repository of ours in the state directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PendingRepository {
    root: HostPath,
}

/// What is put into a new repository: files of ours, opened, by their path in the git directory.
#[derive(Debug)]
pub struct PendingFiles {
    branch: String,
    files: Vec<(PathBuf, File)>,
}

impl PendingRepository {
    pub(super) fn at(root: HostPath) -> Self {
        Self { root }
    }

    /// The top of its working tree, in which there is never a file, as git names it.
    pub fn top(&self) -> Result<HostPath, BoundError> {
        let real =
            std::fs::canonicalize(&self.root).and_then(|path| HostPath::new(path).map_err(io::Error::other));
        real.map_err(BoundError::io(format!("open {}", self.root)))
    }

    pub fn exists(&self) -> bool {
        self.root.join(".git/HEAD").as_path().exists()
    }

    /// Makes it, unless it is there.
    pub async fn make(&self, git: &Git, base: &Base) -> Result<(), BoundError> {
        if self.exists() {
            return Ok(());
        }
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.root);
        made.map_err(BoundError::io(format!("make {}", self.root)))?;
        // Where HEAD is at a commit, it follows when that has come.
        let branch = match &base.head {
            Head::Branch(name) => name.as_str(),
            Head::Detached(_) => "main",
        };
        init(git, &self.root, branch).await
    }

    /// Opens all that a new repository gets. `None` where there is not one commit, or nothing was brought.
    pub async fn open(&self, git: &Git) -> Result<Option<PendingFiles>, BoundError> {
        if !self.exists() {
            return Ok(None);
        }
        let repository = HostTree::find_again(git, &self.top()?).await?.repository;
        if repository.git(["for-each-ref", "--count=1"]).bytes().await?.is_empty() {
            return Ok(None);
        }
        // A few files instead of one for each object and ref.
        repository.git(["pack-refs", "--all"]).bytes().await?;
        repository.git(["repack", "-a", "-d", "-q"]).bytes().await?;
        let branch = repository.git(["symbolic-ref", "--quiet", "--short", "HEAD"]).answers().await?;
        let branch = match String::from_utf8_lossy(&branch).trim_end() {
            "" => "main".to_owned(),
            name => name.to_owned(),
        };
        let top = self.root.join(".git").as_path().to_owned();
        let mut files = Vec::new();
        let mut pending = vec![PathBuf::new()];
        let io = || BoundError::io(format!("read {}", top.display()));
        while let Some(relative) = pending.pop() {
            for entry in std::fs::read_dir(top.join(&relative)).map_err(io())? {
                let entry = entry.map_err(io())?;
                let (kind, path) = (entry.file_type().map_err(io())?, relative.join(entry.file_name()));
                if NOT_COPIED.iter().any(|name| path == Path::new(name)) {
                    continue;
                }
                if kind.is_dir() {
                    pending.push(path);
                } else {
                    files.push((path, File::open(entry.path()).map_err(io())?));
                }
            }
        }
        Ok(Some(PendingFiles { branch, files }))
    }

    /// The commits that its branches are at.
    pub async fn tips(&self, git: &Git) -> Result<Vec<String>, BoundError> {
        let repository = HostTree::find_again(git, &self.top()?).await?.repository;
        let listing =
            repository.git(["for-each-ref", "--format=%(objectname)", "refs/heads/"]).text().await?;
        Ok(listing.lines().map(str::to_owned).collect())
    }

    pub fn remove(&self) -> Result<(), BoundError> {
        palisade_host::tree::remove(self.root.as_path())
            .map_err(BoundError::io(format!("remove {}", self.root)))
    }
}

/// Whether the repository in a directory has all of these commits.
pub async fn has_commits(git: &Git, directory: &HostPath, ids: &[String]) -> Result<bool, BoundError> {
    let repository = HostTree::find_again(git, directory).await?.repository;
    for id in ids {
        let question = repository.git(["cat-file", "-e", &format!("{id}^{{commit}}")]);
        if !question.succeeds().await? {
            return Ok(false);
        }
    }
    Ok(true)
}

impl PendingFiles {
    /// Makes a directory a repository that holds these files. For the directory's owner, when no sandbox has the directory.
    ///
    /// The new git directory is made beside, under a name that git does not look at, and takes the place of `.git` in one step.
    pub async fn put_into(self, git: &Git, directory: &HostPath, beside: &str) -> Result<(), BoundError> {
        let io = || BoundError::io(format!("make {directory} a repository"));
        // Another sandbox may have it already.
        let _lock = DirectoryLock::take(directory).map_err(|error| io()(io::Error::other(error)))?;
        if fence::looks_like_repository(directory) {
            return Err(BoundError::Planted { directory: directory.clone() });
        }
        let making = directory.join(beside);
        palisade_host::tree::remove(making.as_path()).map_err(io())?;
        std::fs::DirBuilder::new().mode(0o700).create(&making).map_err(io())?;
        let made = self.fill(git, directory, &making).await;
        let removed = palisade_host::tree::remove(making.as_path()).map_err(io());
        made.and(removed)
    }

    async fn fill(self, git: &Git, directory: &HostPath, making: &HostPath) -> Result<(), BoundError> {
        let io = || BoundError::io(format!("make {directory} a repository"));
        init(git, making, &self.branch).await?;
        let own = making.join(".git").as_path().to_owned();
        for (path, mut from) in self.files {
            let to = own.join(&path);
            if let Some(above) = to.parent() {
                std::fs::create_dir_all(above).map_err(io())?;
            }
            let mode = if path.starts_with("objects") { 0o444 } else { 0o644 };
            let mut options = File::options();
            // HEAD is there already.
            if path != Path::new("HEAD") {
                options.create_new(true);
            }
            let mut file = options.write(true).truncate(true).mode(mode).open(&to).map_err(io())?;
            io::copy(&mut from, &mut file).map_err(io())?;
        }
        let place = directory.join(".git");
        let (flags, occupied) = match fence::leads_nowhere(directory) {
            true => (RenameFlags::EXCHANGE, false),
            false => (RenameFlags::NOREPLACE, std::fs::symlink_metadata(&place).is_ok()),
        };
        if occupied {
            return Err(io()(io::ErrorKind::AlreadyExists.into()));
        }
        renameat_with(CWD, &own, CWD, place.as_path(), flags).map_err(|error| io()(error.into()))
    }
}

/// Makes a repository with nothing in it. Nothing of the user's runs and nothing is copied: no template, and no hook.
async fn init(git: &Git, top: &HostPath, branch: &str) -> Result<(), BoundError> {
    let first = format!("--initial-branch={branch}");
    let words = ["-c", "core.hooksPath=/dev/null", "-c", "core.fsmonitor=false", "init", "--quiet"];
    let words = words.into_iter().chain(["--template=", first.as_str(), "--", "."]);
    let here = git.unguarded(top);
    here.git(words).env("GIT_DEFAULT_HASH", "sha1").env("GIT_DEFAULT_REF_FORMAT", "files").bytes().await?;
    Ok(())
}
