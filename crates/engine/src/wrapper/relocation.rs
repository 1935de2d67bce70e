//! Wrappers of a state directory that is at another path than when they were made. A script names the directory of its
//! wrapper, so a moved one is written again; a script outside the state directory that a copy finds in its records
//! belongs to the original.

use super::making::{SCRIPT, aside, script_of};
use super::record::{Home, Record};
use super::running::read;
use super::word::Word;
use super::{HOME, RECORD, directory};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::whole_file;
use palisade_core::{HostPath, SandboxId};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Relocation {
    /// The scripts are ours, wherever they stand.
    Moved,
    /// Only what is in the state directory is ours.
    Copied,
}

impl Engine {
    /// Has every wrapper name its directory as it is now. May be done again when it was interrupted.
    pub(crate) fn relocate_wrappers(&self, relocation: Relocation) -> Result<(), EngineError> {
        let Ok(wrappers) = std::fs::canonicalize(directory(&self.config.state)) else { return Ok(()) };
        let Ok(wrappers) = HostPath::new(wrappers) else { return Ok(()) };
        for entry in std::fs::read_dir(&wrappers).into_iter().flatten().flatten() {
            let id = entry.file_name().to_str().and_then(|name| SandboxId::parse(name).ok());
            let Some(place) = id.map(|id| wrappers.join(id.as_str())) else { continue };
            // A record that nothing can be run from is shown by `wrap --ls`.
            let Ok((record, _)) = read(place.as_path()) else { continue };
            let failed = || EngineError::io(format!("write the wrapper in {place}"));
            relocate(&record, &place, relocation).map_err(failed())?;
        }
        Ok(())
    }
}

fn relocate(old: &Record, place: &HostPath, relocation: Relocation) -> std::io::Result<()> {
    let new = relocated(old, place, relocation);
    let (path, inside) =
        (PathBuf::from(new.path.clone()), PathBuf::from(new.path.clone()).starts_with(place));
    let text = script_of(&new);
    match std::fs::read(&path) {
        Ok(found) if found == text => {}
        // Outside, only what is ours byte for byte is replaced.
        Ok(found) if !inside && found != script_of(old) => {}
        Err(_) if !inside => {}
        _ => {
            if inside {
                std::fs::create_dir_all(place.join(SCRIPT))?;
            }
            replace(&path, &aside(&path, &new), &text)?;
        }
    }
    whole_file::write(place, RECORD, &serde_json::to_vec_pretty(&new)?)
}

/// The record of a wrapper whose directory is here now.
pub(super) fn relocated(old: &Record, place: &HostPath, relocation: Relocation) -> Record {
    let (directory, path) = (PathBuf::from(old.directory.clone()), PathBuf::from(old.path.clone()));
    let path: PathBuf = match path.strip_prefix(&directory) {
        Ok(relative) => place.join(relative).into(),
        Err(_) if relocation == Relocation::Moved => path,
        Err(_) => place.join(SCRIPT).join(path.file_name().unwrap_or_default()).into(),
    };
    let mut new = old.clone();
    new.directory = Word::from(place.as_path().as_os_str());
    new.path = Word::from(path.as_os_str());
    new.policy.kept_home = (old.home == Home::Kept).then(|| place.join(HOME));
    new
}

fn replace(path: &Path, aside: &Path, bytes: &[u8]) -> std::io::Result<()> {
    let _ = std::fs::remove_file(aside);
    let mut file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o700).open(aside)?;
    file.write_all(bytes)?;
    drop(file);
    std::fs::rename(aside, path)
}
