//! A file of the project as it is and as it is to be, replaced in one step: whoever reads it finds the one or the other.

use super::{OnboardingError, read_text};
use palisade_core::{HostPath, ProjectPath};
use palisade_host::beneath::{self, Missing};
use rustix::fd::{AsFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use std::io::Write as _;

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub path: ProjectPath,
    /// `None` for a file that is new.
    pub before: Option<String>,
    pub after: String,
}

impl Change {
    pub(super) fn changes(&self) -> bool {
        self.before.as_deref() != Some(self.after.as_str())
    }
}

/// Writes all of them, or none when one has changed since it was read.
pub fn write(root: &HostPath, changes: &[Change]) -> Result<(), OnboardingError> {
    for change in changes {
        if read_text(root, &change.path)? != change.before {
            return Err(OnboardingError::Changed { file: change.path.clone() });
        }
    }
    for change in changes {
        replace(root, change).map_err(|source| OnboardingError::Io { file: change.path.clone(), source })?;
    }
    Ok(())
}

fn replace(root: &HostPath, change: &Change) -> std::io::Result<()> {
    let (directory, name) = change.path.split();
    let directory = directory_beneath(root, directory)?;
    // As it was; a new file as this user's files are.
    let mode = match rustix::fs::statat(&directory, name, AtFlags::SYMLINK_NOFOLLOW) {
        Ok(stat) => Mode::from_raw_mode(stat.st_mode & 0o777),
        Err(_) => Mode::from_raw_mode(0o666),
    };
    let fresh = format!(".{name}.palisade-{}", std::process::id());
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::CLOEXEC | OFlags::NOFOLLOW;
    let mut file = std::fs::File::from(rustix::fs::openat(&directory, &fresh, flags, mode)?);
    let written = (|| {
        if change.before.is_some() {
            // Whatever this user's mask takes away from new files.
            rustix::fs::fchmod(&file, mode)?;
        }
        file.write_all(change.after.as_bytes())?;
        file.sync_all()?;
        Ok(rustix::fs::renameat(&directory, &fresh, &directory, name)?)
    })();
    if written.is_err() {
        // It may not be there any more; then there is nothing to put away.
        let _ = rustix::fs::unlinkat(&directory, &fresh, AtFlags::empty());
    }
    written
}

/// The directory, made when it is missing, with no link on the way.
fn directory_beneath(root: &HostPath, directory: &str) -> std::io::Result<OwnedFd> {
    let parts = directory.split('/').filter(|part| !part.is_empty());
    Ok(beneath::enter(beneath::root(root.as_path())?.as_fd(), parts, Missing::Make)?)
}
