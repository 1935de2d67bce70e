//! `palisade gc`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_engine::GcItem;

/// Finish or undo what a crash left behind, and nothing else
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only tell what would be done
    #[arg(long)]
    pub(crate) dry_run: bool,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let items = context.engine.gc(arguments.dry_run).await?;
    if arguments.json {
        output::json(&items)?;
        return Ok(OK);
    }
    if items.is_empty() {
        output::note("nothing to clean up");
    }
    for item in items {
        let would = if arguments.dry_run { "would be " } else { "" };
        output::data(&format!("{}: {would}{}\n", printable(&item.what), action(&item)))?;
    }
    Ok(OK)
}

/// One line for what was done.
pub(crate) fn describe(item: &GcItem) -> String {
    format!("{}: {}", printable(&item.what), action(item))
}

fn action(item: &GcItem) -> String {
    format!("{:?}", item.action).to_lowercase()
}
