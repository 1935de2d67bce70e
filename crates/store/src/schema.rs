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
    apply(transaction, &MIGRATIONS, from, instance)
}

fn apply(
    transaction: &Transaction<'_>,
    migrations: &[&str],
    from: i64,
    instance: impl FnOnce() -> String,
) -> rusqlite::Result<()> {
    let done = usize::try_from(from).unwrap_or(0);
    for migration in &migrations[done.min(migrations.len())..] {
        transaction.execute_batch(migration)?;
    }
    if done == 0 {
        transaction.execute("INSERT INTO meta (key, value) VALUES ('instance', ?1)", [instance()])?;
    }
    transaction.pragma_update(None, "user_version", migrations.len() as i64)
}

#[cfg(test)]
mod tests {
    use super::*;
    use rusqlite::Connection;

    const LATER: [&str; 3] = [
        VERSION_1,
        "ALTER TABLE sandboxes ADD COLUMN note TEXT NOT NULL DEFAULT 'none'",
        "CREATE TABLE second (id TEXT)",
    ];

    /// A file that some version of the program has made.
    fn made_by(migrations: &[&str]) -> Connection {
        let mut connection = Connection::open_in_memory().unwrap();
        let transaction = connection.transaction().unwrap();
        apply(&transaction, migrations, 0, || "first".into()).unwrap();
        transaction.commit().unwrap();
        connection
    }

    fn tables(connection: &Connection) -> Vec<String> {
        let mut statement =
            connection.prepare("SELECT sql FROM sqlite_schema WHERE sql NOT NULL ORDER BY name").unwrap();
        statement.query_map([], |row| row.get(0)).unwrap().collect::<Result<_, _>>().unwrap()
    }

    #[test]
    fn a_file_of_any_version_ends_as_a_new_one_begins_and_keeps_its_instance() {
        for made in 1..=LATER.len() {
            let mut connection = made_by(&LATER[..made]);
            let transaction = connection.transaction().unwrap();
            apply(&transaction, &LATER, made as i64, || unreachable!("it has an instance")).unwrap();
            transaction.commit().unwrap();
            assert_eq!(read_version(&connection).unwrap(), 3);
            assert_eq!(tables(&connection), tables(&made_by(&LATER)));
            let instance: String =
                connection.query_row("SELECT value FROM meta", [], |row| row.get(0)).unwrap();
            assert_eq!(instance, "first");
        }
    }
}
