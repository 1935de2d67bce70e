//! `palisade config`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};

/// Look at the settings
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Action,
}

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Action {
    /// Show every setting as it is in force here
    Show {
        /// With where each value comes from
        #[arg(long)]
        origin: bool,
        /// As JSON, always with the origin
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let Action::Show { origin, json } = arguments.command;
    let entries = context.settings.entries();
    if json {
        output::json(&entries)?;
        return Ok(OK);
    }
    let mut rows = Vec::new();
    for entry in &entries {
        let mut row = vec![entry.key.to_owned(), palisade_core::printable(&entry.value)];
        if origin {
            row.push(entry.origin.to_string());
        }
        rows.push(row);
    }
    let header: &[&str] = if origin { &["KEY", "VALUE", "ORIGIN"] } else { &["KEY", "VALUE"] };
    output::data(&output::table(header, &rows))?;
    Ok(OK)
}
