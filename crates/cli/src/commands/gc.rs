//! `palisade gc`.

use super::sandbox;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_engine::{GcAction, GcItem};
use palisade_provision::{Collected, Collecting, Collection};

/// Finish or undo what a crash left behind, and nothing else
///
/// Slots whose worktree is gone are given back, with their services and their secrets.
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
    let mut items = context.engine.gc(arguments.dry_run).await?;
    let mode = if arguments.dry_run { Collecting::OnlyTell } else { Collecting::Do };
    let (collected, failures) = sandbox::provisioner()?.collect(mode).await?;
    items.extend(collected.into_iter().map(of_slot));
    if arguments.json {
        output::json(&items)?;
    } else {
        tell(&items, arguments)?;
    }
    // What could be put in order is; the first of the others says why not.
    match failures.into_iter().next() {
        Some(failure) => Err(failure.into()),
        None => Ok(OK),
    }
}

fn tell(items: &[GcItem], arguments: &Arguments) -> Result<(), Failure> {
    if items.is_empty() {
        output::note("nothing to clean up");
    }
    for item in items {
        let would = if arguments.dry_run { "would be " } else { "" };
        output::data(&format!("{}: {would}{}\n", printable(&item.what), action(item)))?;
    }
    Ok(())
}

fn of_slot(Collected { slot, what }: Collected) -> GcItem {
    match what {
        Collection::Abandoned => GcItem { what: format!("slot {slot}"), action: GcAction::Removed },
        Collection::Finished => GcItem { what: format!("slot {slot}"), action: GcAction::Finished },
        Collection::Secrets => {
            GcItem { what: format!("secrets of slot {slot}, which never started"), action: GcAction::Removed }
        }
    }
}

/// One line for what was done.
pub(crate) fn describe(item: &GcItem) -> String {
    format!("{}: {}", printable(&item.what), action(item))
}

fn action(item: &GcItem) -> String {
    format!("{:?}", item.action).to_lowercase()
}
