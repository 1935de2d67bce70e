//! `palisade agent attach`.

use super::{chosen, service, start};
use crate::commands::{attach, sessions};
use crate::context::Context;
use crate::failure::Failure;
use crate::{Status, terminal};
use palisade_core::ExitCode;
use palisade_engine::{Connection, UnseenEnd};
use palisade_workspace::BranchName;

/// Attach this terminal to an agent that is at work
///
/// Ctrl-\ then d detaches, and the agent goes on. When the agent ends, its exit code is this command's.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id [default: the sandbox of the repository here]
    pub(crate) name: Option<String>,
    /// The agent in the worktree of this branch
    #[arg(long, value_name = "BRANCH")]
    pub(crate) worktree: Option<String>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    if !terminal::is_interactive() {
        return Err(Failure::usage(
            "attach needs a terminal, and this is none",
            "what the agent did is shown by: palisade agent log, palisade agent diff",
        ));
    }
    let worktree = arguments.worktree.as_deref().map(BranchName::new).transpose();
    let worktree =
        worktree.map_err(|error| Failure::usage(error.to_string(), "for example: feature/login"))?;
    let session = start::session(worktree.as_ref())?;
    let sandbox = chosen(&service(context)?, arguments.name.as_deref()).await?;
    let connection = context.engine.connect(sandbox.row.id().as_str()).await?;
    match connection.join(session.as_str(), terminal::size(), UnseenEnd::Show).await? {
        Some(streams) => attach::look(context, &connection, &session, streams).await,
        None => Err(nobody(context, &connection, session.as_str()).await?),
    }
}

/// There is no agent to look at; says what became of the last one.
async fn nobody(context: &Context, connection: &Connection, session: &str) -> Result<Failure, Failure> {
    let name = &connection.row.name;
    let (_, records) = context.engine.session_records(connection.row.id().as_str()).await?;
    let last = records.iter().find(|record| record.name == session).and_then(|record| record.end.as_ref());
    let last = last.map(|end| format!("; the last one {}", sessions::ended(end)));
    Ok(Failure::Told {
        code: "session-not-found",
        exit: ExitCode::NotFound,
        message: format!(
            "no agent is at work in session '{session}' of sandbox '{name}'{}",
            last.unwrap_or_default()
        ),
        hints: vec![format!(
            "start one with: palisade agent start --name {name}; --resume goes on with its last conversation"
        )],
    })
}
