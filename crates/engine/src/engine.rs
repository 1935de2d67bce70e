//! The engine itself: where its state is, how it reaches backends, and the store, opened when first needed.

use crate::adoption::UnrecordedSandbox;
use crate::bound_repositories::BoundRepositories;
use crate::errand::Orders;
use crate::error::EngineError;
use crate::uid_block::Claimant;
use crate::unsaved_work::UnsavedWork;
use palisade_core::{
    Backend, BackendError, HostIdentity, HostPath, HostUsers, Method, SandboxId, SandboxSpec,
};
use palisade_host::process;
use palisade_store::{Row, Store, StoreError};
use std::cell::{Cell, OnceCell, RefCell};
use std::ffi::OsString;
use std::ops::Range;
use std::path::PathBuf;
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
    /// Where installations of root's on this machine claim theirs.
    pub uid_registry: PathBuf,
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
    /// Asked before a sandbox with a writable host directory starts, and before it ends.
    pub bound_repositories: Arc<dyn BoundRepositories>,
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
    /// Whether what is done now ends or removes something, and may use the space that is kept for a full disk.
    frees_space: Cell<bool>,
    /// What was found without a record when the store was opened, and could not be recorded.
    pub(crate) unrecorded: RefCell<Vec<UnrecordedSandbox>>,
}

/// Above every uid a sandbox with a name can get: one for each process number, for one-off runs.
pub(crate) const ONE_OFF_UIDS: u32 = 1 << 24;
/// Above all of those that root's have: for the sandboxes that ordinary users have on an engine of root's.
const UIDS_OF_USERS: u32 = 1 << 25;

impl Engine {
    pub fn new(config: EngineConfig) -> Self {
        Self {
            config,
            store: OnceCell::new(),
            owner: OnceCell::new(),
            frees_space: Cell::new(false),
            unrecorded: RefCell::default(),
        }
    }

    pub fn state_dir(&self) -> &HostPath {
        &self.config.state
    }

    pub fn store(&self) -> Result<&Store, EngineError> {
        if let Some(store) = self.store.get() {
            return Ok(store);
        }
        let store = match self.open_store() {
            Err(EngineError::Store(StoreError::Full { .. }))
                if self.frees_space.get() && Store::release_reserve(self.config.state.as_path()) =>
            {
                self.open_store()?
            }
            store => store?,
        };
        store.use_reserve(self.frees_space.get());
        Ok(self.store.get_or_init(|| store))
    }

    /// From now on, and until the guard is dropped, the store may use the space that is kept for a full disk.
    pub(crate) fn freeing_space(&self) -> FreeingSpace<'_> {
        let before = self.frees_space.replace(true);
        if let Some(store) = self.store.get() {
            store.use_reserve(true);
        }
        FreeingSpace { engine: self, before }
    }

    /// Whether the store may use the space that is kept for a full disk.
    pub(crate) fn frees_space(&self) -> bool {
        self.frees_space.get()
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
        match uid.is_root() {
            true => self.identity_of_this_process(),
            false => HostIdentity { uid: uid.as_raw(), gid: gid.as_raw() },
        }
    }

    /// Whom a one-off run of this process runs as on the host.
    pub(crate) async fn one_off_identity(&self, backend: &dyn Backend) -> HostIdentity {
        match self.uid_base().is_some() || backend.host_users().await == HostUsers::OnePerSandbox {
            true => self.identity_of_this_process(),
            false => self.identity(),
        }
    }

    /// No other process on this machine has it, whichever user started it.
    fn identity_of_this_process(&self) -> HostIdentity {
        let id = self.config.uid_base.saturating_add(ONE_OFF_UIDS).saturating_add(std::process::id());
        HostIdentity { uid: id, gid: id }
    }

    /// The dedicated uids of this installation's sandboxes, when there are any.
    pub(crate) async fn uids(&self, backend: &dyn Backend) -> Result<Option<Range<u32>>, EngineError> {
        if self.uid_base().is_some() {
            return Ok(Some(self.claimant()?.block(&self.config.uid_registry)));
        }
        match backend.host_users().await {
            HostUsers::OnePerSandbox => Ok(Some(self.claimant()?.unclaimed_block())),
            HostUsers::Given(_) => Ok(None),
        }
    }

    /// The same as far as it is known without a claim.
    pub(crate) fn known_uids(&self) -> Result<Option<Range<u32>>, EngineError> {
        let claimant = self.claimant()?;
        match self.uid_base() {
            Some(_) => Ok(claimant.claimed_block(&self.config.uid_registry)),
            None => Ok(Some(claimant.unclaimed_block())),
        }
    }

    /// Root claims among the first uids. Those of ordinary users are others, which are not claimed: they cannot write where
    /// claims are.
    fn claimant(&self) -> Result<Claimant<'_>, EngineError> {
        let from = |step: u32| self.config.uid_base.saturating_add(step);
        let uids = match self.uid_base() {
            Some(base) => base..from(ONE_OFF_UIDS),
            None => from(UIDS_OF_USERS)..from(2 * UIDS_OF_USERS),
        };
        Ok(Claimant { state: &self.config.state, instance: self.owner()?, uids })
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

/// See [`Engine::freeing_space`].
pub(crate) struct FreeingSpace<'a> {
    engine: &'a Engine,
    before: bool,
}

impl Drop for FreeingSpace<'_> {
    fn drop(&mut self) {
        self.engine.frees_space.set(self.before);
        if let Some(store) = self.engine.store.get() {
            store.use_reserve(self.before);
        }
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
