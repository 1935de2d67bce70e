//! Opening a path name by name from the root, so that no link leads anywhere, whoever swaps one in at that moment.

use super::identity;
use palisade_core::{HostPath, PathIdentity, printable};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::path::{Component, Path, PathBuf};

/// Nothing is read through these descriptors: they only hold the place.
#[cfg(target_os = "linux")]
const HOLD: OFlags = OFlags::PATH.union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);
#[cfg(not(target_os = "linux"))]
const HOLD: OFlags = OFlags::RDONLY.union(OFlags::NOFOLLOW).union(OFlags::NONBLOCK).union(OFlags::CLOEXEC);

/// A directory or file of the host's that is held open. As long as it is, no other gets its inode number.
#[derive(Debug)]
pub struct OpenedPath {
    pub real: HostPath,
    pub device: u64,
    pub inode: u64,
    pub is_directory: bool,
    file: OwnedFd,
    /// The directory that it lies in; the root has none.
    parent: Option<OwnedFd>,
}

/// Why a path without links cannot be opened.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    #[error("{} is a symbolic link now", printable(&path.to_string_lossy()))]
    Link { path: PathBuf },
    #[error("{}: {source}", printable(&path.to_string_lossy()))]
    Io { path: PathBuf, source: std::io::Error },
}

impl OpenedPath {
    /// What tells this directory from every other; for a file, the directory that it lies in.
    pub fn identity(&self) -> std::io::Result<PathIdentity> {
        match &self.parent {
            Some(parent) if !self.is_directory => identity::of(parent.as_fd()),
            _ => identity::of(self.file.as_fd()),
        }
    }

    /// A descriptor of it that can be handed to another program.
    pub fn into_descriptor(self) -> OwnedFd {
        self.file
    }
}

impl AsFd for OpenedPath {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// Opens a path that has no links.
pub fn open_without_links(real: &HostPath) -> Result<OpenedPath, OpenError> {
    let mut here = PathBuf::from("/");
    let io = |path: &Path, error: Errno| OpenError::Io { path: path.to_owned(), source: error.into() };
    let root = rustix::fs::open("/", HOLD | OFlags::DIRECTORY, Mode::empty());
    let mut file = root.map_err(|error| io(&here, error))?;
    let mut parent = None;
    for component in real.as_path().components() {
        let name = match component {
            Component::Normal(name) => name,
            Component::RootDir | Component::CurDir => continue,
            Component::ParentDir | Component::Prefix(_) => return Err(io(real.as_path(), Errno::INVAL)),
        };
        here.push(name);
        let below = enter(file.as_fd(), name).map_err(|error| match error {
            Errno::LOOP => OpenError::Link { path: here.clone() },
            other => io(&here, other),
        })?;
        parent = Some(std::mem::replace(&mut file, below));
    }
    let stat = rustix::fs::fstat(&file).map_err(|error| io(&here, error))?;
    Ok(OpenedPath {
        real: real.clone(),
        device: stat.st_dev,
        inode: stat.st_ino,
        is_directory: FileType::from_raw_mode(stat.st_mode).is_dir(),
        file,
        parent,
    })
}

fn enter(directory: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OwnedFd> {
    let file = rustix::fs::openat(directory, name, HOLD, Mode::empty())?;
    // A descriptor that only holds a place is had of links, too.
    match FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode) {
        FileType::Symlink => Err(Errno::LOOP),
        _ => Ok(file),
    }
}
