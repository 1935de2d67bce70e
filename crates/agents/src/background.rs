//! Work that comes into refs by itself, and the account of every sync. Nothing here touches a working tree or a branch
//! of the user's: what has come waits in `refs/palisade/<name>/` until somebody asks for it with `agent sync`.

use crate::error::AgentError;
use crate::homecoming::{AGAIN, HostSide, survey};
use crate::workshop::{AgentSandbox, Workshop, first_the_other};
use palisade_core::{Event, MovedRef, SyncTrigger};
use palisade_engine::EngineError;
use palisade_store::EVENTS_KEPT;
use palisade_workspace::Repository;
use serde::Serialize;

/// More refs are not named one by one in an account.
const MOST_REFS: usize = 64;
/// The longest account of a failure.
const MOST_WORDS: usize = 2000;

/// One sync, or one that failed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SyncEntry {
    /// Unix milliseconds.
    pub at: i64,
    pub trigger: SyncTrigger,
    /// What moved.
    pub refs: Vec<MovedRef>,
    /// Why nothing could be brought; the refs are as they were.
    pub error: Option<String>,
}

impl Workshop<'_> {
    /// Brings everything into refs, and records that, or why it could not be. What moved.
    pub async fn sync_refs(
        &self,
        sandbox: &AgentSandbox,
        trigger: SyncTrigger,
    ) -> Result<Vec<MovedRef>, AgentError> {
        let brought = self.bring(sandbox).await;
        self.note_sync(sandbox, trigger, &brought);
        brought
    }

    async fn bring(&self, sandbox: &AgentSandbox) -> Result<Vec<MovedRef>, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let refs = sandbox.refs();
        let hosts = async {
            let repository = first_the_other(Repository::find(&self.git, &sandbox.record.repository)).await?;
            let side = HostSide::hold(&repository, &refs).await?;
            Ok::<_, AgentError>((repository, side))
        };
        let (early, hosts) = tokio::join!(survey(&connection), hosts);
        let (repository, side) = hosts?;
        let mut seen = side.trusts(early, &connection).await?;
        self.fetch(sandbox, &connection, &repository, &side.known, &seen).await?;
        let mut after = repository.known(&refs).await?;
        for _ in 0..AGAIN {
            if !seen.is_outdated(&refs, &after) {
                break;
            }
            seen = survey(&connection).await?;
            self.fetch(sandbox, &connection, &repository, &after, &seen).await?;
            after = repository.known(&refs).await?;
        }
        Ok(repository.moved(&refs, &side.known, &after).await?)
    }

    /// A sync that moved nothing is not worth a line. One that cannot be recorded has happened all the same.
    pub(crate) fn note_sync(
        &self,
        sandbox: &AgentSandbox,
        trigger: SyncTrigger,
        brought: &Result<Vec<MovedRef>, AgentError>,
    ) {
        let event = match brought {
            Ok(moved) if moved.is_empty() => return,
            Ok(moved) => Event::Synced { trigger, refs: moved.iter().take(MOST_REFS).cloned().collect() },
            Err(error) => {
                let reason = error.to_string().chars().take(MOST_WORDS).collect();
                Event::SyncFailed { trigger, reason }
            }
        };
        if let Err(error) = self.engine.note(sandbox.row.id(), &event) {
            tracing::warn!(%error, "a sync is not recorded");
        }
    }

    /// What is known of a sandbox's syncs, oldest first.
    pub fn syncs(&self, sandbox: &AgentSandbox) -> Result<Vec<SyncEntry>, AgentError> {
        let events = self.engine.store()?.events(sandbox.row.id(), 0, EVENTS_KEPT);
        let events = events.map_err(EngineError::from)?;
        let entry = |at, event| match event {
            Event::Synced { trigger, refs } => Some(SyncEntry { at, trigger, refs, error: None }),
            Event::SyncFailed { trigger, reason } => {
                Some(SyncEntry { at, trigger, refs: Vec::new(), error: Some(reason) })
            }
            _ => None,
        };
        Ok(events.into_iter().filter_map(|stored| entry(stored.at, stored.event)).collect())
    }
}
