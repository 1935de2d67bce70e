//! `palisade attach`.

use super::shell::own_shell;
use crate::arguments::{EnvironmentFlags, SessionName};
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::view::{self, Left};
use crate::{OK, Status, output, terminal};
use palisade_core::printable;
use palisade_engine::{Connection, EngineError, SessionStart, Streams, UnseenEnd};
use palisade_protocol::client::ClientError;
use std::ffi::OsString;

/// Attach this terminal to a session of a running sandbox
///
/// A session is a terminal inside that outlives whoever looks at it. One that is not there yet is started with
/// COMMAND, else with that of its environment, or a login shell. Several terminals may be attached to one session.
///
/// Ctrl-\ then d detaches, and the session goes on; Ctrl-\ twice types Ctrl-\ (see attach.detach_keys in the
/// configuration). When the session ends, its exit code is this command's.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name of the session
    #[arg(long, value_name = "SESSION", default_value = SessionName::MAIN)]
    pub(crate) session: SessionName,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// Name or id
    pub(crate) name: String,
    /// The command and its arguments, for a session that is not there yet
    #[arg(trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    if !terminal::is_interactive() {
        return Err(Failure::usage(
            "attach needs a terminal, and this is none",
            format!(
                "to start a session without looking at it: palisade exec {} --session {} --detach -- COMMAND",
                printable(&arguments.name),
                arguments.session
            ),
        ));
    }
    let variables = relay::variables(&arguments.environment.env)?;
    let connection = context.engine.connect(&arguments.name).await?;
    let unseen = if arguments.command.is_empty() { UnseenEnd::Show } else { UnseenEnd::Forget };
    let mut call =
        Call { command: arguments.command, variables: Vec::new(), input: Input::Relayed, tty: Tty::Yes };
    let session = &arguments.session;
    // Others may start and end the same session at the same time; whoever comes second joins.
    for _ in 0..ATTEMPTS {
        if let Some(streams) = connection.join(session.as_str(), terminal::size(), unseen).await? {
            return look(context, &connection, session, streams).await;
        }
        // Only what begins here finds what the files say now.
        call.variables = super::agent::variables(&connection, variables.clone()).await?;
        if call.command.is_empty() {
            call.command = own_shell(&connection).await;
        }
        match connection.start_session(session.as_str(), call.request(&connection.layout)).await? {
            SessionStart::Started(streams) => return look(context, &connection, session, streams).await,
            SessionStart::Refused(refusal) => {
                return Ok(relay::refused(&call.program(), &connection.layout.directory, &refusal));
            }
            SessionStart::Running => {}
        }
    }
    Err(EngineError::from(ClientError::Closed).into())
}

const ATTEMPTS: usize = 16;

/// Shows the session, and says on the way out what became of it.
pub(crate) async fn look(
    context: &Context,
    connection: &Connection,
    session: &SessionName,
    streams: Streams,
) -> Result<Status, Failure> {
    let keys = context.settings.detach_keys.value;
    let left = view::view(streams, keys, Signals::listen()).await;
    match context.unless_lost(&connection.row, left).await? {
        Left::Ended(exit) => {
            output::note(&format!("session '{session}' has ended ({})", super::sessions::ending(exit)));
            Ok(exit.status())
        }
        Left::Detached => {
            let back = way_back(connection.row.name.as_str(), session);
            output::note(&format!("\nsession '{session}' goes on; come back with: {back}"));
            Ok(OK)
        }
        Left::Told(status) => Ok(status),
    }
}

/// The command that shows a session again.
pub(crate) fn way_back(sandbox: &str, session: &SessionName) -> String {
    match session.as_str() {
        SessionName::MAIN => format!("palisade attach {sandbox}"),
        other => format!("palisade attach {sandbox} --session {other}"),
    }
}
