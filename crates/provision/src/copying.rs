//! Copies a project's files that git does not carry from the main working tree into a worktree.
//!
//! The list comes with the repository, so nothing in it is believed: every path stays within its tree and no link is
//! followed on either side, at whatever depth. All sources are opened before the first byte is written; when one cannot
//! be had, none is copied and every failure is told. What somebody changed in the worktree since is kept.

use palisade_core::{HostPath, ProjectPath};
use palisade_host::beneath::{self, Found, Fresh, Missing, Standing};
use palisade_host::digest::Digest;
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{FileType, OFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Seek as _};
use std::path::Path;

/// A file to copy, by its place in the worktree and in the main working tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DeclaredFile {
    pub destination: ProjectPath,
    pub source: ProjectPath,
}

/// What was laid where, by its SHA-256: how the next time knows what nobody has changed.
pub type Digests = BTreeMap<ProjectPath, String>;

/// What to do with a destination that was changed in the worktree.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Changed {
    Keep,
    Replace,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CopyOutcome {
    Copied,
    /// It was the same already.
    Same,
    /// Somebody changed it in the worktree, or made it there.
    Kept,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FileFailure {
    pub file: DeclaredFile,
    pub cause: FileFailureCause,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum FileFailureCause {
    /// `example` is a sibling from which it can be made.
    #[error("source not found at {path}")]
    NotFound { path: HostPath, example: Option<ProjectPath> },
    #[error("{path} is a symbolic link, or leads through one, which is not followed")]
    Link { path: HostPath },
    #[error("{path} is not a regular file")]
    NotAFile { path: HostPath },
    #[error("{path}: {reason}")]
    Io { path: HostPath, reason: String },
}

/// Copies all files, or none. Gives what became of each, and what lies there now.
pub fn copy(
    files: &[DeclaredFile],
    main: &HostPath,
    worktree: &HostPath,
    before: &Digests,
    changed: Changed,
) -> Result<(Vec<CopyOutcome>, Digests), Vec<FileFailure>> {
    let mut opened = Vec::new();
    let mut failures = Vec::new();
    for file in files {
        match source(main, &file.source) {
            Ok(source) => opened.push((file, source)),
            Err(cause) => failures.push(FileFailure { file: file.clone(), cause }),
        }
    }
    if !failures.is_empty() {
        return Err(failures);
    }
    let mut outcomes = Vec::new();
    let mut digests = before.clone();
    for (file, mut source) in opened {
        match lay(&mut source, worktree, &file.destination, before.get(&file.destination), changed) {
            Ok((outcome, digest)) => {
                outcomes.push(outcome);
                if outcome != CopyOutcome::Kept {
                    digests.insert(file.destination.clone(), digest);
                }
            }
            Err(cause) => failures.push(FileFailure { file: file.clone(), cause }),
        }
    }
    if failures.is_empty() { Ok((outcomes, digests)) } else { Err(failures) }
}

/// The digest of a file as it lies in a worktree; `None` when it is no plain file or cannot be read.
pub(crate) fn digest_of(worktree: &HostPath, path: &ProjectPath) -> Option<String> {
    let file = open_beneath(worktree.as_path(), path.as_str(), OFlags::RDONLY).ok()?;
    let file = regular(File::from(file), worktree.clone()).ok()?;
    Digest::of(file).ok().map(|digest| digest.to_string())
}

fn source(main: &HostPath, path: &ProjectPath) -> Result<File, FileFailureCause> {
    let place = main.join(path.as_str());
    match open_beneath(main.as_path(), path.as_str(), OFlags::RDONLY) {
        Ok(file) => regular(File::from(file), place),
        Err(Errno::NOENT | Errno::NOTDIR) => {
            Err(FileFailureCause::NotFound { path: place, example: example(main, path) })
        }
        Err(error) => Err(cause(place, error)),
    }
}

fn regular(file: File, path: HostPath) -> Result<File, FileFailureCause> {
    match file.metadata() {
        Ok(metadata) if metadata.is_file() => Ok(file),
        Ok(_) => Err(FileFailureCause::NotAFile { path }),
        Err(error) => Err(FileFailureCause::Io { path, reason: error.to_string() }),
    }
}

/// A sibling that is there to be copied: `config.example.yaml` for `config.yaml`.
fn example(main: &HostPath, path: &ProjectPath) -> Option<ProjectPath> {
    crate::examples::siblings(path).into_iter().find(|sibling| {
        open_beneath(main.as_path(), sibling.as_str(), OFlags::PATH)
            .and_then(rustix::fs::fstat)
            .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile)
    })
}

fn lay(
    source: &mut File,
    worktree: &HostPath,
    destination: &ProjectPath,
    before: Option<&String>,
    changed: Changed,
) -> Result<(CopyOutcome, String), FileFailureCause> {
    let place = worktree.join(destination.as_str());
    let failed = |error: io::Error| match Errno::from_io_error(&error) {
        Some(errno) => cause(place.clone(), errno),
        None => FileFailureCause::Io { path: place.clone(), reason: error.to_string() },
    };
    let (above, name) = destination.split();
    let directory = directory(worktree.as_path(), above).map_err(|errno| cause(place.clone(), errno))?;
    let wanted = Digest::of(&*source).map_err(failed)?.to_string();
    match beneath::look(directory.as_fd(), OsStr::new(name)).map_err(|errno| cause(place.clone(), errno))? {
        Found::File(there) => {
            let there = Digest::of(there).map_err(failed)?.to_string();
            if there == wanted {
                return Ok((CopyOutcome::Same, wanted));
            }
            if before != Some(&there) && changed == Changed::Keep {
                return Ok((CopyOutcome::Kept, there));
            }
        }
        Found::Nothing => {}
        Found::Link(_) => return Err(FileFailureCause::Link { path: place }),
        Found::Other => return Err(FileFailureCause::NotAFile { path: place }),
    }
    replace(source, &directory, name).map_err(failed)?;
    Ok((CopyOutcome::Copied, wanted))
}

/// In one step, and with the source's own permissions.
fn replace(source: &mut File, directory: &OwnedFd, name: &str) -> io::Result<()> {
    source.rewind()?;
    let mode = rustix::fs::fstat(source.as_fd())?.st_mode;
    let mut fresh = Fresh::make(directory.as_fd())?;
    io::copy(source, fresh.file())?;
    Ok(fresh.place(OsStr::new(name), mode, Standing::Replaced)?)
}

fn directory(root: &Path, above: &str) -> rustix::io::Result<OwnedFd> {
    let names = above.split('/').filter(|part| !part.is_empty());
    beneath::enter(beneath::root(root)?.as_fd(), names, Missing::Make)
}

pub(crate) fn open_beneath(root: &Path, path: &str, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    beneath::open(beneath::root(root)?.as_fd(), Path::new(path), flags)
}

fn cause(path: HostPath, error: Errno) -> FileFailureCause {
    match error {
        Errno::LOOP | Errno::XDEV => FileFailureCause::Link { path },
        Errno::NXIO | Errno::ISDIR => FileFailureCause::NotAFile { path },
        other => FileFailureCause::Io { path, reason: io::Error::from(other).to_string() },
    }
}

#[cfg(test)]
mod tests;
