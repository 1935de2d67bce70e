//! Reads a file whose size was announced before.

use std::fs::File;
use std::io::{Error, ErrorKind, Read, Result};

/// Reads exactly as many bytes of a file as were announced. A file that grew meanwhile is cut, and one that shrank is an
/// error: the header of an archive cannot be taken back.
#[derive(Debug)]
pub struct ExactReader {
    file: File,
    left: u64,
}

impl ExactReader {
    pub fn new(file: File, size: u64) -> Self {
        Self { file, left: size }
    }
}

impl Read for ExactReader {
    fn read(&mut self, buffer: &mut [u8]) -> Result<usize> {
        let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(buffer.len());
        let count = self.file.read(&mut buffer[..most])?;
        if count == 0 && most > 0 {
            return Err(Error::new(ErrorKind::UnexpectedEof, "a file became shorter while it was read"));
        }
        self.left -= count as u64;
        Ok(count)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_that_grew_is_cut_and_one_that_shrank_is_an_error() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("file");
        std::fs::write(&path, "four").unwrap();
        let read = |size: u64| {
            let mut text = String::new();
            let result = ExactReader::new(File::open(&path).unwrap(), size).read_to_string(&mut text);
            (result.map_err(|error| error.kind()), text)
        };
        assert_eq!(read(2), (Ok(2), "fo".to_owned()));
        assert_eq!(read(4), (Ok(4), "four".to_owned()));
        assert_eq!(read(5).0, Err(ErrorKind::UnexpectedEof));
    }
}
