//! What git and others take for a repository, and what in one names programs.

use crate::digest::Digester;
use rustix::fd::BorrowedFd;
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags, ResolveFlags};
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

pub(super) fn is_git(name: &[u8]) -> bool {
    name.eq_ignore_ascii_case(b".git")
}

/// Whether a walk for files that run by themselves does not look into a directory of this name, unless it is git's own.
pub(super) fn is_closed(name: &[u8]) -> bool {
    let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
    name != b".git" && (is_git(name) || is(b".hg") || is(b".jj") || is(b".svn"))
}

/// Git takes a directory for a repository, whatever its name, when it has a `HEAD`, and `objects` and `refs` that can be
/// entered or executed, or a `commondir` that says where those are (`is_git_directory` in git's `setup.c`). A file or a
/// link that leads nowhere will do for each. What they hold is not looked at here: a directory that has them and is no
/// repository yet may become one by a change of mode.
#[derive(Debug, Default)]
pub(super) struct BareLayout {
    head: bool,
    objects: bool,
    refs: bool,
    common: bool,
}

impl BareLayout {
    pub(super) fn see(&mut self, name: &[u8]) {
        let is = |known: &[u8]| name.eq_ignore_ascii_case(known);
        match name.len() {
            4 if is(b"HEAD") => self.head = true,
            4 if is(b"refs") => self.refs = true,
            7 if is(b"objects") => self.objects = true,
            9 if is(b"commondir") => self.common = true,
            _ => {}
        }
    }

    pub(super) fn is_repository(&self) -> bool {
        self.head && (self.common || (self.objects && self.refs))
    }
}

/// What names programs, or leads to where they are named, in a repository of git's, Mercurial's or Jujutsu's. `HEAD` decides
/// whether git takes a directory for a repository at all.
const NAMES_PROGRAMS: [&str; 21] = [
    "HEAD",
    "commondir",
    "config",
    "config.worktree",
    "gitdir",
    "info/attributes",
    "objects",
    "objects/info/alternates",
    "refs",
    "rebase-apply",
    "rebase-merge/git-rebase-todo",
    "sequencer/opts",
    "hgrc",
    "hgrc-not-shared",
    "requires",
    "sharedpath",
    "repo",
    "repo/config.toml",
    "repo/config-id",
    "repo/store/git_target",
    "workspace-config.toml",
];

/// Directories of which every entry does.
const PROGRAMS: [&str; 1] = ["hooks"];

/// Directories in which further repositories lie, at any depth: a submodule's name may have slashes in it.
const HOLDERS: [&str; 2] = ["modules", "worktrees"];

/// Deeper than any such name.
const DEEPEST: usize = 16;

const BENEATH: ResolveFlags = ResolveFlags::BENEATH.union(ResolveFlags::NO_SYMLINKS);

/// Tells one state of a repository from another by all that names programs in it: where it is, which inodes these are, and
/// when they changed.
pub(super) fn digest(top: BorrowedFd<'_>, path: &Path) -> String {
    let mut digester = Digester::default();
    let own = if path.as_os_str().is_empty() { Path::new(".") } else { path };
    add(&mut digester, top, own);
    add_repository(&mut digester, top, path, 0);
    digester.digest().prefix(32)
}

fn add_repository(digester: &mut Digester, top: BorrowedFd<'_>, path: &Path, depth: usize) {
    for name in NAMES_PROGRAMS {
        add(digester, top, &path.join(name));
    }
    for directory in PROGRAMS {
        for (entry, _) in entries(top, &path.join(directory)) {
            add(digester, top, &entry);
        }
    }
    if depth < DEEPEST {
        for holder in HOLDERS {
            add_held(digester, top, &path.join(holder), depth + 1);
        }
    }
}

fn add_held(digester: &mut Digester, top: BorrowedFd<'_>, holder: &Path, depth: usize) {
    for (entry, kind) in entries(top, holder) {
        add(digester, top, &entry);
        if kind == FileType::Directory {
            add_repository(digester, top, &entry, depth);
            let is_repository =
                rustix::fs::statat(top, entry.join("HEAD"), AtFlags::SYMLINK_NOFOLLOW).is_ok();
            if !is_repository && depth < DEEPEST {
                add_held(digester, top, &entry, depth + 1);
            }
        }
    }
}

/// A plain directory changes with every lock that is made in it, so only its inode counts.
fn add(digester: &mut Digester, top: BorrowedFd<'_>, path: &Path) {
    let Ok(stat) = rustix::fs::statat(top, path, AtFlags::SYMLINK_NOFOLLOW) else { return };
    let changed = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Directory => (0, 0),
        _ => (stat.st_ctime, stat.st_ctime_nsec as i64),
    };
    // Digesting cannot fail.
    let _ = digester.write_all(path.as_os_str().as_bytes());
    let _ = write!(digester, "\0{}:{}:{}:{}\0", stat.st_ino, stat.st_mode, changed.0, changed.1);
}

/// The entries of a directory, sorted; none where it cannot be listed, and then neither the user's git can.
fn entries(top: BorrowedFd<'_>, path: &Path) -> Vec<(PathBuf, FileType)> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let Ok(directory) = rustix::fs::openat2(top, path, flags, Mode::empty(), BENEATH) else {
        return Vec::new();
    };
    let Ok(listing) = Dir::new(directory) else { return Vec::new() };
    let mut found: Vec<(PathBuf, FileType)> = listing
        .flatten()
        .filter(|entry| !matches!(entry.file_name().to_bytes(), b"." | b".."))
        .map(|entry| (path.join(OsStr::from_bytes(entry.file_name().to_bytes())), entry.file_type()))
        .collect();
    found.sort_by(|a, b| a.0.cmp(&b.0));
    found
}
