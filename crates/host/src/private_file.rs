//! Files that only their owner may read, whatever the umask says: those of the state directory.

use std::fs::{File, OpenOptions};
use std::io::{Result, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const MODE: u32 = 0o600;

/// Writes the whole file, in place of one that is there.
pub fn write(path: impl AsRef<Path>, bytes: &[u8]) -> Result<()> {
    OpenOptions::new().write(true).create(true).truncate(true).mode(MODE).open(path)?.write_all(bytes)
}

/// Opens a file to write at its end; makes it when it is not there.
pub fn open_to_append(path: impl AsRef<Path>) -> Result<File> {
    OpenOptions::new().append(true).create(true).mode(MODE).open(path)
}
