//! `palisade run`: one command in a sandbox of its own, gone when the command ends.

use crate::Status;
use crate::arguments::{EnvironmentFlags, PolicyFlags, WorkspaceFlag};
use crate::context::{Context, bound_workspace};
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{telemetry, terminal};
use palisade_core::{Foundation, Layout, Workspace};
use palisade_engine::OneOffRequest;
use std::ffi::OsString;

/// Run one command in a sandbox of its own
///
/// The sandbox has no network unless one is asked for, and sees nothing of the host but its programs, read-only, and what the options name.
/// It is gone when the command ends. The exit code is the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) bound: WorkspaceFlag,
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let workspace = match &arguments.bound.workspace {
        Some(text) => bound_workspace(text)?,
        None => Workspace::Scratch,
    };
    let variables = relay::variables(&arguments.environment.env)?;
    let policy = context.policy(workspace)?;
    let method = context.method();
    context.announce(method);
    context.require_guest()?;
    let request = OneOffRequest { method, policy, foundation: Foundation::default(), identity: None };
    once(context, request, arguments.command, variables, Layout::clone).await
}

/// Runs one command in a sandbox that is gone when the command ends, tied to our own input, output and signals.
/// `layout` may change what the command finds from what the sandbox says of itself.
pub(crate) async fn once(
    context: &Context,
    request: OneOffRequest,
    command: Vec<OsString>,
    variables: Vec<(OsString, OsString)>,
    layout: impl FnOnce(&Layout) -> Layout,
) -> Result<Status, Failure> {
    let method = request.method;
    let signals = Signals::listen();
    let tty = if terminal::is_interactive() { Tty::Yes } else { Tty::No };
    let input = if terminal::has_no_input() { Input::Empty } else { Input::Relayed };
    let call = Call { command, variables, input, tty };
    let (sandbox, streams) = context.engine.one_off(request, |own| call.open(&layout(own))).await?;
    let noted = super::start::note_limits(context, || async { Ok(sandbox.limits().await?) }).await;
    let command = relay::attend(streams, &sandbox.layout, &call, signals);
    let outcome = telemetry::exec((method, sandbox.id(), None), tty == Tty::Yes, command).await;
    let ended = sandbox.end().await;
    let status = outcome?;
    noted?;
    for warning in ended? {
        crate::output::warning(&warning);
    }
    Ok(status)
}
