//! An index of our own beside the user's. What a sync does to an index, it does there; at the end ours takes the place
//! of the user's in one step, so that a sync that is ended leaves the old one, and no lock that git would stumble over.
//!
//! Whoever makes one holds the turn of the repository.

use crate::facts::object;
use crate::git::{GitError, Invocation, Repository};
use crate::refs::ObjectId;
use std::ffi::OsString;
use std::io::ErrorKind;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

#[derive(Debug)]
pub(crate) struct OwnIndex<'a> {
    repository: &'a Repository,
    path: PathBuf,
    users: PathBuf,
    /// The user's, as it was when we copied it.
    copied: Option<Stamp>,
}

/// Git writes an index as a new file, so these tell one from the next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Stamp {
    inode: u64,
    size: u64,
    changed: (i64, i64),
}

impl Stamp {
    fn of(path: &Path) -> Option<Self> {
        let found = std::fs::symlink_metadata(path).ok()?;
        Some(Self { inode: found.ino(), size: found.size(), changed: (found.mtime(), found.mtime_nsec()) })
    }
}

impl<'a> OwnIndex<'a> {
    pub(crate) fn copy(repository: &'a Repository) -> Result<Self, GitError> {
        let directory = &repository.places().own;
        let (path, users) = (directory.join("palisade-index"), directory.join("index"));
        let io = |source| GitError::Io { what: "index".into(), source };
        // What one that was ended has left; nobody else works on it while we have the turn. A lock of the user's index
        // that is this very file is not the user's.
        let lock = users.with_extension("lock");
        if Stamp::of(&path).is_some_and(|ours| Stamp::of(&lock) == Some(ours)) {
            remove(&lock).map_err(io)?;
        }
        remove(&directory.join("palisade-index.lock")).map_err(io)?;
        remove(&path).map_err(io)?;
        let copied = Stamp::of(&users);
        if copied.is_some() {
            copy_with_time(&users, &path).map_err(io)?;
        }
        Ok(Self { repository, path, users, copied })
    }

    /// The same index, worked on with another guard.
    pub(crate) fn seen_by<'b>(&self, repository: &'b Repository) -> OwnIndex<'b> {
        let (path, users) = (self.path.clone(), self.users.clone());
        OwnIndex { repository, path, users, copied: self.copied }
    }

    fn git<'i, T: Into<OsString>>(&'i self, arguments: impl IntoIterator<Item = T>) -> Invocation<'i> {
        self.repository.git(arguments).index(&self.path)
    }

    /// Takes in what the files at these paths are now; the tree of it all.
    pub(crate) async fn record(&self, paths: &[&Path]) -> Result<ObjectId, GitError> {
        let update = self.git(["update-index", "--add", "--remove", "--replace", "-z", "--stdin"]);
        update.input(list(paths)).bytes().await?;
        object("write-tree", &self.git(["write-tree"]).text().await?)
    }

    /// Changes the files, and this index with them, from one tree to another.
    pub(crate) async fn update_files(&self, from: &ObjectId, to: &ObjectId) -> Result<(), GitError> {
        if from == to {
            return Ok(());
        }
        self.git(["read-tree", "-m", "-u", from.as_str(), to.as_str()]).bytes().await.map(drop)
    }

    /// Makes this index that of a commit, whatever the files are; `new` are files that it is to know of all the same.
    pub(crate) async fn go_back_to(&self, commit: &ObjectId, new: &[&Path]) -> Result<(), GitError> {
        go_back(self.repository, Some(&self.path), commit, new).await
    }

    /// Ours, which is that of a commit and of new files, becomes the user's.
    pub(crate) async fn install(&self, commit: &ObjectId, new: &[&Path]) -> Result<(), GitError> {
        match self.take_users_place() {
            Ok(()) => Ok(()),
            // Somebody's git is at work on it, or has been meanwhile: git itself settles that, or says why it cannot.
            Err(_) => go_back(self.repository, None, commit, new).await,
        }
    }

    /// As git does it, under the lock that git respects.
    fn take_users_place(&self) -> std::io::Result<()> {
        let lock = self.users.with_extension("lock");
        std::fs::hard_link(&self.path, &lock)?;
        if Stamp::of(&self.users) != self.copied {
            std::fs::remove_file(&lock)?;
            return Err(ErrorKind::ResourceBusy.into());
        }
        std::fs::rename(&lock, &self.users)?;
        // A leftover is removed by whoever comes next.
        let _ = std::fs::remove_file(&self.path);
        Ok(())
    }
}

async fn go_back(
    repository: &Repository,
    index: Option<&Path>,
    commit: &ObjectId,
    new: &[&Path],
) -> Result<(), GitError> {
    let on_index = async |invocation: Invocation<'_>| match index {
        Some(path) => invocation.index(path).bytes().await,
        None => invocation.bytes().await,
    };
    on_index(repository.git(["read-tree", "-m", commit.as_str()])).await?;
    if new.is_empty() {
        return Ok(());
    }
    let add = ["add", "--intent-to-add", "--force", "--pathspec-from-file=-", "--pathspec-file-nul"];
    let add = repository.git(add).env("GIT_LITERAL_PATHSPECS", "1").input(list(new));
    on_index(add).await.map(drop)
}

/// Git compares an index's time with that of the files, to know which may have changed within the same second.
fn copy_with_time(from: &Path, to: &Path) -> std::io::Result<()> {
    let time = std::fs::metadata(from)?.modified()?;
    std::fs::copy(from, to)?;
    std::fs::File::options().write(true).open(to)?.set_modified(time)
}

fn list(paths: &[&Path]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect()
}

fn remove(path: &Path) -> std::io::Result<()> {
    std::fs::remove_file(path).or_else(|error| match error.kind() {
        ErrorKind::NotFound => Ok(()),
        _ => Err(error),
    })
}
