//! `palisade exec`.

use super::attach::{look, way_back};
use crate::arguments::{EnvironmentFlags, SessionName};
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{OK, Status, output, telemetry, terminal};
use palisade_core::ExitCode;
use palisade_engine::{Connection, SessionStart};
use palisade_protocol::ExecRequest;
use std::ffi::OsString;

/// Run a command in a running sandbox
///
/// The exit code is the command's own. The command ends when this program does, unless it is a session.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pass standard input on
    #[arg(short = 'i', long)]
    pub(crate) interactive: bool,
    /// With a terminal
    #[arg(short = 't', long)]
    pub(crate) tty: bool,
    /// As a new session of this name, which has a terminal of its own and outlives this program
    #[arg(long, value_name = "SESSION", conflicts_with = "interactive")]
    pub(crate) session: Option<SessionName>,
    /// Start the session and leave it running
    #[arg(long, requires = "session", conflicts_with = "tty")]
    pub(crate) detach: bool,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// Name or id
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    let attached = arguments.session.is_some() && !arguments.detach;
    if (arguments.tty || attached) && !terminal::is_interactive() {
        let (flag, hint) = match attached {
            true => ("--session", "add --detach, or use it from a terminal"),
            false => ("-t", "leave -t out, or use it from a terminal"),
        };
        return Err(Failure::usage(format!("{flag} needs a terminal, and this is none"), hint));
    }
    let variables = relay::variables(&arguments.environment.env)?;
    let connection = context.engine.connect(&arguments.name).await?;
    let variables = super::agent::variables(&connection, variables).await?;
    let tty = if arguments.tty || arguments.session.is_some() { Tty::Yes } else { Tty::No };
    let input = if arguments.interactive || tty == Tty::Yes { Input::Relayed } else { Input::Empty };
    let call = Call { command: arguments.command, variables, input, tty };
    let command = async {
        match &arguments.session {
            None => relay::run(&connection.client, &connection.layout, &call, Signals::listen()).await,
            Some(session) => start_session(context, &connection, &call, session, arguments.detach).await,
        }
    };
    let row = &connection.row;
    let ended = telemetry::exec((row.spec.method, row.id(), Some(&row.name)), tty == Tty::Yes, command).await;
    let status = context.unless_lost(row, ended).await?;
    if status == relay::KILLED {
        let killed = context.engine.memory_kills(row).await;
        if killed > 0 {
            relay::warn_of_memory(row.spec.policy.resources.memory.value, killed);
        }
    }
    Ok(status)
}

async fn start_session(
    context: &Context,
    connection: &Connection,
    call: &Call,
    session: &SessionName,
    detach: bool,
) -> Result<Status, Failure> {
    let back = way_back(connection.row.name.as_str(), session);
    let request = ExecRequest { detached: detach, ..call.request(&connection.layout) };
    match connection.start_session(session.as_str(), request).await? {
        SessionStart::Started(_) if detach => {
            output::note(&format!("session '{session}' runs; look at it with: {back}"));
            Ok(OK)
        }
        SessionStart::Started(streams) => look(context, connection, session, streams).await,
        SessionStart::Running => Err(Failure::Told {
            code: "session-exists",
            exit: ExitCode::Conflict,
            message: format!("session '{session}' of sandbox '{}' is running", connection.row.name),
            hints: vec![format!("attach to it with: {back}; or choose another name")],
        }),
        SessionStart::Refused(refusal) => {
            Ok(relay::refused(&call.program(), &connection.layout.directory, &refusal))
        }
    }
}
