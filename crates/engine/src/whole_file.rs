//! Small files in a sandbox's directory that are replaced in one step: a reader finds the old one or the new one.

use palisade_core::HostPath;
use palisade_host::new_file::create_whole;
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

pub(crate) fn write(directory: &HostPath, name: &str, bytes: &[u8]) -> io::Result<()> {
    // A new file without a name until it is whole: a writer that is killed leaves nothing.
    let mode = rustix::fs::Mode::RUSR | rustix::fs::Mode::WUSR;
    let place = directory.join(name);
    // Most of them are replaced, and have to be written beside their place.
    if !place.as_path().exists() && create_whole(place.as_path(), bytes, mode).is_ok() {
        return Ok(());
    }
    let fresh = fresh(directory, name);
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    std::fs::rename(fresh, place)
}
