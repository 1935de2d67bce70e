//! New files that are there whole or not at all, also when their writer is killed.

use rustix::fd::AsRawFd;
use rustix::fs::{AtFlags, CWD, Mode, OFlags};
use std::fs::File;
use std::io::{self, ErrorKind, Write};
use std::path::Path;

/// Makes a file that does not exist yet. It has no name until it is whole, so a writer that is killed leaves nothing.
///
/// Fails with [`ErrorKind::AlreadyExists`] where there is such a file, and with another error where the file system has
/// no files without a name.
pub fn create_whole(path: &Path, bytes: &[u8], mode: Mode) -> io::Result<()> {
    let directory = path.parent().ok_or(ErrorKind::InvalidInput)?;
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file = File::from(rustix::fs::open(directory, flags, mode)?);
    file.write_all(bytes)?;
    let unnamed = format!("/proc/self/fd/{}", file.as_raw_fd());
    Ok(rustix::fs::linkat(CWD, unnamed, CWD, path, AtFlags::SYMLINK_FOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::PermissionsExt;

    #[test]
    fn a_file_is_made_with_its_mode_and_never_replaced() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        create_whole(&path, b"first", Mode::from_raw_mode(0o400)).unwrap();
        let error = create_whole(&path, b"second", Mode::from_raw_mode(0o400)).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::AlreadyExists);
        assert_eq!(std::fs::read(&path).unwrap(), b"first");
        assert_eq!(std::fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o400);
        assert_eq!(std::fs::read_dir(directory.path()).unwrap().count(), 1);
    }
}
