//! The hidden command that a keeper runs when something happens inside: an agent's work is archived, and commits in a
//! bound directory come to the host. What happened is an event of the sandbox.

use super::service;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};
use palisade_agents::AgentError;
use palisade_core::{ExitCode, SyncTrigger};
use palisade_engine::BringCause;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    pub(crate) id: String,
    pub(crate) trigger: SyncTrigger,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    match service.find(&arguments.id) {
        Ok(sandbox) => drop(service.archive(&sandbox, arguments.trigger).await?),
        // It shares a working tree with the host.
        Err(AgentError::NotAnAgents { .. }) => {
            let is_done = context.engine.bring_commits(&arguments.id, BringCause::Change).await?;
            // The keeper tries again what has failed.
            return Ok(if is_done { OK } else { ExitCode::Conflict as Status });
        }
        Err(error) => return Err(error.into()),
    }
    Ok(OK)
}
