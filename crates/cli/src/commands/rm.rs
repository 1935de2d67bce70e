//! `palisade rm`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};

/// Remove a sandbox and everything in it
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Names or ids
    #[arg(required = true)]
    pub(crate) names: Vec<String>,
    /// Stop it first if it runs
    #[arg(long, short)]
    pub(crate) force: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let mut first = None;
    // One that cannot be removed does not keep the others.
    for name in &arguments.names {
        if let Err(error) = context.engine.remove(name, arguments.force).await {
            let status = Failure::from(error).report();
            first.get_or_insert(status);
        }
    }
    Ok(first.unwrap_or(OK))
}
