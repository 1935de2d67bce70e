//! The newest events of each sandbox, for `inspect` and for whoever follows along.

use crate::error::StoreError;
use crate::open::Store;
use crate::sandboxes::json;
use palisade_core::{Event, SandboxId};
use rusqlite::{Connection, params};
use serde::Serialize;

/// How many events of one sandbox are kept; older ones go as new ones come.
pub const EVENTS_KEPT: usize = 1000;
/// How many of them may be about syncs, which come as often as an agent likes: the rest of the history stays.
const SYNCS_KEPT: usize = 300;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct StoredEvent {
    /// Grows with every event of the whole store and is never used twice.
    pub seq: i64,
    /// Unix milliseconds.
    pub at: i64,
    #[serde(flatten)]
    pub event: Event,
}

impl Store {
    pub fn append_event(&self, id: &SandboxId, event: &Event, at: i64) -> Result<i64, StoreError> {
        let what = "record the event";
        self.change(what, |transaction| {
            let known: bool = transaction
                .query_row("SELECT EXISTS (SELECT 1 FROM sandboxes WHERE id = ?1)", [id.as_str()], |row| {
                    row.get(0)
                })
                .map_err(self.failed(what))?;
            if !known {
                return Err(self.not_found(id.as_str()));
            }
            insert(transaction, id, event, at).map_err(self.failed(what))
        })
    }

    /// Up to `limit` events after `after_seq` (0 for the first), oldest first. An event that cannot be read,
    /// such as one of a later version's kinds, is left out and does not count.
    pub fn events(
        &self,
        id: &SandboxId,
        after_seq: i64,
        limit: usize,
    ) -> Result<Vec<StoredEvent>, StoreError> {
        let failed = self.failed("read the events");
        let mut statement = self
            .connection()
            .prepare("SELECT seq, at, event FROM events WHERE sandbox_id = ?1 AND seq > ?2 ORDER BY seq")
            .map_err(&failed)?;
        let rows = statement.query_map(params![id.as_str(), after_seq], read).map_err(&failed)?;
        rows.filter_map(Result::transpose).take(limit).collect::<Result<_, _>>().map_err(&failed)
    }
}

pub(crate) fn insert(
    connection: &Connection,
    id: &SandboxId,
    event: &Event,
    at: i64,
) -> rusqlite::Result<i64> {
    connection.execute(
        "INSERT INTO events (sandbox_id, at, event) VALUES (?1, ?2, ?3)",
        params![id.as_str(), at, json(event)?],
    )?;
    let seq = connection.last_insert_rowid();
    connection.execute(
        "DELETE FROM events WHERE sandbox_id = ?1 AND seq <=
             (SELECT seq FROM events WHERE sandbox_id = ?1 ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
        params![id.as_str(), EVENTS_KEPT as i64],
    )?;
    if matches!(event, Event::Synced { .. } | Event::SyncFailed { .. }) {
        connection.execute(
            "DELETE FROM events WHERE sandbox_id = ?1 AND event ->> 'event' IN ('synced', 'sync-failed') AND seq <=
                 (SELECT seq FROM events WHERE sandbox_id = ?1 AND event ->> 'event' IN ('synced', 'sync-failed')
                  ORDER BY seq DESC LIMIT 1 OFFSET ?2)",
            params![id.as_str(), SYNCS_KEPT as i64],
        )?;
    }
    Ok(seq)
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Option<StoredEvent>> {
    let text = crate::record::lossy(row, 2)?;
    let Ok(event) = serde_json::from_str(&text) else { return Ok(None) };
    Ok(Some(StoredEvent { seq: row.get(0)?, at: row.get(1)?, event }))
}
