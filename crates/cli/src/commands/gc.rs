//! `palisade gc`.

use super::sandbox;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_engine::{GcAction, GcItem, GcReport};
use palisade_provision::{Collected, Collecting, Collection};

/// Finish or undo what a crash left behind, and nothing else
///
/// A user's files are never removed: what has no record is recorded again, or kept and named with the command that
/// removes it. Slots whose worktree git lists no longer are given back, with their services and their secrets; where the
/// services have data, they are stopped, and the rest is kept. An engine that could not be asked is named, and the exit
/// code is that of the error.
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
    let GcReport { mut items, failures } = context.engine.gc(arguments.dry_run).await?;
    let mode = if arguments.dry_run { Collecting::OnlyTell } else { Collecting::Do };
    let (collected, of_slots) = sandbox::provisioner()?.collect(mode).await?;
    items.extend(collected.into_iter().map(of_slot));
    let failures: Vec<Failure> =
        failures.into_iter().map(Failure::from).chain(of_slots.into_iter().map(Failure::from)).collect();
    if arguments.json {
        output::json(&items)?;
    } else {
        tell(&items, !failures.is_empty(), arguments)?;
    }
    // What could be put in order is; each of the others says why not, and the first decides the exit code.
    let statuses: Vec<Status> = failures.into_iter().map(Failure::report).collect();
    Ok(statuses.first().copied().unwrap_or(OK))
}

fn tell(items: &[GcItem], failed: bool, arguments: &Arguments) -> Result<(), Failure> {
    if items.is_empty() && !failed {
        output::note("nothing to clean up");
    }
    for item in items {
        let would = if arguments.dry_run && item.action.is_change() { "would be " } else { "" };
        let hint = item.hint.as_deref().map(|hint| format!("; {}", printable(hint))).unwrap_or_default();
        output::data(&format!("{}: {would}{}{hint}\n", printable(&item.what), action(item)))?;
    }
    Ok(())
}

fn of_slot(Collected { slot, feature, what }: Collected) -> GcItem {
    let done = || format!("remove it with all that is in it: palisade done {feature}");
    match what {
        Collection::Abandoned => GcItem::new(format!("slot {slot}"), GcAction::Removed),
        Collection::Finished => GcItem::new(format!("slot {slot}"), GcAction::Finished),
        Collection::Secrets => {
            GcItem::new(format!("secrets of slot {slot}, which never started"), GcAction::Removed)
        }
        Collection::Followed { worktree } => {
            let what = format!("slot {slot}, whose worktree was moved to {worktree}");
            GcItem::new(what, GcAction::Recovered)
        }
        Collection::Data { volumes } => GcItem::kept(
            format!("slot {slot}, whose worktree is gone, with data in {}", volumes.join(", ")),
            done(),
        ),
        Collection::Uncertain { why } => {
            GcItem::kept(format!("slot {slot}, whose worktree is not there: {why}"), done())
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
