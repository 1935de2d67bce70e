//! The engine itself: where its state is, how it reaches backends, and the store, opened when first needed.

use crate::adoption::UnrecordedSandbox;
use crate::errand::Orders;
use crate::error::EngineError;
use crate::unsaved_work::UnsavedWork;
use palisade_core::{Backend, BackendError, HostIdentity, HostPath, Method, SandboxId, SandboxSpec};
use palisade_host::process;
use palisade_store::{Row, Store};
use std::cell::{OnceCell, RefCell};
use std::ffi::OsString;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

/// Gives the backend for a method, or says why there is none.
pub trait BackendProvider {
    fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, BackendError>;
    /// Those that can be asked for leftovers.
    fn all(&self) -> Vec<Arc<dyn Backend>>;
}

/// Names and values.
type Variables = Vec<(OsString, OsString)>;
type EnvironmentOfState = Box<dyn Fn(&HostPath) -> Option<Variables>>;

pub struct EngineConfig {
    /// `$XDG_STATE_HOME/palisade`.
    pub state: HostPath,
    /// Where the dedicated host uids begin when started by root.
    pub uid_base: u32,
    /// The command that becomes a keeper when a sandbox's id is appended.
    pub keeper_command: Vec<OsString>,
    /// All that a keeper gets of the environment; asked for when one is started.
    pub keeper_environment: Box<dyn Fn() -> Variables>,
    /// What a keeper is to do besides, as of now; asked for when it begins, and when it is told of new orders.
    pub errand: Orders,
    /// The variables by which another process of this program finds a state directory; `None` when none lead there.
    pub environment_of_state: EnvironmentOfState,
    pub backends: Box<dyn BackendProvider>,
    /// Asked before anything is ended or removed.
    pub unsaved_work: Arc<dyn UnsavedWork>,
    /// For what the user should hear although nobody asked: something was set aside, or could not be.
    pub tell: Box<dyn Fn(&str)>,
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
    /// What was found without a record when the store was opened, and could not be recorded.
    pub(crate) unrecorded: RefCell<Vec<UnrecordedSandbox>>,
}

/// Above every uid a sandbox with a name can get: one for each process number, for one-off runs.
pub(crate) const ONE_OFF_UIDS: u32 = 1 << 24;

impl Engine {
    pub fn new(config: EngineConfig) -> Self {
        Self { config, store: OnceCell::new(), owner: OnceCell::new(), unrecorded: RefCell::default() }
    }

    pub fn state_dir(&self) -> &HostPath {
        &self.config.state
    }

    pub fn store(&self) -> Result<&Store, EngineError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = self.open_store()?;
        Ok(self.store.get_or_init(|| store))
    }

    pub fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, EngineError> {
        Ok(self.config.backends.backend(method)?)
    }

    /// Tells this installation's resources from another's.
    pub fn owner(&self) -> Result<&str, EngineError> {
        if let Some(owner) = self.owner.get() {
            return Ok(owner);
        }
        let owner = self.read_or_make_owner()?;
        Ok(self.owner.get_or_init(|| owner))
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

    /// Whether a sandbox's files belong to another installation: this state directory was copied from that one's.
    pub(crate) fn is_foreign(&self, spec: &SandboxSpec) -> bool {
        spec.method.keeps_files_in_engine() && self.owner().is_ok_and(|owner| owner != spec.owner)
    }

    /// Refuses to do anything with what is another installation's.
    pub(crate) fn refuse_foreign(&self, row: &Row) -> Result<(), EngineError> {
        match self.is_foreign(&row.spec) {
            true => Err(EngineError::Foreign { name: row.name.clone() }),
            false => Ok(()),
        }
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
