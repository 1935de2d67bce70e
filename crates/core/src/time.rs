//! Moments as people and file names have them: unix milliseconds to UTC, without a table of time zones.

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

/// The Gregorian calendar in eras of 400 years, each counted from the first of March, so that the leap day is last.
fn parts(milliseconds: i64) -> (i64, i64, i64, i64, i64, i64) {
    const DAYS_TO_1970: i64 = 719_468;
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
        }
        assert_eq!(stamp(1_700_000_000_042), "20231114T221320Z");
    }
}
