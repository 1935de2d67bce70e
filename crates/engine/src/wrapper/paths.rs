//! `paths.json`: what the paths of a wrapper lead to. A file of its own, since a run holds a lock on the record.

use super::PATHS;
use super::error::WrapperError;
use super::record::Record;
use super::running::{Wrapper, read};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::one_off::OneOffRequest;
use crate::whole_file;
use palisade_core::{BoundPath, HostPath, printable};
use std::io::ErrorKind;
use std::path::Path;

/// A wrapper of which the paths are looked at.
#[derive(Debug)]
pub(crate) struct WrapperPaths {
    pub(crate) record: Record,
    place: HostPath,
}

impl WrapperPaths {
    pub(crate) fn of_script(engine: &Engine, script: &Path) -> Result<Self, EngineError> {
        let place = engine.find_wrapper(script)?;
        let (record, _) = read(place.as_path())?;
        Ok(Self { record, place })
    }

    /// What is recorded; nothing for a wrapper of an earlier version.
    pub(crate) fn read(&self) -> Result<Vec<BoundPath>, EngineError> {
        read_paths(&self.place)
    }

    pub(crate) fn write(&self, paths: &[BoundPath]) -> Result<(), EngineError> {
        write_paths(&self.place, paths)
    }
}

fn read_paths(place: &HostPath) -> Result<Vec<BoundPath>, EngineError> {
    let path = place.join(PATHS);
    let bytes = match std::fs::read(&path) {
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(Vec::new()),
        other => other.map_err(EngineError::io(format!("read {path}")))?,
    };
    // Not taken for missing: what it says protects the user.
    let unreadable = |error: serde_json::Error| WrapperError::Unreadable {
        path: printable(&path.to_string()),
        reason: error.to_string(),
    };
    Ok(serde_json::from_slice(&bytes).map_err(unreadable)?)
}

pub(super) fn write_paths(place: &HostPath, paths: &[BoundPath]) -> Result<(), EngineError> {
    let write = || whole_file::write(place, PATHS, &serde_json::to_vec_pretty(paths)?);
    write().map_err(EngineError::io(format!("write {}", place.join(PATHS))))
}

impl Engine {
    /// What a call of a wrapper runs, once its paths are known to lead where they led when it was made. What the user has
    /// moved is recorded and reported.
    pub fn wrapped_request(&self, wrapper: &Wrapper) -> Result<OneOffRequest, EngineError> {
        let mut request = wrapper.request();
        let known = read_paths(&wrapper.place)?;
        let checked = self.check_paths(&request.policy, &request.foundation, &known)?;
        if checked.paths != known {
            write_paths(&wrapper.place, &checked.paths)?;
            checked.notices.iter().for_each(|text| (self.config.tell)(text));
        }
        request.paths = checked.paths;
        Ok(request)
    }
}
