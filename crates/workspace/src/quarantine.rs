//! Objects of a sandbox before they count: in a directory of their own, as git keeps those of a push.
//!
//! Git writes some objects before it has found out that it does not take them. From the user's objects, where nothing
//! refers to them yet, they would be taken for good the next time, without another look. So the directory goes, with
//! everything in it, unless all of it was found to be right.

use crate::git::{Invocation, Repository};
use crate::host_files::quoted;
use std::ffi::OsString;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

/// Git removes what begins so when it collects garbage, and otherwise leaves it alone.
const NAME: &str = "tmp_objdir-palisade";

/// A place for objects that are not to be relied on yet. Dropped, nothing of it stays.
#[derive(Debug)]
pub(crate) struct Quarantine {
    /// The user's objects.
    objects: PathBuf,
    directory: PathBuf,
}

impl Quarantine {
    /// Begins an empty one. The caller holds the repository's lock, so what is there was left by a run that was killed.
    pub(crate) fn begin(repository: &Repository) -> io::Result<Self> {
        let objects = repository.places().common.join("objects");
        let quarantine = Self { directory: objects.join(NAME), objects };
        quarantine.remove()?;
        std::fs::create_dir(&quarantine.directory)?;
        Ok(quarantine)
    }

    fn remove(&self) -> io::Result<()> {
        match self.directory.symlink_metadata() {
            Ok(_) => palisade_host::tree::remove(&self.directory),
            Err(_) => Ok(()),
        }
    }

    /// Git that writes objects here, and reads them here and among the user's.
    pub(crate) fn seen_by<'g>(&self, git: Invocation<'g>) -> Invocation<'g> {
        // Several could be named, with colons between them.
        let users = OsString::from_vec(quoted(&self.objects));
        git.env("GIT_OBJECT_DIRECTORY", &self.directory).env("GIT_ALTERNATE_OBJECT_DIRECTORIES", users)
    }

    /// Gives everything to the user's objects.
    pub(crate) fn release(self) -> io::Result<()> {
        for entry in std::fs::read_dir(&self.directory)? {
            let entry = entry?;
            if !entry.file_type()?.is_dir() {
                continue;
            }
            let target = self.objects.join(entry.file_name());
            // A directory that the user does not have moves as it is.
            if target.symlink_metadata().is_err() && std::fs::rename(entry.path(), &target).is_ok() {
                continue;
            }
            move_files(&entry.path(), &target)?;
        }
        Ok(())
    }
}

impl Drop for Quarantine {
    fn drop(&mut self) {
        // The next one removes what stays.
        let _ = self.remove();
    }
}

/// Moves files from one directory into another. A pack counts once its index is there, which so comes last.
fn move_files(from: &Path, to: &Path) -> io::Result<()> {
    let mut names: Vec<OsString> =
        std::fs::read_dir(from)?.map(|entry| Ok(entry?.file_name())).collect::<io::Result<_>>()?;
    names.sort_by_key(|name| Path::new(name).extension().is_some_and(|extension| extension == "idx"));
    for name in names {
        // What has the name is the same object.
        if to.join(&name).symlink_metadata().is_err() {
            std::fs::rename(from.join(&name), to.join(&name))?;
        }
    }
    Ok(())
}
