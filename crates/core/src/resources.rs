//! Limits on memory, processors and processes: what was asked for, and by whom, so that an asked limit that
//! cannot be enforced is an error while a default that cannot be is only said.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// A number of bytes; written `512M`, `8G`, `1048576`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct ByteSize(pub u64);

/// Processors in thousandths; written `4`, `0.5`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(transparent)]
pub struct CpuCount {
    milli: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidResource {
    #[error("'{0}' is not a size; write a number of bytes, or one with K, M, G or T, such as 512M")]
    Size(String),
    #[error("'{0}' is not a number of processors between 0.01 and 1024, such as 2 or 0.5")]
    Cpus(String),
}

impl ByteSize {
    pub const KIB: u64 = 1 << 10;
    pub const MIB: u64 = 1 << 20;
    pub const GIB: u64 = 1 << 30;
}

impl FromStr for ByteSize {
    type Err = InvalidResource;
    fn from_str(text: &str) -> Result<Self, InvalidResource> {
        let refuse = || InvalidResource::Size(text.escape_debug().to_string());
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u64 = text[..digits].parse().map_err(|_| refuse())?;
        let shift = match text[digits..].to_ascii_lowercase().as_str() {
            "" | "b" => 0,
            "k" | "kb" | "kib" => 10,
            "m" | "mb" | "mib" => 20,
            "g" | "gb" | "gib" => 30,
            "t" | "tb" | "tib" => 40,
            _ => return Err(refuse()),
        };
        number.checked_mul(1 << shift).filter(|&bytes| bytes > 0).map(ByteSize).ok_or_else(refuse)
    }
}

impl fmt::Display for ByteSize {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, suffix) in [(Self::GIB, "G"), (Self::MIB, "M"), (Self::KIB, "K")] {
            if self.0 >= unit && self.0.is_multiple_of(unit) {
                return write!(f, "{}{suffix}", self.0 / unit);
            }
        }
        write!(f, "{}", self.0)
    }
}

impl CpuCount {
    pub const fn whole(count: u32) -> Self {
        Self { milli: count.saturating_mul(1000) }
    }

    pub fn milli(self) -> u32 {
        self.milli
    }
}

impl FromStr for CpuCount {
    type Err = InvalidResource;
    fn from_str(text: &str) -> Result<Self, InvalidResource> {
        let refuse = || InvalidResource::Cpus(text.escape_debug().to_string());
        let plain = !text.is_empty() && text.bytes().all(|b| b.is_ascii_digit() || b == b'.');
        let number: f64 = if plain { text.parse().map_err(|_| refuse())? } else { return Err(refuse()) };
        if !(0.01..=1024.0).contains(&number) {
            return Err(refuse());
        }
        Ok(Self { milli: (number * 1000.0).round() as u32 })
    }
}

impl fmt::Display for CpuCount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", f64::from(self.milli) / 1000.0)
    }
}

/// Whether somebody asked for a limit or it is the program's default.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum LimitSource {
    Asked,
    Default,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Limit<T> {
    pub value: T,
    pub source: LimitSource,
}

impl<T> Limit<T> {
    pub fn asked(value: T) -> Self {
        Self { value, source: LimitSource::Asked }
    }

    pub fn default_of(value: T) -> Self {
        Self { value, source: LimitSource::Default }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Resources {
    pub memory: Limit<ByteSize>,
    pub cpus: Limit<CpuCount>,
    pub pids: Limit<u32>,
    /// Size of each in-memory file system the sandbox can write to (`/tmp`, and more in one-off runs).
    pub tmp: ByteSize,
}

impl Default for Resources {
    fn default() -> Self {
        Self {
            memory: Limit::default_of(ByteSize(8 * ByteSize::GIB)),
            cpus: Limit::default_of(CpuCount::whole(4)),
            pids: Limit::default_of(4096),
            tmp: ByteSize(ByteSize::GIB),
        }
    }
}

/// What became of one limit; shown by `inspect`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Enforcement {
    /// `memory`, `cpus` or `pids`.
    pub limit: String,
    /// As it would be written in a setting.
    pub value: String,
    pub enforced: bool,
    /// The means (`cgroup v1`, `user manager`), or why it is not enforced.
    pub how: String,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_read_in_the_usual_spellings() {
        for (text, bytes) in [
            ("1", 1),
            ("4096", 4096),
            ("1k", 1024),
            ("512M", 512 << 20),
            ("8G", 8 << 30),
            ("8GiB", 8 << 30),
            ("8gb", 8 << 30),
            ("1T", 1 << 40),
        ] {
            assert_eq!(text.parse(), Ok(ByteSize(bytes)), "{text}");
        }
        for bad in [
            "",
            "0",
            "-1",
            "1.5G",
            "G",
            "8 G",
            "99999999999999999999",
            "99999999T",
            "1X",
            "8Gbb",
            "8ib",
            "8GiBiB",
        ] {
            assert!(bad.parse::<ByteSize>().is_err(), "{bad}");
        }
    }

    #[test]
    fn sizes_print_so_that_they_read_back() {
        for bytes in [1, 1023, 1024, 1536, 512 << 20, 8 << 30, (8 << 30) + 1] {
            assert_eq!(ByteSize(bytes).to_string().parse(), Ok(ByteSize(bytes)));
        }
    }

    #[test]
    fn processors_may_be_fractions() {
        assert_eq!("0.5".parse::<CpuCount>().unwrap().milli(), 500);
        assert_eq!("4".parse::<CpuCount>().unwrap().to_string(), "4");
        for bad in ["", "0", "-1", "nan", "inf", "1e9", "2000", "1,5"] {
            assert!(bad.parse::<CpuCount>().is_err(), "{bad}");
        }
    }
}
