//! Moments as people and file names have them: unix milliseconds to UTC, without a table of time zones; and spans of
//! time as settings have them.

use serde::{Serialize, Serializer};
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A span of whole seconds; written `90s`, `30m`, `2h`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct TimeSpan(pub Duration);

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("'{0}' is not a span of time; write a number with s, m or h, such as 90s or 30m")]
pub struct InvalidSpan(String);

const UNITS: [(&str, u64); 3] = [("h", 3600), ("m", 60), ("s", 1)];
/// A hundred days. What is longer is a slip.
const LONGEST: u64 = 100 * 24 * 3600;

impl FromStr for TimeSpan {
    type Err = InvalidSpan;

    fn from_str(text: &str) -> Result<Self, InvalidSpan> {
        let seconds = UNITS.iter().find_map(|(unit, seconds)| {
            let number = text.strip_suffix(unit)?;
            let plain = number.bytes().all(|byte| byte.is_ascii_digit());
            number.parse::<u64>().ok().filter(|_| plain)?.checked_mul(*seconds)
        });
        match seconds {
            Some(seconds @ 1..=LONGEST) => Ok(Self(Duration::from_secs(seconds))),
            _ => Err(InvalidSpan(text.chars().take(40).flat_map(char::escape_debug).collect())),
        }
    }
}

impl fmt::Display for TimeSpan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let total = self.0.as_secs();
        let (unit, seconds) =
            UNITS.into_iter().find(|(_, seconds)| total.is_multiple_of(*seconds)).unwrap_or(("s", 1));
        write!(f, "{}{unit}", total / seconds)
    }
}

/// As it is written.
impl Serialize for TimeSpan {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

/// `2026-11-15T22:45:01.042Z`.
pub fn utc(milliseconds: i64) -> String {
    let (year, month, day, hour, minute, second) = parts(milliseconds);
    let fraction = milliseconds.rem_euclid(1000);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{fraction:03}Z")
}

/// `20261115T224501Z`, for the name of a file.
pub fn stamp(milliseconds: i64) -> String {
    let (year, month, day, hour, minute, second) = parts(milliseconds);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// Reads what [`utc`] writes, with or without the fraction.
pub fn parse(text: &str) -> Option<i64> {
    let (date, clock) = text.strip_suffix('Z')?.split_once('T')?;
    let (clock, fraction) = clock.split_once('.').unwrap_or((clock, "0"));
    let numbers = |text: &str, mark: char| -> Option<[i64; 3]> {
        let parts: Option<Vec<i64>> =
            text.split(mark).map(|part| part.parse().ok().filter(|number| *number >= 0)).collect();
        parts?.try_into().ok()
    };
    let ([year, month, day], [hour, minute, second]) = (numbers(date, '-')?, numbers(clock, ':')?);
    let milliseconds: i64 = format!("{fraction:0<3}").get(..3)?.parse().ok()?;
    if !(1..=12).contains(&month) || year > 9999 || hour > 23 || minute > 59 || second > 59 {
        return None;
    }
    let shifted = year - i64::from(month <= 2);
    let day_of_year = (153 * (month + if month > 2 { -3 } else { 9 }) + 2) / 5 + day - 1;
    let days = shifted * 365 + shifted.div_euclid(4) - shifted.div_euclid(100)
        + shifted.div_euclid(400)
        + day_of_year
        - DAYS_TO_1970;
    let found = ((days * 24 + hour) * 60 + minute) * 60_000 + second * 1000 + milliseconds;
    // A day that the month does not have would be another one.
    (parts(found).2 == day).then_some(found)
}

/// From the first of March of the year 0.
const DAYS_TO_1970: i64 = 719_468;

/// The Gregorian calendar in eras of 400 years, each counted from the first of March, so that the leap day is last.
fn parts(milliseconds: i64) -> (i64, i64, i64, i64, i64, i64) {
    const DAYS_OF_AN_ERA: i64 = 146_097;
    let seconds = milliseconds.div_euclid(1000);
    let (days, second) = (seconds.div_euclid(86_400) + DAYS_TO_1970, seconds.rem_euclid(86_400));
    let (era, day_of_era) = (days.div_euclid(DAYS_OF_AN_ERA), days.rem_euclid(DAYS_OF_AN_ERA));
    let year_of_era =
        (day_of_era - day_of_era / 1460 + day_of_era / 36_524 - day_of_era / (DAYS_OF_AN_ERA - 1)) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = year_of_era + era * 400 + i64::from(month <= 2);
    (year, month, day, second / 3600, second / 60 % 60, second % 60)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_are_told_in_utc() {
        for (milliseconds, text) in [
            (0, "1970-01-01T00:00:00.000Z"),
            (951_782_400_007, "2000-02-29T00:00:00.007Z"),
            (1_700_000_000_042, "2023-11-14T22:13:20.042Z"),
            (-1, "1969-12-31T23:59:59.999Z"),
            (4_102_444_800_000, "2100-01-01T00:00:00.000Z"),
        ] {
            assert_eq!(utc(milliseconds), text);
            assert_eq!(parse(text), Some(milliseconds));
        }
        for bad in ["", "2023-11-14T22:13:20", "2023-02-30T00:00:00Z", "2023-13-01T00:00:00Z", "x-1-1T1:1:1Z"]
        {
            assert_eq!(parse(bad), None, "{bad}");
        }
        assert_eq!(stamp(1_700_000_000_042), "20231114T221320Z");
    }

    #[test]
    fn spans_read_and_print_so_that_they_read_back() {
        for (text, seconds, shown) in
            [("90s", 90, "90s"), ("30m", 1800, "30m"), ("60m", 3600, "1h"), ("2h", 7200, "2h")]
        {
            let span: TimeSpan = text.parse().unwrap();
            assert_eq!((span, span.to_string().as_str()), (TimeSpan(Duration::from_secs(seconds)), shown));
        }
        for bad in ["", "0s", "5", "m", "-1m", "1.5h", "+1s", "1 m", "99999999999999999999h", "2401h", "1d"] {
            assert!(bad.parse::<TimeSpan>().is_err(), "{bad}");
        }
    }
}
