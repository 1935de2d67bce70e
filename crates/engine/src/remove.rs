//! `rm`: an intent, the backend's resources, and last the record.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use palisade_core::SandboxSpec;
use palisade_host::process;
use palisade_store::{IntentKind, Row};
use std::time::Duration;

impl Engine {
    /// Removes a sandbox and everything in it. A running one is only removed by force.
    pub async fn remove(&self, name: &str, force: bool) -> Result<Row, EngineError> {
        let mut row = self.recovered(self.row(name)?).await?;
        if row.state.has_keeper() {
            if !force {
                return Err(EngineError::WrongState {
                    name: row.name.clone(),
                    state: row.state,
                    verb: "rm",
                    hint: format!(
                        "stop it first (palisade stop {0}), or use palisade rm --force {0}",
                        row.name
                    ),
                });
            }
            self.stop(row.id().as_str(), Duration::ZERO).await?;
            row = self.row(row.id().as_str())?;
        }
        let store = self.store()?;
        store.begin_intent(
            row.id(),
            IntentKind::Remove,
            &serde_json::Value::Null,
            &process::this_process(),
            now(),
        )?;
        self.finish_removal(&row.spec).await?;
        Ok(row)
    }

    /// The part of a removal that can be done again after a crash.
    pub(crate) async fn finish_removal(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        let backend = self.backend(spec.method)?;
        backend.stop(spec).await?;
        backend.remove(spec).await?;
        self.store()?.delete(spec.id.as_str())?;
        Ok(())
    }
}
