//! `palisade agent worktree`.

use super::{chosen, workshop};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_workspace::BranchName;

/// Worktrees in an agent's sandbox, each with sessions and an agent of its own
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Make a worktree for a branch, a new one when there is none
    Add {
        branch: String,
        /// Name or id [default: the sandbox of the repository here]
        #[arg(long)]
        name: Option<String>,
    },
    /// List the worktrees
    Ls {
        /// Name or id [default: the sandbox of the repository here]
        name: Option<String>,
    },
    /// Take a worktree away; its branch stays
    Rm {
        branch: String,
        /// Name or id [default: the sandbox of the repository here]
        #[arg(long)]
        name: Option<String>,
    },
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let workshop = workshop(context)?;
    let named = |branch: &str| {
        BranchName::new(branch)
            .map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))
    };
    match &arguments.command {
        Command::Add { branch, name } => {
            let sandbox = chosen(&workshop, name.as_deref()).await?;
            let connection = workshop.engine.connect(sandbox.row.id().as_str()).await?;
            let path = workshop.worktree(&connection, &named(branch)?).await?;
            output::data(&format!("{}\n", path.as_str()))?;
        }
        Command::Ls { name } => {
            let sandbox = chosen(&workshop, name.as_deref()).await?;
            let rows: Vec<Vec<String>> = workshop
                .worktrees(&sandbox)
                .await?
                .into_iter()
                .map(|(path, branch)| vec![printable(branch.as_str()), printable(path.as_str())])
                .collect();
            output::data(&output::table(&["BRANCH", "PATH"], &rows))?;
        }
        Command::Rm { branch, name } => {
            let sandbox = chosen(&workshop, name.as_deref()).await?;
            workshop.remove_worktree(&sandbox, &named(branch)?).await?;
        }
    }
    Ok(OK)
}
