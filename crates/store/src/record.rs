//! Rows as the rest of the program sees them, and the reading of them out of a file that may hold anything.

use palisade_core::{ProcessIdentity, SandboxId, SandboxName, SandboxSpec, State};
use serde::Serialize;

/// One sandbox. Times are unix milliseconds.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Row {
    /// A sandbox without a name of its own is kept under its id.
    pub name: SandboxName,
    pub spec: SandboxSpec,
    pub state: State,
    /// Set when `uid` was allocated by the store.
    pub uid: Option<u32>,
    pub created_at: i64,
    pub updated_at: i64,
    /// Why it is in the state `error`, or what is wrong with it while it runs.
    pub error: Option<String>,
    pub keeper: Option<ProcessIdentity>,
}

impl Row {
    pub fn id(&self) -> &SandboxId {
        &self.spec.id
    }
}

/// A row that cannot be read, with as much of it as can be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct BadRow {
    pub id: String,
    pub name: String,
    pub why: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
pub struct Listing {
    pub rows: Vec<Row>,
    pub bad: Vec<BadRow>,
}

/// The columns [`read`] expects, in its order.
pub(crate) const COLUMNS: &str = "id, name, method, state, spec, uid, created_at, updated_at, error, keeper_pid, keeper_start, keeper_boot";

/// Reads one row. The outer error is SQLite's, the inner one is the row's own.
pub(crate) fn read(row: &rusqlite::Row<'_>) -> rusqlite::Result<Result<Row, BadRow>> {
    let id = lossy(row, 0)?;
    let name = lossy(row, 1)?;
    Ok(parse(row, &id, &name).map_err(|why| BadRow { id, name, why }))
}

fn parse(row: &rusqlite::Row<'_>, id: &str, name: &str) -> Result<Row, String> {
    let column = |error: rusqlite::Error| error.to_string();
    let text = |index: usize| row.get::<_, String>(index).map_err(column);
    let name = SandboxName::new(name).map_err(|error| error.to_string())?;
    let state = text(3)?.parse::<State>().map_err(|error| error.to_string())?;
    let spec: SandboxSpec = serde_json::from_str(&text(4)?)
        .map_err(|error| format!("its specification does not parse: {error}"))?;
    let expected_name = spec.name.as_ref().map_or(spec.id.as_str(), SandboxName::as_str);
    if spec.id.as_str() != id || expected_name != name.as_str() || spec.method.as_str() != text(2)? {
        return Err("its specification is that of another sandbox".into());
    }
    Ok(Row {
        name,
        spec,
        state,
        uid: row.get(5).map_err(column)?,
        created_at: row.get(6).map_err(column)?,
        updated_at: row.get(7).map_err(column)?,
        error: row.get(8).map_err(column)?,
        keeper: identity(row, 9).map_err(column)?,
    })
}

/// Three columns from `first` on; a process is known whole or not at all.
pub(crate) fn identity(row: &rusqlite::Row<'_>, first: usize) -> rusqlite::Result<Option<ProcessIdentity>> {
    let pid: Option<u32> = row.get(first)?;
    let start: Option<i64> = row.get(first + 1)?;
    let boot: Option<String> = row.get(first + 2)?;
    Ok(match (pid, start, boot) {
        (Some(pid), Some(start), Some(boot)) => {
            Some(ProcessIdentity { pid, start_ticks: start.cast_unsigned(), boot })
        }
        _ => None,
    })
}

/// A text column of which the bytes may be anything.
pub(crate) fn lossy(row: &rusqlite::Row<'_>, index: usize) -> rusqlite::Result<String> {
    let value = row.get_ref(index)?;
    Ok(value.as_bytes_or_null().ok().flatten().map(String::from_utf8_lossy).unwrap_or_default().into_owned())
}
