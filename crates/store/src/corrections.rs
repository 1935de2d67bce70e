//! Corrections: the record is brought in line with what was found, where it was lost, is older than what it tells of, or
//! is a copy's. They are the only changes of a state that the lifecycle does not know, and each leaves an event.

use crate::error::StoreError;
use crate::events;
use crate::open::Store;
use crate::record::{self, COLUMNS};
use crate::sandboxes::json;
use palisade_core::{Event, Method, ProcessIdentity, SandboxId, SandboxName, SandboxSpec, State};
use rusqlite::{OptionalExtension as _, Transaction, params};
use std::collections::HashMap;

/// A sandbox of which everything is there but the record.
#[derive(Debug, Clone)]
pub struct RecoveredSandbox {
    pub spec: SandboxSpec,
    /// Its host uid, when it has one of its own.
    pub uid: Option<u32>,
    pub state: State,
    pub keeper: Option<ProcessIdentity>,
    pub created_at: i64,
    /// Unix milliseconds, now.
    pub at: i64,
}

/// What the store knows of an id.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KnownId {
    /// A record, in this state; `None` when the state cannot be read.
    Sandbox(Option<State>),
    /// Only an intent.
    Intent,
}

/// Where the engines are noted that are to be asked.
const UNSEARCHED: &str = "unsearched-engines";

/// A keeper that is never alive, for a record that must name one.
fn no_process() -> ProcessIdentity {
    ProcessIdentity { pid: 0, start_ticks: 0, boot: String::new() }
}

impl Store {
    /// Every id that there is a record or an intent of.
    pub fn known_ids(&self) -> Result<HashMap<String, KnownId>, StoreError> {
        let failed = self.failed("list the sandboxes");
        let query = "SELECT sandbox_id, NULL FROM intents UNION ALL SELECT id, state FROM sandboxes";
        let mut statement = self.connection().prepare(query).map_err(&failed)?;
        let read = |row: &rusqlite::Row<'_>| {
            let known = match row.get_ref(1)? {
                rusqlite::types::ValueRef::Null => KnownId::Intent,
                _ => KnownId::Sandbox(record::lossy(row, 1)?.parse().ok()),
            };
            Ok((record::lossy(row, 0)?, known))
        };
        // Records come last, and count more than intents.
        statement.query_map([], read).map_err(&failed)?.collect::<Result<_, _>>().map_err(&failed)
    }

    /// Records a sandbox that was found without a record, in the state it is in; returns the name it got. A name that
    /// another one has by now is followed by the start of its id.
    pub fn insert_recovered(&self, found: &RecoveredSandbox) -> Result<SandboxName, StoreError> {
        let what = "record the sandbox";
        let mut spec = found.spec.clone();
        let keeper = found.keeper.as_ref();
        self.change(what, |transaction| {
            let name = self.free_name(transaction, &spec)?;
            if spec.name.is_some() {
                spec.name = Some(name.clone());
            }
            let uid = found.uid.filter(|uid| !uid_is_recorded(transaction, *uid).unwrap_or(true));
            transaction
                .execute(
                    "INSERT INTO sandboxes (id, name, method, state, spec, uid, created_at, updated_at,
                                            keeper_pid, keeper_start, keeper_boot)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)",
                    params![
                        spec.id.as_str(),
                        name.as_str(),
                        spec.method.as_str(),
                        found.state.as_str(),
                        json(&spec).map_err(self.failed(what))?,
                        uid,
                        found.created_at,
                        found.at,
                        keeper.map(|keeper| keeper.pid),
                        keeper.map(|keeper| keeper.start_ticks.cast_signed()),
                        keeper.map(|keeper| keeper.boot.as_str())
                    ],
                )
                .map_err(self.failed(what))?;
            let event = Event::Recovered { what: "found without a record".into() };
            events::insert(transaction, &spec.id, &event, found.at).map_err(self.failed(what))?;
            Ok(name)
        })
    }

    fn free_name(
        &self,
        transaction: &Transaction<'_>,
        spec: &SandboxSpec,
    ) -> Result<SandboxName, StoreError> {
        let own = spec.name.as_ref().map_or(spec.id.as_str(), SandboxName::as_str);
        // As long as a name may be, with the rest of it.
        let start: String = own.chars().take(50).collect();
        let candidates = [own.to_owned(), format!("{start}-{}", spec.id.short()), spec.id.to_string()];
        let is_free = |name: &&String| self.refuse_taken(transaction, name).is_ok();
        let free = candidates.iter().find(is_free).and_then(|name| SandboxName::new(name).ok());
        free.ok_or_else(|| StoreError::BadRow {
            id: spec.id.to_string(),
            why: "no name is free for it".into(),
        })
    }

    /// Records that a sandbox runs although the record said otherwise. Without a keeper, it is one whose keeper died.
    pub fn record_running(
        &self,
        id: &SandboxId,
        keeper: Option<&ProcessIdentity>,
        at: i64,
    ) -> Result<(), StoreError> {
        let what = "correct the sandbox's state";
        let keeper = keeper.cloned().unwrap_or_else(no_process);
        self.change(what, |transaction| {
            let changed = transaction.execute(
                "UPDATE sandboxes SET state = ?2, error = NULL, updated_at = ?3,
                        keeper_pid = ?4, keeper_start = ?5, keeper_boot = ?6
                 WHERE id = ?1 AND state NOT IN ('starting', 'running', 'stopping')",
                params![
                    id.as_str(),
                    State::Running.as_str(),
                    at,
                    keeper.pid,
                    keeper.start_ticks.cast_signed(),
                    keeper.boot
                ],
            );
            if changed.map_err(self.failed(what))? > 0 {
                let event = Event::Recovered { what: "it runs, and the record said otherwise".into() };
                events::insert(transaction, id, &event, at).map_err(self.failed(what))?;
            }
            Ok(())
        })
    }

    /// Notes what is wrong with a sandbox while it runs, or that nothing is any more.
    pub fn set_trouble(&self, id: &SandboxId, trouble: Option<&str>) -> Result<(), StoreError> {
        self.connection()
            .execute(
                "UPDATE sandboxes SET error = ?2 WHERE id = ?1 AND state = ?3",
                params![id.as_str(), trouble, State::Running.as_str()],
            )
            .map(|_| ())
            .map_err(self.failed("record what is wrong with the sandbox"))
    }

    /// The engines that were not asked since this store was begun, although the installation had used them before.
    pub fn unsearched_engines(&self) -> Result<Vec<Method>, StoreError> {
        let query = "SELECT value FROM meta WHERE key = ?1";
        let found: Option<String> = self
            .connection()
            .query_row(query, [UNSEARCHED], |row| row.get(0))
            .optional()
            .map_err(self.failed("look up which engines are to be asked"))?;
        Ok(found.unwrap_or_default().split_whitespace().filter_map(|name| name.parse().ok()).collect())
    }

    pub fn set_unsearched_engines(&self, engines: &[Method]) -> Result<(), StoreError> {
        let names: Vec<&str> = engines.iter().map(|engine| engine.as_str()).collect();
        let change = match names.is_empty() {
            true => self.connection().execute("DELETE FROM meta WHERE key = ?1", [UNSEARCHED]),
            false => self.connection().execute(
                "INSERT INTO meta (key, value) VALUES (?1, ?2)
                 ON CONFLICT (key) DO UPDATE SET value = excluded.value",
                [UNSEARCHED, &names.join(" ")],
            ),
        };
        change.map(|_| ()).map_err(self.failed("note which engines are to be asked"))
    }

    /// The store becomes another installation's: sandboxes that are whole in their directories become its own.
    pub fn set_instance(&self, instance: &str) -> Result<(), StoreError> {
        let what = "record the instance id";
        self.change(what, |transaction| self.rename_instance(transaction, instance).map(drop))
    }

    /// The store of a copied state directory becomes that of an installation of its own. No process of the original's is
    /// at work for it, and nothing runs. Returns the names of the sandboxes whose files are not in the copy.
    pub fn detach(&self, instance: &str, at: i64) -> Result<Vec<String>, StoreError> {
        let what = "make the store one of its own";
        self.change(what, |transaction| {
            let elsewhere = self.rename_instance(transaction, instance)?;
            let changes = || -> rusqlite::Result<()> {
                transaction.execute(
                    "UPDATE sandboxes SET state = 'stopped', error = NULL, updated_at = ?1
                     WHERE state IN ('starting', 'running', 'stopping')",
                    [at],
                )?;
                transaction.execute(
                    "UPDATE sandboxes SET keeper_pid = NULL, keeper_start = NULL, keeper_boot = NULL",
                    [],
                )?;
                transaction.execute("DELETE FROM intents WHERE kind NOT IN ('create', 'remove')", [])?;
                // Of what was half made or half removed, the copy is its own to finish.
                transaction
                    .execute("UPDATE intents SET owner_pid = 0, owner_start = 0, owner_boot = ''", [])
                    .map(drop)
            };
            changes().map_err(self.failed(what))?;
            Ok(elsewhere)
        })
    }

    /// The names of those that stay the other installation's.
    fn rename_instance(
        &self,
        transaction: &Transaction<'_>,
        instance: &str,
    ) -> Result<Vec<String>, StoreError> {
        let what = "record the instance id";
        let renamed = || -> rusqlite::Result<Vec<String>> {
            transaction.execute("UPDATE meta SET value = ?1 WHERE key = 'instance'", [instance])?;
            let mut elsewhere = Vec::new();
            let mut statement = transaction.prepare(&format!("SELECT {COLUMNS} FROM sandboxes"))?;
            let rows: Vec<_> = statement.query_map([], record::read)?.collect::<Result<_, _>>()?;
            // A record that cannot be read stays as it is.
            for row in rows.into_iter().flatten() {
                if row.spec.method.keeps_files_in_engine() {
                    elsewhere.push(row.name.to_string());
                } else {
                    let spec = SandboxSpec { owner: instance.to_owned(), ..row.spec };
                    let update = "UPDATE sandboxes SET spec = ?2 WHERE id = ?1";
                    transaction.execute(update, params![spec.id.as_str(), json(&spec)?])?;
                }
            }
            Ok(elsewhere)
        };
        renamed().map_err(self.failed(what))
    }
}

fn uid_is_recorded(transaction: &Transaction<'_>, uid: u32) -> rusqlite::Result<bool> {
    let query = "SELECT EXISTS (SELECT 1 FROM sandboxes WHERE uid = ?1)";
    transaction.query_row(query, [uid], |row| row.get(0))
}
