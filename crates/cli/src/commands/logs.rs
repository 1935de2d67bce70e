//! `palisade logs`: what happened to a sandbox, for people and as a line of JSON each.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{Event, printable, time};
use palisade_store::StoredEvent;
use std::io::{Read, Seek, SeekFrom};

/// Show what happened to a sandbox
///
/// One line per event, oldest first, in UTC: its states, limits that are not enforced, recoveries, and what it left to
/// look at. The newest 1000 events of a sandbox are kept until it is removed.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
    /// Go on with what happens from now, until the sandbox is removed
    #[arg(long, short)]
    pub(crate) follow: bool,
    /// Only what is newer: 30s, 10m, 2h, 7d ago, or a moment such as 2026-11-15T22:00:00Z
    #[arg(long, value_name = "WHEN")]
    pub(crate) since: Option<String>,
    /// One JSON object per line
    #[arg(long)]
    pub(crate) json: bool,
    /// The end of the keeper's own log instead
    #[arg(long, conflicts_with_all = ["follow", "since", "json"])]
    pub(crate) keeper: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    if arguments.keeper {
        return keeper_log(context, &arguments.name);
    }
    let since = arguments.since.as_deref().map_or(Ok(i64::MIN), moment)?;
    let mut events = context.engine.events(&arguments.name, since)?;
    tell(&events.told_now()?, arguments)?;
    if arguments.follow {
        while let Some(more) = events.next().await? {
            tell(&more, arguments)?;
        }
    }
    Ok(OK)
}

fn tell(events: &[StoredEvent], arguments: &Arguments) -> Result<(), Failure> {
    for event in events {
        let line = match arguments.json {
            true => serde_json::to_string(event)
                .map_err(|error| Failure::internal(format!("cannot write JSON: {error}")))?,
            false => format!("{}  {}", time::utc(event.at), printable(&describe(&event.event))),
        };
        output::data(&format!("{line}\n"))?;
    }
    Ok(())
}

fn describe(event: &Event) -> String {
    match event {
        Event::State { from, to, reason: None } => format!("{from} -> {to}"),
        Event::State { from, to, reason: Some(reason) } => format!("{from} -> {to}: {reason}"),
        Event::LimitNotEnforced { limit, why } => format!("the {limit} limit is not enforced: {why}"),
        Event::ProtocolViolation { detail } => format!("the guest broke the protocol: {detail}"),
        Event::Notice { text } => text.clone(),
        Event::EgressRefused { what, reason } => format!("the network policy refused {what}: {reason}"),
        Event::Synced { trigger, refs } => {
            let names: Vec<&str> = refs.iter().map(|moved| moved.name.as_str()).collect();
            format!("synced ({trigger}): {}", names.join(", "))
        }
        Event::SyncFailed { trigger, reason } => format!("sync failed ({trigger}): {reason}"),
        Event::Recovered { what } => format!("recovered: {what}"),
    }
}

/// Unix milliseconds.
fn moment(text: &str) -> Result<i64, Failure> {
    let ago = |milliseconds: i64| crate::context::now().saturating_sub(milliseconds);
    let unit = |letter: char| match letter {
        's' => Some(1_000),
        'm' => Some(60_000),
        'h' => Some(3_600_000),
        'd' => Some(86_400_000),
        _ => None,
    };
    let span = || {
        let letter = text.chars().last()?;
        let number: i64 = text.strip_suffix(letter)?.parse().ok().filter(|number| *number >= 0)?;
        number.checked_mul(unit(letter)?)
    };
    span().map(ago).or_else(|| time::parse(text)).ok_or_else(|| {
        Failure::usage(
            format!("'{}' is no moment", printable(text)),
            "give a time span such as 10m, or a moment such as 2026-11-15T22:00:00Z",
        )
    })
}

/// The last part of what the keeper said, as it may be shown.
fn keeper_log(context: &Context, name: &str) -> Result<Status, Failure> {
    const MOST: u64 = 64 * 1024;
    let Some(path) = context.engine.keeper_log(name)? else {
        output::note("there is no log of a keeper: it was never started");
        return Ok(OK);
    };
    let read = || -> std::io::Result<Vec<u8>> {
        let mut file = std::fs::File::open(&path)?;
        let skipped = file.metadata()?.len().saturating_sub(MOST);
        file.seek(SeekFrom::Start(skipped))?;
        let mut bytes = Vec::new();
        file.take(MOST).read_to_end(&mut bytes)?;
        Ok(bytes)
    };
    let bytes = read().map_err(|error| Failure::failed("io", format!("cannot read {path}: {error}")))?;
    for line in String::from_utf8_lossy(&bytes).lines() {
        output::data(&format!("{}\n", printable(line)))?;
    }
    Ok(OK)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_moment_is_a_span_ago_or_a_time() {
        let now = crate::context::now();
        let ago = now - moment("2h").unwrap();
        assert!((7_199_000..=7_201_000).contains(&ago), "{ago}");
        assert_eq!(moment("2023-11-14T22:13:20Z").unwrap(), 1_700_000_000_000);
        for bad in ["", "2", "h", "-2h", "2w", "yesterday", "9999999999999d", "2023-11-14"] {
            assert!(moment(bad).is_err(), "{bad:?}");
        }
    }
}
