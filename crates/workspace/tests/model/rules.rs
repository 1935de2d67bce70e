//! What must hold after every command of the product's.

use crate::contents::Contents;
use crate::look::{Look, Outcome};
use crate::memory::Memory;
use crate::template::remote_contents;
use crate::users_rules;
use crate::world::World;
use palisade_workspace::ArchiveReport;
use std::fmt::Write;

/// Findings that are printed in full.
const MAX_LINES: usize = 12;

/// Everything that is wrong after a command.
pub(crate) fn check(
    world: &World,
    outcome: &Outcome,
    (before, after): (&Look, &Look),
    memory: &Memory,
) -> Result<(), String> {
    let mut findings = kept(outcome, before, after, memory);
    findings.extend(archived(world, outcome, before, after));
    findings.extend(archives_never_move(world, before, after));
    findings.extend(agents_files_stay(outcome, before, after));
    findings.extend(users_rules::check(world, outcome, (before, after), memory));
    if findings.is_empty() {
        return Ok(());
    }
    let mut text = String::new();
    let more = findings.len().saturating_sub(MAX_LINES);
    for finding in findings.iter().take(MAX_LINES) {
        let _ = writeln!(text, "  {finding}");
    }
    if more > 0 {
        let _ = writeln!(text, "  and {more} more");
    }
    let _ = write!(text, "  outcome: {outcome:?}");
    Err(text)
}

fn lost(missing: Vec<(&str, &str)>, why: &str) -> Vec<String> {
    let mut lines: Vec<String> = missing.iter().map(|(id, place)| format!("{why}: {id}, {place}")).collect();
    lines.sort();
    lines
}

/// Every content that could be reached can still be reached, on one side or the other.
fn kept(outcome: &Outcome, before: &Look, after: &Look, memory: &Memory) -> Vec<String> {
    let mut held = Contents::default();
    held.extend(after.host.clone());
    held.extend(after.inside.clone());
    held.extend(remote_contents().clone());
    let mut missing = held.lacks(&before.host);
    // A replay of commits that were archived can be made again, with the files that it merges.
    missing.retain(|(id, _)| !memory.made.contains(*id));
    let mut lines = lost(missing, "lost");
    // Given up by name.
    if matches!(outcome, Outcome::Discarded) {
        return lines;
    }
    lines.extend(lost(held.lacks(&before.inside), "lost"));
    lines
}

/// What was inside is on the host once it was archived, or is named as left out.
fn archived(world: &World, outcome: &Outcome, before: &Look, after: &Look) -> Vec<String> {
    let report = match outcome {
        Outcome::Started { archived, .. } if before.agent.is_some() => archived,
        Outcome::Synced(report) => &report.archived,
        Outcome::Archived(report) | Outcome::Removed(report) => report,
        _ => return Vec::new(),
    };
    let mut missing = after.host.lacks(&before.inside);
    missing.retain(|(id, _)| !remote_contents().reached.contains(*id));
    let mut lines = lost(unnamed(missing, &named(world, names(report))), "not archived and not named");
    // Nothing that these agents make is broken.
    let nested = report.nested.iter().flat_map(|nested| &nested.outcome.refused);
    lines.extend(report.main.refused.iter().chain(nested).map(|refused| format!("refused: {refused:?}")));
    lines
}

/// Paths in the workspace as they stand in places.
fn named<'a>(world: &World, names: impl Iterator<Item = &'a str>) -> Vec<String> {
    names.map(|name| world.inside().join(name).display().to_string()).collect()
}

fn unnamed<'a>(missing: Vec<(&'a str, &'a str)>, named: &[String]) -> Vec<(&'a str, &'a str)> {
    let is_named = |place: &str| named.iter().any(|name| place.contains(name.as_str()));
    missing.into_iter().filter(|(_, place)| !is_named(place)).collect()
}

/// What an archive names as left out, by paths in the workspace.
fn names(report: &ArchiveReport) -> impl Iterator<Item = &str> {
    report.left_out.iter().map(|left_out| left_out.path.as_str())
}

/// Archives stay where they are, and new ones go by the id of the sandbox.
fn archives_never_move(world: &World, before: &Look, after: &Look) -> Vec<String> {
    let is_archive = |name: &&String| name.starts_with("refs/palisade/archive/");
    let (old, new) = (&before.user.refs, &after.user.refs);
    let moved = old.keys().filter(is_archive).filter(|name| old.get(*name) != new.get(*name));
    let moved = moved.map(|name| format!("the archive {name} has moved"));
    // A removal is over when the next sandbox has its id.
    let ids = world.recent_refs().map(|refs| format!("refs/palisade/archive/{}/", refs.id()));
    let is_ours = |name: &&String| ids.iter().any(|id| name.starts_with(id.as_str()));
    let foreign = new.keys().filter(is_archive).filter(|name| !old.contains_key(*name) && !is_ours(name));
    moved.chain(foreign.map(|name| format!("the archive {name} is not the sandbox's"))).collect()
}

/// Only a start changes something inside, or a removal.
fn agents_files_stay(outcome: &Outcome, before: &Look, after: &Look) -> Vec<String> {
    let may_change = matches!(outcome, Outcome::Started { .. } | Outcome::Removed(_) | Outcome::Discarded);
    match may_change || before.agent == after.agent {
        true => Vec::new(),
        false => vec![format!(
            "the agent's files, index or refs have changed: {:?} {:?}",
            before.agent, after.agent
        )],
    }
}
