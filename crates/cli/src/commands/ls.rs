//! `palisade ls`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{one_line, printable};
use palisade_engine::{ListedSandbox, SandboxListing, UnrecordedSummary};
use palisade_store::BadRow;

/// List the sandboxes
///
/// A sandbox of which there is no record, and that does not say what it is, is shown as unrecorded. It is kept until
/// it is removed by its id.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    context.engine.search_engines().await?;
    let SandboxListing { sandboxes, bad, unrecorded } = context.engine.list()?;
    for row in &bad {
        let remove = format!("remove it with: palisade rm --discard {}", printable(&row.name));
        output::warning(&format!(
            "the record of sandbox '{}' cannot be read: {}; {remove}",
            printable(&row.id),
            one_line(&row.why)
        ));
    }
    for found in &unrecorded {
        output::warning(&format!(
            "there is no record of sandbox {}: {}; remove it and its files with: {}",
            found.id,
            one_line(&found.error),
            found.remove
        ));
    }
    if arguments.json {
        let recorded = sandboxes.into_iter().map(ListedSandbox::Recorded);
        let all: Vec<ListedSandbox> =
            recorded.chain(unrecorded.into_iter().map(ListedSandbox::Unrecorded)).collect();
        output::json(&all)?;
        return Ok(OK);
    }
    if sandboxes.is_empty() && bad.is_empty() && unrecorded.is_empty() {
        output::note("no sandboxes; create one with: palisade create NAME");
        return Ok(OK);
    }
    let now = crate::context::now();
    let rows: Vec<Vec<String>> = sandboxes
        .iter()
        .map(|sandbox| {
            vec![
                sandbox.name.to_string(),
                sandbox.state.to_string(),
                sandbox.method.to_string(),
                sandbox.environment.as_ref().map_or("-", |name| name.as_str()).to_owned(),
                age(now - sandbox.created_at),
                sandbox.id.short().to_owned(),
                sandbox.error.as_deref().map(one_line).unwrap_or_default(),
            ]
        })
        .chain(bad.iter().map(unreadable))
        .chain(unrecorded.iter().map(unrecorded_row))
        .collect();
    output::data(&output::table(&["NAME", "STATE", "METHOD", "ENVIRONMENT", "AGE", "ID", ""], &rows))?;
    Ok(OK)
}

/// Shown with the others, so that it is not missed.
fn unreadable(row: &BadRow) -> Vec<String> {
    let short: String = row.id.chars().take(8).collect();
    vec![
        printable(&row.name),
        "unreadable".into(),
        "-".into(),
        "-".into(),
        "-".into(),
        printable(&short),
        one_line(&row.why),
    ]
}

fn unrecorded_row(found: &UnrecordedSummary) -> Vec<String> {
    vec![
        printable(&found.name),
        "unrecorded".into(),
        found.method.map_or_else(|| "-".to_owned(), |method| method.to_string()),
        "-".into(),
        "-".into(),
        found.id.short().to_owned(),
        one_line(&found.error),
    ]
}

fn age(milliseconds: i64) -> String {
    let seconds = (milliseconds / 1000).max(0);
    match seconds {
        0..60 => format!("{seconds}s"),
        60..3600 => format!("{}m", seconds / 60),
        3600..86_400 => format!("{}h", seconds / 3600),
        _ => format!("{}d", seconds / 86_400),
    }
}
