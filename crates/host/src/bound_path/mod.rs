//! Paths of the host's that a sandbox is shown: found once, recorded with what tells the place from every other, and
//! later opened without following links and compared.
//!
//! Who may have moved a place is not decided here: see `bound_paths` in the engine. A backend opens what is recorded, and
//! refuses everything else.

mod identity;
mod open;
mod resolve;

pub use open::{OpenError, OpenedPath, open_without_links};
pub use resolve::{FollowedLink, ResolvedPath, resolve};

use palisade_core::{BackendError, BoundPath, HostPath, IdentityMatch, SandboxSpec, printable};

/// A path that was just found, open.
#[derive(Debug)]
pub struct FoundPath {
    pub bound: BoundPath,
    /// The links that were followed on the way.
    pub links: Vec<FollowedLink>,
}

/// Finds what a path leads to now.
pub fn find(given: &HostPath, recorded_at: i64) -> Result<FoundPath, BackendError> {
    let resolved = resolve(given.as_path()).map_err(|error| BackendError::HostDirectory {
        path: printable(&given.to_string()),
        reason: error.to_string(),
        fix: "give a path that exists".into(),
    })?;
    let opened = open_without_links(&resolved.real).map_err(|error| changed(given, &error))?;
    let bound = BoundPath {
        given: given.clone(),
        real: resolved.real,
        identity: opened.identity().map_err(BackendError::io(format!("look at {given}")))?,
        recorded_at,
    };
    Ok(FoundPath { bound, links: resolved.links })
}

/// Opens a path of a sandbox's policy: the place that is recorded, and no other. Without a record, as for a sandbox that
/// no engine has prepared, it is whatever the path leads to.
pub fn open(spec: &SandboxSpec, given: &HostPath) -> Result<OpenedPath, BackendError> {
    let Some(bound) = spec.bound_path(given) else {
        let found = find(given, 0)?;
        return open_without_links(&found.bound.real).map_err(|error| changed(given, &error));
    };
    let opened = open_without_links(&bound.real).map_err(|error| changed(given, &error))?;
    let identity = opened.identity().map_err(BackendError::io(format!("look at {given}")))?;
    match identity.compare(&bound.identity) {
        IdentityMatch::Same => Ok(opened),
        IdentityMatch::Different | IdentityMatch::Unknown => Err(BackendError::PathChanged {
            path: printable(&given.to_string()),
            reason: "another directory has taken its place".into(),
        }),
    }
}

fn changed(given: &HostPath, error: &OpenError) -> BackendError {
    let path = printable(&given.to_string());
    match error {
        OpenError::Link { .. } => BackendError::PathChanged { path, reason: error.to_string() },
        OpenError::Io { .. } => BackendError::HostDirectory {
            path,
            reason: error.to_string(),
            fix: "give a path that exists and that you may enter".into(),
        },
    }
}

#[cfg(test)]
mod tests;
