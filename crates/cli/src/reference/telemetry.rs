//! `docs/reference/telemetry.md`: the spans and their attributes, from the table that the export itself obeys.

use super::markdown::{code, heading, table};
use palisade_core::names::Name;
use palisade_core::spans;

pub(super) fn page() -> String {
    let mut text = heading("Spans and their attributes");
    text.push_str(
        "A contract: a name stays, or its change is in the changelog. How to have them exported is in [the\n\
         guide](../guides/telemetry.md).\n",
    );
    for (title, names) in [("Spans", spans::SPANS), ("Attributes", spans::ATTRIBUTES)] {
        let row = |it: &Name| [code(it.name), it.meaning.to_owned()];
        text.push_str(&format!("\n## {title}\n\n{}", table(["name", "meaning"], names.iter().map(row))));
    }
    text
}
