//! `palisade env …`: environments, what they are made of, whether a file is a good one, and their images.

pub(crate) mod build;
pub(crate) mod check;
pub(crate) mod ls;
pub(crate) mod show;

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};

/// Look at environments: what sandboxes can be made from
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    Ls(ls::Arguments),
    Show(show::Arguments),
    Check(check::Arguments),
    Build(build::Arguments),
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    match &arguments.command {
        Command::Ls(arguments) => ls::run(context, arguments),
        Command::Show(arguments) => show::run(context, arguments),
        Command::Check(arguments) => check::run(context, arguments),
        Command::Build(arguments) => build::run(context, arguments).await,
    }?;
    Ok(OK)
}
