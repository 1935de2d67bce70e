//! Lists a tree by descriptors. No link is followed, and nothing is opened but directories.

use super::entry::{EntryKind, Stamp};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, Mode, OFlags, ResolveFlags};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::ffi::{OsStr, OsString};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};

/// How much of a tree is looked at. A sandbox may have made any number of files.
#[derive(Debug, Clone, Copy)]
pub(super) struct WalkLimits {
    pub(super) entries: usize,
    /// The length of all paths together.
    pub(super) path_bytes: usize,
}

impl Default for WalkLimits {
    fn default() -> Self {
        Self { entries: 1_000_000, path_bytes: 256 << 20 }
    }
}

/// What a tree holds, by path.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Listing {
    pub(super) entries: BTreeMap<PathBuf, Stamp>,
    /// Devices, pipes and sockets.
    pub(super) special: Vec<PathBuf>,
    /// Directories that could not be listed, and why. They are entries all the same.
    pub(super) unread: Vec<(PathBuf, String)>,
}

#[derive(Debug)]
pub(super) enum WalkError {
    /// There is more than the limits allow.
    TooMany,
    Io(Errno),
}

impl From<Errno> for WalkError {
    fn from(error: Errno) -> Self {
        Self::Io(error)
    }
}

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Opens a directory of a tree by its path there. A link on the way is [`Errno::LOOP`].
pub(super) fn open_directory(root: BorrowedFd<'_>, path: &Path) -> rustix::io::Result<OwnedFd> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat2(root, path, flags, Mode::empty(), BENEATH)
}

/// The directory that an entry lies in, and its name there.
pub(super) fn open_parent<'p>(
    root: BorrowedFd<'_>,
    path: &'p Path,
) -> rustix::io::Result<(OwnedFd, &'p OsStr)> {
    let name = path.file_name().ok_or(Errno::INVAL)?;
    Ok((open_directory(root, path.parent().unwrap_or(Path::new("")))?, name))
}

/// Looks at one entry; `None` when nothing is there. What is neither a file, a directory nor a link is [`Errno::NODEV`].
pub(super) fn stamp_at(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Option<Stamp>> {
    let stat = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
        Err(Errno::NOENT) => return Ok(None),
        stat => stat?,
    };
    let target = match EntryKind::of(&stat) {
        Some(EntryKind::Link) => Some(read_link(parent, name)?),
        _ => None,
    };
    Stamp::of(&stat, target).map(Some).ok_or(Errno::NODEV)
}

pub(super) fn read_link(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<OsString> {
    Ok(OsString::from_vec(rustix::fs::readlinkat(parent, name, Vec::new())?.into_bytes()))
}

/// Lists everything but what `skip` names, with all that is below it.
pub(super) fn list(
    root: BorrowedFd<'_>,
    skip: impl Fn(&Path) -> bool,
    limits: WalkLimits,
) -> Result<Listing, WalkError> {
    let mut listing = Listing::default();
    let (mut count, mut bytes) = (0, 0);
    let mut pending = vec![PathBuf::new()];
    while let Some(directory) = pending.pop() {
        let opened = match open_directory(root, &directory) {
            Ok(opened) => opened,
            Err(error) if directory.as_os_str().is_empty() => return Err(error.into()),
            Err(error) => {
                listing.unread.push((directory, std::io::Error::from(error).to_string()));
                continue;
            }
        };
        for entry in Dir::read_from(&opened)? {
            let entry = match entry {
                Ok(entry) => entry,
                Err(error) => {
                    listing.unread.push((directory.clone(), std::io::Error::from(error).to_string()));
                    break;
                }
            };
            let name = OsStr::from_bytes(entry.file_name().to_bytes());
            if name == "." || name == ".." {
                continue;
            }
            let path = directory.join(name);
            if skip(&path) {
                continue;
            }
            count += 1;
            bytes += path.as_os_str().len();
            if count > limits.entries || bytes > limits.path_bytes {
                return Err(WalkError::TooMany);
            }
            match stamp_at(rustix::fd::AsFd::as_fd(&opened), name) {
                // It was removed while this looked.
                Ok(None) => {}
                Ok(Some(stamp)) => {
                    if stamp.kind == EntryKind::Directory {
                        pending.push(path.clone());
                    }
                    listing.entries.insert(path, stamp);
                }
                Err(Errno::NODEV) => listing.special.push(path),
                Err(error) => return Err(error.into()),
            }
        }
    }
    Ok(listing)
}
