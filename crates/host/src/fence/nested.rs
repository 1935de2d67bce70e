//! Other repositories below a directory.

use super::GIT;
use palisade_core::HostPath;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, RawDir};
use std::ffi::OsStr;
use std::mem::MaybeUninit;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// More than these are not closed one by one: every one is a mount.
pub(crate) const MOST: usize = 64;

const BUFFER: usize = 64 * 1024;

/// The `.git` of each repository below a directory, relative to it, but for those of these working trees. Many more than
/// [`MOST`] are not looked for.
pub(super) fn repositories(directory: &HostPath, trees: &[PathBuf]) -> Vec<PathBuf> {
    outside(below(directory.as_path(), Path::new(""), MOST + trees.len() + 1), trees)
}

/// Those that are not of these working trees, nor of the directory itself.
pub(super) fn outside(mut found: Vec<PathBuf>, trees: &[PathBuf]) -> Vec<PathBuf> {
    found.retain(|git| {
        let tree = git.parent().unwrap_or(Path::new(""));
        !tree.as_os_str().is_empty() && !trees.iter().any(|known| known == tree)
    });
    found.sort();
    found
}

/// The `.git` of each repository in or below a directory of `root`, relative to `root`. More than `most`
/// end the search.
pub(crate) fn below(root: &Path, directory: &Path, most: usize) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut buffer = vec![MaybeUninit::uninit(); BUFFER];
    let mut pending = vec![directory.to_owned()];
    while let Some(relative) = pending.pop() {
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        // What we cannot read, a sandbox of the same user cannot read either.
        let Ok(open) = rustix::fs::open(root.join(&relative).as_path(), flags, Mode::empty()) else {
            continue;
        };
        let mut entries = RawDir::new(&open, &mut buffer);
        while let Some(Ok(entry)) = entries.next() {
            let name = entry.file_name().to_bytes();
            let is_git = name == GIT.as_bytes();
            let mut kind = entry.file_type();
            if kind == FileType::Unknown {
                let stat = rustix::fs::statat(&open, entry.file_name(), AtFlags::SYMLINK_NOFOLLOW);
                kind = stat.map_or(FileType::Unknown, |stat| FileType::from_raw_mode(stat.st_mode));
            }
            // Nearly all are plain files: no path is made for these.
            let at = || relative.join(OsStr::from_bytes(name));
            match kind {
                _ if name == b"." || name == b".." => {}
                FileType::Symlink => {}
                _ if is_git => found.push(at()),
                FileType::Directory if !is_git => pending.push(at()),
                _ => {}
            }
            if found.len() > most {
                return found;
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn repositories_are_found_at_any_depth_and_those_known_are_left_out() {
        let root = tempfile::tempdir().unwrap();
        for path in [".git", "a/.git/x", "a/b/c/.git", "sub/.git"] {
            std::fs::create_dir_all(root.path().join(path)).unwrap();
        }
        std::fs::write(root.path().join("a/b/.git"), "gitdir: x").unwrap();
        let directory = HostPath::new(root.path()).unwrap();
        let found = repositories(&directory, &["sub".into()]);
        assert_eq!(found, ["a/.git", "a/b/.git", "a/b/c/.git"].map(PathBuf::from));
    }
}
