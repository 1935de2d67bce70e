//! `palisade run`: one command in a sandbox of its own, gone when the command ends.

use crate::Status;
use crate::arguments::{EnvironmentFlags, PolicyFlags};
use crate::context::{Context, bound_workspace};
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{telemetry, terminal};
use palisade_core::Workspace;
use std::ffi::OsString;

/// Run one command in a sandbox of its own
///
/// The sandbox has no network and sees nothing of the host but its programs, read-only, and what the options name.
/// It is gone when the command ends. The exit code is the command's own.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) policy: PolicyFlags,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let workspace = match &arguments.policy.workspace {
        Some(text) => bound_workspace(text)?,
        None => Workspace::Scratch,
    };
    let variables = relay::variables(&arguments.environment.env)?;
    let policy = context.policy(workspace)?;
    let method = context.method();
    context.announce(method);
    context.require_guest()?;
    let signals = Signals::listen();
    let tty = if terminal::is_interactive() { Tty::Yes } else { Tty::No };
    let input = if terminal::has_no_input() { Input::Empty } else { Input::Relayed };
    let call = Call { command: arguments.command, variables, input, tty };
    let (sandbox, streams) = context.engine.one_off(method, policy, |layout| call.open(layout)).await?;
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
