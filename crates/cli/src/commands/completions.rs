//! `palisade completions`.

use crate::arguments::Cli;
use crate::failure::Failure;
use crate::{OK, Status, output};
use clap::CommandFactory;

/// Print a completion script for a shell
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    pub(crate) shell: clap_complete::Shell,
}

pub(crate) fn run(arguments: &Arguments) -> Result<Status, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(arguments.shell, &mut Cli::command(), "palisade", &mut script);
    output::data(&String::from_utf8_lossy(&script))?;
    Ok(OK)
}
