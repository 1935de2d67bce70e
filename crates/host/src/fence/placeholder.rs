//! Empty files and directories that stand in for absent ones while a sandbox runs, and their removal afterwards.

use super::BENEATH;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::{Deserialize, Serialize};
use std::io::{Read, Write};
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum PlaceholderKind {
    Directory,
    File { text: String },
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placeholder {
    /// Relative to the fenced directory.
    pub path: PathBuf,
    pub kind: PlaceholderKind,
}

impl Placeholder {
    pub(super) fn directory(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), kind: PlaceholderKind::Directory }
    }

    pub(super) fn file(path: impl Into<PathBuf>, text: &str) -> Self {
        Self { path: path.into(), kind: PlaceholderKind::File { text: text.into() } }
    }

    /// Makes it, owned like the fenced directory. One that is there already is left alone.
    pub(super) fn make(&self, root: BorrowedFd<'_>, owner: (u32, u32)) -> rustix::io::Result<()> {
        let (parent, name) = self.parent(root)?;
        let made = match &self.kind {
            PlaceholderKind::Directory => rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o755)),
            PlaceholderKind::File { text } => {
                let flags =
                    OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
                rustix::fs::openat(&parent, name, flags, Mode::from_raw_mode(0o644)).and_then(|file| {
                    std::fs::File::from(file)
                        .write_all(text.as_bytes())
                        .map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
                })
            }
        };
        match made {
            Ok(()) if rustix::process::geteuid().is_root() => {
                let (uid, gid) = (rustix::fs::Uid::from_raw(owner.0), rustix::fs::Gid::from_raw(owner.1));
                rustix::fs::chownat(&parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)
            }
            Err(Errno::EXIST) => Ok(()),
            other => other,
        }
    }

    /// Takes it away if it is still just what was put there; says whether anything was removed.
    pub(super) fn remove(&self, root: BorrowedFd<'_>) -> bool {
        let Ok((parent, name)) = self.parent(root) else { return false };
        match &self.kind {
            // A directory that somebody has filled meanwhile is theirs: this fails on it.
            PlaceholderKind::Directory => rustix::fs::unlinkat(&parent, name, AtFlags::REMOVEDIR).is_ok(),
            PlaceholderKind::File { text } => {
                let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
                let Ok(file) = rustix::fs::openat(&parent, name, flags, Mode::empty()) else { return false };
                let mut found = String::new();
                let limit = text.len() as u64 + 1;
                let same = std::fs::File::from(file).take(limit).read_to_string(&mut found).is_ok()
                    && found == *text;
                same && rustix::fs::unlinkat(&parent, name, AtFlags::empty()).is_ok()
            }
        }
    }

    fn parent<'a>(&'a self, root: BorrowedFd<'_>) -> rustix::io::Result<(rustix::fd::OwnedFd, &'a Path)> {
        let name = Path::new(self.path.file_name().ok_or(Errno::INVAL)?);
        let above = match self.path.parent() {
            Some(above) if !above.as_os_str().is_empty() => above,
            _ => Path::new("."),
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        Ok((rustix::fs::openat2(root, above, flags, Mode::empty(), BENEATH)?, name))
    }
}
