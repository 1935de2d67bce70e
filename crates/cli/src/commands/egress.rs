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
        /// Go on as decisions are made, a line for each that is new or counts more, until the sandbox ends
        #[arg(long, short)]
        follow: bool,
        /// As JSON; with --follow, one object per line
        #[arg(long)]
        json: bool,
    },
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let Verb::Log { name, follow, json } = &arguments.command;
    if *follow {
        return follow_log(context, name, *json).await;
    }
    let entries = context.engine.egress_log(name)?;
    if *json {
        output::json(&entries)?;
    } else {
        output::data(&table(&entries))?;
    }
    Ok(OK)
}

async fn follow_log(context: &Context, name: &str, json: bool) -> Result<Status, Failure> {
    let mut news = context.engine.egress_news(name)?;
    let mut titled = json;
    while let Some(entries) = news.next().await? {
        let text = match json {
            true => entries.iter().map(json_line).collect::<Result<String, Failure>>()?,
            false if titled => lines(&entries),
            false => table(&entries),
        };
        titled = true;
        output::data(&text)?;
    }
    Ok(OK)
}

fn json_line(entry: &EgressEntry) -> Result<String, Failure> {
    let text = serde_json::to_string(entry);
    text.map(|text| format!("{text}\n"))
        .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))
}

fn table(entries: &[EgressEntry]) -> String {
    if entries.is_empty() {
        return String::new();
    }
    let titles = format!("{:<24} {:>7} {:<8} {:<40} WHY\n", "LAST", "COUNT", "OUTCOME", "DESTINATION");
    titles + &lines(entries)
}

fn lines(entries: &[EgressEntry]) -> String {
    let mut text = String::new();
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
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{last:<24} {:>7} {outcome:<8} {destination:<40} {why}", entry.count);
    }
    text
}
