//! The hidden command behind a wrapper's script: as `run`, with everything from the wrapper's record.

use crate::Status;
use crate::context::Context;
use crate::failure::Failure;
use palisade_engine::wrapper::Wrapper;
use std::ffi::OsString;
use std::path::PathBuf;

/// Run a wrapper's command
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// The wrapper's own directory
    pub(crate) directory: PathBuf,
    /// The caller's arguments
    #[arg(trailing_var_arg = true, allow_hyphen_values = true)]
    pub(crate) arguments: Vec<OsString>,
}

pub(crate) async fn run(
    context: &Context,
    wrapper: &Wrapper,
    arguments: Vec<OsString>,
) -> Result<Status, Failure> {
    // Whoever reads the command's own words is not told of what was put in order before.
    context.engine.tidy().await;
    context.announce(wrapper.record.method);
    context.require_guest()?;
    let command = wrapper.command(arguments);
    let variables = wrapper.variables(|name| std::env::var_os(name));
    let layout = |own: &_| wrapper.layout(own);
    let request = context.engine.wrapped_request(wrapper)?;
    super::run::once(context, request, command, variables, None, layout).await
}
