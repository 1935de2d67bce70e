//! Who this installation is: the id that marks its resources outside the state directory, and the path at which that id
//! counts.
//!
//! The id is kept three times: in `instance` and in `place.json`, so that a one-off run need not open the store, and in
//! the store. Two that agree are believed against the third, so one lost or replaced file does not make this another
//! installation, which would not know its own containers and volumes any more.
//!
//! `place.json` also says where the state directory was. An installation that finds itself elsewhere was moved, and is
//! followed; or it is a copy while the original still is there, and becomes an installation of its own that never
//! touches the original's resources. See `docs/adr/0023-the-store-is-not-the-only-memory.md`.

mod copied;
mod place;

use crate::description;
use crate::engine::{Engine, new_id};
use crate::error::EngineError;
use crate::wrapper::Relocation;
use palisade_core::{HostPath, SandboxId, printable};
use palisade_host::fault::{self, Step};
use palisade_store::Store;
use place::{Place, PlaceStatus};
use std::fs::File;
use std::io::{Error, ErrorKind, Result};
use std::os::unix::fs::DirBuilderExt;

pub(crate) const FILE: &str = "instance";

type Outcome<T> = std::result::Result<T, EngineError>;

impl Engine {
    /// The instance's id. The usual case is two small files and a comparison of paths.
    pub(crate) fn read_or_make_owner(&self) -> Outcome<String> {
        match self.settled_identity() {
            Some(id) => Ok(id),
            None => self.settle_identity(),
        }
    }

    /// The id, when the files agree on it and on this place.
    fn settled_identity(&self) -> Option<String> {
        let state = &self.config.state;
        let place = Place::read(state)?;
        let id = read(&state.join(FILE)).ok()??;
        (place.instance == id && place.status(state) == PlaceStatus::Here).then_some(id)
    }

    /// Decides who this is, and writes it down.
    fn settle_identity(&self) -> Outcome<String> {
        let state = &self.config.state;
        let failed = || EngineError::io(format!("open {state}"));
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(state).map_err(failed())?;
        let _lock = lock(state);
        // Another process may have done it while this one waited.
        if let Some(id) = self.settled_identity() {
            return Ok(id);
        }
        let place = Place::read(state);
        let id = self.agreed_id(place.as_ref()).map_err(failed())?;
        match place.as_ref().map_or(PlaceStatus::Here, |place| place.status(state)) {
            PlaceStatus::SameDirectory => return self.write_id(&id).map_err(failed()).map(|()| id),
            PlaceStatus::Copied { from } => return self.become_another(&from),
            PlaceStatus::Here => {}
            PlaceStatus::Moved { from } => {
                self.relocate_wrappers(Relocation::Moved)?;
                let from = printable(&from.to_string_lossy());
                (self.config.tell)(&format!("the state directory was moved here from {from}"));
            }
        }
        self.write_id(&id).map_err(failed())?;
        fault::at(Step::InstanceMade).map_err(failed())?;
        if let Err(error) = Place::of(&id, state).and_then(|place| place.write(state)) {
            // Without it, the next command decides again.
            tracing::warn!(%error, "where the state directory is was not written down");
        }
        fault::at(Step::InstancePlaced).map_err(failed())?;
        Ok(id)
    }

    /// What most of the places that know the id say. A file that says something else is set aside.
    fn agreed_id(&self, place: Option<&Place>) -> Result<String> {
        let file = self.config.state.join(FILE);
        let (written, is_there) = match read(&file) {
            Ok(written) => (written, true),
            Err(error) if error.kind() == ErrorKind::NotFound => (None, false),
            Err(error) => return Err(error),
        };
        let placed = place.map(|place| place.instance.clone());
        // The store is opened for it only where the files do not agree.
        let stored = if written.is_some() && written == placed { None } else { self.stored_id() };
        let known = match most_agreed(&placed, &stored, &written) {
            Some(id) => Some(id),
            None => description::owner_of_all(&self.config.state),
        };
        let id = match known {
            Some(id) => id,
            None => String::from(new_id()?),
        };
        if is_there && written.as_ref() != Some(&id) {
            let aside = self.set_aside(&file)?;
            let held = if written.is_none() { "no instance id" } else { "the id of another installation" };
            (self.config.tell)(&format!("{file} held {held} and was set aside as {aside}"));
        }
        Ok(id)
    }

    /// The store's own copy, when there is a store that can be read.
    fn stored_id(&self) -> Option<String> {
        let id = Store::open_existing(self.config.state.as_path()).ok()??.instance().ok()?;
        SandboxId::parse(&id).ok().map(String::from)
    }

    fn write_id(&self, id: &str) -> Result<()> {
        let file = self.config.state.join(FILE);
        match read(&file) {
            Ok(Some(written)) if written == id => Ok(()),
            _ => crate::whole_file::write(&self.config.state, FILE, id.as_bytes()),
        }
    }

    /// Moves a file that makes no sense out of the way, and returns its new name.
    pub(crate) fn set_aside(&self, file: &HostPath) -> Result<String> {
        let aside = format!("{file}.corrupt-{}", crate::engine::now());
        std::fs::rename(file, &aside)?;
        Ok(aside)
    }
}

/// Of three copies the two that agree; otherwise the first that there is, in this order.
fn most_agreed(placed: &Option<String>, stored: &Option<String>, written: &Option<String>) -> Option<String> {
    let agreed = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    let chosen = if agreed(placed, stored) || agreed(placed, written) {
        placed
    } else if agreed(stored, written) {
        stored
    } else {
        return placed.clone().or_else(|| stored.clone()).or_else(|| written.clone());
    };
    chosen.clone()
}

/// The id in a file; `None` when it holds something else.
fn read(file: &HostPath) -> Result<Option<String>> {
    let bytes = std::fs::read(file)?;
    let text = String::from_utf8_lossy(&bytes);
    Ok(SandboxId::parse(text.trim()).ok().map(String::from))
}

/// One process at a time decides. The lock is on the directory itself, and the kernel takes it back from a process that
/// dies. Where the file system has no locks, two may decide the same at once.
fn lock(state: &HostPath) -> Option<File> {
    let directory = File::open(state).ok()?;
    directory.lock().ok()?;
    Some(directory)
}

fn invalid(what: &str) -> Error {
    Error::new(ErrorKind::InvalidData, what.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_three_copies_two_that_agree_are_believed() {
        let id = |text: &str| Some(text.to_owned());
        for (placed, stored, written, expected) in [
            (id("a"), id("a"), id("b"), id("a")),
            (id("a"), id("b"), id("a"), id("a")),
            (id("b"), id("a"), id("a"), id("a")),
            (id("a"), id("b"), id("c"), id("a")),
            (None, id("a"), id("b"), id("a")),
            (None, None, id("a"), id("a")),
            (None, None, None, None),
        ] {
            assert_eq!(
                most_agreed(&placed, &stored, &written),
                expected,
                "{placed:?} {stored:?} {written:?}"
            );
        }
    }
}
