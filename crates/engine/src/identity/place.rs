//! `place.json`: whose state directory this is, and where it was when that was last looked at.

use super::{FILE as INSTANCE, invalid, read};
use crate::whole_file;
use crate::wrapper::Word;
use palisade_core::{HostPath, SandboxId};
use serde::{Deserialize, Serialize};
use std::io::{ErrorKind, Result};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

const FILE: &str = "place.json";
/// The form of the file; a change that an older program could not read gets another number.
const FORM: u32 = 1;

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Place {
    form: u32,
    pub(super) instance: String,
    /// The state directory, without links.
    path: Word,
}

/// What the state directory is to the place that was written down.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum PlaceStatus {
    Here,
    /// The path that was written down leads to this very directory: a link, or a second mount.
    SameDirectory,
    /// Nothing of this installation is at the path that was written down.
    Moved {
        from: PathBuf,
    },
    /// This installation is still at the path that was written down, or that is not known.
    Copied {
        from: PathBuf,
    },
}

impl Place {
    pub(super) fn of(instance: &str, state: &HostPath) -> Result<Self> {
        let path = std::fs::canonicalize(state)?;
        Ok(Self { form: FORM, instance: instance.to_owned(), path: Word::from(path.as_os_str()) })
    }

    /// `None` without the file, or when it is not in a form that we know: then it is written again.
    pub(super) fn read(state: &HostPath) -> Option<Self> {
        let place: Self = serde_json::from_slice(&std::fs::read(state.join(FILE)).ok()?).ok()?;
        (place.form == FORM && SandboxId::parse(&place.instance).is_ok()).then_some(place)
    }

    pub(super) fn write(&self, state: &HostPath) -> Result<()> {
        let text = serde_json::to_vec(self).map_err(|error| invalid(&error.to_string()))?;
        whole_file::write(state, FILE, &text)
    }

    pub(super) fn status(&self, state: &HostPath) -> PlaceStatus {
        let from = PathBuf::from(self.path.clone());
        if from == state.as_path() || std::fs::canonicalize(state).is_ok_and(|here| here == from) {
            return PlaceStatus::Here;
        }
        match self.claimant(&from, state.as_path()) {
            Claimant::None => PlaceStatus::Moved { from },
            Claimant::ThisDirectory => PlaceStatus::SameDirectory,
            Claimant::Another => PlaceStatus::Copied { from },
        }
    }

    /// Who has this installation's id at the path that was written down.
    fn claimant(&self, from: &Path, here: &Path) -> Claimant {
        let gone =
            |error: &std::io::Error| matches!(error.kind(), ErrorKind::NotFound | ErrorKind::NotADirectory);
        let found = match std::fs::metadata(from) {
            Err(error) if gone(&error) => return Claimant::None,
            // What cannot be looked at may be the original.
            Err(_) => return Claimant::Another,
            Ok(found) => found,
        };
        let identity = |meta: &std::fs::Metadata| (meta.dev(), meta.ino());
        if std::fs::metadata(here).is_ok_and(|here| identity(&here) == identity(&found)) {
            return Claimant::ThisDirectory;
        }
        let Ok(from) = HostPath::new(from) else { return Claimant::None };
        match read(&from.join(INSTANCE)) {
            Ok(Some(id)) if id == self.instance => Claimant::Another,
            Ok(_) => Claimant::None,
            Err(error) if gone(&error) => Claimant::None,
            Err(_) => Claimant::Another,
        }
    }
}

enum Claimant {
    None,
    ThisDirectory,
    Another,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn state(root: &Path, name: &str, id: Option<&str>) -> HostPath {
        let path = root.join(name);
        std::fs::create_dir_all(&path).unwrap();
        if let Some(id) = id {
            std::fs::write(path.join(INSTANCE), id).unwrap();
        }
        HostPath::new(std::fs::canonicalize(path).unwrap()).unwrap()
    }

    #[test]
    fn a_place_reads_back_and_another_form_is_none() {
        let root = tempfile::tempdir().unwrap();
        let here = state(root.path(), "here", None);
        let id = SandboxId::from_random([1; 15]);
        let place = Place::of(id.as_str(), &here).unwrap();
        place.write(&here).unwrap();
        assert_eq!(Place::read(&here), Some(place));
        for text in ["", "{}", r#"{"form":2,"instance":"x","path":"/"}"#, "\0"] {
            std::fs::write(here.join(FILE), text).unwrap();
            assert_eq!(Place::read(&here), None, "{text:?}");
        }
    }

    #[test]
    fn a_directory_is_moved_unless_its_id_is_still_at_the_old_path() {
        let root = tempfile::tempdir().unwrap();
        let (id, other) = (SandboxId::from_random([1; 15]), SandboxId::from_random([2; 15]));
        let old = state(root.path(), "old", Some(id.as_str()));
        let here = state(root.path(), "here", Some(id.as_str()));
        let place = Place::of(id.as_str(), &old).unwrap();
        let from = old.as_path().to_owned();
        assert_eq!(place.status(&old), PlaceStatus::Here);
        assert_eq!(place.status(&here), PlaceStatus::Copied { from: from.clone() });
        let link = HostPath::new(root.path().join("link")).unwrap();
        std::os::unix::fs::symlink(&old, &link).unwrap();
        assert_eq!(place.status(&link), PlaceStatus::Here, "a link leads to it");

        std::fs::write(old.join(INSTANCE), other.as_str()).unwrap();
        assert_eq!(place.status(&here), PlaceStatus::Moved { from: from.clone() });
        std::fs::remove_file(old.join(INSTANCE)).unwrap();
        assert_eq!(place.status(&here), PlaceStatus::Moved { from: from.clone() });
        std::fs::remove_dir(&old).unwrap();
        assert_eq!(place.status(&here), PlaceStatus::Moved { from });
        std::os::unix::fs::symlink(&here, &old).unwrap();
        assert_eq!(place.status(&here), PlaceStatus::SameDirectory, "the old path leads here");
    }
}
