//! `palisade sync`.

use super::agent::service;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::AgentError;
use palisade_core::{ExitCode, HostPath, printable};
use palisade_engine::BroughtCommits;
use serde::Serialize;

/// Exchange commits between a running sandbox and the repositories that it shares (-w, --mount)
///
/// The sandbox's commits move your branches, or wait on palisade/NAME/BRANCH. What you have committed or switched to
/// meanwhile reaches the sandbox if it has nothing of its own. Both happen by themselves a few seconds after a commit, too.
/// The exit code is 7 when something waits for you.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// What was exchanged, as `--json` prints it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SyncedCommits {
    /// Directories whose repository has new commits, branches, tags or stash entries.
    moved: Vec<String>,
    /// Directories whose state the sandbox has taken over.
    followed: Vec<String>,
    /// What to know about it, such as where commits wait.
    notes: Vec<String>,
    /// Whether commits wait, for you or for the sandbox.
    waiting: bool,
}

impl From<BroughtCommits> for SyncedCommits {
    fn from(brought: BroughtCommits) -> Self {
        let paths = |paths: Vec<HostPath>| paths.iter().map(ToString::to_string).collect();
        let behind = brought.busy.iter().map(|path| {
            format!("{path}: the sandbox does not have your latest commits: git was at work. Run the command again")
        });
        Self {
            notes: brought.notes.into_iter().chain(behind).collect(),
            waiting: brought.has_waiting || !brought.busy.is_empty(),
            moved: paths(brought.moved),
            followed: paths(brought.followed),
        }
    }
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    match service(context)?.find(&arguments.name) {
        Ok(_) => {
            let name = printable(&arguments.name);
            let message = format!("'{name}' is an agent's sandbox and shares no directory with you");
            return Err(Failure::usage(message, format!("sync its work: palisade agent sync {name}")));
        }
        Err(AgentError::NotAnAgents { .. }) => {}
        Err(error) => return Err(error.into()),
    }
    let synced = SyncedCommits::from(context.engine.sync_commits(&arguments.name).await?);
    if arguments.json {
        output::json(&synced)?;
    } else {
        show(&synced)?;
    }
    Ok(if synced.waiting { ExitCode::Conflict as Status } else { OK })
}

fn show(synced: &SyncedCommits) -> Result<(), Failure> {
    for path in &synced.moved {
        output::data(&format!("{}: has the sandbox's commits\n", printable(path)))?;
    }
    for path in &synced.followed {
        output::data(&format!("{}: the sandbox has your commits\n", printable(path)))?;
    }
    synced.notes.iter().for_each(|note| output::warning(note));
    if synced.moved.is_empty() && synced.followed.is_empty() && synced.notes.is_empty() {
        output::note("nothing new on either side");
    }
    Ok(())
}
