//! `palisade egress log`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::printable;
use palisade_core::time::utc;
use palisade_engine::{EgressEntry, EgressOutcome, EgressWhat};
use std::fmt::Write as _;

/// What a sandbox reached, and what it was refused
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    command: Verb,
}

#[derive(Debug, clap::Subcommand)]
enum Verb {
    /// List every destination a sandbox asked for, how it was decided and how often
    Log {
        /// Name or id
        name: String,
        /// As JSON
        #[arg(long)]
        json: bool,
    },
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let Verb::Log { name, json } = &arguments.command;
    let entries = context.engine.egress_log(name)?;
    if *json {
        output::json(&entries)?;
    } else {
        output::data(&table(&entries))?;
    }
    Ok(OK)
}

fn table(entries: &[EgressEntry]) -> String {
    let mut text = String::new();
    if !entries.is_empty() {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{:<24} {:>7} {:<8} {:<40} WHY", "LAST", "COUNT", "OUTCOME", "DESTINATION");
    }
    for entry in entries {
        let outcome = match entry.outcome {
            EgressOutcome::Allowed => "allowed",
            EgressOutcome::Refused => "refused",
            EgressOutcome::Failed => "failed",
        };
        let host = printable(&entry.host);
        let destination = match (entry.what, entry.port) {
            (EgressWhat::Name, _) => format!("{host} (name)"),
            (EgressWhat::HostPort, Some(port)) => format!("host port {port}"),
            (_, Some(port)) => format!("{host}:{port}"),
            (_, None) => host,
        };
        let address = entry.address.map(|address| address.to_string()).unwrap_or_default();
        let why = entry.reason.map_or(address, |reason| reason.to_string());
        let last = utc(entry.last_at);
        let _ = writeln!(text, "{last:<24} {:>7} {outcome:<8} {destination:<40} {why}", entry.count);
    }
    text
}
