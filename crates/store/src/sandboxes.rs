//! Sandboxes: inserting with their first intent, moving along the lifecycle, listing, deleting.

use crate::error::StoreError;
use crate::events;
use crate::intents::{self, IntentId, IntentKind};
use crate::open::Store;
use crate::record::{self, COLUMNS, Listing};
use palisade_core::{Event, HostIdentity, ProcessIdentity, SandboxId, SandboxName, SandboxSpec, State};
use rusqlite::{OptionalExtension as _, Transaction, params};
use std::ops::Range;

#[derive(Debug, Clone)]
pub struct NewSandbox {
    pub spec: SandboxSpec,
    /// Gives the sandbox a host uid (and gid) of its own, the lowest free one of these. Without them the identity in the
    /// specification stands.
    pub uids: Option<Range<u32>>,
    /// Unix milliseconds.
    pub at: i64,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Inserted {
    /// The specification as stored, its identity settled.
    pub spec: SandboxSpec,
    /// The `create` intent; ended by the caller when what it announces stands.
    pub intent: IntentId,
}

impl Store {
    /// Records a sandbox in the state `created` together with the intent to make it.
    pub fn insert(&self, new: &NewSandbox, owner: &ProcessIdentity) -> Result<Inserted, StoreError> {
        let what = "record the sandbox";
        let mut spec = new.spec.clone();
        let name = spec.name.as_ref().map_or(spec.id.as_str(), SandboxName::as_str).to_owned();
        self.change(what, |transaction| {
            self.refuse_taken(transaction, &name)?;
            let uid = new.uids.as_ref().map(|uids| self.free_uid(transaction, uids)).transpose()?;
            if let Some(uid) = uid {
                spec.identity = HostIdentity { uid, gid: uid };
            }
            transaction
                .execute(
                    "INSERT INTO sandboxes (id, name, method, state, spec, uid, created_at, updated_at)
                     VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?7)",
                    params![
                        spec.id.as_str(),
                        name,
                        spec.method.as_str(),
                        State::Created.as_str(),
                        json(&spec).map_err(self.failed(what))?,
                        uid,
                        new.at
                    ],
                )
                .map_err(self.failed(what))?;
            let nothing = serde_json::Value::Null;
            let intent =
                intents::insert(transaction, spec.id.as_str(), IntentKind::Create, &nothing, owner, new.at)
                    .map_err(self.failed(what))?;
            Ok(Inserted { spec: spec.clone(), intent })
        })
    }

    /// Records what the paths of a sandbox lead to; nothing else of its specification changes.
    pub fn record_paths(&self, spec: &SandboxSpec) -> Result<(), StoreError> {
        let failed = self.failed("record what the sandbox's paths lead to");
        let paths = json(&spec.paths).map_err(&failed)?;
        let changed = self
            .connection()
            .execute(
                "UPDATE sandboxes SET spec = json_set(spec, '$.paths', json(?2)) WHERE id = ?1",
                params![spec.id.as_str(), paths],
            )
            .map_err(&failed)?;
        if changed == 0 { Err(self.not_found(spec.id.as_str())) } else { Ok(()) }
    }

    /// Moves a sandbox to `to` if the lifecycle allows it, and records the event. Returns where it was.
    /// `reason` is kept as the sandbox's error while it is in the state `error`. A state without a keeper ends
    /// whatever keeper was recorded.
    pub fn transition(
        &self,
        id: &SandboxId,
        to: State,
        reason: Option<&str>,
        at: i64,
    ) -> Result<State, StoreError> {
        self.move_state(id, None, to, reason, at)
    }

    /// As [`Store::transition`], and only if the sandbox is in one of the states `expected`.
    pub fn transition_if(
        &self,
        id: &SandboxId,
        expected: &[State],
        to: State,
        reason: Option<&str>,
        at: i64,
    ) -> Result<State, StoreError> {
        self.move_state(id, Some(expected), to, reason, at)
    }

    fn move_state(
        &self,
        id: &SandboxId,
        expected: Option<&[State]>,
        to: State,
        reason: Option<&str>,
        at: i64,
    ) -> Result<State, StoreError> {
        let what = "change the sandbox's state";
        self.change(what, |transaction| {
            let from = self.state_of(transaction, id)?;
            if let Some(expected) = expected
                && !expected.contains(&from)
            {
                return Err(StoreError::StateChanged {
                    id: id.clone(),
                    found: from,
                    expected: expected.to_vec(),
                });
            }
            from.to(to).map_err(|source| StoreError::Illegal { id: id.clone(), source })?;
            let error = (to == State::Error).then(|| reason.unwrap_or("no reason is known"));
            transaction
                .execute(
                    "UPDATE sandboxes SET state = ?2, error = ?3, updated_at = ?4 WHERE id = ?1",
                    params![id.as_str(), to.as_str(), error, at],
                )
                .map_err(self.failed(what))?;
            if !to.has_keeper() {
                // In the same step, so that whoever starts it next cannot lose its own keeper to our clean-up.
                transaction
                    .execute(
                        "UPDATE sandboxes SET keeper_pid = NULL, keeper_start = NULL, keeper_boot = NULL
                         WHERE id = ?1",
                        [id.as_str()],
                    )
                    .map_err(self.failed(what))?;
            }
            let event = Event::State { from, to, reason: reason.map(str::to_owned) };
            events::insert(transaction, id, &event, at).map_err(self.failed(what))?;
            Ok(from)
        })
    }

    /// Makes a process the keeper of a sandbox that is being started and has none yet; says whether it is.
    pub fn adopt(&self, id: &SandboxId, keeper: &ProcessIdentity) -> Result<bool, StoreError> {
        let changed = self.execute(
            "record the keeper",
            "UPDATE sandboxes SET keeper_pid = ?2, keeper_start = ?3, keeper_boot = ?4
             WHERE id = ?1 AND state = ?5 AND keeper_pid IS NULL",
            params![
                id.as_str(),
                keeper.pid,
                keeper.start_ticks.cast_signed(),
                keeper.boot.as_str(),
                State::Starting.as_str()
            ],
        )?;
        Ok(changed == 1)
    }

    /// Makes a process the keeper of a running sandbox in place of one that has died; says whether it is.
    pub fn succeed(
        &self,
        id: &SandboxId,
        dead: &ProcessIdentity,
        keeper: &ProcessIdentity,
    ) -> Result<bool, StoreError> {
        self.connection()
            .execute(
                "UPDATE sandboxes SET keeper_pid = ?2, keeper_start = ?3, keeper_boot = ?4
                 WHERE id = ?1 AND state = ?5 AND keeper_pid = ?6 AND keeper_start = ?7 AND keeper_boot = ?8",
                params![
                    id.as_str(),
                    keeper.pid,
                    keeper.start_ticks.cast_signed(),
                    keeper.boot.as_str(),
                    State::Running.as_str(),
                    dead.pid,
                    dead.start_ticks.cast_signed(),
                    dead.boot.as_str()
                ],
            )
            .map(|changed| changed == 1)
            .map_err(self.failed("record the keeper"))
    }

    /// Names the process that keeps the sandbox, or that there is none.
    pub fn set_keeper(&self, id: &SandboxId, keeper: Option<&ProcessIdentity>) -> Result<(), StoreError> {
        let changed = self
            .connection()
            .execute(
                "UPDATE sandboxes SET keeper_pid = ?2, keeper_start = ?3, keeper_boot = ?4 WHERE id = ?1",
                params![
                    id.as_str(),
                    keeper.map(|keeper| keeper.pid),
                    keeper.map(|keeper| keeper.start_ticks.cast_signed()),
                    keeper.map(|keeper| keeper.boot.as_str())
                ],
            )
            .map_err(self.failed("record the keeper"))?;
        if changed == 0 { Err(self.not_found(id.as_str())) } else { Ok(()) }
    }

    /// All sandboxes, oldest first; rows that cannot be read stand apart.
    pub fn list(&self) -> Result<Listing, StoreError> {
        let failed = self.failed("list the sandboxes");
        let query = format!("SELECT {COLUMNS} FROM sandboxes ORDER BY created_at, rowid");
        let mut statement = self.connection().prepare(&query).map_err(&failed)?;
        let mut listing = Listing::default();
        for row in statement.query_map([], record::read).map_err(&failed)? {
            match row.map_err(&failed)? {
                Ok(row) => listing.rows.push(self.placed(row)),
                Err(bad) => listing.bad.push(bad),
            }
        }
        Ok(listing)
    }

    /// Forgets a sandbox with its intents and events. Returns whether it was there; the id is text, so that a
    /// row which cannot be read can be deleted too.
    pub fn delete(&self, id: &str) -> Result<bool, StoreError> {
        let what = "forget the sandbox";
        self.change(what, |transaction| {
            transaction
                .execute("DELETE FROM intents WHERE sandbox_id = ?1", [id])
                .map_err(self.failed(what))?;
            // The events go with the row.
            let rows = transaction
                .execute("DELETE FROM sandboxes WHERE id = ?1", [id])
                .map_err(self.failed(what))?;
            Ok(rows > 0)
        })
    }

    pub(crate) fn refuse_taken(&self, transaction: &Transaction<'_>, name: &str) -> Result<(), StoreError> {
        let holder = transaction
            .query_row("SELECT id, state FROM sandboxes WHERE name = ?1", [name], |row| {
                Ok((record::lossy(row, 0)?, record::lossy(row, 1)?))
            })
            .optional()
            .map_err(self.failed("look the name up"))?;
        match holder {
            Some((id, state)) => Err(StoreError::NameTaken { name: name.to_owned(), id, state }),
            None => Ok(()),
        }
    }

    fn free_uid(&self, transaction: &Transaction<'_>, uids: &Range<u32>) -> Result<u32, StoreError> {
        let base = uids.start;
        let failed = self.failed("find a free host uid");
        // A sandbox that was found again may have the uid that another one is recorded with.
        let mut statement = transaction
            .prepare(
                "SELECT taken FROM
                     (SELECT uid AS taken FROM sandboxes
                      UNION SELECT spec ->> '$.identity.uid' FROM sandboxes WHERE json_valid(spec))
                 WHERE taken BETWEEN ?1 AND ?2 ORDER BY taken",
            )
            .map_err(&failed)?;
        let mut free = base;
        for taken in statement.query_map([base, u32::MAX], |row| row.get::<_, u32>(0)).map_err(&failed)? {
            if taken.map_err(&failed)? != free {
                break;
            }
            free = free.checked_add(1).ok_or(StoreError::NoFreeUid { base })?;
        }
        // The range ends before the last value, which is the kernel's "no uid".
        if uids.contains(&free) { Ok(free) } else { Err(StoreError::NoFreeUid { base }) }
    }

    fn state_of(&self, transaction: &Transaction<'_>, id: &SandboxId) -> Result<State, StoreError> {
        let text = transaction
            .query_row("SELECT state FROM sandboxes WHERE id = ?1", [id.as_str()], |row| {
                record::lossy(row, 0)
            })
            .optional()
            .map_err(self.failed("read the sandbox's state"))?
            .ok_or_else(|| self.not_found(id.as_str()))?;
        text.parse::<State>()
            .map_err(|error| StoreError::BadRow { id: id.to_string(), why: error.to_string() })
    }
}

/// Turns a value into its stored text; a failure is reported as SQLite's own conversion failures are.
pub(crate) fn json<T: serde::Serialize>(value: &T) -> rusqlite::Result<String> {
    serde_json::to_string(value).map_err(|error| rusqlite::Error::ToSqlConversionFailure(Box::new(error)))
}
