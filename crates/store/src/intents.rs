//! Intents: what somebody is about to make or take away, written before it happens. One whose owner is dead is
//! work for the garbage collector.

use crate::error::StoreError;
use crate::open::Store;
use crate::record;
use crate::sandboxes::json;
use palisade_core::{ProcessIdentity, SandboxId};
use rusqlite::{Connection, params};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(transparent)]
pub struct IntentId(pub i64);

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum IntentKind {
    Create,
    Start,
    Stop,
    Remove,
}

impl IntentKind {
    pub const ALL: [IntentKind; 4] =
        [IntentKind::Create, IntentKind::Start, IntentKind::Stop, IntentKind::Remove];

    pub fn as_str(self) -> &'static str {
        match self {
            IntentKind::Create => "create",
            IntentKind::Start => "start",
            IntentKind::Stop => "stop",
            IntentKind::Remove => "remove",
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Intent {
    pub id: IntentId,
    pub sandbox_id: SandboxId,
    pub kind: IntentKind,
    pub payload: serde_json::Value,
    pub owner: ProcessIdentity,
    pub created_at: i64,
}

/// An intent that cannot be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadIntent {
    pub id: IntentId,
    pub sandbox_id: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Intents {
    pub intents: Vec<Intent>,
    pub bad: Vec<BadIntent>,
}

impl Store {
    /// Announces what is about to happen. The sandbox need not have a row: one-off runs have none.
    pub fn begin_intent(
        &self,
        sandbox: &SandboxId,
        kind: IntentKind,
        payload: &serde_json::Value,
        owner: &ProcessIdentity,
        at: i64,
    ) -> Result<IntentId, StoreError> {
        let what = "record the intent";
        self.change(what, |transaction| {
            insert(transaction, sandbox.as_str(), kind, payload, owner, at).map_err(self.failed(what))
        })
    }

    /// The announced thing is done or undone. Ending an intent twice is not an error.
    pub fn end_intent(&self, id: IntentId) -> Result<(), StoreError> {
        self.execute("end the intent", "DELETE FROM intents WHERE id = ?1", [id.0]).map(drop)
    }

    /// All open intents, oldest first.
    pub fn intents(&self) -> Result<Intents, StoreError> {
        let failed = self.failed("list the intents");
        let mut statement = self
            .connection()
            .prepare(
                "SELECT id, sandbox_id, kind, payload, owner_pid, owner_start, owner_boot, created_at
                 FROM intents ORDER BY id",
            )
            .map_err(&failed)?;
        let mut intents = Intents::default();
        for row in statement.query_map([], read).map_err(&failed)? {
            match row.map_err(&failed)? {
                Ok(intent) => intents.intents.push(intent),
                Err(bad) => intents.bad.push(bad),
            }
        }
        Ok(intents)
    }
}

pub(crate) fn insert(
    connection: &Connection,
    sandbox: &str,
    kind: IntentKind,
    payload: &serde_json::Value,
    owner: &ProcessIdentity,
    at: i64,
) -> rusqlite::Result<IntentId> {
    connection.execute(
        "INSERT INTO intents (sandbox_id, kind, payload, owner_pid, owner_start, owner_boot, created_at)
         VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7)",
        params![
            sandbox,
            kind.as_str(),
            json(payload)?,
            owner.pid,
            owner.start_ticks.cast_signed(),
            owner.boot,
            at
        ],
    )?;
    Ok(IntentId(connection.last_insert_rowid()))
}

fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Intent, BadIntent>> {
    let id = IntentId(row.get(0)?);
    let sandbox_id = record::lossy(row, 1)?;
    Ok(parse(row, id, &sandbox_id).map_err(|why| BadIntent { id, sandbox_id, why }))
}

fn parse(row: &rusqlite::Row<'_>, id: IntentId, sandbox_id: &str) -> Result<Intent, String> {
    let column = |error: rusqlite::Error| error.to_string();
    let kind: String = row.get(2).map_err(column)?;
    let payload: String = row.get(3).map_err(column)?;
    Ok(Intent {
        id,
        sandbox_id: SandboxId::parse(sandbox_id).map_err(|error| error.to_string())?,
        kind: IntentKind::ALL
            .into_iter()
            .find(|known| known.as_str() == kind)
            .ok_or_else(|| format!("unknown kind of intent '{}'", kind.escape_debug()))?,
        payload: serde_json::from_str(&payload)
            .map_err(|error| format!("its payload does not parse: {error}"))?,
        owner: record::identity(row, 4).map_err(column)?.ok_or("it has no owner")?,
        created_at: row.get(7).map_err(column)?,
    })
}
