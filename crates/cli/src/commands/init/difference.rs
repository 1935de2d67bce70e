//! A change of a file as a unified diff, for people.

use crate::output::Colours;
use palisade_core::printable;
use palisade_provision::Change;
use similar::{ChangeTag, TextDiff};

/// Lines around a change.
const CONTEXT: usize = 3;

pub(super) fn shown(change: &Change, colours: Colours) -> String {
    let before = change.before.as_deref().unwrap_or_default();
    let diff = TextDiff::from_lines(before, &change.after);
    let old = if change.before.is_some() { format!("a/{}", change.path) } else { "/dev/null".to_owned() };
    let mut text = format!("--- {old}\n+++ b/{}\n", change.path);
    for hunk in diff.unified_diff().context_radius(CONTEXT).iter_hunks() {
        text += &format!("{}\n", hunk.header());
        for line in hunk.iter_changes() {
            let (sign, colour) = match line.tag() {
                ChangeTag::Delete => ('-', "31"),
                ChangeTag::Insert => ('+', "32"),
                ChangeTag::Equal => (' ', ""),
            };
            // A file may come from anywhere; its tabs are harmless.
            let words: Vec<String> =
                line.value().trim_end_matches(['\r', '\n']).split('\t').map(printable).collect();
            text += &format!("{}\n", colours.paint(colour, &format!("{sign}{}", words.join("\t"))));
        }
    }
    text.truncate(text.trim_end_matches('\n').len());
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::ProjectPath;

    #[test]
    fn only_what_changes_is_shown_and_nothing_of_it_is_obeyed() {
        let change = Change {
            path: ProjectPath::new("c.yml").unwrap(),
            before: Some("1\n2\n3\n4\n\tx\x1b[2J\r\n6\n".into()),
            after: "1\n2\n3\n4\n\ty\r\n6\n".into(),
        };
        assert_eq!(
            shown(&change, Colours::Off),
            "--- a/c.yml\n+++ b/c.yml\n@@ -2,5 +2,5 @@\n 2\n 3\n 4\n-\tx\\u{1b}[2J\n+\ty\n 6"
        );
        let new = Change { before: None, after: "a\n".into(), ..change };
        assert_eq!(shown(&new, Colours::Off), "--- /dev/null\n+++ b/c.yml\n@@ -0,0 +1 @@\n+a");
        assert!(shown(&new, Colours::On).ends_with("\x1b[32m+a\x1b[0m"));
    }
}
