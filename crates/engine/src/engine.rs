//! The engine itself: where its state is, how it reaches backends, and the store, opened when first needed.

use crate::error::EngineError;
use palisade_core::{Backend, BackendError, HostIdentity, HostPath, Method, SandboxId};
use palisade_host::process;
use palisade_store::{Row, Store};
use std::cell::OnceCell;
use std::ffi::OsString;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Gives the backend for a method, or says why there is none.
pub trait BackendProvider {
    fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, BackendError>;
    /// Those that can be asked for leftovers.
    fn all(&self) -> Vec<Arc<dyn Backend>>;
}

pub struct EngineConfig {
    /// `$XDG_STATE_HOME/palisade`.
    pub state: HostPath,
    /// Where the dedicated host uids begin when started by root.
    pub uid_base: u32,
    /// The command that becomes a keeper when a sandbox's id is appended.
    pub keeper_command: Vec<OsString>,
    /// All that a keeper gets of the environment.
    pub keeper_environment: Vec<(OsString, OsString)>,
    pub backends: Box<dyn BackendProvider>,
}

impl std::fmt::Debug for EngineConfig {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("EngineConfig").field("state", &self.state).finish_non_exhaustive()
    }
}

#[derive(Debug)]
pub struct Engine {
    pub(crate) config: EngineConfig,
    store: OnceCell<Store>,
    owner: OnceCell<String>,
}

/// Above every uid a sandbox with a name can get: one for each process number, for one-off runs.
const ONE_OFF_UIDS: u32 = 1 << 24;

impl Engine {
    pub fn new(config: EngineConfig) -> Self {
        Self { config, store: OnceCell::new(), owner: OnceCell::new() }
    }

    pub fn state_dir(&self) -> &HostPath {
        &self.config.state
    }

    pub fn store(&self) -> Result<&Store, EngineError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let owner = self.owner()?.to_owned();
        let store = Store::open(self.config.state.as_path(), || owner)?;
        Ok(self.store.get_or_init(|| store))
    }

    pub fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, EngineError> {
        Ok(self.config.backends.backend(method)?)
    }

    /// Tells this installation's resources from another's. Kept in a file beside the store, so that a one-off run
    /// need not open the store for it.
    pub fn owner(&self) -> Result<&str, EngineError> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner);
        }
        let owner =
            self.read_or_make_owner().map_err(EngineError::io(format!("open {}", self.config.state)))?;
        Ok(self.owner.get_or_init(|| owner))
    }

    fn read_or_make_owner(&self) -> std::io::Result<String> {
        use std::io::Write;
        use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};
        let file = self.config.state.join("instance");
        let read = || -> std::io::Result<Option<String>> {
            match std::fs::read_to_string(&file) {
                Ok(text) => Ok(SandboxId::parse(text.trim()).ok().map(String::from)),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
                Err(error) => Err(error),
            }
        };
        if let Some(owner) = read()? {
            return Ok(owner);
        }
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&self.config.state)?;
        let owner = String::from(new_id()?);
        let fresh: PathBuf = self.config.state.join(format!(".instance-{}", std::process::id())).into();
        let mut options = std::fs::OpenOptions::new();
        options
            .write(true)
            .create(true)
            .truncate(true)
            .mode(0o600)
            .open(&fresh)?
            .write_all(owner.as_bytes())?;
        // Linking fails when somebody else was first; then theirs counts.
        let linked = std::fs::hard_link(&fresh, &file);
        std::fs::remove_file(&fresh)?;
        match (linked, read()?) {
            (_, Some(owner)) => Ok(owner),
            (Err(error), None) => Err(error),
            (Ok(()), None) => Err(std::io::Error::other("the file 'instance' holds no instance id")),
        }
    }

    /// Whom a sandbox runs as on the host, before the store has given it a uid of its own.
    pub(crate) fn identity(&self) -> HostIdentity {
        let (uid, gid) = (rustix::process::geteuid(), rustix::process::getegid());
        if uid.is_root() {
            let id = self.config.uid_base.saturating_add(ONE_OFF_UIDS).saturating_add(std::process::id());
            return HostIdentity { uid: id, gid: id };
        }
        HostIdentity { uid: uid.as_raw(), gid: gid.as_raw() }
    }

    /// Where dedicated uids begin, when there are any.
    pub(crate) fn uid_base(&self) -> Option<u32> {
        rustix::process::geteuid().is_root().then_some(self.config.uid_base)
    }

    /// Whether the keeper that a row names is alive.
    pub(crate) fn keeper_lives(row: &Row) -> bool {
        row.keeper.as_ref().is_some_and(process::is_alive)
    }
}

pub(crate) fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as i64)
}

pub(crate) fn new_id() -> std::io::Result<SandboxId> {
    let mut bytes = [0u8; 15];
    getrandom::fill(&mut bytes).map_err(|error| std::io::Error::other(error.to_string()))?;
    Ok(SandboxId::from_random(bytes))
}
