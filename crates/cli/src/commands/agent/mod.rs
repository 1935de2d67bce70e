//! `palisade agent …`: coding agents at work on a repository, each in a sandbox of its own.

mod artifacts;
mod attach;
pub(crate) mod background;
pub(crate) mod history;
mod install;
pub(crate) mod log;
pub(crate) mod ls;
pub(crate) mod rm;
mod start;
pub(crate) mod sync;
mod told;
mod work;
mod worktree;

use super::{exec, stop};
use crate::Status;
use crate::arguments::GlobalFlags;
use crate::context::{self, Context, Said};
use crate::failure::Failure;
use palisade_agents::{AgentSandbox, AgentService, AgentWork, BoundGit};
use palisade_core::{ExitCode, HostPath, Secret, printable};
use palisade_engine::Connection;
use palisade_workspace::{Git, TransferLimits};
use std::ffi::OsString;
use std::time::Duration;

/// Run coding agents on a repository, each in a sandbox, and bring their work back
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Start(Box<start::Arguments>),
    Install(install::Arguments),
    Sync(sync::Arguments),
    Ls(ls::Arguments),
    Attach(attach::Arguments),
    Exec(exec::Arguments),
    Diff(work::Arguments),
    Log(log::Arguments),
    Stop(stop::Arguments),
    Rm(rm::Arguments),
    History(history::Arguments),
    Worktree(worktree::Arguments),
}

/// A transfer has to go on at least this often, and four times in all that it may take.
const SILENCE: Duration = Duration::from_secs(120);

/// The hidden command that a keeper runs.
pub(crate) const BACKGROUND: &str = "__sync";

/// `start` makes a policy, so the project's settings count; the others are about sandboxes that exist.
pub(crate) fn surroundings(global: &GlobalFlags, arguments: &Arguments) -> Result<Context, Failure> {
    match &arguments.command {
        Command::Start(start) => {
            let (_, directory) = start.target()?;
            let said = Said::of(&start.policy, Some(&start.foundation));
            let said = Said { sync: start.sync.as_deref(), ..said };
            let context = Context::with_project_of(global, said, directory)?;
            context.with_method_of_infra(directory)?.made_from(Some(&start.foundation), directory)
        }
        _ => Context::without_project(global),
    }
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    match arguments.command {
        Command::Start(arguments) => start::run(context, *arguments).await,
        Command::Install(arguments) => install::run(&arguments),
        Command::Sync(arguments) => sync::run(context, &arguments).await,
        Command::Ls(arguments) => ls::run(context, &arguments),
        Command::Attach(arguments) => attach::run(context, &arguments).await,
        Command::Exec(arguments) => exec::run(context, arguments).await,
        Command::Diff(arguments) => work::run(context, &arguments).await,
        Command::Log(arguments) => log::run(context, &arguments).await,
        Command::Stop(arguments) => stop::run(context, &arguments).await,
        Command::Rm(arguments) => rm::run(context, &arguments).await,
        Command::History(arguments) => history::run(context, &arguments).await,
        Command::Worktree(arguments) => worktree::run(context, &arguments).await,
    }
}

/// How much a sandbox may send, and how long that may take.
pub(crate) fn limits(settings: &palisade_config::Settings) -> TransferLimits {
    let time = settings.max_fetch_time.value.0;
    TransferLimits { bytes: settings.max_fetch.value.0, silence: (time / 4).min(SILENCE), time }
}

/// What the engine asks about work in sandboxes.
pub(crate) fn work(settings: &palisade_config::Settings) -> AgentWork {
    AgentWork { git: context::git(), limits: limits(settings), here: here().ok() }
}

/// Repositories in directories of the host's that sandboxes write.
pub(crate) fn bound(settings: &palisade_config::Settings, state: HostPath, git: Git) -> BoundGit {
    BoundGit { git, limits: limits(settings), state }
}

pub(crate) fn service(context: &Context) -> Result<AgentService<'_>, Failure> {
    let limits = limits(&context.settings);
    Ok(AgentService { engine: &context.engine, git: context::git(), limits, here: here().ok() })
}

/// For a command in a sandbox that may be an agent's: what the files beside the code say, then what the user says.
pub(crate) async fn variables(
    connection: &Connection,
    given: Vec<(OsString, OsString)>,
) -> Result<Vec<(OsString, OsString)>, Failure> {
    let mut all = exposed(&palisade_agents::session_variables(connection).await?);
    all.extend(given);
    Ok(all)
}

/// As they go over the stream.
fn exposed(variables: &[(String, Secret)]) -> Vec<(OsString, OsString)> {
    variables.iter().map(|(name, secret)| (name.into(), secret.expose().into())).collect()
}

pub(crate) fn here() -> Result<HostPath, Failure> {
    let here = std::env::current_dir()
        .map_err(|error| Failure::failed("io", format!("no current directory: {error}")))?;
    HostPath::new(here).map_err(|error| Failure::failed("io", error.to_string()))
}

/// The sandbox that is meant: by name, else the one of the repository we are in.
async fn chosen(service: &AgentService<'_>, name: Option<&str>) -> Result<AgentSandbox, Failure> {
    if let Some(name) = name {
        return Ok(service.find(name)?);
    }
    let (root, mut found) = service.of_repository(&here()?).await?;
    if found.len() == 1
        && let Some(only) = found.pop()
    {
        return Ok(only);
    }
    let root = printable(&root.as_path().to_string_lossy());
    let names: Vec<&str> = found.iter().map(|sandbox| sandbox.name().as_str()).collect();
    Err(match names.as_slice() {
        [] => Failure::Told {
            code: "sandbox-not-found",
            exit: ExitCode::NotFound,
            message: format!("no agent works on {root}"),
            hints: vec!["start one: palisade agent start".into()],
        },
        several => Failure::usage(
            format!("several agents work on {root}: {}", several.join(", ")),
            "say which one by its name",
        ),
    })
}
