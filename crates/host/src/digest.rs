//! What a file holds, in 32 bytes: to know later whether it is still what was laid there.

use sha2::{Digest as _, Sha256};
use std::fmt::{self, Write as _};
use std::io::{self, Read};

/// A SHA-256, told as 64 hexadecimal digits.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Digest([u8; 32]);

impl Digest {
    /// Of what is read up to the end.
    pub fn of(mut content: impl Read) -> io::Result<Self> {
        let mut digester = Digester::default();
        let mut buffer = vec![0; 64 * 1024];
        loop {
            match content.read(&mut buffer) {
                Ok(0) => return Ok(digester.digest()),
                Ok(count) => digester.0.update(&buffer[..count]),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
    }

    pub fn of_bytes(bytes: &[u8]) -> Self {
        Self(Sha256::digest(bytes).into())
    }

    /// Reads what [`fmt::Display`] writes.
    /// The first digits, for a name that tells contents apart.
    pub fn prefix(self, length: usize) -> String {
        self.to_string().chars().take(length).collect()
    }

    pub fn parse(text: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 64)?;
        let mut bytes = [0; 32];
        for (index, byte) in bytes.iter_mut().enumerate() {
            let digits = text.get(2 * index..2 * index + 2)?;
            *byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
        }
        Some(Self(bytes))
    }
}

/// Digests what is written to it.
#[derive(Debug, Clone, Default)]
pub struct Digester(Sha256);

impl Digester {
    pub fn digest(self) -> Digest {
        Digest(self.0.finalize().into())
    }
}

impl io::Write for Digester {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

impl fmt::Display for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for Digest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_char('"')?;
        fmt::Display::fmt(self, f)?;
        f.write_char('"')
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_digest_is_that_of_the_content_and_reads_back() {
        let told = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
        let digest = Digest::of(&b"abc"[..]).unwrap();
        assert_eq!((digest.to_string().as_str(), digest), (told, Digest::of_bytes(b"abc")));
        assert_eq!(Digest::parse(told.as_bytes()), Some(digest));
        let signed = format!("+1{}", &told[2..]);
        for wrong in ["", &told[1..], "zz", signed.as_str(), &"é".repeat(32)] {
            assert_eq!(Digest::parse(wrong.as_bytes()), None, "{wrong}");
        }
    }
}
