//! From what a user typed to a sandbox: its name, its id, or the start of its id when only one has it.

use crate::error::StoreError;
use crate::open::Store;
use crate::record::{self, BadRow, COLUMNS, Row};
use palisade_core::{ProcessIdentity, SandboxId, SandboxName};
use rusqlite::{OptionalExtension as _, params};

/// Fewer characters than this are not taken as the start of an id.
const SHORTEST_PREFIX: usize = 4;

impl Store {
    pub fn by_name(&self, name: &SandboxName) -> Result<Option<Row>, StoreError> {
        self.one("name", name.as_str())
    }

    pub fn by_id(&self, id: &SandboxId) -> Result<Option<Row>, StoreError> {
        self.one("id", id.as_str())
    }

    /// A name wins over an id, and a whole id over the start of one.
    pub fn find(&self, text: &str) -> Result<Row, StoreError> {
        if let Some(row) = self.one("name", text)? {
            return Ok(row);
        }
        if let Some(row) = self.one("id", text)? {
            return Ok(row);
        }
        if text.chars().count() < SHORTEST_PREFIX {
            return Err(self.not_found(text));
        }
        let mut ids = self.ids_starting_with(text)?;
        match (ids.pop(), ids.is_empty()) {
            (None, _) => Err(self.not_found(text)),
            (Some(id), true) => self.one("id", &id)?.ok_or_else(|| self.not_found(text)),
            (Some(id), false) => {
                ids.push(id);
                Err(StoreError::Ambiguous { given: text.to_owned(), ids })
            }
        }
    }

    /// What the row names as its keeper, of a row that need not be readable otherwise.
    pub fn keeper_of(&self, id: &str) -> Result<Option<ProcessIdentity>, StoreError> {
        let query = "SELECT keeper_pid, keeper_start, keeper_boot FROM sandboxes WHERE id = ?1";
        // What is no process is nobody's keeper.
        let read = |row: &rusqlite::Row<'_>| Ok(record::identity(row, 0).ok().flatten());
        let found = self.connection().query_row(query, [id], read).optional();
        Ok(found.map_err(self.failed("look the keeper up"))?.flatten())
    }

    /// The error for a sandbox that is not there, with the names of those that are.
    pub(crate) fn not_found(&self, given: &str) -> StoreError {
        let names = || -> rusqlite::Result<Vec<String>> {
            let mut statement = self.connection().prepare("SELECT name FROM sandboxes ORDER BY name")?;
            let names = statement.query_map([], |row| record::lossy(row, 0))?;
            names.collect()
        };
        match names() {
            Ok(names) => StoreError::NotFound { given: given.to_owned(), names },
            Err(source) => self.failed("list the sandboxes")(source),
        }
    }

    /// `column` is one of ours, never a user's text.
    fn one(&self, column: &'static str, value: &str) -> Result<Option<Row>, StoreError> {
        let query = format!("SELECT {COLUMNS} FROM sandboxes WHERE {column} = ?1");
        let found = self
            .connection()
            .query_row(&query, [value], record::read)
            .optional()
            .map_err(self.failed("look the sandbox up"))?;
        let found = found.transpose().map_err(|BadRow { id, why, .. }| StoreError::BadRow { id, why })?;
        Ok(found.map(|row| self.placed(row)))
    }

    fn ids_starting_with(&self, prefix: &str) -> Result<Vec<String>, StoreError> {
        let failed = self.failed("look the sandbox up");
        // Not LIKE: the text is the user's and may hold wildcards.
        let mut statement = self
            .connection()
            .prepare("SELECT id FROM sandboxes WHERE substr(id, 1, length(?1)) = ?1 ORDER BY id")
            .map_err(&failed)?;
        let ids = statement.query_map(params![prefix], |row| record::lossy(row, 0)).map_err(&failed)?;
        ids.collect::<Result<_, _>>().map_err(&failed)
    }
}
