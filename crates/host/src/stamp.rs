//! What tells one version of a file, or of a whole tree, from the next without reading it.

use crate::digest::{Digest, Digester};
use std::fs::Metadata;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Changes when the file is replaced or written; nothing when it is not there. A change that keeps the size and puts
/// the time back is not noticed, except for the time of the change itself, which nobody can put back.
pub fn of(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    Some(format!("{}:{}", path.display(), told(&meta)))
}

fn told(meta: &Metadata) -> String {
    let time = |seconds: i64, nanoseconds: i64| format!("{seconds}.{nanoseconds:09}");
    let (written, changed) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    format!("{}:{}:{written}:{changed}", meta.ino(), meta.size())
}

/// The same of everything below a directory. Links are not followed; what cannot be listed counts as it looks from
/// outside.
pub fn of_tree(root: &Path) -> io::Result<Digest> {
    let mut digester = Digester::default();
    let mut open = vec![root.to_owned()];
    while let Some(directory) = open.pop() {
        let entries = match std::fs::read_dir(&directory) {
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => continue,
            other => other?,
        };
        let mut entries = entries.collect::<io::Result<Vec<_>>>()?;
        entries.sort_by_key(std::fs::DirEntry::file_name);
        for entry in entries {
            let meta = entry.metadata()?;
            let path = entry.path();
            digester.write_all(path.as_os_str().as_bytes())?;
            write!(digester, "\0{:o}:{}\0", meta.mode(), told(&meta))?;
            if meta.is_dir() {
                open.push(path);
            }
        }
    }
    Ok(digester.digest())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_is_replaced_or_written_has_another_stamp() {
        let directory = tempfile::tempdir().unwrap();
        let (file, other) = (directory.path().join("file"), directory.path().join("other"));
        assert_eq!(of(&file), None);
        std::fs::write(&file, "one").unwrap();
        let first = of(&file);
        assert_eq!(of(&file), first);
        std::fs::write(&other, "two").unwrap();
        std::fs::rename(&other, &file).unwrap();
        assert_ne!(of(&file), first);
        let second = of(&file);
        std::fs::write(&file, "three").unwrap();
        assert_ne!(of(&file), second);
    }

    #[test]
    fn a_tree_has_another_stamp_when_anything_in_it_is_another() {
        let directory = tempfile::tempdir().unwrap();
        let deep = directory.path().join("a/b");
        std::fs::create_dir_all(&deep).unwrap();
        std::fs::write(deep.join("file"), "one").unwrap();
        let stamp = || of_tree(directory.path()).unwrap();
        let mut seen = vec![stamp()];
        assert_eq!(stamp(), seen[0]);
        std::fs::write(deep.join("file"), "three").unwrap();
        seen.push(stamp());
        std::os::unix::fs::symlink("file", deep.join("link")).unwrap();
        seen.push(stamp());
        std::fs::remove_file(deep.join("file")).unwrap();
        seen.push(stamp());
        let told: std::collections::BTreeSet<_> = seen.iter().collect();
        assert_eq!(told.len(), 4, "{seen:?}");
        assert!(of_tree(&directory.path().join("absent")).is_err());
    }
}
