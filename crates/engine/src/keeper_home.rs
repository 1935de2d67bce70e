//! A keeper's own directories, held open: it lives long, and the state directory may be moved under it. Its files are
//! reached through the descriptors, so they are found wherever the directories are. What it records goes into the store
//! that is there now, also when that was lost or set aside since the keeper began.

use crate::engine::Engine;
use crate::error::EngineError;
use palisade_core::{HostPath, SandboxDescription, SandboxDir};
use palisade_host::process;
use palisade_store::{Row, Store, StoreError};
use rustix::fd::{AsRawFd, OwnedFd};
use rustix::fs::{Mode, OFlags};
use std::io::{Error, Result};
use std::path::PathBuf;

#[derive(Debug)]
pub(crate) struct KeeperHome {
    state: HeldDirectory,
    sandbox: HeldDirectory,
    /// Where the state directory was at first.
    first: PathBuf,
}

impl KeeperHome {
    pub(crate) fn open(state: &HostPath, dir: &SandboxDir) -> Result<Self> {
        let (sandbox, state) = (HeldDirectory::open(dir.path())?, HeldDirectory::open(state)?);
        let first = state.location().ok_or_else(|| Error::other("the state directory is gone"))?;
        Ok(Self { state, sandbox, first })
    }

    /// The sandbox's directory, for this process alone.
    pub(crate) fn dir(&self) -> SandboxDir {
        SandboxDir::new(self.sandbox.path.clone())
    }

    /// Where the state directory is now, when that is another path than at first.
    pub(crate) fn moved_to(&self) -> Option<HostPath> {
        let now = self.state.location().filter(|now| *now != self.first)?;
        HostPath::new(now).ok()
    }
}

impl Engine {
    /// Records something of a sandbox that this process keeps.
    pub(crate) fn record_as_keeper<T>(
        &self,
        row: &Row,
        home: &KeeperHome,
        record: impl Fn(&Store) -> std::result::Result<T, StoreError>,
    ) -> std::result::Result<T, EngineError> {
        let store = self.store()?;
        if store.is_current() {
            match record(store) {
                Err(error) => tracing::warn!(%error, "it is recorded a second time"),
                recorded => return Ok(recorded?),
            }
        }
        Ok(record(&self.store_of_keeper(row, home)?)?)
    }

    /// The store as it is now, with a record of the sandbox that this process keeps.
    fn store_of_keeper(&self, row: &Row, home: &KeeperHome) -> std::result::Result<Store, EngineError> {
        let owner = self.owner()?.to_owned();
        let store = Store::open(home.state.path.as_path(), || owner)?;
        store.use_reserve(self.frees_space());
        if store.by_id(row.id())?.is_none() {
            let found = SandboxDescription::new(row.spec.clone(), row.created_at);
            self.record_found(&store, found, Some(process::this_process()))?;
        }
        Ok(store)
    }
}

/// A directory that stays the same whatever its path becomes.
#[derive(Debug)]
struct HeldDirectory {
    /// Leads there in this process, and nowhere else.
    path: HostPath,
    _descriptor: OwnedFd,
}

impl HeldDirectory {
    fn open(path: &HostPath) -> Result<Self> {
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let descriptor = rustix::fs::open(path.as_path(), flags, Mode::empty())?;
        let path = match cfg!(target_os = "linux") {
            true => {
                HostPath::new(format!("/proc/self/fd/{}", descriptor.as_raw_fd())).map_err(Error::other)?
            }
            false => path.clone(),
        };
        Ok(Self { path, _descriptor: descriptor })
    }

    /// Where it is now; `None` when it was removed.
    fn location(&self) -> Option<PathBuf> {
        std::fs::canonicalize(&self.path).ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_that_is_moved_is_followed() {
        let root = tempfile::tempdir().unwrap();
        let state = HostPath::new(root.path().join("state")).unwrap();
        let dir = SandboxDir::new(state.join("sandboxes/one"));
        std::fs::create_dir_all(dir.path()).unwrap();
        let home = KeeperHome::open(&state, &dir).unwrap();
        assert_eq!(home.moved_to(), None);
        std::fs::rename(&state, root.path().join("elsewhere")).unwrap();
        std::fs::write(home.dir().log(), "kept").unwrap();
        let moved = std::fs::canonicalize(root.path().join("elsewhere")).unwrap();
        assert_eq!(std::fs::read_to_string(moved.join("sandboxes/one/keeper.log")).unwrap(), "kept");
        assert_eq!(home.moved_to(), Some(HostPath::new(moved).unwrap()));
    }
}
