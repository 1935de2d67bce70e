//! How long something may take: `90`, `90s`, `10m`, `2h`; from a second to a day.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeLimit {
    seconds: u32,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a time from a second to a day; write seconds, or a number with s, m or h, such as 90s")]
pub struct InvalidTimeLimit(String);

const LONGEST: u32 = 24 * 60 * 60;

impl TimeLimit {
    /// A number of seconds that is known to be within the bounds.
    pub(super) const fn seconds(seconds: u32) -> Self {
        Self { seconds }
    }

    pub fn duration(self) -> Duration {
        Duration::from_secs(u64::from(self.seconds))
    }
}

impl FromStr for TimeLimit {
    type Err = InvalidTimeLimit;

    fn from_str(text: &str) -> Result<Self, InvalidTimeLimit> {
        let refuse = || InvalidTimeLimit(text.escape_debug().to_string());
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let number: u32 = text[..digits].parse().map_err(|_| refuse())?;
        let unit = match &text[digits..] {
            "" | "s" => 1,
            "m" => 60,
            "h" => 60 * 60,
            _ => return Err(refuse()),
        };
        let seconds = number.checked_mul(unit).filter(|seconds| (1..=LONGEST).contains(seconds));
        seconds.map(|seconds| Self { seconds }).ok_or_else(refuse)
    }
}

impl fmt::Display for TimeLimit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (unit, suffix) in [(60 * 60, "h"), (60, "m")] {
            if self.seconds.is_multiple_of(unit) {
                return write!(f, "{}{suffix}", self.seconds / unit);
            }
        }
        write!(f, "{}s", self.seconds)
    }
}

/// As a number of seconds.
impl Serialize for TimeLimit {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_u32(self.seconds)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_and_print_so_that_they_read_back() {
        for (text, seconds, printed) in [
            ("1", 1, "1s"),
            ("90", 90, "90s"),
            ("90s", 90, "90s"),
            ("60s", 60, "1m"),
            ("10m", 600, "10m"),
            ("24h", 86_400, "24h"),
        ] {
            let limit: TimeLimit = text.parse().unwrap();
            assert_eq!((limit.seconds, limit.to_string().as_str()), (seconds, printed));
            assert_eq!(printed.parse(), Ok(limit));
        }
        for bad in ["", "0", "-1", "25h", "1d", "s", "1.5m", "1 m", "99999999999", "4294967295h"] {
            assert!(bad.parse::<TimeLimit>().is_err(), "{bad}");
        }
    }
}
