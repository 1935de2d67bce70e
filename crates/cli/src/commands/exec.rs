//! `palisade exec`.

use crate::Status;
use crate::arguments::EnvironmentFlags;
use crate::context::Context;
use crate::failure::Failure;
use crate::relay::{self, Call, Input, Signals, Tty};
use crate::terminal;
use std::ffi::OsString;

/// Run a command in a running sandbox
///
/// The exit code is the command's own. The command ends when this program does.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Pass standard input on
    #[arg(short = 'i', long)]
    pub(crate) interactive: bool,
    /// With a terminal
    #[arg(short = 't', long)]
    pub(crate) tty: bool,
    #[command(flatten)]
    pub(crate) environment: EnvironmentFlags,
    /// Name or id
    pub(crate) name: String,
    /// The command and its arguments
    #[arg(required = true, trailing_var_arg = true, value_name = "COMMAND")]
    pub(crate) command: Vec<OsString>,
}

pub(crate) async fn run(context: &Context, arguments: Arguments) -> Result<Status, Failure> {
    if arguments.tty && !terminal::is_interactive() {
        return Err(Failure::usage(
            "-t needs a terminal, and this is none",
            "leave -t out, or use it from a terminal",
        ));
    }
    let variables = relay::variables(&arguments.environment.env)?;
    let connection = context.engine.connect(&arguments.name).await?;
    let input = if arguments.interactive || arguments.tty { Input::Relayed } else { Input::Empty };
    let tty = if arguments.tty { Tty::Yes } else { Tty::No };
    let call = Call { command: arguments.command, variables, input, tty };
    relay::run(&connection.client, &connection.layout, &call, Signals::listen()).await
}
