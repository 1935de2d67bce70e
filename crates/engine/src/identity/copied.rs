//! A state directory that was copied while the original still is there: it becomes an installation of its own.
//!
//! Everything in it that names a process, a container or a file of the original's is taken out, and the new id is written
//! down last. A process that is killed before that leaves the next one to begin again, with yet another id; nothing was
//! made under the first.

use super::FILE;
use super::place::Place;
use crate::engine::{Engine, new_id, now};
use crate::error::EngineError;
use crate::{lease, whole_file};
use palisade_core::printable;
use palisade_host::fault::Step;
use palisade_host::tree;
use palisade_store::Store;
use std::path::Path;

/// What only counts while a process of the original's is at work: leases, journals of fences, directories of one-off
/// runs.
const OF_PROCESSES: [&str; 3] = [lease::DIRECTORY, "fences", "runs"];

impl Engine {
    /// Gives this state directory an id of its own.
    pub(super) fn become_another(&self, original: &Path) -> Result<String, EngineError> {
        let state = &self.config.state;
        let failed = || EngineError::io(format!("make {state} an installation of its own"));
        let id = String::from(new_id().map_err(failed())?);
        for name in OF_PROCESSES {
            tree::remove(state.join(name).as_path()).map_err(failed())?;
        }
        let elsewhere = match Store::open_existing(state.as_path()) {
            Ok(Some(store)) => store.detach(&id, now())?,
            // One that is damaged is set aside when it is opened for use.
            Ok(None) | Err(_) => Vec::new(),
        };
        EngineError::step(Step::CopyDetached)?;
        self.relocate_wrappers(crate::wrapper::Relocation::Copied)?;
        whole_file::write(state, FILE, id.as_bytes()).map_err(failed())?;
        EngineError::step(Step::CopyNamed)?;
        Place::of(&id, state).and_then(|place| place.write(state)).map_err(failed())?;
        let original = printable(&original.to_string_lossy());
        let mut message = format!(
            "this state directory is a copy of {original}; it is an installation of its own from now on"
        );
        if !elsewhere.is_empty() {
            message += &format!(
                "; the files of {} are in volumes of the original and stay there",
                elsewhere.join(", ")
            );
        }
        (self.config.tell)(&message);
        Ok(id)
    }
}
