//! Paths of the host's that sandboxes are shown, as identities: recorded when they are given, compared at every start.
//!
//! A path that leads elsewhere than it did is refused when a sandbox could have written a directory above it since then.
//! Otherwise the user has moved it, which is reported once and recorded.

mod judge;
mod rebind;
mod writers;

pub use rebind::{RebindReport, ReboundPath};
pub(crate) use writers::Writing;

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::{description, whole_file};
use judge::{Change, change};
use palisade_core::{
    BackendError, BoundPath, Event, Foundation, HostPath, PathIdentity, Policy, given_paths, printable,
};
use palisade_host::bound_path::{self, FollowedLink, FoundPath};
use palisade_store::Row;
use std::path::{Path, PathBuf};
use writers::Writers;

/// There once the user was informed about a file system without lasting file handles.
const NOTED: &str = "file-handles-noted";

/// What the paths of a policy lead to, after they were compared with a record.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct CheckedPaths {
    pub(crate) paths: Vec<BoundPath>,
    /// What the user should know, for each path that was moved.
    pub(crate) notices: Vec<String>,
}

impl Engine {
    fn writers(&self) -> Writers {
        Writers::new(&self.config.state)
    }

    /// Makes a path canonical that a user has just given. A link that a sandbox could have put there may not lead out of
    /// what that sandbox can write.
    pub fn canonical_path(&self, given: &HostPath) -> Result<HostPath, EngineError> {
        Ok(self.find_path(given)?.bound.real)
    }

    fn find_path(&self, given: &HostPath) -> Result<FoundPath, EngineError> {
        let found = bound_path::find(given, now())?;
        self.require_trusted_links(given, &found.bound.real, &found.links)?;
        Ok(found)
    }

    fn require_trusted_links(
        &self,
        given: &HostPath,
        real: &HostPath,
        links: &[FollowedLink],
    ) -> Result<(), EngineError> {
        match links {
            [] => Ok(()),
            links => judge::require_trusted_links(given, real, links, &self.writers().list()),
        }
    }

    /// Where a path leads that a user has just given for a copy. The outer error says that it leads nowhere, the inner one
    /// that a sandbox could have made a link on the way.
    pub(crate) fn trusted_path(&self, given: &Path) -> std::io::Result<Result<PathBuf, EngineError>> {
        let given = HostPath::new(std::path::absolute(given)?).map_err(std::io::Error::other)?;
        let resolved = bound_path::resolve(given.as_path())?;
        let trusted = self.require_trusted_links(&given, &resolved.real, &resolved.links);
        Ok(trusted.map(|()| resolved.real.as_path().to_owned()))
    }

    /// Records what the paths of a policy lead to now.
    pub(crate) fn record_paths(
        &self,
        policy: &Policy,
        foundation: &Foundation,
    ) -> Result<Vec<BoundPath>, EngineError> {
        let given = given_paths(policy, foundation);
        given.iter().map(|given| Ok(self.find_path(given)?.bound)).collect()
    }

    /// Compares what the paths of a policy lead to with what is recorded of them. A path without a record, as in what an
    /// earlier version has written, is recorded.
    pub(crate) fn check_paths(
        &self,
        policy: &Policy,
        foundation: &Foundation,
        known: &[BoundPath],
    ) -> Result<CheckedPaths, EngineError> {
        let mut checked = CheckedPaths::default();
        for given in given_paths(policy, foundation) {
            let Some(old) = known.iter().find(|known| known.given == given) else {
                checked.paths.push(self.find_path(&given)?.bound);
                continue;
            };
            let found = bound_path::find(&given, now())?;
            let change = change(old, &found);
            if change == Change::None {
                checked.paths.push(old.clone());
                continue;
            }
            judge::require_users_change(old, &found, change, &self.writers().list())?;
            if change == Change::Moved {
                checked.notices.push(moved(old, &found.bound));
            }
            checked.paths.push(found.bound);
        }
        Ok(checked)
    }

    /// The record of a sandbox that is about to be started, with its paths compared. What changed is recorded and
    /// reported.
    pub(crate) fn row_with_checked_paths(&self, mut row: Row) -> Result<Row, EngineError> {
        let spec = &mut row.spec;
        let checked = self.check_paths(&spec.policy, &spec.foundation, &spec.paths)?;
        if checked.paths == spec.paths {
            return Ok(row);
        }
        spec.paths = checked.paths;
        let store = self.store()?;
        store.record_paths(&row.spec)?;
        description::write(&row.spec, row.created_at)?;
        for text in checked.notices {
            (self.config.tell)(&text);
            store.append_event(row.id(), &Event::Notice { text }, now())?;
        }
        Ok(row)
    }

    /// Informs the user once about paths whose identity does not outlast a restart of the machine.
    pub(crate) fn note_missing_handles(&self, paths: &[BoundPath]) {
        let without = paths.iter().find(|path| matches!(path.identity, PathIdentity::Inode { .. }));
        let (Some(path), false) = (without, self.config.state.join(NOTED).as_path().exists()) else { return };
        (self.config.tell)(&format!(
            "the file system of {} has no lasting file handles: after a restart of the machine, a sandbox that another \
             one could have tampered with asks for `palisade rebind` (reported once)",
            printable(&path.real.to_string())
        ));
        // Should this fail, it is reported again next time.
        let _ = whole_file::write(&self.config.state, NOTED, b"");
    }

    /// Notes that sandboxes whose processes were killed write nothing any more.
    pub(crate) fn settle_writers(&self) {
        self.writers().settle_dead();
    }

    /// Notes that a sandbox may write directories of the host's from now on, until the result is dropped.
    pub(crate) fn begin_writing(
        &self,
        id: &palisade_core::SandboxId,
        policy: &Policy,
        paths: &[BoundPath],
    ) -> Result<Option<Writing>, EngineError> {
        if !policy.writes_host() {
            return Ok(None);
        }
        let written = writers::written(policy, paths);
        let begun = self.writers().begin(id, written);
        begun.map(Some).map_err(EngineError::io("record which directories the sandbox may write"))
    }
}

fn moved(old: &BoundPath, new: &BoundPath) -> String {
    let (given, was, is) = (old.given.to_string(), old.real.to_string(), new.real.to_string());
    let (given, was, is) = (printable(&given), printable(&was), printable(&is));
    match was == is {
        true => format!(
            "{given} is another directory than before; no sandbox could have replaced it, so it is used"
        ),
        false => {
            format!(
                "{given} leads to {is} now, and led to {was}; no sandbox could have moved it, so it is used"
            )
        }
    }
}

/// A refusal that names the place which a sandbox could have written.
fn refuse(given: &HostPath, what: &str, written: &Path) -> EngineError {
    let written = printable(&written.to_string_lossy());
    let reason = format!("{what}, and a sandbox could have done that: it may write {written}");
    BackendError::PathChanged { path: printable(&given.to_string()), reason }.into()
}

#[cfg(test)]
mod tests;
