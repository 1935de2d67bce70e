//! `palisade shell`.

use crate::Status;
use crate::arguments::EnvironmentFlags;
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::{telemetry, terminal};
use palisade_engine::Connection;
use palisade_protocol::client::Client;
use std::ffi::OsString;

/// Open a shell in a running sandbox
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// Name or id
    pub(crate) name: String,
}

/// The shells to try, best first; a sandbox need not have the first.
const SHELLS: [&str; 2] = ["/bin/bash", "/bin/sh"];

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    if !terminal::is_interactive() {
        return Err(Failure::usage(
            "shell needs a terminal, and this is none",
            format!(
                "to run a command: palisade exec {} -- COMMAND",
                palisade_core::printable(&arguments.name)
            ),
        ));
    }
    let variables = relay::variables(&arguments.environment.env)?;
    let connection = context.engine.connect(&arguments.name).await?;
    let variables = super::agent::variables(&connection, variables).await?;
    let command = own_shell(&connection).await;
    let call = Call { command, variables, input: Input::Relayed, tty: Tty::Yes };
    let row = &connection.row;
    let command = relay::run(&connection.client, &connection.layout, &call, Signals::listen());
    let ended = telemetry::exec((row.spec.method, row.id(), Some(&row.name)), true, command).await;
    context.unless_lost(row, ended).await
}

/// What the sandbox's environment starts by itself, else a login shell.
pub(crate) async fn own_shell(connection: &Connection) -> Vec<OsString> {
    match connection.row.spec.foundation.command.as_slice() {
        [] => login_shell(&connection.client).await,
        command => command.iter().map(OsString::from).collect(),
    }
}

/// The command for the best login shell that the sandbox has.
async fn login_shell(client: &Client) -> Vec<OsString> {
    let [first, second] = SHELLS;
    let present = client.exec_collect(relay::probe(first), 4096).await.is_ok();
    let shell = if present { first } else { second };
    vec![shell.into(), "-l".into()]
}
