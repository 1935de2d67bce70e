//! Makes the copy: every file as a reflink where the file system can, else byte by byte.
//!
//! This runs with the identity of the directory's owner, so nothing is copied that the owner cannot read.

use super::entry::{EntryKind, Manifest, ManifestEntry, Stamp};
use super::walk::{Listing, open_directory, open_parent, read_link, stamp_at};
use palisade_core::PrivateGit;
use palisade_core::policy::WORKSPACE;
use palisade_host::beneath;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Gid, Mode, OFlags, Timespec, Timestamps, Uid};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, Read};
use std::path::{Path, PathBuf};

/// What was copied, and what could not be.
#[derive(Debug, Default)]
pub(super) struct Filled {
    pub(super) manifest: Manifest,
    /// Paths that are not in the copy, and why.
    pub(super) left_out: Vec<(PathBuf, String)>,
}

/// Why a copy could not be made.
#[derive(Debug)]
pub(super) enum FillError {
    NoRoom { bytes: u64, room: u64 },
    Io { path: PathBuf, error: io::Error },
}

/// One copy while it is made.
pub(super) struct Filling<'a> {
    pub(super) source: BorrowedFd<'a>,
    pub(super) tree: BorrowedFd<'a>,
    /// Whom the copy is for, where that is not the user who makes it.
    pub(super) owner: Option<(u32, u32)>,
    /// How much is to be copied.
    pub(super) bytes: u64,
    /// Whether the file system shares the contents of files.
    pub(super) has_reflinks: bool,
    pub(super) mount_points: &'a [MountPoint],
}

/// The last directory that was worked in, on both sides.
struct OpenPair {
    path: PathBuf,
    source: OwnedFd,
    copy: OwnedFd,
}

impl Filling<'_> {
    pub(super) fn run(mut self, listing: &Listing) -> Result<Filled, FillError> {
        let mut filled = Filled::default();
        for (path, reason) in &listing.unread {
            filled.left_out.push((path.clone(), reason.clone()));
        }
        for path in &listing.special {
            filled.left_out.push((path.clone(), "it is a device, a pipe or a socket".into()));
        }
        let mut open: Option<OpenPair> = None;
        let mut directories = Vec::new();
        // Directories come before what is in them.
        for (path, stamp) in &listing.entries {
            let failed = |error: Errno| FillError::Io { path: path.clone(), error: error.into() };
            let parent = path.parent().unwrap_or(Path::new(""));
            let pair = match open.take().filter(|pair| pair.path == parent) {
                Some(pair) => pair,
                None => match self.open_pair(parent) {
                    Ok(pair) => pair,
                    // The user has moved or removed it since it was listed.
                    Err(Errno::NOENT | Errno::NOTDIR | Errno::LOOP | Errno::ACCESS) => {
                        filled.left_out.push((path.clone(), "it was changed while it was copied".into()));
                        continue;
                    }
                    Err(error) => return Err(failed(error)),
                },
            };
            let name = path.file_name().unwrap_or_default();
            let copied = match stamp.kind {
                EntryKind::Directory => self.make_directory(&pair, name).map(|()| None).map_err(failed)?,
                EntryKind::Link => self.copy_link(&pair, name, stamp).map_err(failed)?,
                EntryKind::File => match self.copy_file(&pair, name, path) {
                    Ok(copied) => copied,
                    Err(FillError::Io { error, .. }) if is_skipped(&error) => {
                        filled.left_out.push((path.clone(), error.to_string()));
                        None
                    }
                    Err(error) => return Err(error),
                },
            };
            if let Some(entry) = copied {
                filled.manifest.entries.insert(path.clone(), entry);
            }
            if stamp.kind == EntryKind::Directory {
                directories.push((path, stamp));
            }
            open = Some(pair);
        }
        let failed = |error| FillError::Io { path: ".git".into(), error };
        make_mount_points(self.tree, self.mount_points).map_err(failed)?;
        // Inner ones first: a directory that may not be written any more is finished.
        for (path, stamp) in directories.into_iter().rev() {
            let failed = |error: Errno| FillError::Io { path: path.clone(), error: error.into() };
            let copy = self.finish_directory(path, stamp).map_err(failed)?;
            filled.manifest.entries.insert(path.clone(), ManifestEntry { host: stamp.clone(), copy });
        }
        Ok(filled)
    }

    fn open_pair(&self, path: &Path) -> rustix::io::Result<OpenPair> {
        let source = open_directory(self.source, path)?;
        Ok(OpenPair { path: path.to_owned(), source, copy: open_directory(self.tree, path)? })
    }

    fn give(&self, file: impl AsFd) -> rustix::io::Result<()> {
        match self.owner {
            Some((uid, gid)) => rustix::fs::fchown(file, Some(Uid::from_raw(uid)), Some(Gid::from_raw(gid))),
            None => Ok(()),
        }
    }

    /// For its owner only until everything in it is there.
    fn make_directory(&self, pair: &OpenPair, name: &OsStr) -> rustix::io::Result<()> {
        rustix::fs::mkdirat(&pair.copy, name, Mode::RWXU)
    }

    fn finish_directory(&self, path: &Path, stamp: &Stamp) -> rustix::io::Result<Stamp> {
        let directory = open_directory(self.tree, path)?;
        self.give(&directory)?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(stamp.permissions()))?;
        set_modified(&directory, stamp.modified)?;
        Stamp::of(&rustix::fs::fstat(&directory)?, None).ok_or(Errno::NOTDIR)
    }

    fn copy_link(
        &self,
        pair: &OpenPair,
        name: &OsStr,
        stamp: &Stamp,
    ) -> rustix::io::Result<Option<ManifestEntry>> {
        let target = match read_link(pair.source.as_fd(), name) {
            // It was replaced since it was listed.
            Err(Errno::NOENT | Errno::INVAL) => return Ok(None),
            target => target?,
        };
        rustix::fs::symlinkat(&target, &pair.copy, name)?;
        if let Some((uid, gid)) = self.owner {
            let (uid, gid) = (Uid::from_raw(uid), Gid::from_raw(gid));
            rustix::fs::chownat(&pair.copy, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?;
        }
        let copy = stamp_at(pair.copy.as_fd(), name)?.ok_or(Errno::NOENT)?;
        Ok(Some(ManifestEntry { host: stamp.clone(), copy }))
    }

    fn copy_file(
        &mut self,
        pair: &OpenPair,
        name: &OsStr,
        path: &Path,
    ) -> Result<Option<ManifestEntry>, FillError> {
        let failed = |error: io::Error| FillError::Io { path: path.to_owned(), error };
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let source = rustix::fs::openat(&pair.source, name, flags, Mode::empty());
        let source = source.map_err(|error| failed(error.into()))?;
        // Of the file that is copied, and from before it is: what is written meanwhile makes it differ.
        let stat = rustix::fs::fstat(&source).map_err(|error| failed(error.into()))?;
        let Some(host) = Stamp::of(&stat, None).filter(|stamp| stamp.kind == EntryKind::File) else {
            return Err(failed(Errno::NOENT.into()));
        };
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let copy = rustix::fs::openat(&pair.copy, name, flags, Mode::RUSR | Mode::WUSR);
        let copy = copy.map_err(|error| failed(error.into()))?;
        if self.has_reflinks && host.size > 0 && rustix::fs::ioctl_ficlone(&copy, &source).is_err() {
            self.has_reflinks = false;
            self.require_room()?;
        }
        let (mut copy, source) = (File::from(copy), File::from(source));
        if !self.has_reflinks {
            io::copy(&mut source.take(host.size), &mut copy).map_err(failed)?;
        }
        let finish = || {
            self.give(&copy)?;
            rustix::fs::fchmod(&copy, Mode::from_raw_mode(host.permissions()))?;
            set_modified(&copy, host.modified)?;
            Stamp::of(&rustix::fs::fstat(&copy)?, None).ok_or(Errno::NOENT)
        };
        let copy = finish().map_err(|error| failed(error.into()))?;
        Ok(Some(ManifestEntry { host, copy }))
    }

    /// Asked once it is known that the contents cannot be shared: a disk that is filled to its end harms others, too.
    fn require_room(&self) -> Result<(), FillError> {
        match beneath::room(self.tree) {
            Ok(room) if room < self.bytes => Err(FillError::NoRoom { bytes: self.bytes, room }),
            _ => Ok(()),
        }
    }
}

/// A file that its owner may not read, or that is gone, is left out.
fn is_skipped(error: &io::Error) -> bool {
    let skipped = [Errno::ACCESS, Errno::PERM, Errno::NOENT, Errno::LOOP, Errno::NXIO];
    skipped.iter().any(|errno| error.raw_os_error() == Some(errno.raw_os_error()))
}

pub(super) fn set_modified(file: impl AsFd, nanoseconds: i64) -> rustix::io::Result<()> {
    const SECOND: i64 = 1_000_000_000;
    let modified =
        Timespec { tv_sec: nanoseconds.div_euclid(SECOND), tv_nsec: nanoseconds.rem_euclid(SECOND) };
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    rustix::fs::futimens(file, &Timestamps { last_access: now, last_modification: modified })
}

/// Something in the copy that the sandbox's git data is mounted on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct MountPoint {
    pub(super) path: PathBuf,
    is_directory: bool,
}

/// Where the git data of copied repositories is: never part of the copy. The owner of the copy may not look into the state
/// directory, so this is found out before.
pub(super) fn mount_points(git: &PrivateGit) -> Vec<MountPoint> {
    let point = |tree: &PathBuf| {
        let path = tree.join(".git");
        let guest = format!("{WORKSPACE}/{}", path.display());
        let bind = git.binds.iter().find(|bind| bind.guest == guest)?;
        Some(MountPoint { path, is_directory: bind.host.as_path().is_dir() })
    };
    git.trees.iter().filter_map(point).collect()
}

/// Makes what is mounted on, where it is not there yet.
pub(super) fn make_mount_points(tree: BorrowedFd<'_>, points: &[MountPoint]) -> io::Result<()> {
    for MountPoint { path, is_directory } in points {
        // The directories of submodules are part of the copy, unless it was removed meanwhile.
        let above = path.parent().unwrap_or(Path::new(""));
        beneath::enter(tree, above, beneath::Missing::Make)?;
        let (parent, name) = open_parent(tree, path)?;
        let made = match is_directory {
            true => rustix::fs::mkdirat(&parent, name, Mode::RWXU),
            false => {
                let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC;
                rustix::fs::openat(&parent, name, flags, Mode::RUSR | Mode::WUSR).map(drop)
            }
        };
        match made {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(())
}
