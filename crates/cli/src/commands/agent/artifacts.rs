//! `palisade agent sync --artifacts`: what is asked for, and how what came of it is told.

use super::sync::{SyncedAutorun, few, shown, warn_of_autorun};
use super::told::Teller;
use crate::commands::cp;
use crate::context::Context;
use crate::failure::Failure;
use crate::output;
use palisade_agents::{AgentSandbox, AgentService, Artifacts, ArtifactsRequest};
use palisade_core::printable;
use palisade_engine::Skipped;
use palisade_workspace::{ArtifactPath, BranchSelection};
use serde::Serialize;
use std::path::PathBuf;

/// What came of one working tree, as `--json` tells it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct SyncedArtifacts {
    branch: String,
    /// The working tree they went to; null while that branch is checked out nowhere, and then nothing came.
    place: Option<String>,
    /// Files that are new or have changed.
    files: u64,
    /// Links that are new or have changed.
    links: u64,
    /// Bytes of those files.
    bytes: u64,
    /// Files and links that lay there already.
    same: u64,
    /// Files that git carries, which come with the commits.
    tracked: u64,
    /// Files of yours that stayed as they are, at most a thousand of them.
    kept: Vec<String>,
    kept_in_all: u64,
    /// What cannot come, at most a thousand of it.
    left_out: Vec<Skipped>,
    left_out_in_all: u64,
    /// Those among them that run by themselves.
    autorun: Vec<SyncedAutorun>,
}

impl SyncedArtifacts {
    pub(super) fn new(artifacts: &Artifacts) -> Self {
        let brought = &artifacts.brought;
        Self {
            branch: printable(artifacts.branch.as_str()),
            place: artifacts.place.as_ref().map(ToString::to_string),
            files: brought.files,
            links: brought.links,
            bytes: brought.bytes,
            same: brought.same,
            tracked: brought.tracked,
            kept: brought.kept.iter().map(|path| shown(path)).collect(),
            kept_in_all: brought.kept_in_all,
            left_out: brought.left_out.clone(),
            left_out_in_all: brought.left_out_in_all,
            autorun: brought.autorun.iter().map(SyncedAutorun::new).collect(),
        }
    }
}

/// Before anything is done.
pub(super) fn paths(given: &[PathBuf]) -> Result<Vec<ArtifactPath>, Failure> {
    let path = |path: &PathBuf| {
        ArtifactPath::new(path).map_err(|why| {
            let message = format!("{} cannot be brought: {why}", shown(path));
            let hint = "name files or directories from the top of the working tree, such as target/release; \
                        no name at all means all that git ignores";
            Failure::usage(message, hint)
        })
    };
    given.iter().map(path).collect()
}

pub(super) async fn bring(
    context: &Context,
    service: &AgentService<'_>,
    sandbox: &AgentSandbox,
    selection: BranchSelection,
    paths: Vec<ArtifactPath>,
) -> Result<Vec<Artifacts>, Failure> {
    let mut teller = Teller::new();
    let request = ArtifactsRequest { selection, paths, limits: cp::limits(context) };
    Ok(service.artifacts(sandbox, &request, |progress| teller.progress(&progress)).await?)
}

pub(super) fn tell(sandbox: &AgentSandbox, artifacts: &Artifacts) {
    const SHOWN: usize = 10;
    let (branch, brought) = (printable(artifacts.branch.as_str()), &artifacts.brought);
    let Some(place) = &artifacts.place else {
        output::warning(&format!("{branch}: its artifacts wait: you have that branch checked out nowhere"));
        output::note(&format!(
            "  next: git switch {branch}, or git worktree add PATH {branch}; then palisade agent sync {} --artifacts",
            sandbox.name()
        ));
        return;
    };
    let count = |count: u64, noun: &str| format!("{count} {noun}{}", if count == 1 { "" } else { "s" });
    let mut parts = vec![count(brought.files, "artifact") + &format!(", {} bytes", brought.bytes)];
    if brought.links > 0 {
        parts.push(count(brought.links, "link"));
    }
    if brought.same > 0 {
        parts.push(format!("{} there already", brought.same));
    }
    if brought.tracked > 0 {
        parts.push(format!("{} left to git, which carries them", brought.tracked));
    }
    let place = printable(&place.as_path().to_string_lossy());
    output::note(&format!("{branch}: {} in {place}", parts.join(", ")));
    if brought.kept_in_all > 0 {
        let kept = few(&brought.kept, brought.kept_in_all);
        output::warning(&format!("{branch}: these are yours and stay as they are: {kept}"));
        output::note(&format!(
            "  next: move them away, then palisade agent sync {} --artifacts",
            sandbox.name()
        ));
    }
    for left in brought.left_out.iter().take(SHOWN) {
        // The sandbox's own complaints name their file themselves.
        let what =
            if left.path.is_empty() { left.why.clone() } else { format!("{}: {}", left.path, left.why) };
        output::warning(&format!("{branch}: left out {what}"));
    }
    if brought.left_out_in_all > SHOWN as u64 {
        output::note(&format!("  and {} more", brought.left_out_in_all - SHOWN as u64));
    }
    warn_of_autorun(&branch, &brought.autorun);
}
