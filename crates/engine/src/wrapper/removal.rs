//! Listing wrappers, removing one, and finishing what a dead process had begun.

use super::error::WrapperError;
use super::making::{aside, script_of};
use super::record::Record;
use super::running::{lock_for_removal, read};
use super::{MAKING, REMOVING, directory};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::gc::{GcAction, GcItem};
use palisade_core::{HostPath, SandboxId, printable};
use palisade_host::fault::Step;
use palisade_host::{process, tree};
use serde::Serialize;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ScriptState {
    Ready,
    /// Somebody has removed it, without the wrapper's record.
    Missing,
    /// Something else stands in its place.
    Changed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Listed {
    pub record: Record,
    pub script: ScriptState,
}

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Listing {
    pub wrappers: Vec<Listed>,
    /// Directories whose record cannot be read, and why.
    pub bad: Vec<(HostPath, String)>,
}

impl Engine {
    /// The oldest first.
    pub fn wrappers(&self) -> Listing {
        let mut listing = Listing::default();
        for (name, place) in self.wrapper_entries() {
            if SandboxId::parse(&name).is_err() {
                continue;
            }
            match read(place.as_path()) {
                Ok((record, _)) => {
                    let script = script_state(&record);
                    listing.wrappers.push(Listed { record, script });
                }
                Err(EngineError::Wrapper(WrapperError::Removed)) => {}
                Err(error) => listing.bad.push((place, error.to_string())),
            }
        }
        listing.wrappers.sort_by_key(|listed| listed.record.created_at);
        listing
    }

    /// Removes the wrapper whose script stands, or stood, at this path; its kept home goes with it.
    pub fn remove_wrapper(&self, path: &Path) -> Result<(), EngineError> {
        let told = || printable(&path.to_string_lossy());
        let place = self.find_wrapper(path)?;
        let path = script_path(path);
        let held = match read(place.as_path()) {
            Ok((record, file)) => {
                let ours = Path::new(&path).starts_with(&place);
                if !ours && script_state(&record) == ScriptState::Changed {
                    return Err(WrapperError::Changed(told()).into());
                }
                Some(lock_for_removal(file).map_err(|_| WrapperError::Running(told()))?)
            }
            // A record that nothing can be run from any more does not keep the directory from being removed.
            Err(EngineError::Wrapper(_)) => None,
            Err(error) => return Err(error),
        };
        let name = place.as_path().file_name().unwrap_or_default().to_string_lossy().into_owned();
        let label = process::label(&process::this_process());
        let _lease = self.lease(None);
        let removing = directory(&self.config.state).join(format!("{REMOVING}{label}.{name}"));
        std::fs::rename(&place, &removing).map_err(EngineError::io(format!("rename {place}")))?;
        EngineError::step(Step::WrapRemoving)?;
        let removed = discard(&removing);
        drop(held);
        tracing::debug!(path = told(), "wrapper removed");
        removed
    }

    /// The directory of the wrapper whose script stands, or stood, at this path.
    pub(crate) fn find_wrapper(&self, path: &Path) -> Result<HostPath, EngineError> {
        let told = || printable(&path.to_string_lossy());
        let script = script_path(path);
        let place = self.place_of(&script).ok_or_else(|| {
            let exists = std::fs::symlink_metadata(&script).is_ok();
            if exists { WrapperError::Foreign(told()) } else { WrapperError::NotFound(told()) }
        })?;
        Ok(place)
    }

    /// What a dead process was making or removing.
    pub(crate) fn sweep_wrappers(&self, dry_run: bool) -> Vec<Result<Option<GcItem>, EngineError>> {
        let dead = |name: &str| {
            let rest = name.strip_prefix(MAKING).or_else(|| name.strip_prefix(REMOVING))?;
            let (label, id) = rest.split_once('.')?;
            (process::label_is_alive(label) == Some(false)).then(|| id.to_owned())
        };
        let found = self.wrapper_entries().into_iter();
        found
            .filter_map(|(name, place)| Some((dead(&name)?, name, place)))
            .map(|(id, name, place)| {
                let (what, action) = if name.starts_with(MAKING) {
                    (format!("half-made wrapper {id}"), GcAction::Undone)
                } else {
                    (format!("interrupted removal of wrapper {id}"), GcAction::Finished)
                };
                if !dry_run {
                    discard(&place)?;
                }
                Ok(Some(GcItem::new(what, action)))
            })
            .collect()
    }

    fn wrapper_entries(&self) -> Vec<(String, HostPath)> {
        let wrappers = directory(&self.config.state);
        let Ok(entries) = std::fs::read_dir(&wrappers) else { return Vec::new() };
        let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
        names.map(|name| (name.clone(), wrappers.join(name))).collect()
    }

    /// The directory of the wrapper with this script: known by where it stands, or by its record.
    fn place_of(&self, path: &Path) -> Option<HostPath> {
        let wrappers = directory(&self.config.state);
        let real = std::fs::canonicalize(&wrappers).ok()?;
        let own = path.strip_prefix(real).ok().and_then(|rest| rest.iter().next()?.to_str());
        if let Some(id) = own {
            let place = wrappers.join(SandboxId::parse(id).ok()?.as_str());
            let is_it = match read(place.as_path()) {
                Ok((record, _)) => PathBuf::from(record.path) == path,
                // Nothing tells any more which script it has, but that it is one of this directory's.
                Err(_) => std::fs::symlink_metadata(path).is_ok(),
            };
            return is_it.then_some(place);
        }
        let listed = self.wrappers().wrappers.into_iter();
        let record =
            listed.map(|listed| listed.record).find(|record| PathBuf::from(record.path.clone()) == path)?;
        Some(wrappers.join(record.id.as_str()))
    }
}

/// The path of a script with a directory part free of links, as records have it.
fn script_path(path: &Path) -> PathBuf {
    match (path.parent().map(std::fs::canonicalize), path.file_name()) {
        (Some(Ok(parent)), Some(name)) => parent.join(name),
        _ => path.to_owned(),
    }
}

fn script_state(record: &Record) -> ScriptState {
    match std::fs::read(PathBuf::from(record.path.clone())) {
        Ok(bytes) if bytes == script_of(record) => ScriptState::Ready,
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => ScriptState::Missing,
        _ => ScriptState::Changed,
    }
}

/// Removes a wrapper's directory under its passing name, and before it the script that its record names elsewhere,
/// when that is ours byte for byte. The id in it cannot be guessed, so nobody else's file is.
pub(super) fn discard(place: &HostPath) -> Result<(), EngineError> {
    if let Ok((record, _)) = read(place.as_path()) {
        let path = PathBuf::from(record.path.clone());
        let remove = |path: &Path| match std::fs::remove_file(path) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
                Err(EngineError::io(format!("remove {}", path.display()))(error))
            }
            _ => Ok(()),
        };
        if !path.starts_with(PathBuf::from(record.directory.clone())) {
            remove(&aside(&path, &record))?;
            if script_state(&record) == ScriptState::Ready {
                remove(&path)?;
            }
        }
    }
    tree::remove(place.as_path()).map_err(EngineError::io(format!("remove {place}")))
}
