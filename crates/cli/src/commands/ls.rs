//! `palisade ls`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_store::BadRow;

/// List the sandboxes
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let (sandboxes, bad) = context.engine.list()?;
    for row in &bad {
        let remove = format!("remove it with: palisade rm --force {}", printable(&row.name));
        output::warning(&format!(
            "the record of sandbox '{}' cannot be read: {}; {remove}",
            printable(&row.id),
            printable(&row.why)
        ));
    }
    if arguments.json {
        output::json(&sandboxes)?;
        return Ok(OK);
    }
    if sandboxes.is_empty() && bad.is_empty() {
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
                sandbox.error.as_deref().map(printable).unwrap_or_default(),
            ]
        })
        .chain(bad.iter().map(unreadable))
        .collect();
    output::data(&output::table(&["NAME", "STATE", "METHOD", "ENVIRONMENT", "AGE", "ID", ""], &rows))?;
    Ok(OK)
}

/// Shown with the others, so that nobody misses it.
fn unreadable(row: &BadRow) -> Vec<String> {
    let short: String = row.id.chars().take(8).collect();
    vec![
        printable(&row.name),
        "unreadable".into(),
        "-".into(),
        "-".into(),
        "-".into(),
        printable(&short),
        printable(&row.why),
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
