//! `palisade agent diff`: computed inside, printed with control characters escaped.

use super::{chosen, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};

/// Show what an agent has changed and not committed
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// In the worktree of this branch
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree: Option<String>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let sandbox = chosen(&service, arguments.name.as_deref()).await?;
    let diff = service.diff(&sandbox, arguments.worktree.as_deref()).await;
    output::data(&diff.map_err(Failure::in_sandbox(sandbox.name()))?)?;
    Ok(OK)
}
