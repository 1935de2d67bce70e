//! `palisade gc`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};

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
        let action = format!("{:?}", item.action).to_lowercase();
        let tense = if arguments.dry_run { "would be " } else { "" };
        output::data(&format!("{}: {tense}{action}\n", palisade_core::printable(&item.what)))?;
    }
    Ok(OK)
}
