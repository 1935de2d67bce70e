//! `sandbox.json`: what a sandbox is, in its own directory.
//!
//! It is written last by `create` and removed first by `rm`, so a directory that has one is a whole sandbox, and one
//! that was being removed cannot come back.

use crate::error::EngineError;
use crate::whole_file;
use palisade_core::{
    DescriptionError, HostPath, SANDBOXES, SandboxDescription, SandboxDir, SandboxId, SandboxSpec,
};
use std::io::ErrorKind;

/// Why a directory does not say which sandbox it is.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum DescriptionProblem {
    #[error("it has no description")]
    Missing,
    #[error(transparent)]
    Description(#[from] DescriptionError),
    #[error("its description is that of another sandbox")]
    OfAnother,
}

impl DescriptionProblem {
    /// Whether another description of the same sandbox may take its place. One that a later program has written is not
    /// replaced.
    pub(crate) fn may_be_replaced(&self) -> bool {
        !matches!(self, Self::Description(DescriptionError::Form { .. }))
    }
}

pub(crate) fn write(spec: &SandboxSpec, created_at: i64) -> Result<(), EngineError> {
    let Some(dir) = &spec.dir else { return Ok(()) };
    let file = dir.description();
    let text = SandboxDescription::new(spec.clone(), created_at).to_json();
    let name = file.as_path().file_name().unwrap_or_default().to_string_lossy();
    whole_file::write(dir.path(), &name, text.as_bytes()).map_err(EngineError::io(format!("write {file}")))
}

pub(crate) fn write_if_absent(spec: &SandboxSpec, created_at: i64) -> Result<(), EngineError> {
    match &spec.dir {
        Some(dir) if !dir.description().as_path().exists() => write(spec, created_at),
        _ => Ok(()),
    }
}

/// Removes the description; from then on the directory is not a sandbox that can be found again.
pub(crate) fn remove(dir: &SandboxDir) -> Result<(), EngineError> {
    let file = dir.description();
    match std::fs::remove_file(&file) {
        // It may never have been written, or the directory is gone.
        Err(error) if !matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory) => {
            Err(EngineError::io(format!("remove {file}"))(error))
        }
        _ => Ok(()),
    }
}

/// What the directory of a sandbox says of it, wherever the directory is now.
pub(crate) fn read(state: &HostPath, id: &SandboxId) -> Result<SandboxDescription, DescriptionProblem> {
    let dir = SandboxDir::of(state, id);
    let text = match std::fs::read(dir.description()) {
        Ok(text) => text,
        Err(error) if error.kind() == ErrorKind::NotFound => return Err(DescriptionProblem::Missing),
        Err(error) => return Err(DescriptionError::Unreadable { reason: error.to_string() }.into()),
    };
    let mut description = SandboxDescription::parse(&text)?;
    if description.spec.id != *id {
        return Err(DescriptionProblem::OfAnother);
    }
    description.spec.dir = Some(dir);
    Ok(description)
}

/// The ids after which directories are named, in a state directory.
pub(crate) fn directories(state: &HostPath) -> Vec<SandboxId> {
    let entries = std::fs::read_dir(state.join(SANDBOXES)).into_iter().flatten().flatten();
    entries.filter_map(|entry| SandboxId::parse(entry.file_name().to_str()?).ok()).collect()
}

/// The installation that every sandbox of a state directory names as its owner, when they agree.
pub(crate) fn owner_of_all(state: &HostPath) -> Option<String> {
    let described = directories(state).into_iter().filter_map(|id| read(state, &id).ok());
    let mut owners = described.map(|description| description.spec.owner);
    let first = owners.next()?;
    (SandboxId::parse(&first).is_ok() && owners.all(|owner| owner == first)).then_some(first)
}
