//! What belongs to a sandbox of which the store has no record: a directory, volumes, a container that runs.
//!
//! Where a description is complete, the sandbox is recorded again; otherwise everything is kept, and shown with the
//! command that removes it. Only that command removes it, by its whole id and with a record of the removal.

use crate::adoption::UnrecordedSandbox;
use crate::description;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::gc::{GcAction, GcItem};
use crate::remove::RemoveMode;
use crate::stop::end_keeper;
use crate::turn::Turn;
use crate::whole_file;
use palisade_core::{
    Capability, Lasting, Leftover, Method, SandboxDescription, SandboxDir, SandboxId, SandboxName, printable,
};
use palisade_host::fault::Step;
use palisade_host::{process, tree};
use palisade_store::{IntentKind, Row};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::os::unix::fs::DirBuilderExt;
use std::time::Duration;

/// What the last collection found in engines without a record, for `ls`, which asks no engine.
const FILE: &str = "unrecorded.json";
/// How long `ls` waits for an engine after the store was lost.
const SEARCH_PATIENCE: Duration = Duration::from_secs(5);
/// How many volumes a whole sandbox has.
const VOLUMES: usize = 2;
/// How long another command may be at work on what has no record.
const PATIENCE: Duration = Duration::from_secs(10);

/// What engines have of sandboxes without a record.
#[derive(Debug, Default)]
pub(crate) struct Findings(BTreeMap<SandboxId, Finding>);

#[derive(Debug)]
struct Finding {
    method: Method,
    name: Option<String>,
    description: Option<SandboxDescription>,
    /// For people.
    what: Vec<String>,
    /// How many of its volumes were found.
    volumes: usize,
    is_running: bool,
}

impl Findings {
    pub(crate) fn add(&mut self, method: Method, leftover: &Leftover) {
        let Some((id, lasting)) = &leftover.sandbox else { return };
        let finding = self.0.entry(id.clone()).or_insert_with(|| Finding {
            method,
            name: None,
            description: None,
            what: Vec::new(),
            volumes: 0,
            is_running: false,
        });
        finding.what.push(leftover.what.clone());
        finding.volumes += usize::from(*lasting == Lasting::WithTheSandbox);
        finding.is_running |= leftover.is_running;
        if let Some(says) = &leftover.says {
            finding.name = finding.name.take().or_else(|| says.name.clone());
            finding.description = finding.description.take().or_else(|| says.description.clone());
        }
    }
}

/// An entry of the file.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct UnrecordedEntry {
    id: SandboxId,
    name: Option<String>,
    method: Method,
    what: Vec<String>,
}

impl Engine {
    /// Records again what describes itself, and names the rest.
    pub(crate) async fn settle_unrecorded(
        &self,
        findings: Findings,
        dry_run: bool,
    ) -> Result<Vec<Result<Option<GcItem>, EngineError>>, EngineError> {
        let mut directories = self.unrecorded.take();
        let (mut outcomes, mut noted) = (Vec::new(), Vec::new());
        for (id, finding) in findings.0 {
            match self.adopt_finding(&id, &finding, dry_run).await {
                Ok(Some(item)) => {
                    directories.retain(|directory| directory.id != id);
                    outcomes.push(Ok(Some(item)));
                }
                Ok(None) => {
                    let directory = directories.iter().position(|directory| directory.id == id);
                    let directory = directory.map(|index| directories.remove(index));
                    outcomes.push(Ok(Some(kept(&id, Some(&finding), directory.as_ref()))));
                    match directory {
                        Some(directory) => self.unrecorded.borrow_mut().push(UnrecordedSandbox {
                            name: finding.name.clone(),
                            method: Some(finding.method),
                            ..directory
                        }),
                        None => noted.push(UnrecordedEntry {
                            id,
                            name: finding.name,
                            method: finding.method,
                            what: finding.what,
                        }),
                    }
                }
                Err(error) => outcomes.push(Err(error)),
            }
        }
        for directory in directories {
            outcomes.push(Ok(Some(kept(&directory.id, None, Some(&directory)))));
            self.unrecorded.borrow_mut().push(directory);
        }
        if !dry_run {
            self.write_noted(&noted);
        }
        Ok(outcomes)
    }

    /// After the store was lost: asks the engines that were used before for sandboxes of which nothing else is left, until
    /// each has answered once. Otherwise it costs one question to the store.
    pub async fn search_engines(&self) -> Result<(), EngineError> {
        let store = self.store()?;
        let mut unsearched = store.unsearched_engines()?;
        if unsearched.is_empty() {
            return Ok(());
        }
        let (mut findings, known) = (Findings::default(), store.known_ids()?);
        for backend in self.config.backends.all() {
            let method = backend.method();
            if !unsearched.contains(&method) {
                continue;
            }
            match tokio::time::timeout(SEARCH_PATIENCE, self.leftovers_of(&backend)).await {
                Ok(Ok(found)) => {
                    let is_unknown = |leftover: &&Leftover| {
                        let its = leftover.sandbox.as_ref();
                        its.is_some_and(|(id, _)| !known.contains_key(id.as_str()))
                    };
                    found.iter().filter(is_unknown).for_each(|leftover| findings.add(method, leftover));
                    unsearched.retain(|other| *other != method);
                }
                Ok(Err(error)) => (self.config.tell)(&error.to_string()),
                Err(_) => (self.config.tell)(&format!(
                    "{method} could not be asked what is left there: it did not answer within {} s",
                    SEARCH_PATIENCE.as_secs()
                )),
            }
        }
        for outcome in self.settle_unrecorded(findings, false).await? {
            match outcome {
                Ok(Some(item)) if item.action == GcAction::Adopted => {
                    (self.config.tell)(&format!("{} was found again", item.what));
                }
                Ok(_) => {}
                Err(error) => (self.config.tell)(&error.to_string()),
            }
        }
        Ok(store.set_unsearched_engines(&unsearched)?)
    }

    /// `None` when it cannot be recorded from what was found.
    async fn adopt_finding(
        &self,
        id: &SandboxId,
        finding: &Finding,
        dry_run: bool,
    ) -> Result<Option<GcItem>, EngineError> {
        // Labels are believed only as far as they agree with what carries them.
        let owner = self.owner()?;
        let is_its = |found: &SandboxDescription| {
            let spec = &found.spec;
            spec.id == *id && spec.method == finding.method && spec.owner == owner
        };
        let Some(found) = finding.description.clone().filter(is_its) else { return Ok(None) };
        let state = &self.config.state;
        let replaceable = description::read(state, id).err().is_none_or(|why| why.may_be_replaced());
        if finding.volumes < VOLUMES || !replaceable {
            return Ok(None);
        }
        let name = found.spec.name.as_ref().map_or(id.as_str(), SandboxName::as_str).to_owned();
        let item = |name: &str| {
            let what = format!("sandbox {name} in {} without a record", finding.method);
            Some(GcItem::new(what, GcAction::Adopted))
        };
        if dry_run {
            return Ok(item(&name));
        }
        let Some(lock) = self.turn_within(id, PATIENCE).await? else { return Ok(None) };
        let store = self.store()?;
        if store.known_ids()?.contains_key(id.as_str()) {
            return Ok(None);
        }
        let dir = SandboxDir::of(state, id);
        let mut found = found;
        found.spec.dir = Some(dir.clone());
        std::fs::DirBuilder::new()
            .recursive(true)
            .mode(0o700)
            .create(dir.path())
            .map_err(EngineError::io(format!("make {}", dir.path())))?;
        description::write(&found.spec, found.created_at)?;
        let recorded = self.record_found(store, found, None)?;
        if finding.is_running
            && let Some(row) = store.by_id(id)?
        {
            self.adopt_running(&row, &lock).await?;
        }
        Ok(item(&recorded))
    }

    /// The record as the engine has it: a sandbox that runs although its record says otherwise is recorded as running.
    pub(crate) async fn refresh_from_engine(&self, row: Row, lock: &Turn) -> Result<Row, EngineError> {
        let backend = self.backend(row.spec.method)?;
        let outlives = backend.capabilities().has(Capability::OutlivesKeeper);
        if row.state.has_keeper() || !outlives || self.is_foreign(&row.spec) {
            return Ok(row);
        }
        if backend.inspect(&row.spec).await?.running {
            self.adopt_running(&row, lock).await?;
        }
        Ok(self.store()?.find(row.id().as_str())?)
    }

    /// Corrects the record of a sandbox that runs, and gives it a keeper.
    pub(crate) async fn adopt_running(&self, row: &Row, lock: &Turn) -> Result<(), EngineError> {
        let store = self.store()?;
        let keeper = self.keeper_of(row.id(), &self.living_keepers());
        store.record_running(row.id(), keeper.as_ref(), now())?;
        if let Some(row) = store.by_id(row.id())? {
            self.recovered_in_turn(row, lock).await?;
        }
        Ok(())
    }
}

fn kept(id: &SandboxId, finding: Option<&Finding>, directory: Option<&UnrecordedSandbox>) -> GcItem {
    let name = finding.and_then(|finding| finding.name.as_deref()).map(printable);
    let mut parts: Vec<String> = directory
        .and_then(|directory| directory.directory.as_ref())
        .map(|path| format!("directory {path}"))
        .into_iter()
        .collect();
    parts.extend(finding.into_iter().flat_map(|finding| finding.what.clone()));
    let named = name.map_or_else(|| format!("sandbox {id}"), |name| format!("sandbox {name} ({id})"));
    let why = directory.map(|directory| format!(": {}", directory.why)).unwrap_or_default();
    let what = format!("{named} without a record{why} ({})", parts.join(", "));
    GcItem::kept(what, format!("remove it and its files with: {}", removal(id)))
}

/// The command that removes something without a record.
pub(crate) fn removal(id: &SandboxId) -> String {
    format!("palisade rm --discard {id}")
}

impl Engine {
    /// What the last collection found in engines, as far as it has no record by now.
    pub(crate) fn noted_in_engines(&self) -> Result<Vec<UnrecordedSandbox>, EngineError> {
        let Ok(text) = std::fs::read(self.config.state.join(FILE)) else { return Ok(Vec::new()) };
        let noted: Vec<UnrecordedEntry> = serde_json::from_slice(&text).unwrap_or_default();
        let known = self.store()?.known_ids()?;
        let unknown = noted.into_iter().filter(|noted| !known.contains_key(noted.id.as_str()));
        Ok(unknown
            .map(|UnrecordedEntry { id, name, method, what }| UnrecordedSandbox {
                id,
                name,
                method: Some(method),
                why: format!("{method} has {} of it", what.join(", ")),
                directory: None,
            })
            .collect())
    }

    fn write_noted(&self, noted: &[UnrecordedEntry]) {
        let written = match noted {
            [] => match std::fs::remove_file(self.config.state.join(FILE)) {
                Err(error) if error.kind() != std::io::ErrorKind::NotFound => Err(error),
                _ => Ok(()),
            },
            noted => serde_json::to_vec(noted)
                .map_err(std::io::Error::other)
                .and_then(|text| whole_file::write(&self.config.state, FILE, &text)),
        };
        if let Err(error) = written {
            tracing::warn!(%error, "what has no record is not written down for ls");
        }
    }

    /// Removes everything of a sandbox that has no record, because the user named its whole id. `false` when there is
    /// nothing of it.
    pub(crate) async fn remove_unrecorded(
        &self,
        id: &SandboxId,
        mode: RemoveMode,
    ) -> Result<bool, EngineError> {
        let directory = SandboxDir::of(&self.config.state, id);
        let found = self.leftovers_of_sandbox(id).await?;
        if found.is_empty() && !directory.path().as_path().exists() {
            return Ok(false);
        }
        if mode != RemoveMode::Discard {
            return Err(EngineError::UnrecordedFiles { id: id.clone() });
        }
        if let Some(keeper) = &self.keeper_of(id, &self.living_keepers()) {
            end_keeper(keeper).await;
        }
        let _lease = self.lease(None);
        let lock = self.turn_within(id, PATIENCE).await?;
        if lock.is_none() {
            return Err(EngineError::UnrecordedBusy { id: id.clone() });
        }
        let store = self.store()?;
        let nothing = serde_json::Value::Null;
        let intent = store.begin_intent(id, IntentKind::Remove, &nothing, &process::this_process(), now())?;
        EngineError::step(Step::RemoveIntent)?;
        self.finish_unrecorded_removal(id).await?;
        store.end_intent(intent)?;
        Ok(true)
    }

    /// The part of it that can be done again after a crash.
    pub(crate) async fn finish_unrecorded_removal(&self, id: &SandboxId) -> Result<(), EngineError> {
        let directory = SandboxDir::of(&self.config.state, id);
        description::remove(&directory)?;
        for (backend, leftover) in self.leftovers_of_sandbox(id).await? {
            backend.discard(&leftover).await?;
        }
        let path = directory.path();
        tree::remove(path.as_path()).map_err(EngineError::io(format!("remove {path}")))?;
        let noted: Vec<UnrecordedEntry> = std::fs::read(self.config.state.join(FILE))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default();
        self.write_noted(&noted.into_iter().filter(|noted| noted.id != *id).collect::<Vec<_>>());
        Ok(())
    }

    /// What every backend has of a sandbox, containers before the volumes that they hold.
    pub(crate) async fn leftovers_of_sandbox(
        &self,
        id: &SandboxId,
    ) -> Result<Vec<(std::sync::Arc<dyn palisade_core::Backend>, Leftover)>, EngineError> {
        let mut found = Vec::new();
        for backend in self.config.backends.all() {
            let its = |leftover: &Leftover| leftover.sandbox.as_ref().is_some_and(|(of, _)| of == id);
            let all = self.leftovers_of(&backend).await?;
            found.extend(all.into_iter().filter(its).map(|leftover| (backend.clone(), leftover)));
        }
        found.sort_by_key(|(_, leftover)| {
            leftover.sandbox.as_ref().is_some_and(|(_, lasting)| *lasting == Lasting::WithTheSandbox)
        });
        Ok(found)
    }
}
