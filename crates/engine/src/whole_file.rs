//! Small files in a sandbox's directory that are replaced in one step: a reader finds the old one or the new one.

use palisade_core::HostPath;
use std::io::{self, Write};
use std::os::unix::fs::OpenOptionsExt;

pub(crate) fn write(directory: &HostPath, name: &str, bytes: &[u8]) -> io::Result<()> {
    let fresh = directory.join(format!(".{name}"));
    let mut options = std::fs::OpenOptions::new();
    let mut file = options.write(true).create(true).truncate(true).mode(0o600).open(&fresh)?;
    file.write_all(bytes)?;
    std::fs::rename(fresh, directory.join(name))
}
