//! Files that a service may have put in the place of the repository's: read only as far as they are plain and of a
//! reasonable size, so that neither a pipe nor an endless file holds anybody up.

use rustix::fs::{Mode, OFlags};
use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;

/// Far more than anybody writes by hand.
const MOST_BYTES: u64 = 4 << 20;

/// The whole content. Links are followed: whether they may be is the caller's question.
pub(crate) fn read(path: &Path) -> io::Result<Vec<u8>> {
    // A pipe without a writer would block the opening itself.
    let flags = OFlags::RDONLY | OFlags::CLOEXEC | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = File::from(rustix::fs::open(path, flags, Mode::empty())?);
    if !file.metadata()?.is_file() {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a regular file"));
    }
    let mut bytes = Vec::new();
    // The size is that of what was read: a file may grow after it was looked at, and a part of it is none.
    file.take(MOST_BYTES + 1).read_to_end(&mut bytes)?;
    if bytes.len() as u64 > MOST_BYTES {
        return Err(io::ErrorKind::FileTooLarge.into());
    }
    Ok(bytes)
}

/// As [`read`], for what must be text.
pub(crate) fn read_text(path: &Path) -> io::Result<String> {
    String::from_utf8(read(path)?).map_err(|error| io::Error::new(io::ErrorKind::InvalidData, error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_file_of_reasonable_size_is_refused_and_holds_nobody_up() {
        let root = tempfile::tempdir().unwrap();
        let place = |name: &str| root.path().join(name);
        std::fs::write(place("plain"), "text").unwrap();
        File::create(place("endless")).unwrap().set_len(1 << 40).unwrap();
        rustix::fs::mknodat(rustix::fs::CWD, place("pipe"), rustix::fs::FileType::Fifo, Mode::RUSR, 0)
            .unwrap();
        assert_eq!(read_text(&place("plain")).unwrap(), "text");
        for odd in ["endless", "pipe", ".", "missing"] {
            assert!(read(&place(odd)).is_err(), "{odd}");
        }
        assert!(read(Path::new("/dev/zero")).is_err());
    }
}
