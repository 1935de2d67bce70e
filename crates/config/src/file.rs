//! Reading a configuration file: bounded, regular files only, and for files that others may have written
//! without following a link at the end.

use crate::error::Problem;
use palisade_core::printable;
use rustix::fs::{Mode, OFlags};
use rustix::io::Errno;
use sha2::{Digest as _, Sha256};
use std::fs::File;
use std::io::{ErrorKind, Read as _};
use std::path::Path;

/// The largest file that is read.
pub const MAX_SIZE: u64 = 1 << 20;

const TOO_LARGE: &str = "it is larger than 1 MiB";
const NOT_REGULAR: &str = "it is not a regular file";
const LINK: &str = "it is a symbolic link, or lies in a directory that is one";

/// The SHA-256 of a file's bytes in hexadecimal; what trust is pinned to.
pub fn digest(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}

/// A path as it is shown in origins and problems.
pub(crate) fn shown(path: &Path) -> String {
    printable(&path.to_string_lossy())
}

/// Reads a file of the system's or the user's, which may be a link. `None` when there is none.
pub(crate) fn read_own(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    // Not blocking, so that a named pipe is refused instead of waited for.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    match rustix::fs::open(path, flags, Mode::empty()) {
        Ok(descriptor) => read_regular(path, File::from(descriptor)).map(Some),
        Err(error) => absent_or(path, error),
    }
}

/// Reads a file that somebody else may have put there: neither it nor the directory it lies in may be a link.
pub(crate) fn read_foreign(path: &Path) -> Result<Option<Vec<u8>>, Problem> {
    let (Some(directory), Some(name)) = (path.parent(), path.file_name()) else {
        return Err(Problem::Refused { file: shown(path), reason: NOT_REGULAR });
    };
    let directory_flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::DIRECTORY | OFlags::NOFOLLOW;
    let directory = match rustix::fs::open(directory, directory_flags, Mode::empty()) {
        Ok(directory) => directory,
        // Linux answers NOTDIR for a link that may not be followed to a directory.
        Err(Errno::NOTDIR | Errno::LOOP) => return Err(Problem::Refused { file: shown(path), reason: LINK }),
        Err(error) => return absent_or(path, error),
    };
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY | OFlags::NOFOLLOW;
    match rustix::fs::openat(&directory, name, flags, Mode::empty()) {
        Ok(descriptor) => read_regular(path, File::from(descriptor)).map(Some),
        Err(Errno::LOOP) => Err(Problem::Refused { file: shown(path), reason: LINK }),
        // A socket cannot be opened at all.
        Err(Errno::NXIO) => Err(Problem::Refused { file: shown(path), reason: NOT_REGULAR }),
        Err(error) => absent_or(path, error),
    }
}

fn absent_or(path: &Path, error: Errno) -> Result<Option<Vec<u8>>, Problem> {
    let error = std::io::Error::from(error);
    if matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) {
        Ok(None)
    } else {
        Err(unreadable(path, &error))
    }
}

fn read_regular(path: &Path, file: File) -> Result<Vec<u8>, Problem> {
    let failed = |error: std::io::Error| unreadable(path, &error);
    if !file.metadata().map_err(failed)?.is_file() {
        return Err(Problem::Refused { file: shown(path), reason: NOT_REGULAR });
    }
    let mut bytes = Vec::new();
    // The size is that of what was read: a file may grow after it was looked at.
    file.take(MAX_SIZE + 1).read_to_end(&mut bytes).map_err(failed)?;
    if bytes.len() as u64 > MAX_SIZE {
        return Err(Problem::Refused { file: shown(path), reason: TOO_LARGE });
    }
    Ok(bytes)
}

fn unreadable(path: &Path, error: &std::io::Error) -> Problem {
    Problem::Unreadable { file: shown(path), reason: error.to_string() }
}
