//! What Compose and services say, without the secrets in it.

use palisade_core::{Secret, printable};

/// Shorter values are parts of ordinary words; leaving them out would hide nothing and make every line unreadable.
const SHORTEST: usize = 4;
const REDACTED: &str = "[redacted]";

/// Replaces secrets wherever they stand, also as the lines of one that has several and as Go and JSON quote them.
#[derive(Clone, Default)]
pub struct Redactor {
    /// The longest first, so that no part of one is left over from another.
    values: Vec<Secret>,
}

impl Redactor {
    pub fn new<'a>(secrets: impl IntoIterator<Item = &'a Secret>) -> Self {
        let mut values: Vec<String> = Vec::new();
        for secret in secrets {
            let value = secret.expose();
            let quoted = serde_json::Value::from(value).to_string();
            let lines = value.lines().map(str::to_owned);
            values.extend([
                value.to_owned(),
                quoted[1..quoted.len() - 1].to_owned(),
                value.replace('$', "$$"),
            ]);
            values.extend(lines);
        }
        values.retain(|value| value.trim().len() >= SHORTEST);
        values.sort_by(|one, other| other.len().cmp(&one.len()).then(one.cmp(other)));
        values.dedup();
        Self { values: values.into_iter().map(Secret::new).collect() }
    }

    pub fn text(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for value in &self.values {
            if text.contains(value.expose()) {
                text = text.replace(value.expose(), REDACTED);
            }
        }
        text
    }

    /// A line for the terminal: redacted, then without what would drive it.
    pub(super) fn line(&self, line: &str) -> String {
        printable(&self.text(line.trim_end_matches(['\r', '\n'])).replace('\t', "    "))
    }
}

impl std::fmt::Debug for Redactor {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Redactor({} values)", self.values.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_replaced_however_they_are_written() {
        let redactor = Redactor::new(&[
            Secret::new("hunter22"),
            Secret::new("hunter22-long"),
            Secret::new("line one\nline \"two\""),
            Secret::new("pa$$word"),
            Secret::new("no"),
        ]);
        for (said, shown) in [
            ("token hunter22-long, hunter22.", "token [redacted], [redacted]."),
            ("line one", "[redacted]"),
            (r#"value "line one\nline \"two\"""#, r#"value "[redacted]""#),
            ("pa$$$$word pa$$word", "[redacted] [redacted]"),
            ("no harm\x1b[31m\tin\r\n", "no harm\\u{1b}[31m    in"),
        ] {
            assert_eq!(redactor.line(said), shown);
        }
        assert!(!format!("{redactor:?}").contains("hunter"));
    }
}
