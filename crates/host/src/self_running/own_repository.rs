//! The bound directory's own repository, as far as a sandbox could write it: links through which git on the host would write
//! elsewhere (it never makes any itself), and the commands of an unfinished rebase.

use super::walk::inode;
use super::{ChangedFile, Stamp};
use palisade_core::self_running::RunTrigger;
use rustix::fs::{AtFlags, CWD};
use std::path::{Path, PathBuf};

pub(super) fn astray(root: &Path, taken: i64) -> Vec<ChangedFile> {
    let own = Path::new(".git");
    let mut found = Vec::new();
    let mut pending = vec![own.to_owned()];
    while let Some(path) = pending.pop() {
        for entry in std::fs::read_dir(root.join(&path)).into_iter().flatten().flatten() {
            let path: PathBuf = path.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            let suspect = kind.is_symlink() || path.ends_with("rebase-merge/git-rebase-todo");
            if suspect && changed(&entry.path(), taken) {
                found.push(ChangedFile { path: path.clone(), trigger: RunTrigger::Git });
            }
            // Objects are named by their content, and there are many.
            if kind.is_dir() && path != own.join("objects") {
                pending.push(path);
            }
        }
    }
    found
}

fn changed(path: &Path, taken: i64) -> bool {
    /// A file system's clock may count in seconds.
    const SECOND: i64 = 1_000_000_000;
    let stat = rustix::fs::statat(CWD, path, AtFlags::SYMLINK_NOFOLLOW);
    stat.is_ok_and(|stat| matches!(inode(&stat), Stamp::Inode(_, changed) if changed >= taken - SECOND))
}
