//! `agent sync`: everything that a sandbox holds is archived, and what can be brought is brought into the user's
//! branches and working trees.

use crate::background::moved_refs;
use crate::error::AgentError;
use crate::service::{AgentSandbox, AgentService};
use palisade_core::SyncTrigger;
use palisade_workspace::{ArchiveReason, ExchangeReport, SyncOptions};

impl AgentService<'_> {
    /// Brings an agent's work back.
    pub async fn sync(
        &self,
        sandbox: &AgentSandbox,
        options: &SyncOptions,
    ) -> Result<ExchangeReport, AgentError> {
        let synced = self
            .with_running(sandbox, async |connection| {
                self.exchange(sandbox, connection, async |exchange| Ok(exchange.sync(options).await?)).await
            })
            .await;
        self.note_sync(sandbox, SyncTrigger::Asked, &synced.as_ref().map(moved_refs));
        synced
    }

    /// What a sync of everything would do. Nothing changes, but that everything is archived.
    pub async fn unapplied(&self, sandbox: &AgentSandbox) -> Result<ExchangeReport, AgentError> {
        self.with_running(sandbox, async |connection| {
            self.exchange(sandbox, connection, async |exchange| {
                Ok(exchange.unapplied(ArchiveReason::Sync).await?)
            })
            .await
        })
        .await
    }
}
