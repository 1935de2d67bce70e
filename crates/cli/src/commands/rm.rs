//! `palisade rm`.

use super::agent;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status};
use palisade_engine::RemoveMode;

/// Remove sandboxes and everything in them
///
/// A sandbox in which an agent works, or has left work that is not in your branches and files, is refused: see
/// `palisade agent rm`.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Names or ids
    #[arg(required_unless_present = "discard")]
    pub(crate) names: Vec<String>,
    /// Also one that runs; an agent's work is archived first
    #[arg(long, short)]
    pub(crate) force: bool,
    /// Remove this sandbox even if an agent's work in it cannot be archived
    #[arg(long, value_name = "NAME")]
    pub(crate) discard: Option<String>,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    if let Some(discard) = &arguments.discard
        && arguments.names.iter().any(|name| name != discard)
    {
        return Err(Failure::usage(
            format!("--discard names '{}', and that is not the sandbox", palisade_core::printable(discard)),
            "give up one sandbox at a time: palisade rm --discard NAME",
        ));
    }
    let mode = match (&arguments.discard, arguments.force) {
        (Some(_), _) => RemoveMode::Discard,
        (None, true) => RemoveMode::Force,
        (None, false) => RemoveMode::Careful,
    };
    let names = match arguments.names.is_empty() {
        true => arguments.discard.as_slice(),
        false => arguments.names.as_slice(),
    };
    let mut first = None;
    // One that cannot be removed does not keep the others.
    for name in names {
        match context.engine.remove(name, mode).await {
            Ok(report) => agent::rm::print(&report),
            Err(error) => {
                let status = Failure::from(error).report();
                first.get_or_insert(status);
            }
        }
    }
    Ok(first.unwrap_or(OK))
}
