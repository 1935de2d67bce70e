//! The store of a repository's commits that its sandboxes share. It is written before a sandbox that relies on it is
//! created or started.

use crate::error::AgentError;
use crate::service::AgentService;
use crate::start::Step;
use palisade_core::objects::OBJECTS;
use palisade_core::{Capabilities, Capability, ObjectStoreName, RefScope};
use palisade_engine::EngineError;
use palisade_host::digest::Digest;
use palisade_host::object_store::LockedObjectStore;
use palisade_workspace::{Growth, HostTree, SandboxRefs, SharedObjects, SharedObjectsRequest};

/// A store with the host's commits in it, which nothing removes before this is dropped.
#[derive(Debug)]
pub(crate) struct WrittenStore {
    pub(crate) name: ObjectStoreName,
    pub(crate) objects: SharedObjects,
    _lock: LockedObjectStore,
}

/// Whether the sandboxes of a method see what is added to a store, or have a copy of it.
fn growth(capabilities: &Capabilities) -> Growth {
    match capabilities.has(Capability::HostMounts) {
        true => Growth::Grow,
        false => Growth::Keep,
    }
}

/// The store for a new sandbox. Those that see the same refs of the same repository share one; a copy of a repository
/// is another one.
fn name_for(
    repository_id: &str,
    host: &HostTree,
    scope: RefScope,
    growth: Growth,
) -> Result<ObjectStoreName, AgentError> {
    let failed = |error: &dyn std::fmt::Display| {
        AgentError::io("name the store of the repository's commits")(std::io::Error::other(error.to_string()))
    };
    let kind = match growth {
        Growth::Grow => "grows",
        Growth::Keep => "copied",
    };
    let name = match scope {
        RefScope::All => {
            let place = host.repository.common_directory().display();
            format!("{kind}-{}", Digest::of_bytes(format!("{repository_id}\0{place}").as_bytes()).prefix(32))
        }
        RefScope::Branch => {
            let mut bytes = [0u8; 15];
            getrandom::fill(&mut bytes).map_err(|error| failed(&error))?;
            format!("{kind}-{}", palisade_core::SandboxId::from_random(bytes))
        }
    };
    ObjectStoreName::new(&name).map_err(|error| failed(&error))
}

impl AgentService<'_> {
    /// Writes the store that a new sandbox of this method is to see; `None` where the method has none.
    pub(crate) async fn store_for_new(
        &self,
        capabilities: &Capabilities,
        repository_id: &str,
        host: &HostTree,
        scope: RefScope,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Option<WrittenStore>, AgentError> {
        if !capabilities.has(Capability::SharedObjects) {
            return Ok(None);
        }
        let growth = growth(capabilities);
        let name = name_for(repository_id, host, scope, growth)?;
        self.write_store(name, host, scope, growth, tell).await.map(Some)
    }

    /// Brings the store that an existing sandbox relies on up to date.
    pub(crate) async fn store_for_existing(
        &self,
        name: &ObjectStoreName,
        capabilities: &Capabilities,
        host: &HostTree,
        scope: RefScope,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<WrittenStore, AgentError> {
        self.write_store(name.clone(), host, scope, growth(capabilities), tell).await
    }

    async fn write_store(
        &self,
        name: ObjectStoreName,
        host: &HostTree,
        scope: RefScope,
        growth: Growth,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<WrittenStore, AgentError> {
        tell(Step::Doing("writing the repository's commits"));
        let locked = tokio::task::spawn_blocking({
            let (state, name) = (self.engine.state_dir().clone(), name.clone());
            move || LockedObjectStore::open_or_create(&state, &name)
        });
        let locked = locked.await.unwrap_or_else(|error| Err(std::io::Error::other(error)));
        let store = locked.map_err(AgentError::io("open the store of the repository's commits"))?;
        let rows = self.engine.store()?.list().map_err(EngineError::from)?.rows;
        let relying = rows.into_iter().filter(|row| row.spec.policy.objects.as_ref() == Some(&name));
        let sandboxes: Vec<SandboxRefs> =
            relying.map(|row| SandboxRefs::new(row.id().clone(), row.name)).collect();
        let request =
            SharedObjectsRequest { store: &store, scope, growth, inside: OBJECTS, sandboxes: &sandboxes };
        let written = host.write_shared_objects(&request, |progress| tell(Step::Sending(progress))).await;
        let objects = written.map_err(palisade_workspace::ExchangeError::from)?;
        if objects.was_damaged {
            tell(Step::StoreWrittenAgain);
        }
        Ok(WrittenStore { name, objects, _lock: store })
    }
}
