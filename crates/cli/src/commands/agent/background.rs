//! The hidden command that a keeper runs when something happens inside, and the last sync before a stop. Only refs move,
//! and what happened is an event of the sandbox.

use super::workshop;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{State, SyncMode, SyncTrigger};
use std::time::Duration;

/// A stop waits no longer for what is inside.
const LAST: Duration = Duration::from_secs(30);

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    pub(crate) id: String,
    pub(crate) trigger: SyncTrigger,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let workshop = workshop(context)?;
    let sandbox = workshop.find(&arguments.id)?;
    workshop.sync_refs(&sandbox, arguments.trigger).await?;
    Ok(OK)
}

/// What was committed right before a stop is not to wait for the next start. A sandbox that cannot be synced is stopped
/// all the same: its files stay.
pub(crate) async fn before_stop(context: &Context, name: &str) -> Result<(), Failure> {
    let workshop = workshop(context)?;
    let Ok(sandbox) = workshop.find(name) else { return Ok(()) };
    if sandbox.record.sync == SyncMode::Manual || sandbox.row.state != State::Running {
        return Ok(());
    }
    let reason = match tokio::time::timeout(LAST, workshop.sync_refs(&sandbox, SyncTrigger::Stop)).await {
        Ok(Ok(_)) => return Ok(()),
        Ok(Err(error)) => error.to_string(),
        Err(_) => format!("it took longer than {} s", LAST.as_secs()),
    };
    output::warning(&format!("its work was not brought into refs before the stop: {reason}"));
    let name = sandbox.name();
    output::note(&format!(
        "  it stays in the sandbox: palisade start {name}, then palisade agent sync {name}"
    ));
    Ok(())
}
