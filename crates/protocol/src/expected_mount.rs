//! What the host opened, for a guest to compare with what it was shown: an argument `DEVICE:INODE:PATH` for each mount.
//!
//! An engine mounts by name, and a name can be made to lead elsewhere while it does. So the guest looks at every mount
//! before it runs anything, and ends with [`MOUNTS_DIFFER`] when one is not what the host opened.

use std::fmt;
use std::str::FromStr;

/// The exit code of a guest that was shown something else than the host opened.
pub const MOUNTS_DIFFER: u8 = 3;

/// The option before each of these arguments.
pub const EXPECT_MOUNT: &str = "--expect-mount";

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExpectedMount {
    pub device: u64,
    pub inode: u64,
    /// Where it stands inside.
    pub path: String,
}

impl fmt::Display for ExpectedMount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}:{}", self.device, self.inode, self.path)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("an expected mount has the form DEVICE:INODE:PATH")]
pub struct InvalidExpectedMount;

impl FromStr for ExpectedMount {
    type Err = InvalidExpectedMount;

    fn from_str(text: &str) -> Result<Self, InvalidExpectedMount> {
        let mut parts = text.splitn(3, ':');
        let mut number = || parts.next().and_then(|part| part.parse().ok()).ok_or(InvalidExpectedMount);
        let (device, inode) = (number()?, number()?);
        match parts.next() {
            Some(path) if path.starts_with('/') => Ok(Self { device, inode, path: path.to_owned() }),
            _ => Err(InvalidExpectedMount),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_argument_reads_back_whatever_the_path_holds() {
        let mount = ExpectedMount { device: 64, inode: u64::MAX, path: "/data:1/a b".into() };
        assert_eq!(mount.to_string().parse(), Ok(mount));
        for bad in ["", "1:2", "1:2:relative", "x:2:/a", "1::/a"] {
            assert_eq!(bad.parse::<ExpectedMount>(), Err(InvalidExpectedMount), "{bad}");
        }
    }
}
