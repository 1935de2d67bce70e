//! Work that is archived by itself, and the account of every sync. Nothing here touches a working tree or a branch of the
//! user's: what was archived waits until the user asks for it with `agent sync`.

use crate::error::AgentError;
use crate::service::{AgentSandbox, AgentService};
use palisade_core::{Event, MovedRef, SyncTrigger};
use palisade_engine::EngineError;
use palisade_store::EVENTS_KEPT;
use palisade_workspace::{ArchiveReason, ArchiveReport, CommitsOutcome, ExchangeReport};
use serde::Serialize;

/// More refs are not named one by one in an account.
const MAX_REFS: usize = 64;
/// The longest account of a failure.
const MAX_REASON: usize = 2000;

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

impl AgentService<'_> {
    /// Archives everything, and records that, or why it could not be.
    pub async fn archive(
        &self,
        sandbox: &AgentSandbox,
        trigger: SyncTrigger,
    ) -> Result<ArchiveReport, AgentError> {
        let archived = async {
            let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
            self.exchange(sandbox, &connection, async |exchange| {
                Ok(exchange.archive(ArchiveReason::Background).await?)
            })
            .await
        };
        let archived = archived.await;
        self.note_sync(sandbox, trigger, &archived.as_ref().map(archive_refs));
        archived
    }

    /// A sync that moved nothing is not worth a line. One that cannot be recorded has happened all the same.
    pub(crate) fn note_sync(
        &self,
        sandbox: &AgentSandbox,
        trigger: SyncTrigger,
        moved: &Result<Vec<MovedRef>, &AgentError>,
    ) {
        let event = match moved {
            Ok(moved) if moved.is_empty() => return,
            Ok(moved) => Event::Synced { trigger, refs: moved.iter().take(MAX_REFS).cloned().collect() },
            Err(error) => {
                let reason = error.to_string().chars().take(MAX_REASON).collect();
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

/// The refs of new archives.
fn archive_refs(report: &ArchiveReport) -> Vec<MovedRef> {
    let archive = report.archive().into_iter();
    archive
        .map(|archive| MovedRef {
            name: archive.reference.clone(),
            from: None,
            to: Some(archive.commit.to_string()),
            commits: archive.commits,
        })
        .collect()
}

/// The refs that a sync has moved.
pub(crate) fn moved_refs(report: &ExchangeReport) -> Vec<MovedRef> {
    let mut moved = archive_refs(&report.archived);
    for branch in &report.sync.branches {
        let (name, commits) = match &branch.commits {
            CommitsOutcome::Moved { count, .. } | CommitsOutcome::Merged { count } => {
                (branch.name.full(), *count)
            }
            CommitsOutcome::Created { count, name } => (format!("refs/heads/{name}"), *count),
            CommitsOutcome::Nothing | CommitsOutcome::Waiting(_) => continue,
        };
        let text = |id: &Option<palisade_workspace::ObjectId>| id.as_ref().map(ToString::to_string);
        moved.push(MovedRef { name, from: text(&branch.from), to: text(&branch.to), commits });
    }
    moved
}
