//! `gc`: finishes or undoes what a crash left, and only what is ours.
//!
//! Three sources, in this order: intents whose process is dead; sandboxes whose keeper is dead; and whatever a
//! backend finds that belongs to nobody. Work in a sandbox is never removed: a sandbox that has a record keeps its
//! directories, whatever state it is in.

use crate::engine::Engine;
use crate::error::EngineError;
use palisade_core::SandboxId;
use palisade_host::process;
use palisade_store::{Intent, IntentKind};
use serde::Serialize;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
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
pub struct GcItem {
    pub what: String,
    pub action: GcAction,
}

impl Engine {
    /// Does it, or only tells what it would do.
    pub async fn gc(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        let mut items = Vec::new();
        let intents = self.store()?.intents()?.intents;
        for intent in intents.iter().filter(|intent| !process::is_alive(&intent.owner)) {
            items.extend(self.settle(intent, dry_run).await?);
        }
        for row in self.store()?.list()?.rows {
            let being_worked_on = intents
                .iter()
                .any(|intent| intent.sandbox_id == *row.id() && process::is_alive(&intent.owner));
            if row.state.has_keeper() && !Self::keeper_lives(&row) && !being_worked_on {
                items.push(GcItem {
                    what: format!("sandbox {} without a keeper", row.name),
                    action: GcAction::Recovered,
                });
                if !dry_run {
                    self.bury(&row, "its keeper died").await?;
                }
            }
        }
        items.extend(self.discard_leftovers(dry_run).await?);
        Ok(items)
    }

    async fn settle(&self, intent: &Intent, dry_run: bool) -> Result<Option<GcItem>, EngineError> {
        let store = self.store()?;
        let Some(row) = store.by_id(&intent.sandbox_id)? else {
            if !dry_run {
                store.end_intent(intent.id)?;
            }
            return Ok(None);
        };
        let item = |action, verb: &str| {
            Some(GcItem { what: format!("interrupted {verb} of sandbox {}", row.name), action })
        };
        match intent.kind {
            IntentKind::Create => {
                if !dry_run {
                    self.finish_removal(&row.spec).await?;
                }
                Ok(item(GcAction::Undone, "create"))
            }
            IntentKind::Remove => {
                if !dry_run {
                    self.finish_removal(&row.spec).await?;
                }
                Ok(item(GcAction::Finished, "rm"))
            }
            IntentKind::Start | IntentKind::Stop | IntentKind::Placeholder => {
                let verb = if intent.kind == IntentKind::Stop { "stop" } else { "start" };
                if Self::keeper_lives(&row) || !row.state.has_keeper() {
                    // The keeper went on without the command that had asked for it.
                    if !dry_run {
                        store.end_intent(intent.id)?;
                    }
                    return Ok(None);
                }
                if !dry_run {
                    self.bury(&row, &format!("its {verb} was interrupted")).await?;
                    store.end_intent(intent.id)?;
                }
                Ok(item(GcAction::Undone, verb))
            }
        }
    }

    async fn discard_leftovers(&self, dry_run: bool) -> Result<Vec<GcItem>, EngineError> {
        let owner = self.owner()?;
        let mut items = Vec::new();
        for backend in self.config.backends.all() {
            let found = backend.leftovers(owner).await?;
            // Read after the leftovers were found: a sandbox is recorded before anything is made for it.
            let known: Vec<SandboxId> =
                self.store()?.list()?.rows.iter().map(|row| row.id().clone()).collect();
            for leftover in found {
                if leftover.sandbox.as_ref().is_some_and(|id| known.contains(id)) {
                    continue;
                }
                if !dry_run {
                    backend.discard(&leftover).await?;
                }
                items.push(GcItem { what: leftover.what, action: GcAction::Removed });
            }
        }
        Ok(items)
    }
}
