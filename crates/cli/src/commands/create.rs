//! `palisade create`: a sandbox with a name, which keeps its home and workspace until it is removed.

use crate::arguments::{FoundationFlag, PolicyFlags, WorkspaceFlag};
use crate::context::{Context, bound_workspace};
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{SandboxName, Workspace};
use palisade_engine::CreateRequest;

/// Create a sandbox that keeps its home and workspace
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A name of a-z, 0-9 and '-'
    pub(crate) name: String,
    /// Start it, too
    #[arg(long)]
    pub(crate) start: bool,
    #[command(flatten)]
    pub(crate) foundation: FoundationFlag,
    #[command(flatten)]
    pub(crate) bound: WorkspaceFlag,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let name = SandboxName::new(&arguments.name).map_err(|error| {
        Failure::usage(
            format!("'{}': {error}", palisade_core::printable(&arguments.name)),
            "for example: web-1",
        )
    })?;
    let workspace = match &arguments.bound.workspace {
        Some(text) => bound_workspace(context, text)?,
        None => Workspace::Own,
    };
    let policy = context.policy(workspace)?;
    let foundation = context.foundation.clone();
    let request = CreateRequest { name, method: context.method(), policy, foundation };
    let row = context.engine.create(request).await?;
    if arguments.start {
        super::start::start(context, row.name.as_str()).await?;
    }
    output::data(&format!("{}\n", row.name))?;
    Ok(OK)
}
