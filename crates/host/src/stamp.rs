//! What tells one version of a file from the next without reading it.

use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Changes when the file is replaced or written; nothing when it is not there. A change that keeps the size and puts
/// the time back is not noticed, except for the time of the change itself, which nobody can put back.
pub fn of(path: &Path) -> Option<String> {
    let meta = std::fs::metadata(path).ok()?;
    let time = |seconds: i64, nanoseconds: i64| format!("{seconds}.{nanoseconds:09}");
    let (written, changed) = (time(meta.mtime(), meta.mtime_nsec()), time(meta.ctime(), meta.ctime_nsec()));
    Some(format!("{}:{}:{}:{written}:{changed}", path.display(), meta.ino(), meta.size()))
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
}
