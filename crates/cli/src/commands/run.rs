//! `palisade run`: one command in a sandbox of its own, gone when the command ends.

use crate::Status;
use crate::arguments::{CopyableWorkspaceFlag, EnvironmentFlags, FoundationFlag, PolicyFlags};
use crate::context::{Context, WorkspaceMode, workspace};
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{telemetry, terminal};
use palisade_config::manifest::TimeLimit;
use palisade_core::{Access, ExitCode, Foundation, Layout, Workspace};
use palisade_engine::{OneOffEnd, OneOffRequest};
use std::ffi::OsString;

/// Run one command in a sandbox of its own
///
/// The sandbox has no network unless one is asked for, and sees nothing of the host but its programs, read-only, and what the options name.
/// It is gone when the command ends. The exit code is the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) foundation: FoundationFlag,
    /// End the command after this time, such as 90s, 10m or 2h, with exit code 8
    #[arg(long, value_name = "TIME")]
    pub(crate) timeout: Option<TimeLimit>,
    #[command(flatten)]
    pub(crate) bound: CopyableWorkspaceFlag,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// The command and its arguments [default: the environment's own]
    #[arg(required_unless_present = "environment", trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let bound = match &arguments.bound.workspace {
        Some(text) => Some(workspace(context, text)?),
        None => None,
    };
    let variables = relay::variables(&arguments.environment.env)?;
    let policy = context.policy(match bound.clone() {
        Some((host, WorkspaceMode::Bound(access))) => Workspace::Bound { host, access },
        // The engine makes the copy and binds that.
        Some((host, WorkspaceMode::Copy)) => Workspace::Bound { host, access: Access::ReadWrite },
        None => Workspace::Scratch,
    })?;
    let method = context.method();
    context.announce(method);
    context.require_guest()?;
    let foundation = context.foundation.clone();
    let command = match arguments.command {
        given if given.is_empty() => own_command(&foundation),
        given => given,
    };
    let copied = match &bound {
        Some((host, WorkspaceMode::Copy)) => Some(super::apply::survey(context, host).await?),
        _ => None,
    };
    let request = OneOffRequest { method, policy, foundation, paths: Vec::new(), identity: None, copied };
    let limit = arguments.timeout.or(context.time_limit);
    once(context, request, command, variables, limit, Layout::clone).await
}

/// What an environment starts by itself; without a command of its own the best login shell that it has.
fn own_command(foundation: &Foundation) -> Vec<OsString> {
    const LOGIN_SHELL: [&str; 3] =
        ["/bin/sh", "-c", "command -v bash >/dev/null && exec bash -l; exec sh -l"];
    match foundation.command.as_slice() {
        [] => LOGIN_SHELL.map(OsString::from).to_vec(),
        command => command.iter().map(OsString::from).collect(),
    }
}

/// Runs one command in a sandbox that is gone when the command ends, tied to our own input, output and signals.
/// `layout` may change what the command finds from what the sandbox says of itself.
pub(crate) async fn once(
    context: &Context,
    request: OneOffRequest,
    command: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    limit: Option<TimeLimit>,
    layout: impl FnOnce(&Layout) -> Layout,
) -> Result<Status, Failure> {
    let (method, memory) = (request.method, request.policy.resources.memory.value);
    let signals = Signals::listen();
    let tty = if terminal::is_interactive() { Tty::Yes } else { Tty::No };
    let input = if terminal::has_no_input() { Input::Empty } else { Input::Relayed };
    let call = Call { command, variables, input, tty };
    let (sandbox, streams) = context.engine.one_off(request, |own| call.open(&layout(own))).await?;
    let noted = super::start::note_limits(context, || async { Ok(sandbox.limits().await?) }).await;
    let command =
        relay::attend_until(overdue(limit), &sandbox.client, streams, &sandbox.layout, &call, signals);
    let outcome = telemetry::exec((method, sandbox.id(), None), tty == Tty::Yes, command).await;
    let killed = if matches!(outcome, Ok(crate::OK)) { 0 } else { sandbox.memory_kills().await };
    let ended = sandbox.end(&context.engine).await;
    // Also when the command was ended for its time: the changes are there.
    if let Ok(OneOffEnd { copy: Some(copy), .. }) = &ended {
        super::apply::note_changes(copy);
    }
    let status = outcome?;
    if killed > 0 {
        relay::warn_of_memory(memory, killed);
    }
    noted?;
    for warning in ended?.warnings {
        crate::output::warning(&warning);
    }
    Ok(status)
}

/// Comes when the command has taken too long; never when it may take any time.
async fn overdue(limit: Option<TimeLimit>) -> Failure {
    let Some(limit) = limit else { return std::future::pending().await };
    tokio::time::sleep(limit.duration()).await;
    Failure::Told {
        code: "run-timeout",
        exit: ExitCode::Timeout,
        message: format!("the command took longer than {limit} and was ended"),
        hints: vec!["give it more time with --timeout".into()],
    }
}
