//! The directories in which stores of git objects lie, and the lock on each.
//!
//! A store is a directory of objects as git has it: `pack` holds packs, `info` what is known of them. Sandboxes are shown
//! it read-only, so everybody may read it; the directory above is its owner's alone. The lock is on the directory
//! itself: it goes with it, and the kernel takes it back from a process that died.

use crate::tree;
use palisade_core::{HostPath, ObjectStoreName};
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;
use std::io;
use std::os::fd::OwnedFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt, PermissionsExt};

const PRIVATE: u32 = 0o700;
const PUBLIC: u32 = 0o755;

/// A store that nothing else writes or removes meanwhile.
#[derive(Debug)]
pub struct LockedObjectStore {
    directory: HostPath,
    _lock: OwnedFd,
}

impl LockedObjectStore {
    /// Waits for the lock of a store, which is made when there is none.
    pub fn open_or_create(state: &HostPath, name: &ObjectStoreName) -> io::Result<Self> {
        let (all, directory) = (ObjectStoreName::all_in(state), name.directory(state));
        loop {
            std::fs::DirBuilder::new().recursive(true).mode(PRIVATE).create(&all)?;
            make_public(&directory)?;
            if let Some(lock) = lock(&directory, FlockOperation::LockExclusive)? {
                make_public(&directory.join("pack"))?;
                make_public(&directory.join("info"))?;
                return Ok(Self { directory, _lock: lock });
            }
        }
    }

    /// The store if it is there and nothing else has its lock.
    pub fn try_open(state: &HostPath, name: &ObjectStoreName) -> io::Result<Option<Self>> {
        let directory = name.directory(state);
        let lock = lock(&directory, FlockOperation::NonBlockingLockExclusive)?;
        Ok(lock.map(|lock| Self { directory, _lock: lock }))
    }

    pub fn directory(&self) -> &HostPath {
        &self.directory
    }

    pub fn remove(self) -> io::Result<()> {
        tree::remove(self.directory.as_path())
    }
}

/// The names of all stores.
pub fn list(state: &HostPath) -> io::Result<Vec<ObjectStoreName>> {
    let entries = match std::fs::read_dir(ObjectStoreName::all_in(state)) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
        entries => entries?,
    };
    let names = entries.flatten().filter_map(|entry| ObjectStoreName::new(entry.file_name().to_str()?).ok());
    Ok(names.collect())
}

/// `None` when the directory is not there, is another one by now, or somebody else has it and we do not wait.
fn lock(directory: &HostPath, operation: FlockOperation) -> io::Result<Option<OwnedFd>> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let opened = match rustix::fs::open(directory.as_path(), flags, Mode::empty()) {
        Err(Errno::NOENT) => return Ok(None),
        opened => opened?,
    };
    match rustix::fs::flock(&opened, operation) {
        Err(Errno::WOULDBLOCK) => return Ok(None),
        locked => locked?,
    }
    // While we waited it may have been removed, and made again.
    let held = rustix::fs::fstat(&opened)?;
    let is_same = std::fs::symlink_metadata(directory).is_ok_and(|now| now.ino() == held.st_ino);
    Ok(is_same.then_some(opened))
}

/// Makes a directory that everybody may read, whatever the process's mask is.
fn make_public(directory: &HostPath) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => return Ok(()),
        made => made?,
    }
    std::fs::set_permissions(directory, std::fs::Permissions::from_mode(PUBLIC))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_has_the_lock_and_a_store_that_was_removed_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        let state = HostPath::new(place.path()).unwrap();
        let name = ObjectStoreName::new("one").unwrap();
        assert_eq!(list(&state).unwrap(), []);
        assert!(LockedObjectStore::try_open(&state, &name).unwrap().is_none());
        let store = LockedObjectStore::open_or_create(&state, &name).unwrap();
        assert_eq!(list(&state).unwrap(), std::slice::from_ref(&name));
        assert!(LockedObjectStore::try_open(&state, &name).unwrap().is_none());
        let mode = |path: &HostPath| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
        assert_eq!(mode(&ObjectStoreName::all_in(&state)), PRIVATE);
        assert_eq!([mode(store.directory()), mode(&store.directory().join("pack"))], [PUBLIC, PUBLIC]);
        // Another process waits for it, and must not get the directory that is gone by then.
        let waiting = std::thread::spawn({
            let (state, name) = (state.clone(), name.clone());
            move || LockedObjectStore::open_or_create(&state, &name).unwrap()
        });
        store.remove().unwrap();
        let again = waiting.join().unwrap();
        assert!(again.directory().join("info").as_path().is_dir());
    }
}
