//! The user's index while files are written: locked as git locks it, and replaced in one step.
//!
//! All work happens on a copy. Our lock is a file that says that it is ours, so that the next run recognises the lock of
//! one that was killed. The caller holds the repository's lock.

use crate::git::{GitError, Invocation, Repository};
use std::ffi::OsString;
use std::io::{Error, ErrorKind};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The copy, git's lock on it, and ours before it has its name.
const COPY: &str = "palisade-index";
const COPY_LOCK: &str = "palisade-index.lock";
const PASSING: &str = "palisade-index-lock";
/// What our lock holds. Git only looks whether there is one.
const MARK: &[u8] = b"palisade\n";
/// How long another git may hold the index.
const PATIENCE: Duration = Duration::from_secs(5);
/// How often it is looked for the end of another's lock, of which nothing tells us.
const PAUSE: Duration = Duration::from_millis(20);

#[derive(Debug)]
pub(crate) struct LockedIndex<'a> {
    repository: &'a Repository,
    lock: PathBuf,
    users: PathBuf,
    own: PathBuf,
}

/// The copy, worked on with another guard.
#[derive(Debug)]
pub(crate) struct IndexCopy<'a> {
    repository: &'a Repository,
    path: &'a Path,
}

impl<'a> IndexCopy<'a> {
    pub(crate) fn git<T: Into<OsString>>(&self, arguments: impl IntoIterator<Item = T>) -> Invocation<'a> {
        self.repository.git(arguments).index(self.path)
    }
}

impl<'a> LockedIndex<'a> {
    /// Locks the index and copies it.
    pub(crate) async fn take(repository: &'a Repository) -> Result<Self, GitError> {
        let directory = &repository.places().own;
        let (lock, users) = (directory.join("index.lock"), directory.join("index"));
        let own = directory.join(COPY);
        let io = |source| GitError::Io { what: "lock the index".into(), source };
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !try_lock(directory, &lock).map_err(io)? {
            if tokio::time::Instant::now() >= deadline {
                return Err(GitError::IndexLocked { lock });
            }
            tokio::time::sleep(PAUSE).await;
        }
        // From here on the lock goes when this is dropped.
        let locked = Self { repository, lock, users, own };
        remove(&directory.join(COPY_LOCK)).map_err(io)?;
        match copy_with_time(&locked.users, &locked.own) {
            // A repository without an index has nothing staged.
            Err(error) if error.kind() == ErrorKind::NotFound => remove(&locked.own).map_err(io)?,
            copied => copied.map_err(io)?,
        }
        Ok(locked)
    }

    /// Git that works on the copy.
    pub(crate) fn git<T: Into<OsString>>(&self, arguments: impl IntoIterator<Item = T>) -> Invocation<'a> {
        self.repository.git(arguments).index(&self.own)
    }

    pub(crate) fn seen_by<'b>(&'b self, repository: &'b Repository) -> IndexCopy<'b> {
        IndexCopy { repository, path: &self.own }
    }

    /// The copy takes the place of the user's index, which stays locked. What was there is kept until this is dropped.
    pub(crate) fn exchange(&self) -> Result<(), GitError> {
        let io = |source| GitError::Io { what: "replace the index".into(), source };
        let flags = rustix::fs::RenameFlags::EXCHANGE;
        let (from, cwd) = (&self.own, rustix::fs::CWD);
        match rustix::fs::renameat_with(cwd, from, cwd, &self.users, flags) {
            // There was none before.
            Err(rustix::io::Errno::NOENT) => std::fs::rename(from, &self.users).map_err(io),
            done => done.map_err(|error| io(error.into())),
        }
    }

    /// The copy takes the place of the user's index.
    pub(crate) fn install(self) -> Result<(), GitError> {
        let io = |source| GitError::Io { what: "replace the index".into(), source };
        std::fs::rename(&self.own, &self.users).map_err(io)
    }
}

impl Drop for LockedIndex<'_> {
    fn drop(&mut self) {
        // The next run removes what stays.
        let _ = remove(&self.own);
        let _ = remove(&self.lock);
    }
}

/// Removes what a run of ours has left that was killed. The caller holds the repository's lock.
pub(crate) fn remove_leftovers(repository: &Repository) -> Result<(), GitError> {
    let io = |source| GitError::Io { what: "remove our own lock".into(), source };
    let directory = &repository.places().own;
    for name in [COPY, COPY_LOCK, PASSING] {
        remove(&directory.join(name)).map_err(io)?;
    }
    remove_marked(&directory.join("index.lock")).map_err(io)
}

fn remove_marked(lock: &Path) -> Result<(), Error> {
    match std::fs::read(lock) {
        Ok(content) if content == MARK => remove(lock),
        _ => Ok(()),
    }
}

/// Makes the lock, whole or not at all. One that we have left is removed first.
fn try_lock(directory: &Path, lock: &Path) -> Result<bool, Error> {
    remove_marked(lock)?;
    let passing = directory.join(PASSING);
    std::fs::write(&passing, MARK)?;
    let made = std::fs::hard_link(&passing, lock);
    remove(&passing)?;
    match made {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == ErrorKind::AlreadyExists => Ok(false),
        Err(error) => Err(error),
    }
}

/// Git compares an index's time with that of the files, to know which may have changed within the same second.
fn copy_with_time(from: &Path, to: &Path) -> Result<(), Error> {
    let time = std::fs::metadata(from)?.modified()?;
    std::fs::copy(from, to)?;
    std::fs::File::options().write(true).open(to)?.set_modified(time)
}

pub(crate) fn remove(path: &Path) -> Result<(), Error> {
    match std::fs::remove_file(path) {
        Err(error) if error.kind() != ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}
