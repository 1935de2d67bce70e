//! `palisade stop`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_engine::StopOutcome;
use std::time::Duration;

/// Stop a sandbox; its home and workspace stay
///
/// An agent's work is archived first, for at most 20 seconds: see `palisade agent history`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
    /// Seconds for the processes inside to end by themselves
    #[arg(long, default_value_t = 5, value_name = "SECONDS", value_parser = clap::value_parser!(u64).range(0..=3600))]
    pub(crate) grace: u64,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let row = context.engine.store()?.find(&arguments.name)?;
    let since = crate::context::now();
    let report = context.engine.stop(&arguments.name, Duration::from_secs(arguments.grace)).await?;
    for notice in context.engine.notices(row.id(), since)? {
        output::warning(&notice);
    }
    if let Some(reason) = &report.not_archived {
        output::warning(&format!("its work is not archived: {reason}"));
        output::note(&format!(
            "  it stays in the sandbox; to start it again and bring it: palisade agent sync {}",
            row.name
        ));
    }
    if report.outcome == StopOutcome::AlreadyStopped {
        output::note(&format!("{} is not running", palisade_core::printable(&arguments.name)));
    }
    Ok(OK)
}
