//! `palisade agent rm`.

use super::{chosen, workshop};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};
use palisade_agents::{AgentError, AgentSandbox, Workshop};

/// Remove an agent's sandbox, unless work in it is not on the host
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// Give up work that is not on the host; repeat the sandbox's name
    #[arg(long, value_name = "NAME")]
    pub(crate) discard: Option<String>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let workshop = workshop(context)?;
    let sandbox = chosen(&workshop, arguments.name.as_deref()).await?;
    remove(&workshop, &sandbox, arguments.discard.as_deref()).await?;
    Ok(OK)
}

/// What would be lost is looked for inside, so the sandbox is started for it.
pub(super) async fn remove(
    workshop: &Workshop<'_>,
    sandbox: &AgentSandbox,
    given_up: Option<&str>,
) -> Result<(), Failure> {
    let id = sandbox.row.id().as_str();
    if given_up != Some(sandbox.name().as_str()) {
        workshop.engine.start(id).await?;
        let unsynced = workshop.unsynced(sandbox).await?;
        if !unsynced.is_empty() {
            return Err(AgentError::Unsynced { name: sandbox.name().clone(), what: unsynced.told() }.into());
        }
    }
    workshop.engine.remove(id, true).await?;
    Ok(())
}
