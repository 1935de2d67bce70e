//! The hidden command that a keeper runs when something happens inside: everything is archived, and what happened is an
//! event of the sandbox.

use super::service;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};
use palisade_core::SyncTrigger;

#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    pub(crate) id: String,
    pub(crate) trigger: SyncTrigger,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let sandbox = service.find(&arguments.id)?;
    service.archive(&sandbox, arguments.trigger).await?;
    Ok(OK)
}
