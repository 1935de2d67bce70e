//! The tables, version by version. A migration, once released, is never edited: a change is a new entry.

use rusqlite::Transaction;

/// The version this program reads and writes, kept in `PRAGMA user_version`.
pub const VERSION: i64 = MIGRATIONS.len() as i64;

/// Entry N leads from version N to version N + 1.
const MIGRATIONS: [&str; 1] = [VERSION_1];

/// `intents.sandbox_id` has no foreign key on purpose: an intent is written before the thing it is about, and a
/// one-off run has intents and never a row.
const VERSION_1: &str = "
CREATE TABLE meta (
    key   TEXT PRIMARY KEY,
    value TEXT NOT NULL
) STRICT;

CREATE TABLE sandboxes (
    id           TEXT PRIMARY KEY,
    name         TEXT NOT NULL UNIQUE,
    method       TEXT NOT NULL,
    state        TEXT NOT NULL,
    spec         TEXT NOT NULL,
    uid          INTEGER UNIQUE,
    created_at   INTEGER NOT NULL,
    updated_at   INTEGER NOT NULL,
    error        TEXT,
    keeper_pid   INTEGER,
    keeper_start INTEGER,
    keeper_boot  TEXT
) STRICT;

CREATE TABLE intents (
    id          INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox_id  TEXT NOT NULL,
    kind        TEXT NOT NULL,
    payload     TEXT NOT NULL,
    owner_pid   INTEGER NOT NULL,
    owner_start INTEGER NOT NULL,
    owner_boot  TEXT NOT NULL,
    created_at  INTEGER NOT NULL
) STRICT;
CREATE INDEX intents_of_sandbox ON intents (sandbox_id);

CREATE TABLE events (
    seq        INTEGER PRIMARY KEY AUTOINCREMENT,
    sandbox_id TEXT NOT NULL REFERENCES sandboxes (id) ON DELETE CASCADE,
    at         INTEGER NOT NULL,
    event      TEXT NOT NULL
) STRICT;
CREATE INDEX events_of_sandbox ON events (sandbox_id, seq);

CREATE TABLE trust (
    path   TEXT PRIMARY KEY,
    digest TEXT NOT NULL,
    at     INTEGER NOT NULL
) STRICT;
";

pub(crate) fn read_version(connection: &rusqlite::Connection) -> rusqlite::Result<i64> {
    connection.pragma_query_value(None, "user_version", |row| row.get(0))
}

/// Brings the file from version `from` to [`VERSION`]; `instance` is asked for only when the file is new.
pub(crate) fn migrate(
    transaction: &Transaction<'_>,
    from: i64,
    instance: impl FnOnce() -> String,
) -> rusqlite::Result<()> {
    let done = usize::try_from(from).unwrap_or(0);
    for migration in &MIGRATIONS[done.min(MIGRATIONS.len())..] {
        transaction.execute_batch(migration)?;
    }
    if done == 0 {
        transaction.execute("INSERT INTO meta (key, value) VALUES ('instance', ?1)", [instance()])?;
    }
    transaction.pragma_update(None, "user_version", VERSION)
}
