//! How far a transfer is, as git says it.

/// How far a transfer is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Progress {
    pub step: &'static str,
    pub percent: u8,
    /// How much has gone, and how fast: `95.31 MiB | 45.00 MiB/s`.
    pub amount: Option<String>,
}

/// Git's own words for the steps of packing, and ours.
const STEPS: [(&str, &str); 4] = [
    ("Enumerating objects", "counting"),
    ("Counting objects", "counting"),
    ("Compressing objects", "compressing"),
    ("Writing objects", "sending"),
];

impl Progress {
    /// Reads `Writing objects:  40% (2/5), 1.00 MiB | 2.00 MiB/s`. Only known words are taken.
    pub(crate) fn parse(line: &str) -> Option<Self> {
        let known = |&(words, step): &(&str, &'static str)| Some((step, line.strip_prefix(words)?));
        let (step, rest) = STEPS.iter().find_map(known)?;
        let (percent, rest) = rest.strip_prefix(':')?.trim_start().split_once('%')?;
        let percent = percent.parse().ok().filter(|percent| *percent <= 100)?;
        let amount = rest.split_once("), ").map(|(_, amount)| amount.trim_end_matches(", done."));
        let plain = |text: &&str| {
            text.len() < 40
                && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" .|/".contains(&byte))
        };
        let amount = amount.filter(|_| step == "sending").filter(plain).map(str::to_owned);
        Some(Self { step, percent, amount })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_is_read_from_gits_words_and_no_others() {
        let progress = |line| Progress::parse(line).map(|it| (it.step, it.percent, it.amount));
        assert_eq!(progress("Counting objects:  40% (2/5)"), Some(("counting", 40, None)));
        assert_eq!(
            progress("Writing objects: 100% (5/5), 1.00 MiB | 2.50 MiB/s, done."),
            Some(("sending", 100, Some("1.00 MiB | 2.50 MiB/s".into())))
        );
        assert_eq!(progress("Writing objects: 1% (1/1), \u{1b}[2J"), Some(("sending", 1, None)));
        for line in ["Everything up-to-date", "Writing objects: 101% (", "\u{1b}]0;x\u{7}: 50%", "x: 5%"] {
            assert_eq!(progress(line), None, "{line:?}");
        }
    }
}
