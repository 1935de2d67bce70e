//! Where a working tree keeps its git data, and which other working trees share it.

use std::ffi::OsStr;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// A working tree and its git directories.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WorkingTree {
    pub(crate) path: PathBuf,
    /// What belongs to this working tree alone: HEAD, index, an operation in progress.
    pub(crate) own: PathBuf,
    /// What all working trees of the repository share: objects and refs.
    pub(crate) common: PathBuf,
}

impl WorkingTree {
    /// The working tree whose top is `path`.
    pub(crate) fn open(path: &Path) -> io::Result<Self> {
        let path = path.canonicalize()?;
        let entry = path.join(".git");
        let own = if fs::metadata(&entry)?.is_dir() { entry } else { named_in(&entry, "gitdir: ")? };
        let own = own.canonicalize()?;
        let common = match named_in(&own.join("commondir"), "") {
            Ok(common) => common.canonicalize()?,
            Err(_) => own.clone(),
        };
        Ok(Self { path, own, common })
    }

    /// All working trees of the repository that exist, this one first.
    pub(crate) fn with_linked(&self) -> Vec<WorkingTree> {
        let mut trees = vec![self.clone()];
        let entries = fs::read_dir(self.common.join("worktrees")).into_iter().flatten().flatten();
        for entry in entries {
            // It names the `.git` of the working tree.
            let Ok(top) = named_in(&entry.path().join("gitdir"), "") else { continue };
            let Some(Ok(tree)) = top.parent().map(Self::open) else { continue };
            if tree.common == self.common && trees.iter().all(|known| known.path != tree.path) {
                trees.push(tree);
            }
        }
        trees
    }

    /// A place of our own in the git directory.
    pub(crate) fn scratch(&self) -> io::Result<PathBuf> {
        let scratch = self.own.join("palisade");
        fs::create_dir_all(&scratch)?;
        Ok(scratch)
    }
}

/// The path that a file names behind a prefix; a relative one starts at the file's own directory.
fn named_in(file: &Path, prefix: &str) -> io::Result<PathBuf> {
    let text = fs::read(file)?;
    let text = text.strip_suffix(b"\n").unwrap_or(&text);
    let named = text.strip_prefix(prefix.as_bytes()).ok_or(io::ErrorKind::InvalidData)?;
    let directory = file.parent().unwrap_or(Path::new("/"));
    Ok(directory.join(OsStr::from_bytes(named)))
}
