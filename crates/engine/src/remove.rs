//! `rm`: an intent, the backend's resources, and last the record.

use crate::description;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::observe::{about, observe, verb_span};
use crate::stop::end_keeper;
use palisade_core::{SandboxDir, SandboxId, SandboxSpec, spans};
use palisade_host::fault::Step;
use palisade_host::{process, tree};
use palisade_store::{IntentKind, Row, StoreError};
use std::time::Duration;

/// How often a sandbox that somebody keeps starting again is stopped in order to be removed.
const TRIES: usize = 5;
/// How long another command may be at work on a sandbox whose record cannot be read.
const PATIENCE: Duration = Duration::from_secs(10);

impl Engine {
    /// Removes a sandbox and everything in it. A running one is only removed by force. Gives its last record, when
    /// that could be read.
    pub async fn remove(&self, name: &str, force: bool) -> Result<Option<Row>, EngineError> {
        observe(verb_span!(spans::REMOVE), self.take_away(name, force)).await
    }

    async fn take_away(&self, name: &str, force: bool) -> Result<Option<Row>, EngineError> {
        let mut row = match self.row(name) {
            Err(EngineError::Store(StoreError::BadRow { id, why })) => {
                return self.remove_unreadable(&id, why, force).await.map(|()| None);
            }
            // What has no record is removed by its whole id alone.
            Err(error @ EngineError::Store(StoreError::NotFound { .. })) => match SandboxId::parse(name) {
                Ok(id) if self.remove_unrecorded(&id, force).await? => return Ok(None),
                _ => return Err(error),
            },
            other => other?,
        };
        about(&row.spec);
        let _lease = self.lease(None);
        // From here on it is this sandbox, even if another gets its name meanwhile.
        let id = row.id().clone();
        for _ in 0..TRIES {
            if force && !self.is_foreign(&row.spec) {
                self.stop(id.as_str(), Duration::ZERO).await?;
            }
            let turn = self.turn(&row).await?;
            row = self.recovered_in_turn(self.row(id.as_str())?, &turn).await?;
            row = self.refresh_from_engine(row, &turn).await?;
            if !row.state.has_keeper() {
                let store = self.store()?;
                let nothing = serde_json::Value::Null;
                store.begin_intent(&id, IntentKind::Remove, &nothing, &process::this_process(), now())?;
                EngineError::step(Step::RemoveIntent)?;
                self.finish_removal(&row.spec).await?;
                return Ok(Some(row));
            }
            if !force {
                break;
            }
        }
        Err(EngineError::WrongState {
            state: row.state,
            verb: "rm",
            hint: format!("stop it first (palisade stop {0}), or use palisade rm --force {0}", row.name),
            name: row.name,
        })
    }

    /// Of a record that cannot be read only the id is trusted: what the id names is removed, and nothing that the rest
    /// of the record says.
    async fn remove_unreadable(&self, text: &str, why: String, force: bool) -> Result<(), EngineError> {
        let store = self.store()?;
        let keeper = store.keeper_of(text)?.filter(process::is_alive);
        if let Some(keeper) = keeper {
            if !force {
                return Err(StoreError::BadRow { id: text.to_owned(), why }.into());
            }
            end_keeper(&keeper).await;
        }
        if let Ok(id) = SandboxId::parse(text) {
            let _turn = self.turn_within(&id, PATIENCE).await?;
            for (backend, leftover) in self.leftovers_of_sandbox(&id).await? {
                backend.discard(&leftover).await?;
            }
            let dir = SandboxDir::of(&self.config.state, &id);
            description::remove(&dir)?;
            let path = dir.path();
            tree::remove(path.as_path()).map_err(EngineError::io(format!("remove {path}")))?;
        }
        store.delete(text)?;
        Ok(())
    }

    /// The part of a removal that can be done again after a crash.
    pub(crate) async fn finish_removal(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        if self.is_foreign(spec) {
            return self.forget_foreign(spec);
        }
        let backend = self.backend(spec.method)?;
        backend.stop(spec).await?;
        EngineError::step(Step::RemoveStopped)?;
        if let Some(dir) = &spec.dir {
            // First of all: half a sandbox must not be found again as a whole one.
            description::remove(dir)?;
        }
        backend.remove(spec).await?;
        EngineError::step(Step::RemoveDirectories)?;
        self.store()?.delete(spec.id.as_str())?;
        EngineError::step(Step::RemoveForgotten)
    }

    /// Of a sandbox whose files are another installation's, what is here is removed and the files are not touched.
    fn forget_foreign(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        if let Some(dir) = &spec.dir {
            description::remove(dir)?;
            let path = dir.path();
            tree::remove(path.as_path()).map_err(EngineError::io(format!("remove {path}")))?;
        }
        self.store()?.delete(spec.id.as_str())?;
        Ok(())
    }
}
