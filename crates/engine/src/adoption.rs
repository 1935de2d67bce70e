//! Sandboxes without a record are found again: when the store is damaged, lost or older than they are, and when somebody
//! has put their directories here.
//!
//! Every command that opens the store pays for it with one listing of a directory. What describes itself is recorded
//! again; what does not is kept and shown. Nothing is ever removed here.
//!
//! A sandbox that is being made has its record before it has a directory, and one that is being removed has lost its
//! description before it loses its record. Both are looked at again under the sandbox's lock, so neither is taken for
//! one without a record.

use crate::description::{self, DescriptionProblem};
use crate::engine::{Engine, now};
use crate::error::EngineError;
use palisade_core::{HostPath, Method, ProcessIdentity, SandboxDescription, SandboxDir, SandboxId, State};
use palisade_store::{KnownId, RecoveredSandbox, Store, StoreError};
use std::cell::OnceCell;
use std::path::PathBuf;
use std::time::Duration;

/// How long another process may be at work on a sandbox that has no record.
const PATIENCE: Duration = Duration::from_secs(1);

/// A sandbox of which there is no record, and why it could not be recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UnrecordedSandbox {
    pub id: SandboxId,
    /// As far as it is known.
    pub name: Option<String>,
    pub method: Option<Method>,
    pub why: String,
    /// Its directory, when it has one.
    pub directory: Option<HostPath>,
}

/// What was found without a record when the store was opened.
#[derive(Debug, Default)]
struct AdoptionReport {
    /// The names of those that are recorded now.
    recorded: Vec<String>,
    /// Those that are not.
    kept: Vec<UnrecordedSandbox>,
}

impl Engine {
    /// Opens the store; one that is damaged is set aside first. Sandboxes that it does not know are recorded again.
    pub(crate) fn open_store(&self) -> Result<Store, EngineError> {
        let (store, damage) = self.open_or_set_aside()?;
        let adoption = self.adopt_unrecorded(&store)?;
        if let Some(message) = summary(&adoption, damage.as_ref()) {
            (self.config.tell)(&message);
        }
        self.unrecorded.replace(adoption.kept);
        Ok(store)
    }

    fn open_or_set_aside(&self) -> Result<(Store, Option<Damage>), EngineError> {
        let state = self.config.state.as_path();
        let owner = self.owner()?.to_owned();
        let (store, damage) = match Store::open(state, || owner.clone()) {
            Err(StoreError::Corrupt { why, .. }) => {
                let aside = Store::set_aside(state, now())?;
                (Store::open(state, || owner.clone())?, aside.map(|aside| Damage { why, aside }))
            }
            other => (other?, None),
        };
        if store.instance()? != owner {
            store.set_instance(&owner)?;
        }
        if store.is_new() {
            // What an engine has may be all that is left of a sandbox.
            let used = self.config.backends.all().into_iter().filter(|backend| backend.use_note().is_some());
            let used: Vec<Method> = used.map(|backend| backend.method()).collect();
            if !used.is_empty() {
                store.set_unsearched_engines(&used)?;
            }
        }
        Ok((store, damage))
    }

    /// For a damage that shows only when some record is read: sets the store aside when it really is damaged, so
    /// that the next command works.
    pub fn rescue_if_damaged(&self, error: &EngineError) {
        if let EngineError::Store(StoreError::Corrupt { why, .. }) = error
            && let Err(error) = self.rescue(why)
        {
            (self.config.tell)(&format!("the damaged store could not be set aside: {error}"));
        }
    }

    fn rescue(&self, why: &str) -> Result<(), EngineError> {
        let aside = Store::set_aside(self.config.state.as_path(), now())?;
        let (store, _) = self.open_or_set_aside()?;
        let adoption = self.adopt_unrecorded(&store)?;
        let damage = aside.map(|aside| Damage { why: why.to_owned(), aside });
        if let Some(message) = summary(&adoption, damage.as_ref()) {
            (self.config.tell)(&message);
        }
        Ok(())
    }

    fn adopt_unrecorded(&self, store: &Store) -> Result<AdoptionReport, EngineError> {
        let mut adoption = AdoptionReport::default();
        // Before the records are read: a directory that is made later belongs to a record that was made before it.
        let directories = description::directories(&self.config.state);
        if directories.is_empty() {
            return Ok(adoption);
        }
        let known = store.known_ids()?;
        let keepers = OnceCell::new();
        for id in directories {
            let keeper_of = || self.keeper_of(&id, keepers.get_or_init(|| self.living_keepers()));
            match known.get(id.as_str()) {
                Some(KnownId::Sandbox(Some(state))) if !state.has_keeper() => {
                    // A store that is older than its last start says that it does not run.
                    if SandboxDir::of(&self.config.state, &id).socket().as_path().exists()
                        && let Some(keeper) = keeper_of()
                    {
                        self.record_keeper(store, &id, &keeper)?;
                    }
                }
                Some(_) => {}
                None => match self.adopt_directory(store, &id, keeper_of) {
                    Ok(Some(name)) => adoption.recorded.push(name),
                    Ok(None) => {}
                    Err(why) => adoption.kept.push(self.unrecorded_directory(id, why)),
                },
            }
        }
        adoption.recorded.sort();
        Ok(adoption)
    }

    /// The name of a sandbox that was recorded; `None` when it has a record after all, or is being removed.
    fn adopt_directory(
        &self,
        store: &Store,
        id: &SandboxId,
        keeper: impl Fn() -> Option<ProcessIdentity>,
    ) -> Result<Option<String>, String> {
        // Without the lock, so that what cannot be read is not waited for.
        description::read(&self.config.state, id).map_err(|why| why.to_string())?;
        let text = |error: EngineError| error.to_string();
        let Some(_lock) = self.lock_sandbox_now(id, PATIENCE).map_err(text)? else {
            return Ok(None);
        };
        if store.known_ids().map_err(|error| text(error.into()))?.contains_key(id.as_str()) {
            return Ok(None);
        }
        let found = match description::read(&self.config.state, id) {
            Err(DescriptionProblem::Missing) => return Ok(None),
            other => other.map_err(|why| why.to_string())?,
        };
        self.record_found(store, found, keeper()).map(Some).map_err(text)
    }

    /// Records a sandbox as it describes itself. Its caller has the sandbox's lock.
    pub(crate) fn record_found(
        &self,
        store: &Store,
        found: SandboxDescription,
        keeper: Option<ProcessIdentity>,
    ) -> Result<String, EngineError> {
        let SandboxDescription { mut spec, created_at, .. } = found;
        if !spec.method.keeps_files_in_engine() {
            spec.owner = self.owner()?.to_owned();
        }
        let uid = self.uid_base().filter(|base| spec.identity.uid >= *base).map(|_| spec.identity.uid);
        let state = if keeper.is_some() { State::Running } else { State::Stopped };
        let recovered = RecoveredSandbox { spec, uid, state, keeper, created_at, at: now() };
        Ok(store.insert_recovered(&recovered)?.to_string())
    }

    fn record_keeper(
        &self,
        store: &Store,
        id: &SandboxId,
        keeper: &ProcessIdentity,
    ) -> Result<(), EngineError> {
        match self.lock_sandbox_now(id, Duration::ZERO)? {
            Some(_lock) => Ok(store.record_running(id, Some(keeper), now())?),
            None => Ok(()),
        }
    }

    /// The living keeper of a sandbox, as its lease has it.
    pub(crate) fn keeper_of(
        &self,
        id: &SandboxId,
        keepers: &[(SandboxId, ProcessIdentity)],
    ) -> Option<ProcessIdentity> {
        keepers.iter().find(|(known, _)| known == id).map(|(_, keeper)| keeper.clone())
    }

    fn unrecorded_directory(&self, id: SandboxId, why: String) -> UnrecordedSandbox {
        let directory = SandboxDir::of(&self.config.state, &id).path().clone();
        UnrecordedSandbox { id, name: None, method: None, why, directory: Some(directory) }
    }
}

/// A store that was set aside.
struct Damage {
    why: String,
    aside: PathBuf,
}

/// The message for the user, once; none when nothing was found.
fn summary(adoption: &AdoptionReport, damage: Option<&Damage>) -> Option<String> {
    let AdoptionReport { recorded, kept } = adoption;
    let count = match recorded.len() {
        1 => "1 sandbox was".to_owned(),
        count => format!("{count} sandboxes were"),
    };
    let mut message = match damage {
        Some(Damage { why, aside }) => {
            format!(
                "the store was damaged ({why}) and is set aside as {}; {count} found again",
                aside.display()
            )
        }
        None if recorded.is_empty() => return None,
        None => format!("{count} found again, of which the store had no record: {}", recorded.join(", ")),
    };
    if !kept.is_empty() {
        message += &format!("; {} more cannot be read and are kept: see palisade ls", kept.len());
    }
    Some(message)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bound_repositories::NoRepositories;
    use crate::engine::{BackendProvider, EngineConfig};
    use crate::session::Connection;
    use crate::unsaved_work::{ArchiveCause, ArchivedWork, UnsavedReport, UnsavedWork, WorkError};
    use palisade_core::{
        Backend, BackendError, BoxFuture, Foundation, HostIdentity, Policy, SandboxName, SandboxSpec,
    };
    use palisade_host::process;
    use palisade_store::{IntentKind, NewSandbox, Row};
    use std::sync::Arc;

    struct NoBackends;

    impl BackendProvider for NoBackends {
        fn backend(&self, method: Method) -> Result<Arc<dyn Backend>, BackendError> {
            Err(BackendError::unsupported(method, "everything"))
        }

        fn all(&self) -> Vec<Arc<dyn Backend>> {
            Vec::new()
        }
    }

    /// Sandboxes without any work.
    struct NoWork;

    impl UnsavedWork for NoWork {
        fn concerns(&self, _sandbox: &Row) -> bool {
            false
        }

        fn is_agent_session(&self, _session: &str) -> bool {
            false
        }

        fn has_working_agent(&self, _sandbox: &Row) -> bool {
            false
        }

        fn list<'a>(&'a self, _: &'a Connection) -> BoxFuture<'a, Result<UnsavedReport, WorkError>> {
            Box::pin(async { Ok(UnsavedReport::default()) })
        }

        fn archive<'a>(
            &'a self,
            _: &'a Connection,
            _: ArchiveCause,
        ) -> BoxFuture<'a, Result<ArchivedWork, WorkError>> {
            Box::pin(async { Ok(ArchivedWork::default()) })
        }

        fn unpublished<'a>(&'a self, _: &'a Connection) -> BoxFuture<'a, Result<Vec<String>, WorkError>> {
            Box::pin(async { Ok(Vec::new()) })
        }
    }

    /// An engine as another process would have it.
    fn engine(state: &HostPath) -> Engine {
        Engine::new(EngineConfig {
            state: state.clone(),
            uid_base: 200_000,
            uid_registry: state.as_path().join("uid-registry"),
            keeper_command: Vec::new(),
            keeper_environment: Box::new(Vec::new),
            errand: Box::new(|_| None),
            environment_of_state: Box::new(|_| None),
            backends: Box::new(NoBackends),
            unsaved_work: Arc::new(NoWork),
            bound_repositories: Arc::new(NoRepositories),
            tell: Box::new(|_| {}),
        })
    }

    fn described(state: &HostPath, byte: u8) -> SandboxSpec {
        let id = SandboxId::from_random([byte; 15]);
        let spec = SandboxSpec {
            dir: Some(SandboxDir::of(state, &id)),
            name: Some(SandboxName::new(&format!("box-{byte}")).unwrap()),
            id,
            method: Method::Bwrap,
            policy: Policy::default(),
            foundation: Foundation::default(),
            paths: Vec::new(),
            identity: HostIdentity { uid: 1, gid: 1 },
            owner: "another".into(),
            git: Vec::new(),
        };
        std::fs::create_dir_all(spec.dir.as_ref().unwrap().path()).unwrap();
        description::write(&spec, 5).unwrap();
        spec
    }

    #[test]
    fn what_is_being_made_or_removed_is_not_taken_for_a_sandbox_without_a_record() {
        let place = tempfile::tempdir().unwrap();
        let state = HostPath::new(place.path()).unwrap();
        let first = engine(&state);
        let store = first.store().unwrap();
        let me = process::this_process();
        // One is being made: it has a record and, by now, a description.
        let made = described(&state, 1);
        store.insert(&NewSandbox { spec: made, uids: None, at: 0 }, &me).unwrap();
        // One without a record is being removed.
        let removed = described(&state, 2);
        store.begin_intent(&removed.id, IntentKind::Remove, &serde_json::Value::Null, &me, 0).unwrap();
        // Another process is just at work on one of which it has deleted the record.
        let locked = described(&state, 3);
        let lock = first.lock_sandbox_now(&locked.id, Duration::ZERO).unwrap().unwrap();
        // One is without a record, and nobody's at the moment.
        described(&state, 4);

        let names = |engine: &Engine| -> Vec<String> {
            let rows = engine.store().unwrap().list().unwrap().rows;
            rows.iter().map(|row| format!("{} {}", row.name, row.state)).collect()
        };
        let second = engine(&state);
        assert_eq!(names(&second), ["box-1 created", "box-4 stopped"]);
        assert_eq!(*second.unrecorded.borrow(), [], "nor are they shown as lost");
        // That process has removed the description before it let go.
        std::fs::remove_dir_all(locked.dir.unwrap().path()).unwrap();
        drop(lock);
        assert_eq!(names(&engine(&state)).len(), 2);
        let owner = second.owner().unwrap();
        let adopted = second.store().unwrap().find("box-4").unwrap();
        assert_eq!((adopted.spec.owner.as_str(), adopted.created_at), (owner, 5), "it is this one's now");
    }

    #[test]
    fn the_message_names_what_was_found_and_nothing_else() {
        let adoption = |recorded: &[&str], kept: usize| AdoptionReport {
            recorded: recorded.iter().map(|name| (*name).to_owned()).collect(),
            kept: (0..kept)
                .map(|_| UnrecordedSandbox {
                    id: SandboxId::from_random([1; 15]),
                    name: None,
                    method: None,
                    why: "x".into(),
                    directory: None,
                })
                .collect(),
        };
        let damage = Damage { why: "torn".into(), aside: "/s/aside".into() };
        assert_eq!(summary(&adoption(&[], 1), None), None, "only ls shows it");
        assert_eq!(
            summary(&adoption(&["a", "b"], 1), None).unwrap(),
            "2 sandboxes were found again, of which the store had no record: a, b; \
             1 more cannot be read and are kept: see palisade ls"
        );
        assert_eq!(
            summary(&adoption(&["a"], 0), Some(&damage)).unwrap(),
            "the store was damaged (torn) and is set aside as /s/aside; 1 sandbox was found again"
        );
    }
}
