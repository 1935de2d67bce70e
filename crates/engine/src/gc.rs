//! `gc`: finishes or undoes what a crash left, and only what is ours.
//!
//! Four sources, in this order: intents whose process is dead; sandboxes whose keeper is dead; whatever a backend finds
//! that belongs to nobody; and wrappers that a dead process was making or removing. Work in a sandbox is never removed:
//! a sandbox that has a record keeps its directories, whatever state it is in.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::observe::{observe, verb_span};
use crate::start::made_or_removed;
use crate::turn::Turn;
use palisade_core::{Lasting, SandboxId, spans};
use palisade_host::fault::Step;
use palisade_host::process;
use palisade_store::{Intent, IntentKind, Row, StoreError};
use serde::Serialize;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum GcAction {
    /// What was begun is brought to its end.
    Finished,
    /// What was begun is taken back.
    Undone,
    /// A dead keeper's sandbox is put in order.
    Recovered,
    /// Something without an owner is removed.
    Removed,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GcItem {
    /// For people: which thing it is about.
    pub what: String,
    pub action: GcAction,
}

impl Engine {
    /// For the beginning of a command that changes something: collects when a process has died at work, and otherwise
    /// only looks at the leases. What cannot be put in order is told and keeps nobody from going on.
    pub async fn tidy(&self) -> Vec<GcItem> {
        if self.dead_leases().is_empty() {
            return Vec::new();
        }
        let collected = self.gc(false).await;
        collected.unwrap_or_else(|error| {
            (self.config.tell)(&format!("what a crash left is not in order: {error}; try: palisade gc"));
            Vec::new()
        })
    }

    /// Does it, or only tells what it would do. What cannot be put right does not keep the rest from it: the first
    /// such failure is reported when everything else is done.
    pub async fn gc(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        observe(verb_span!(spans::GC), self.sweep(dry_run)).await
    }

    async fn sweep(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        let _lease = self.lease(None);
        let dead = self.dead_leases();
        let collected = self.collect(dry_run).await;
        if !dry_run {
            // Also after a failure: it was told, and is not tried again before every single command.
            dead.iter().for_each(|lease| drop(std::fs::remove_file(lease)));
        }
        collected
    }

    async fn collect(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        let mut sweep = Sweep { items: Vec::new(), failure: None };
        let intents = self.store()?.intents()?.intents;
        for intent in intents.iter().filter(|intent| !process::is_alive(&intent.owner)) {
            EngineError::step(Step::CollectFound)?;
            sweep.note(self.settle(intent, dry_run).await);
            EngineError::step(Step::CollectSettled)?;
        }
        for row in self.store()?.list()?.rows {
            let being_worked_on = intents
                .iter()
                .any(|intent| intent.sandbox_id == *row.id() && process::is_alive(&intent.owner));
            // In a dry run, what an intent has told already is not told again.
            let told = dry_run && intents.iter().any(|intent| intent.sandbox_id == *row.id());
            if !being_worked_on && !told && Self::is_orphaned(&row) {
                sweep.note(self.recover(&row, dry_run).await);
            }
        }
        self.discard_leftovers(dry_run, &mut sweep).await?;
        for outcome in self.sweep_wrappers(dry_run) {
            sweep.note(outcome);
        }
        sweep.failure.map_or(Ok(sweep.items), Err)
    }

    /// Brings to an end what a dead process had begun. Whoever has the sandbox's turn does it instead of us.
    async fn settle(&self, intent: &Intent, dry_run: bool) -> Result<Option<GcItem>, EngineError> {
        let store = self.store()?;
        let Some(turn) = self.turn_within(&intent.sandbox_id, Duration::ZERO).await? else { return Ok(None) };
        // It was found before the turn came, and before its process was looked for: one that has done its work and ended
        // meanwhile has left a sandbox that is whole.
        if !store.intents()?.intents.iter().any(|standing| standing.id == intent.id) {
            return Ok(None);
        }
        let Some(row) = store.by_id(&intent.sandbox_id)? else {
            if !dry_run {
                store.end_intent(intent.id)?;
            }
            return Ok(None);
        };
        let item = |action, verb: &str| {
            Some(GcItem { what: format!("interrupted {verb} of sandbox {}", row.name), action })
        };
        match made_or_removed(intent.kind) {
            Some(verb) => {
                if !dry_run {
                    self.finish_removal(&row.spec).await?;
                }
                let action =
                    if intent.kind == IntentKind::Create { GcAction::Undone } else { GcAction::Finished };
                Ok(item(action, verb))
            }
            None => {
                // Otherwise the keeper went on without the command that had asked for it.
                let orphaned = Self::is_orphaned(&row);
                let told = item(GcAction::Undone, "start").filter(|_| orphaned);
                if !dry_run {
                    self.recovered_in_turn(row, &turn).await?;
                    store.end_intent(intent.id)?;
                }
                Ok(told)
            }
        }
    }

    async fn recover(&self, row: &Row, dry_run: bool) -> Result<Option<GcItem>, EngineError> {
        let Some(turn) = self.turn_within(row.id(), Duration::ZERO).await? else { return Ok(None) };
        let Some(row) = self.store()?.by_id(row.id())?.filter(Self::is_orphaned) else { return Ok(None) };
        let what = format!("sandbox {} without a keeper", row.name);
        if !dry_run {
            self.recovered_in_turn(row, &turn).await?;
        }
        Ok(Some(GcItem { what, action: GcAction::Recovered }))
    }

    async fn discard_leftovers(&self, dry_run: bool, sweep: &mut Sweep) -> Result<(), EngineError> {
        let owner = self.owner()?;
        for backend in self.config.backends.all() {
            let found = backend.leftovers(owner).await?;
            for leftover in found {
                // Held until it is gone, so that nobody starts the sandbox it belongs to meanwhile.
                let _turn = match &leftover.sandbox {
                    Some((id, lasting)) => match self.turn_to_discard(id, *lasting).await? {
                        Some(turn) => Some(turn),
                        None => continue,
                    },
                    None => None,
                };
                let gone = if dry_run { Ok(()) } else { backend.discard(&leftover).await };
                let item = GcItem { what: leftover.what, action: GcAction::Removed };
                sweep.note(gone.map(|()| Some(item)).map_err(EngineError::from));
                EngineError::step(Step::CollectDiscarded)?;
            }
        }
        Ok(())
    }
}

impl Engine {
    /// The turn of a sandbox that has no use for what was found: nobody knows it, or it does not run and would make
    /// the thing anew. Asked after the thing was found: a sandbox is recorded before anything is made for it. A record
    /// that cannot be read is a record all the same, and what belongs to it goes with `rm`.
    async fn turn_to_discard(&self, id: &SandboxId, lasting: Lasting) -> Result<Option<Turn>, EngineError> {
        let Some(turn) = self.turn_within(id, Duration::ZERO).await? else { return Ok(None) };
        let needed = match (self.store()?.by_id(id), lasting) {
            (Ok(row), Lasting::WhileItRuns) => row.is_some_and(|row| row.state.has_keeper()),
            (Ok(row), Lasting::WithTheSandbox) => row.is_some(),
            (Err(StoreError::BadRow { .. }), _) => true,
            (Err(error), _) => return Err(error.into()),
        };
        Ok((!needed).then_some(turn))
    }
}

/// What was done so far, and the first thing that could not be.
struct Sweep {
    items: Vec<GcItem>,
    failure: Option<EngineError>,
}

impl Sweep {
    fn note(&mut self, outcome: Result<Option<GcItem>, EngineError>) {
        match outcome {
            Ok(item) => self.items.extend(item),
            Err(error) => {
                tracing::warn!(%error, "something could not be put in order");
                self.failure.get_or_insert(error);
            }
        }
    }
}
