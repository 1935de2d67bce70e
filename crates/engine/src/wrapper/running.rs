//! A wrapper as its script starts it: the record, held so that nobody removes it meanwhile.

use super::RECORD;
use super::error::WrapperError;
use super::record::{Record, VERSION};
use crate::error::EngineError;
use crate::one_off::OneOffRequest;
use palisade_core::{HostPath, Layout};
use rustix::fs::FlockOperation;
use std::ffi::OsString;
use std::fs::File;
use std::io::Read;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

#[derive(Debug)]
pub struct Wrapper {
    pub record: Record,
    /// The state directory it belongs to.
    pub state: HostPath,
    /// Its own directory.
    pub(super) place: HostPath,
    _held: File,
}

impl Wrapper {
    pub fn open(place: &Path) -> Result<Self, EngineError> {
        let (record, file) = read(place)?;
        // Only a removal holds it for itself alone.
        rustix::fs::flock(&file, FlockOperation::NonBlockingLockShared).map_err(|_| WrapperError::Removed)?;
        let gone = file.metadata().map_or(true, |meta| meta.nlink() == 0);
        let state = place.parent().and_then(Path::parent).and_then(|state| HostPath::new(state).ok());
        match (state, HostPath::new(place)) {
            (Some(state), Ok(place)) if !gone => Ok(Self { record, state, place, _held: file }),
            _ => Err(WrapperError::Removed.into()),
        }
    }

    /// The wrapper's own command with the caller's arguments behind it.
    pub fn command(&self, arguments: Vec<OsString>) -> Vec<OsString> {
        self.record.command.iter().cloned().map(OsString::from).chain(arguments).collect()
    }

    /// The variables for the command; `caller` gives those that are the caller's to set.
    pub fn variables(&self, caller: impl Fn(&str) -> Option<OsString>) -> Vec<(OsString, OsString)> {
        let value = |variable: &super::Variable| match &variable.value {
            Some(value) => Some(value.clone().into()),
            None => caller(&variable.name),
        };
        let variables = self.record.variables.iter();
        variables.filter_map(|variable| Some((variable.name.clone().into(), value(variable)?))).collect()
    }

    pub(super) fn request(&self) -> OneOffRequest {
        let Record { method, policy, foundation, identity, .. } = &self.record;
        OneOffRequest {
            method: *method,
            policy: policy.clone(),
            foundation: foundation.clone(),
            paths: Vec::new(),
            identity: *identity,
            copied: None,
        }
    }

    /// The sandbox's layout, with the wrapper's own directories first on its search path.
    pub fn layout(&self, layout: &Layout) -> Layout {
        searched_first(layout, &self.record.search)
    }
}

/// A layout in which programs are looked for in these directories first.
pub fn searched_first(layout: &Layout, search: &[String]) -> Layout {
    let mut layout = layout.clone();
    for (_, value) in layout.environment.iter_mut().filter(|(name, _)| name == "PATH") {
        let mut directories = search.to_vec();
        directories.push(std::mem::take(value));
        *value = directories.join(":");
    }
    layout
}

/// The record, and its file. A record that is gone is a wrapper that was removed.
pub(super) fn read(place: &Path) -> Result<(Record, File), EngineError> {
    let path = place.join(RECORD);
    let bad = |reason: String| WrapperError::Unreadable { path: path.display().to_string(), reason };
    let mut file = match File::open(&path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            return Err(WrapperError::Removed.into());
        }
        other => other.map_err(EngineError::io(format!("open {}", path.display())))?,
    };
    let mut bytes = Vec::new();
    file.read_to_end(&mut bytes).map_err(EngineError::io(format!("read {}", path.display())))?;
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(|error| bad(error.to_string()))?;
    match value.get("version").and_then(serde_json::Value::as_u64) {
        Some(version) if version == u64::from(VERSION) => {}
        Some(version) => {
            return Err(bad(format!("it has form {version}, and this program knows form {VERSION}")).into());
        }
        None => return Err(bad("it is no record of a wrapper".into()).into()),
    }
    let record = serde_json::from_value(value).map_err(|error| bad(error.to_string()))?;
    Ok((record, file))
}

/// Says whether anybody is running it.
pub(super) fn lock_for_removal(file: File) -> std::io::Result<File> {
    rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive)?;
    Ok(file)
}
