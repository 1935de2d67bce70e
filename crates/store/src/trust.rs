//! Project files the user has read and agreed to, each pinned to the digest it had then.

use crate::error::StoreError;
use crate::open::Store;
use rusqlite::{OptionalExtension as _, params};
use serde::Serialize;

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Trusted {
    /// The project's file.
    pub path: String,
    /// The SHA-256 of the contents that were agreed to.
    pub digest: String,
    /// Unix milliseconds.
    pub at: i64,
}

impl Store {
    /// Trusts the file in the form that has this digest, instead of any earlier form.
    pub fn trust_set(&self, path: &str, digest: &str, at: i64) -> Result<(), StoreError> {
        self.connection()
            .execute(
                "INSERT INTO trust (path, digest, at) VALUES (?1, ?2, ?3)
                 ON CONFLICT (path) DO UPDATE SET digest = excluded.digest, at = excluded.at",
                params![path, digest, at],
            )
            .map(|_| ())
            .map_err(self.failed("record the trust"))
    }

    /// The digest under which the file is trusted.
    pub fn trust_get(&self, path: &str) -> Result<Option<String>, StoreError> {
        self.connection()
            .query_row("SELECT digest FROM trust WHERE path = ?1", [path], |row| row.get(0))
            .optional()
            .map_err(self.failed("look the trust up"))
    }

    /// Returns whether the file was trusted.
    pub fn trust_remove(&self, path: &str) -> Result<bool, StoreError> {
        self.connection()
            .execute("DELETE FROM trust WHERE path = ?1", [path])
            .map(|rows| rows > 0)
            .map_err(self.failed("remove the trust"))
    }

    pub fn trust_list(&self) -> Result<Vec<Trusted>, StoreError> {
        let failed = self.failed("list what is trusted");
        let mut statement =
            self.connection().prepare("SELECT path, digest, at FROM trust ORDER BY path").map_err(&failed)?;
        let trusted = statement
            .query_map([], |row| Ok(Trusted { path: row.get(0)?, digest: row.get(1)?, at: row.get(2)? }))
            .map_err(&failed)?;
        trusted.collect::<Result<_, _>>().map_err(&failed)
    }
}
