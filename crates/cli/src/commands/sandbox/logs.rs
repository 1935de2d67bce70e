//! `palisade sandbox logs`.

use crate::failure::Failure;
use crate::output;
use palisade_core::HostPath;
use palisade_provision::{LogRange, Provisioner};

/// How much of the past is shown before what comes.
const BEFORE: usize = 100;

/// Show what the services of the worktree here say
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Only this service
    pub(crate) service: Option<String>,
    /// Go on with what is said from now
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only so many of the last lines
    #[arg(long, value_name = "LINES")]
    pub(crate) tail: Option<usize>,
}

pub(crate) async fn run(
    provisioner: &Provisioner,
    here: &HostPath,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let range = match (arguments.follow, arguments.tail) {
        (true, last) => LogRange::Follow { last: last.unwrap_or(BEFORE) },
        (false, Some(last)) => LogRange::Last(last),
        (false, None) => LogRange::All,
    };
    let services: Vec<String> = arguments.service.iter().cloned().collect();
    let mut written = Ok(());
    let line = |line: String| {
        if written.is_ok() {
            written = output::data(&format!("{line}\n"));
        }
    };
    provisioner.logs(here, &services, range, line).await?;
    written
}
