//! What a repository's own configuration makes git run or read inside the fenced directory.

use super::gitconfig::{self, Named};
use super::{BENEATH, GIT};
use palisade_core::HostPath;
use rustix::fd::BorrowedFd;
use rustix::fs::{Mode, OFlags};
use std::collections::VecDeque;
use std::io::Read;
use std::path::{Component, Path, PathBuf};

/// Git's own files are far smaller; what is beyond this no person has written.
const LARGEST: u64 = 1 << 20;

/// Directories of hooks and included files, relative to the directory; an empty path is the directory itself.
/// Files that are included are read for what they name in turn.
pub(super) fn paths(root: BorrowedFd<'_>, directory: &HostPath) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending: VecDeque<PathBuf> = [".git/config", ".git/config.worktree"].map(PathBuf::from).into();
    while let Some(file) = pending.pop_front() {
        let Some(text) = read(root, &file) else { continue };
        for named in gitconfig::executed_paths(&text) {
            match named {
                Named::HooksPath(value) if value.is_empty() => {}
                Named::HooksPath(value) => {
                    found.extend(inside(directory, Path::new(""), &value).into_iter().map(with_husky));
                }
                Named::Include(value) => {
                    let base = file.parent().unwrap_or(Path::new(""));
                    for path in inside(directory, base, &value) {
                        if !found.contains(&path) {
                            found.push(path.clone());
                            pending.push_back(path);
                        }
                    }
                }
            }
        }
    }
    found
}

/// The directories of hooks that files outside the directory name in it: the user's own configuration, and that of
/// the repository a worktree belongs to.
pub(super) fn named_outside(files: &[PathBuf], directory: &HostPath) -> Vec<PathBuf> {
    let read = |file: &PathBuf| -> Option<String> {
        let mut bytes = Vec::new();
        std::fs::File::open(file).ok()?.take(LARGEST).read_to_end(&mut bytes).ok()?;
        Some(String::from_utf8_lossy(&bytes).into_owned())
    };
    let mut found = Vec::new();
    for named in files.iter().filter_map(read).flat_map(|text| gitconfig::executed_paths(&text)) {
        if let Named::HooksPath(value) = named
            && !value.is_empty()
        {
            found.extend(inside(directory, Path::new(""), &value).into_iter().map(with_husky));
        }
    }
    found
}

/// The configuration of the repository that a worktree's `.git` file points to.
pub(super) fn shared_config(root: BorrowedFd<'_>, directory: &HostPath) -> Option<PathBuf> {
    let text = read(root, Path::new(GIT))?;
    let target = text.trim_end().strip_prefix("gitdir:")?.trim_start();
    let private = directory.as_path().join(target);
    let common = std::fs::read_to_string(private.join("commondir")).unwrap_or_else(|_| ".".into());
    Some(private.join(common.trim_end()).join("config"))
}

/// Husky's generated directory calls the scripts beside it.
fn with_husky(path: PathBuf) -> PathBuf {
    match path.parent() {
        Some(parent) if path.ends_with("_") && !parent.as_os_str().is_empty() => parent.to_owned(),
        _ => path,
    }
}

/// Where a `.git` file points to, when that lies in the directory itself.
pub(super) fn pointed_to(root: BorrowedFd<'_>, directory: &HostPath) -> Option<PathBuf> {
    let text = read(root, Path::new(GIT))?;
    let target = text.trim_end().strip_prefix("gitdir:")?.trim_start();
    inside(directory, Path::new(""), target).into_iter().next()
}

/// A configured path as places in the directory: by its name, through links, and from a home directory above.
fn inside(directory: &HostPath, base: &Path, value: &str) -> Vec<PathBuf> {
    let directory = directory.as_path();
    let candidates: Vec<PathBuf> = match value.strip_prefix('~') {
        // Whose home it is does not matter: to be in the directory, it must be one of those above.
        Some(rest) => {
            let rest = rest.split_once('/').map_or("", |(_, rest)| rest);
            directory.ancestors().skip(1).map(|home| home.join(rest)).collect()
        }
        None => vec![directory.join(base).join(value)],
    };
    let real = candidates.iter().filter_map(|path| std::fs::canonicalize(path).ok());
    let mut found: Vec<PathBuf> = candidates
        .iter()
        .map(|path| normalise(path))
        .chain(real)
        .filter_map(|path| path.strip_prefix(directory).ok().map(Path::to_owned))
        .collect();
    found.dedup();
    found
}

/// Whatever bytes are in it: a file that cannot be read as text is no reason to fence less.
fn read(root: BorrowedFd<'_>, path: &Path) -> Option<String> {
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NOFOLLOW | OFlags::NONBLOCK;
    let file = rustix::fs::openat2(root, path, flags, Mode::empty(), BENEATH).ok()?;
    let mut bytes = Vec::new();
    std::fs::File::from(file).take(LARGEST).read_to_end(&mut bytes).ok()?;
    Some(String::from_utf8_lossy(&bytes).into_owned())
}

/// Folds `.` and `..` by name, as git does for these settings.
fn normalise(path: &Path) -> PathBuf {
    let mut normal = PathBuf::new();
    for component in path.components() {
        match component {
            Component::ParentDir => {
                normal.pop();
            }
            Component::CurDir => {}
            other => normal.push(other),
        }
    }
    normal
}
