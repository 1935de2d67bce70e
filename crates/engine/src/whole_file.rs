//! Small files in a sandbox's directory that are replaced in one step: a reader finds the old one or the new one.

use palisade_core::HostPath;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

fn fresh(directory: &HostPath, name: &str) -> HostPath {
    directory.join(format!(".{name}"))
}

/// Takes away what a writer that was killed has left half written.
pub(crate) fn tidy(directory: &HostPath, name: &str) {
    // It is rarely there, and the next writer begins it anew in any case.
    let _ = std::fs::remove_file(fresh(directory, name));
}

/// Fails where there is such a file, and where the file system has no files without a name.
fn write_new(directory: &HostPath, name: &str, bytes: &[u8]) -> io::Result<()> {
    use rustix::fs::{AtFlags, CWD, Mode, OFlags};
    let flags = OFlags::TMPFILE | OFlags::WRONLY | OFlags::CLOEXEC;
    let mut file =
        std::fs::File::from(rustix::fs::open(directory.as_path(), flags, Mode::RUSR | Mode::WUSR)?);
    file.write_all(bytes)?;
    let unnamed = format!("/proc/self/fd/{}", rustix::fd::AsRawFd::as_raw_fd(&file));
    Ok(rustix::fs::linkat(CWD, unnamed, CWD, directory.join(name).as_path(), AtFlags::SYMLINK_FOLLOW)?)
}

pub(crate) fn write(directory: &HostPath, name: &str, bytes: &[u8]) -> io::Result<()> {
    // A new file without a name until it is whole: a writer that is killed leaves nothing.
    if write_new(directory, name, bytes).is_ok() {
        return Ok(());
    }
    let fresh = fresh(directory, name);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    std::fs::rename(fresh, directory.join(name))
}
