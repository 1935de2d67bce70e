//! `palisade agent diff` and `palisade agent log`: computed inside, printed with control characters escaped.

use super::{chosen, workshop};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};

/// Show what an agent has done
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// In the worktree of this branch
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree: Option<String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Diff,
    Log,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments, kind: Kind) -> Result<Status, Failure> {
    let workshop = workshop(context)?;
    let sandbox = chosen(&workshop, arguments.name.as_deref()).await?;
    let text = match kind {
        Kind::Diff => workshop.diff(&sandbox, arguments.worktree.as_deref()).await?,
        Kind::Log => workshop.log(&sandbox, arguments.worktree.as_deref()).await?,
    };
    output::data(&text)?;
    Ok(OK)
}
