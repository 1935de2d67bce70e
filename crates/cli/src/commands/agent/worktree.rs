//! `palisade agent worktree`.

use super::{chosen, service};
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::WorktreeRemoval;
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
    /// Remove a worktree; its branch stays
    ///
    /// Refused while it has files that are not in your working tree, or while an agent works in it. Everything is
    /// archived first: see `palisade agent history`.
    Rm {
        branch: String,
        /// Archive what is in it and remove it, also while an agent works in it
        #[arg(long, short)]
        force: bool,
        /// Give up files that cannot be archived; repeat the branch
        #[arg(long, value_name = "BRANCH")]
        discard: Option<String>,
        /// Name or id [default: the sandbox of the repository here]
        #[arg(long)]
        name: Option<String>,
    },
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let named = |branch: &str| {
        BranchName::new(branch)
            .map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))
    };
    match &arguments.command {
        Command::Add { branch, name } => {
            let sandbox = chosen(&service, name.as_deref()).await?;
            let path = service.add_worktree(&sandbox, &named(branch)?).await?;
            output::data(&format!("{}\n", path.as_str()))?;
        }
        Command::Ls { name } => {
            let sandbox = chosen(&service, name.as_deref()).await?;
            let rows: Vec<Vec<String>> = service
                .worktrees(&sandbox)
                .await?
                .into_iter()
                .map(|tree| {
                    let branch =
                        tree.branch.map_or_else(|| "-".to_owned(), |branch| printable(branch.as_str()));
                    vec![branch, printable(tree.path.as_str())]
                })
                .collect();
            output::data(&output::table(&["BRANCH", "PATH"], &rows))?;
        }
        Command::Rm { branch, name, force, discard } => {
            let sandbox = chosen(&service, name.as_deref()).await?;
            let removal = match discard {
                Some(given) if given == branch => WorktreeRemoval::Discard,
                Some(given) => {
                    return Err(Failure::usage(
                        format!(
                            "--discard names '{}', and the worktree is '{}'",
                            printable(given),
                            printable(branch)
                        ),
                        "repeat the branch of the worktree",
                    ));
                }
                None if *force => WorktreeRemoval::Force,
                None => WorktreeRemoval::Careful,
            };
            let archived = service.remove_worktree(&sandbox, &named(branch)?, removal).await?;
            if let Some(archive) = archived.archive() {
                output::note(&format!("archived as {}", archive.reference));
            }
        }
    }
    Ok(OK)
}
