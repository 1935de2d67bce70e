//! `gc`: finishes or undoes what a crash left, and only what is ours.
//!
//! Five sources, in this order: intents whose process is dead; sandboxes whose keeper is dead; what a backend finds that
//! no living process needs; wrappers that a dead process was making or removing; and stores of objects without a sandbox.
//!
//! Invariants:
//! - A user's files are removed only by a record of removal. What belongs to a sandbox without a record is recorded
//!   again or kept and named, see [`crate::unrecorded`].
//! - What runs in an engine is never ended: a record that says otherwise is corrected.
//! - A backend that could not be asked is named, and the rest is done all the same.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::observe::{observe, verb_span};
use crate::start::made_or_removed;
use crate::turn::Turn;
use crate::unrecorded::Findings;
use palisade_core::{Backend, Capability, Diagnostic, Lasting, Leftover, Method, SandboxId, spans};
use palisade_host::fault::Step;
use palisade_host::process;
use palisade_store::{Intent, IntentKind, Row, StoreError};
use serde::Serialize;
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;

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
    /// A sandbox without a record is recorded again.
    Adopted,
    /// Something without an owner is removed.
    Removed,
    /// Something that may hold a user's files stays as it is; `hint` says what can be done with it.
    Kept,
}

impl GcAction {
    /// Whether anything was changed.
    pub fn is_change(self) -> bool {
        self != Self::Kept
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct GcItem {
    /// For people: which thing it is about.
    pub what: String,
    pub action: GcAction,
    /// What a user may do about it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub hint: Option<String>,
}

impl GcItem {
    pub fn new(what: impl Into<String>, action: GcAction) -> Self {
        Self { what: what.into(), action, hint: None }
    }

    pub fn kept(what: impl Into<String>, hint: impl Into<String>) -> Self {
        Self { what: what.into(), action: GcAction::Kept, hint: Some(hint.into()) }
    }
}

/// What a collection did, and what it could not do or look at.
#[derive(Debug, Default)]
pub struct GcReport {
    pub items: Vec<GcItem>,
    pub failures: Vec<EngineError>,
}

impl GcReport {
    fn note(&mut self, outcome: Result<Option<GcItem>, EngineError>) {
        match outcome {
            Ok(item) => self.items.extend(item),
            Err(error) => {
                tracing::debug!(%error, "something could not be put in order");
                self.failures.push(error);
            }
        }
    }
}

impl Engine {
    /// For the beginning of a command that changes something: collects when a process has died at work, and otherwise
    /// only looks at the leases. What cannot be put in order is reported, and the command goes on.
    pub async fn tidy(&self) -> Vec<GcItem> {
        if self.dead_leases().is_empty() {
            return Vec::new();
        }
        let report = self
            .gc(false)
            .await
            .unwrap_or_else(|error| GcReport { items: Vec::new(), failures: vec![error] });
        for error in &report.failures {
            (self.config.tell)(&format!("what a crash left is not in order: {error}; try: palisade gc"));
        }
        report.items.into_iter().filter(|item| item.action.is_change()).collect()
    }

    /// Does it, or only reports what it would do. What cannot be put right does not keep the rest from it.
    pub async fn gc(&self, dry_run: bool) -> Result<GcReport, EngineError> {
        let _freeing = self.freeing_space();
        let report = observe(verb_span!(spans::GC), self.sweep(dry_run)).await?;
        if !dry_run {
            self.store()?.fill_reserve();
        }
        Ok(report)
    }

    async fn sweep(&self, dry_run: bool) -> Result<GcReport, EngineError> {
        let _lease = self.lease(None);
        let dead = self.dead_leases();
        let collected = self.collect(dry_run).await;
        if !dry_run {
            // Also after a failure: it was reported, and is not tried again before every single command.
            dead.iter().for_each(|lease| drop(std::fs::remove_file(lease)));
        }
        if let Ok(GcReport { failures, .. }) = &collected
            && let Some(first) = failures.first()
        {
            Span::current().record(spans::ERROR, first.code());
        }
        collected
    }

    async fn collect(&self, dry_run: bool) -> Result<GcReport, EngineError> {
        let mut report = GcReport::default();
        let intents = self.store()?.intents()?.intents;
        for intent in intents.iter().filter(|intent| !process::is_alive(&intent.owner)) {
            EngineError::step(Step::CollectFound)?;
            report.note(self.settle(intent, dry_run).await);
            EngineError::step(Step::CollectSettled)?;
        }
        for row in self.store()?.list()?.rows {
            let being_worked_on = intents
                .iter()
                .any(|intent| intent.sandbox_id == *row.id() && process::is_alive(&intent.owner));
            // In a dry run, what an intent was reported for is not reported again.
            let reported = dry_run && intents.iter().any(|intent| intent.sandbox_id == *row.id());
            if !being_worked_on && !reported && Self::is_orphaned(&row) {
                report.note(self.recover(&row, dry_run).await);
            }
        }
        let mut findings = Findings::default();
        for backend in self.config.backends.all() {
            self.collect_leftovers(&backend, dry_run, &mut report, &mut findings).await?;
        }
        for outcome in self.settle_unrecorded(findings, dry_run).await? {
            report.note(outcome);
        }
        let unasked: Vec<Method> = report.failures.iter().filter_map(EngineError::unasked).collect();
        match self.report_for_the_dead(&unasked, dry_run) {
            Ok(items) => report.items.extend(items),
            Err(error) => report.note(Err(error)),
        }
        for outcome in self.sweep_wrappers(dry_run) {
            report.note(outcome);
        }
        if !dry_run {
            self.settle_writers();
        }
        // What could not be looked at may rely on any store of objects.
        if report.failures.is_empty() && report.items.iter().all(|item| item.action != GcAction::Kept) {
            self.collect_objects(dry_run, &mut report)?;
        }
        self.collect_git_data(dry_run, &mut report).await;
        for outcome in self.collect_copies(&unasked, dry_run) {
            report.note(outcome);
        }
        Ok(report)
    }

    /// Stores of objects that no sandbox relies on any more.
    fn collect_objects(&self, dry_run: bool, report: &mut GcReport) -> Result<(), EngineError> {
        for name in self.unused_objects()? {
            let removed = match dry_run {
                true => Ok(true),
                false => self.remove_unused_objects(&name),
            };
            let item = || GcItem::new(format!("store of objects {name}"), GcAction::Removed);
            report.note(removed.map(|removed| removed.then(item)));
        }
        Ok(())
    }

    /// Git data of runs that were killed. What holds commits stays: the next run in the directory brings them back.
    async fn collect_git_data(&self, dry_run: bool, report: &mut GcReport) {
        let repositories = &self.config.bound_repositories;
        for left in repositories.left_behind() {
            let what = format!("git data of run {}", left.sandbox);
            let directory = left.directories.first().map(|(directory, _)| directory.to_string());
            if left.has_commits {
                let directory = directory.unwrap_or_default();
                let hint = format!(
                    "its commits are not on the host yet; bring them back: palisade run -w {directory} -- true"
                );
                report.items.push(GcItem::kept(what, hint));
                continue;
            }
            let removed = match dry_run {
                true => Ok(()),
                false => repositories.put_away(&left.sandbox, None).await.map_err(EngineError::Work),
            };
            report.note(removed.map(|()| Some(GcItem::new(what, GcAction::Removed))));
        }
    }

    /// Brings to an end what a dead process had begun. A process that has the sandbox's lock does it instead of us.
    async fn settle(&self, intent: &Intent, dry_run: bool) -> Result<Option<GcItem>, EngineError> {
        let store = self.store()?;
        let Some(turn) = self.turn_within(&intent.sandbox_id, Duration::ZERO).await? else { return Ok(None) };
        // It was found before we had the lock, and before its process was looked for: one that has done its work and
        // ended meanwhile has left a sandbox that is whole.
        if !store.intents()?.intents.iter().any(|standing| standing.id == intent.id) {
            return Ok(None);
        }
        let Some(row) = store.by_id(&intent.sandbox_id)? else {
            return self.settle_without_row(intent, dry_run).await;
        };
        let item = |action, verb: &str| {
            Some(GcItem::new(format!("interrupted {verb} of sandbox {}", row.name), action))
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
                let undone = item(GcAction::Undone, "start").filter(|_| orphaned);
                if !dry_run {
                    self.recovered_in_turn(row, &turn).await?;
                    store.end_intent(intent.id)?;
                }
                Ok(undone)
            }
        }
    }

    /// A removal of what never had a record is finished; any other intent without a record has nothing to undo.
    async fn settle_without_row(
        &self,
        intent: &Intent,
        dry_run: bool,
    ) -> Result<Option<GcItem>, EngineError> {
        let id = &intent.sandbox_id;
        let is_removal = intent.kind == IntentKind::Remove;
        if !dry_run {
            if is_removal {
                self.finish_unrecorded_removal(id).await?;
            }
            self.store()?.end_intent(intent.id)?;
        }
        let item = || GcItem::new(format!("interrupted rm of sandbox {id}"), GcAction::Finished);
        Ok(is_removal.then(item))
    }

    async fn recover(&self, row: &Row, dry_run: bool) -> Result<Option<GcItem>, EngineError> {
        let Some(turn) = self.turn_within(row.id(), Duration::ZERO).await? else { return Ok(None) };
        let Some(row) = self.store()?.by_id(row.id())?.filter(Self::is_orphaned) else { return Ok(None) };
        let what = format!("sandbox {} without a keeper", row.name);
        if !dry_run {
            self.recovered_in_turn(row, &turn).await?;
        }
        Ok(Some(GcItem::new(what, GcAction::Recovered)))
    }

    async fn collect_leftovers(
        &self,
        backend: &Arc<dyn Backend>,
        dry_run: bool,
        report: &mut GcReport,
        findings: &mut Findings,
    ) -> Result<(), EngineError> {
        let found = match self.leftovers_of(backend).await {
            Ok(found) => found,
            Err(error) => {
                report.note(Err(error));
                return Ok(());
            }
        };
        if !dry_run {
            self.note_searched(backend.method())?;
        }
        for leftover in found {
            let outcome = match &leftover.sandbox {
                None => self.discard(backend, &leftover, dry_run).await,
                Some((id, lasting)) => {
                    let judged = self.judge(backend, id, *lasting, leftover.is_running).await;
                    match judged {
                        Ok(Verdict::Needed) => Ok(None),
                        Ok(Verdict::Discard(_turn)) => self.discard(backend, &leftover, dry_run).await,
                        Ok(Verdict::Runs(turn)) => self.correct_to_running(id, turn, dry_run).await,
                        Ok(Verdict::Unrecorded) => {
                            findings.add(backend.method(), &leftover);
                            Ok(None)
                        }
                        Err(error) => Err(error),
                    }
                }
            };
            report.note(outcome);
            EngineError::step(Step::CollectDiscarded)?;
        }
        Ok(())
    }

    /// What a backend has of this installation's. One that cannot be asked is an error only where there may be something:
    /// an engine that was never used here need not be there.
    pub(crate) async fn leftovers_of(
        &self,
        backend: &Arc<dyn Backend>,
    ) -> Result<Vec<Leftover>, EngineError> {
        let engine = backend.method();
        let source = match backend.leftovers(self.owner()?).await {
            Ok(found) => return Ok(found),
            Err(source) => Box::new(source),
        };
        let is_recorded = self.store()?.list()?.rows.iter().any(|row| row.spec.method == engine);
        match backend.use_note() {
            _ if is_recorded => Err(EngineError::NotAsked { engine, source, forget: None }),
            Some(note) => Err(EngineError::NotAsked { engine, source, forget: Some(note) }),
            None => {
                tracing::debug!(%source, %engine, "not asked, and never used");
                Ok(Vec::new())
            }
        }
    }

    fn note_searched(&self, method: Method) -> Result<(), EngineError> {
        let store = self.store()?;
        let unsearched = store.unsearched_engines()?;
        let left: Vec<Method> = unsearched.iter().copied().filter(|other| *other != method).collect();
        if left != unsearched {
            store.set_unsearched_engines(&left)?;
        }
        Ok(())
    }

    async fn discard(
        &self,
        backend: &Arc<dyn Backend>,
        leftover: &Leftover,
        dry_run: bool,
    ) -> Result<Option<GcItem>, EngineError> {
        if !dry_run {
            backend.discard(leftover).await?;
        }
        Ok(Some(GcItem::new(leftover.what.clone(), GcAction::Removed)))
    }

    /// A sandbox that runs although its record says otherwise: the record is corrected, and it gets a keeper.
    async fn correct_to_running(
        &self,
        id: &SandboxId,
        turn: Turn,
        dry_run: bool,
    ) -> Result<Option<GcItem>, EngineError> {
        let Some(row) = self.store()?.by_id(id)? else { return Ok(None) };
        if !dry_run {
            self.adopt_running(&row, &turn).await?;
        }
        let what = format!("sandbox {}, which runs although its record said {}", row.name, row.state);
        Ok(Some(GcItem::new(what, GcAction::Recovered)))
    }
}

/// What becomes of something that a backend found.
enum Verdict {
    /// A sandbox with a record needs it, or another command is at work on it.
    Needed,
    /// The lock is held until it is gone, so that no command starts the sandbox meanwhile.
    Discard(Turn),
    /// It runs, and its record says otherwise.
    Runs(Turn),
    /// There is no record of its sandbox.
    Unrecorded,
}

impl Engine {
    /// Asked after the thing was found: a sandbox is recorded before anything is made for it. A record that cannot be read
    /// is a record all the same, and what belongs to it goes with `rm`.
    async fn judge(
        &self,
        backend: &Arc<dyn Backend>,
        id: &SandboxId,
        lasting: Lasting,
        is_running: bool,
    ) -> Result<Verdict, EngineError> {
        let Some(turn) = self.turn_within(id, Duration::ZERO).await? else { return Ok(Verdict::Needed) };
        let row = match self.store()?.by_id(id) {
            Err(StoreError::BadRow { .. }) => return Ok(Verdict::Needed),
            row => row?,
        };
        Ok(match (lasting, row) {
            (Lasting::WithTheSandbox, Some(_)) => Verdict::Needed,
            (Lasting::WithTheSandbox, None) => Verdict::Unrecorded,
            (Lasting::WhileItRuns, Some(row)) if row.state.has_keeper() => Verdict::Needed,
            (Lasting::WhileItRuns, Some(_)) if is_running && self.lives_on(backend, id) => {
                Verdict::Runs(turn)
            }
            // What a process-backed sandbox leaves behind when its keeper is dead is on its way out.
            (Lasting::WhileItRuns, Some(_)) => Verdict::Discard(turn),
            (Lasting::WhileItRuns, None) if is_running => Verdict::Unrecorded,
            // It holds nothing but what every start makes again.
            (Lasting::WhileItRuns, None) => Verdict::Discard(turn),
        })
    }

    /// Whether a sandbox in which processes run is alive: in an engine it is; elsewhere it is as long as its keeper.
    fn lives_on(&self, backend: &Arc<dyn Backend>, id: &SandboxId) -> bool {
        backend.capabilities().has(Capability::OutlivesKeeper)
            || self.keeper_of(id, &self.living_keepers()).is_some()
    }
}
