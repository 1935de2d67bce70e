//! Walks a directory and gathers what runs by itself there. Names decide, so that files are neither opened nor looked at:
//! a tree of 50 000 files takes a listing of its directories and nothing else.

use super::repository::{self, BareLayout};
use super::{SelfRunningEntry, Stamp, UnreadDirectory};
use palisade_core::self_running::{
    EntryKind, INSTALLED_PACKAGES, MANIFEST, RunTrigger, is_ordinary, of_entry,
};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir, ResolveFlags, Stat};
use std::collections::{BTreeMap, HashMap};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// The directories of a walk, by path.
pub(super) type Tree = HashMap<PathBuf, KnownDirectory>;

/// A directory as it was listed.
#[derive(Debug, Clone)]
pub(super) struct KnownDirectory {
    stamp: Stamp,
    /// Directories in it that are walked.
    directories: Vec<PathBuf>,
    /// Entries in it that run by themselves, itself among them where it is a repository.
    entries: Vec<(PathBuf, RunTrigger)>,
}

#[derive(Debug, Default)]
pub(super) struct Walked {
    pub entries: BTreeMap<PathBuf, SelfRunningEntry>,
    pub tree: Tree,
    pub unread: Vec<UnreadDirectory>,
}

/// What a directory passes on to those in it.
#[derive(Debug, Clone, Copy, Default)]
struct Surroundings {
    /// Everything in it counts, for this reason.
    inherited: Option<RunTrigger>,
    /// It lies among packages that were installed.
    is_installed: bool,
}

/// Lists everything.
pub(super) fn whole(root: &Path) -> Walked {
    walk(root, None)
}

/// As [`whole`], but directories that are as they were at `taken` are not listed again: a directory's change time moves
/// with every entry that is made, removed or renamed in it.
pub(super) fn again(root: &Path, known: &Tree, taken: i64) -> Walked {
    walk(root, Some((known, taken)))
}

const BUFFER: usize = 64 * 1024;

fn walk(root: &Path, known: Option<(&Tree, i64)>) -> Walked {
    let mut walked = Walked::default();
    let unread = |path: &Path, error: rustix::io::Errno| UnreadDirectory {
        path: path.to_owned(),
        reason: std::io::Error::from(error).to_string(),
    };
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let top = match rustix::fs::open(root, flags, Mode::empty()) {
        Ok(top) => top,
        Err(error) => {
            walked.unread.push(unread(Path::new(""), error));
            return walked;
        }
    };
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut pending = vec![(PathBuf::new(), Surroundings::default())];
    while let Some((path, surroundings)) = pending.pop() {
        let listed = look(&top, &path, surroundings, known, &mut buffer);
        let directory = match listed {
            Ok(directory) => directory,
            // What has gone meanwhile is not there any more.
            Err(rustix::io::Errno::NOENT) if !path.as_os_str().is_empty() => continue,
            Err(error) => {
                walked.unread.push(unread(&path, error));
                continue;
            }
        };
        for (entry, trigger) in &directory.entries {
            if let Some(stamp) = stamp_of(&top, entry, *trigger) {
                walked.entries.insert(entry.clone(), SelfRunningEntry { trigger: *trigger, stamp });
            }
        }
        for below in &directory.directories {
            pending.push((below.clone(), below_of(surroundings, &path, below)));
        }
        walked.tree.insert(path, directory);
    }
    walked.unread.sort_by(|a, b| a.path.cmp(&b.path));
    walked
}

/// What a directory has in it: as it is known, or by listing it.
fn look(
    top: &OwnedFd,
    path: &Path,
    surroundings: Surroundings,
    known: Option<(&Tree, i64)>,
    buffer: &mut [MaybeUninit<u8>],
) -> Result<KnownDirectory, rustix::io::Errno> {
    /// As long as a change may carry the time of what was seen just before it.
    const UNSURE: i64 = 2_000_000_000;
    if let Some((tree, taken)) = known
        && let Some(before) = tree.get(path)
        && let Stamp::Inode(_, changed) = before.stamp
        && changed < taken - UNSURE
    {
        let stat = match path.as_os_str().is_empty() {
            true => rustix::fs::fstat(top)?,
            false => rustix::fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW)?,
        };
        if inode(&stat) == before.stamp {
            return Ok(before.clone());
        }
    }
    list(top, path, surroundings, buffer)
}

fn list(
    top: &OwnedFd,
    path: &Path,
    surroundings: Surroundings,
    buffer: &mut [MaybeUninit<u8>],
) -> Result<KnownDirectory, rustix::io::Errno> {
    let directory = open(top, path)?;
    // Before the listing: what changes meanwhile makes it another directory.
    let stamp = inode(&rustix::fs::fstat(&directory)?);
    let above = path.file_name().map_or(&b""[..], OsStr::as_bytes);
    let mut listed = KnownDirectory { stamp, directories: Vec::new(), entries: Vec::new() };
    let mut layout = BareLayout::default();
    let mut entries = RawDir::new(&directory, buffer);
    while let Some(entry) = entries.next() {
        let entry = entry?;
        let name = entry.file_name().to_bytes();
        if name == b"." || name == b".." {
            continue;
        }
        layout.see(name);
        let mut kind = entry.file_type();
        if kind == FileType::Unknown {
            kind = match rustix::fs::statat(&directory, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW) {
                Ok(stat) => FileType::from_raw_mode(stat.st_mode),
                Err(rustix::io::Errno::NOENT) => continue,
                Err(error) => return Err(error),
            };
        }
        let at = || path.join(OsStr::from_bytes(name));
        let is_directory = kind == FileType::Directory;
        let entry_kind = if is_directory { EntryKind::Directory } else { EntryKind::Other };
        match of_entry(above, name, entry_kind) {
            // The directory's own repository is not shared with a sandbox, see `own_repository`.
            Some(RunTrigger::Repository) if path.as_os_str().is_empty() && repository::is_git(name) => {}
            Some(RunTrigger::Repository) => listed.entries.push((at(), RunTrigger::Repository)),
            _ if is_directory => listed.directories.push(at()),
            own => {
                let manifest = || {
                    (!surroundings.is_installed && name == MANIFEST.as_bytes())
                        .then_some(RunTrigger::Installing)
                };
                let trigger = surroundings.inherited.or(own).or_else(manifest);
                listed.entries.extend(trigger.map(|trigger| (at(), trigger)));
            }
        }
    }
    if layout.is_repository() {
        listed.entries.push((path.to_owned(), RunTrigger::Repository));
    }
    Ok(listed)
}

fn below_of(surroundings: Surroundings, path: &Path, below: &Path) -> Surroundings {
    let name = |path: &Path| path.file_name().map(|name| name.as_bytes().to_owned()).unwrap_or_default();
    let (above, name) = (name(path), name(below));
    let inherited = match surroundings.inherited {
        Some(_) if is_ordinary(&above, &name) => None,
        Some(trigger) => Some(trigger),
        None => of_entry(&above, &name, EntryKind::Directory),
    };
    Surroundings {
        inherited,
        is_installed: surroundings.is_installed || name == INSTALLED_PACKAGES.as_bytes(),
    }
}

/// Opened below the top, without following any link on the way.
fn open(top: &OwnedFd, path: &Path) -> Result<OwnedFd, rustix::io::Errno> {
    let path = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    rustix::fs::openat2(
        top,
        path,
        OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC,
        Mode::empty(),
        ResolveFlags::BENEATH | ResolveFlags::NO_SYMLINKS,
    )
}

/// `None` for what has gone meanwhile.
fn stamp_of(top: &OwnedFd, path: &Path, trigger: RunTrigger) -> Option<Stamp> {
    if trigger == RunTrigger::Repository {
        return Some(Stamp::Repository(repository::digest(top.as_fd(), path)));
    }
    rustix::fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW).ok().map(|stat| inode(&stat))
}

pub(super) fn inode(stat: &Stat) -> Stamp {
    const SECOND: i64 = 1_000_000_000;
    Stamp::Inode(stat.st_ino, stat.st_ctime.saturating_mul(SECOND).saturating_add(stat.st_ctime_nsec as i64))
}
