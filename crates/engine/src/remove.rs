//! `rm`: work is saved first, then come an intent, the backend's resources, and last the record.

use crate::bound_repositories::BringCause;
use crate::description;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::observe::{about, observe, verb_span};
use crate::session::Connection;
use crate::start::Started;
use crate::stop::end_keeper;
use crate::unsaved_work::{ArchiveCause, ArchivedWork, UnsavedReport};
use palisade_core::{SandboxDir, SandboxId, SandboxSpec, spans};
use palisade_host::fault::Step;
use palisade_host::{process, tree};
use palisade_store::{IntentKind, Row, StoreError};
use std::path::PathBuf;
use std::time::Duration;

/// How often a sandbox that something keeps starting again is stopped in order to be removed.
const MAX_TRIES: usize = 5;
/// How long another command may be at work on a sandbox whose record cannot be read.
const LOCK_TIMEOUT: Duration = Duration::from_secs(10);
/// How long sessions have to end before the last archive is made.
const SESSION_GRACE: Duration = Duration::from_secs(3);

/// How far a removal may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub enum RemoveMode {
    /// Only a sandbox that is stopped, or, where its work is known, that has nothing which is not on the host.
    #[default]
    Careful,
    /// Also one that runs. Its work is archived first, and the sandbox stays if that fails.
    Force,
    /// Whatever is in it is given up; earlier archives stay.
    Discard,
}

/// What was removed, and what is left of it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct RemoveReport {
    /// The last record, when it could be read.
    pub sandbox: Option<Row>,
    /// Where the work is kept that was in it.
    pub archived: ArchivedWork,
    /// The files, where git inside was of no use.
    pub saved_files: Option<PathBuf>,
    /// Repositories that were in it with commits that none of their remotes had.
    pub unpublished: Vec<String>,
}

impl Engine {
    /// Removes a sandbox and everything in it.
    pub async fn remove(&self, name: &str, mode: RemoveMode) -> Result<RemoveReport, EngineError> {
        let _freeing = self.freeing_space();
        observe(verb_span!(spans::REMOVE), self.remove_observed(name, mode)).await
    }

    async fn remove_observed(&self, name: &str, mode: RemoveMode) -> Result<RemoveReport, EngineError> {
        let row = match self.row(name) {
            Err(EngineError::Store(StoreError::BadRow { id, why })) => {
                return self.remove_unreadable(&id, why, mode).await.map(|()| RemoveReport::default());
            }
            // What has no record is removed by its whole id alone.
            Err(error @ EngineError::Store(StoreError::NotFound { .. })) => match SandboxId::parse(name) {
                Ok(id) if self.remove_unrecorded(&id, mode).await? => return Ok(RemoveReport::default()),
                _ => return Err(error),
            },
            other => other?,
        };
        about(&row.spec);
        let _lease = self.lease(None);
        // From here on it is this sandbox, even if another gets its name meanwhile.
        let mut report = RemoveReport::default();
        let mut may_run = mode != RemoveMode::Careful;
        if self.has_work_to_save(&row, mode)? {
            (report.archived, report.saved_files) = self.save_work(&row, mode).await?;
            // It was looked at, and nothing in it would be lost.
            may_run = true;
        } else if !self.config.unsaved_work.concerns(&row) {
            report.unpublished = self.unpublished(&row, mode).await;
        }
        let spec = row.spec.clone();
        if mode != RemoveMode::Discard {
            self.bring_commits_back(&row).await?;
        }
        report.sandbox = Some(self.take_away(row, may_run, mode).await?);
        // Where commits stay behind, this says so.
        let put_away = self.config.bound_repositories.put_away(&spec.id, spec.name.as_ref()).await;
        put_away.map_err(EngineError::Work)?;
        Ok(report)
    }

    /// Commits in git data of the sandbox's own come to the host first; what cannot be brought keeps the sandbox.
    async fn bring_commits_back(&self, row: &Row) -> Result<(), EngineError> {
        let repositories = &self.config.bound_repositories;
        if !row.spec.policy.writes_host() || !repositories.has_commits(&row.spec) {
            return Ok(());
        }
        let id = row.id().as_str();
        let started = self.start(id).await?;
        let connection = self.connect(id).await?;
        let brought =
            repositories.bring_back(&row.spec, &connection.client, &connection.layout, BringCause::End).await;
        drop(connection);
        if started == Started::Now {
            self.stop_without_archive(id, Duration::ZERO).await?;
        }
        for line in brought.map_err(EngineError::Work)?.notes {
            (self.config.tell)(&line);
        }
        Ok(())
    }

    /// Whether there is an agent's work in it that has to be looked at first.
    fn has_work_to_save(&self, row: &Row, mode: RemoveMode) -> Result<bool, EngineError> {
        let is_asked = mode != RemoveMode::Discard && self.config.unsaved_work.concerns(row);
        // The files of one that belongs to another installation stay where they are.
        Ok(is_asked && !self.is_foreign(&row.spec) && self.is_whole(row)?)
    }

    /// Saves the work of a sandbox that is about to be removed, or refuses. Nothing was ended when it refuses.
    async fn save_work(
        &self,
        row: &Row,
        mode: RemoveMode,
    ) -> Result<(ArchivedWork, Option<PathBuf>), EngineError> {
        let id = row.id().as_str();
        let unknown = |source| EngineError::WorkUnknown { name: row.name.clone(), source: Box::new(source) };
        let started = self.start(id).await.map_err(unknown)?;
        let connection = self.connect(id).await.map_err(unknown)?;
        let saved = self.save_work_of(row, connection, started, mode).await;
        if saved.is_err() && started == Started::Now {
            // As it was before.
            self.stop_without_archive(id, Duration::ZERO).await?;
        }
        saved
    }

    async fn save_work_of(
        &self,
        row: &Row,
        connection: Connection,
        started: Started,
        mode: RemoveMode,
    ) -> Result<(ArchivedWork, Option<PathBuf>), EngineError> {
        let work = &self.config.unsaved_work;
        if mode == RemoveMode::Careful {
            self.refuse_working_agent(row, &connection).await?;
        }
        let listed = work.list(&connection).await;
        let UnsavedReport { unapplied, not_archived } = match listed {
            Ok(report) => report,
            Err(error) if mode == RemoveMode::Force && error.code() == "git-inside-broken" => {
                tracing::warn!(%error, "git in the sandbox is of no use; its files are saved instead");
                let saved = self.save_files(row, &connection).await?;
                return Ok((ArchivedWork::default(), Some(saved)));
            }
            Err(error) => return Err(EngineError::WorkNotSaved { name: row.name.clone(), error }),
        };
        let name = row.name.clone();
        if mode == RemoveMode::Careful && !(unapplied.is_empty() && not_archived.is_empty()) {
            return Err(EngineError::UnsavedWork { name, unapplied, not_archived });
        }
        if !not_archived.is_empty() {
            return Err(EngineError::NotArchived { name, items: not_archived });
        }
        connection.end_sessions(SESSION_GRACE).await?;
        // What was written since the look.
        let id = row.id().as_str();
        let connection = match started {
            Started::Now => connection,
            Started::Already => {
                // Commands of others may run besides: none of them writes anything after the archive.
                drop(connection);
                self.stop_without_archive(id, Duration::ZERO).await?;
                self.start(id).await?;
                self.connect(id).await?
            }
        };
        let archived = match work.archive(&connection, ArchiveCause::Remove).await {
            Ok(archived) if archived.not_archived.is_empty() => archived,
            Ok(archived) => {
                self.stop_without_archive(row.id().as_str(), Duration::ZERO).await?;
                return Err(EngineError::NotArchived { name, items: archived.not_archived });
            }
            Err(error) => {
                self.stop_without_archive(row.id().as_str(), Duration::ZERO).await?;
                return Err(EngineError::WorkNotSaved { name, error });
            }
        };
        Ok((archived, None))
    }

    async fn refuse_working_agent(&self, row: &Row, connection: &Connection) -> Result<(), EngineError> {
        let work = &self.config.unsaved_work;
        let sessions = connection.sessions().await?;
        let mut running = sessions.into_iter().filter(|session| session.exit.is_none());
        let session =
            running.find(|session| work.is_agent_session(&session.name)).map(|session| session.name);
        if session.is_none() && !work.has_working_agent(row) {
            return Ok(());
        }
        Err(EngineError::AgentWorking { name: row.name.clone(), session })
    }

    /// Whether no create or removal of it was interrupted: what is half there has no work to look at.
    pub(crate) fn is_whole(&self, row: &Row) -> Result<bool, EngineError> {
        let intents = self.store()?.intents()?.intents;
        let interrupted = |kind| matches!(kind, IntentKind::Create | IntentKind::Remove);
        Ok(!intents.iter().any(|intent| intent.sandbox_id == *row.id() && interrupted(intent.kind)))
    }

    async fn take_away(&self, mut row: Row, force: bool, mode: RemoveMode) -> Result<Row, EngineError> {
        let id = row.id().clone();
        for _ in 0..MAX_TRIES {
            if force && !self.is_foreign(&row.spec) {
                self.stop_without_archive(id.as_str(), Duration::ZERO).await?;
            }
            let turn = self.turn(&row).await?;
            row = self.recovered_in_turn(self.row(id.as_str())?, &turn).await?;
            row = self.refresh_from_engine(row, &turn).await?;
            if !row.state.has_keeper() {
                let store = self.store()?;
                let nothing = serde_json::Value::Null;
                store.begin_intent(&id, IntentKind::Remove, &nothing, &process::this_process(), now())?;
                EngineError::step(Step::RemoveIntent)?;
                if mode == RemoveMode::Discard {
                    self.config.bound_repositories.discard(&row.spec).map_err(EngineError::Work)?;
                }
                self.finish_removal(&row.spec).await?;
                return Ok(row);
            }
            if !force {
                break;
            }
        }
        Err(EngineError::WrongState {
            state: row.state,
            verb: "rm",
            hint: format!("stop it first (palisade stop {0}), or use palisade rm --force {0}", row.name),
            name: row.name,
        })
    }

    /// Of a record that cannot be read only the id is trusted: what the id names is removed, and nothing that the rest
    /// of the record says.
    async fn remove_unreadable(&self, text: &str, why: String, mode: RemoveMode) -> Result<(), EngineError> {
        if mode != RemoveMode::Discard {
            return Err(StoreError::BadRow { id: text.to_owned(), why }.into());
        }
        let store = self.store()?;
        let keeper = store.keeper_of(text)?.filter(process::is_alive);
        if let Some(keeper) = keeper {
            end_keeper(&keeper).await;
        }
        if let Ok(id) = SandboxId::parse(text) {
            let _turn = self.turn_within(&id, LOCK_TIMEOUT).await?;
            for (backend, leftover) in self.leftovers_of_sandbox(&id).await? {
                backend.discard(&leftover).await?;
            }
            let dir = SandboxDir::of(&self.config.state, &id);
            description::remove(&dir)?;
            let path = dir.path();
            tree::remove(path.as_path()).map_err(EngineError::io(format!("remove {path}")))?;
        }
        store.delete(text)?;
        Ok(())
    }

    /// The part of a removal that can be done again after a crash.
    pub(crate) async fn finish_removal(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        if self.is_foreign(spec) {
            return self.forget_foreign(spec);
        }
        let backend = self.backend(spec.method)?;
        backend.stop(spec).await?;
        EngineError::step(Step::RemoveStopped)?;
        self.remove_git_data(spec).await;
        if let Some(dir) = &spec.dir {
            // First of all: half a sandbox must not be found again as a whole one.
            description::remove(dir)?;
        }
        backend.remove(spec).await?;
        EngineError::step(Step::RemoveDirectories)?;
        self.store()?.delete(spec.id.as_str())?;
        EngineError::step(Step::RemoveForgotten)?;
        if let Some(objects) = &spec.policy.objects
            && let Err(error) = self.remove_unused_objects(objects)
        {
            // What is left is gc's.
            tracing::warn!(%error, "a store of objects was not removed");
        }
        Ok(())
    }

    /// Git data of the sandbox's own goes with it. Where it holds commits that the host does not have it stays, and the next
    /// run in the directory brings them.
    async fn remove_git_data(&self, spec: &SandboxSpec) {
        if !spec.policy.writes_host() {
            return;
        }
        let repositories = &self.config.bound_repositories;
        // Why it cannot be done, the next step says as well.
        let settled = repositories.settle(&spec.id).await.unwrap_or_default();
        settled.iter().for_each(|line| (self.config.tell)(line));
        if let Err(error) = repositories.put_away(&spec.id, spec.name.as_ref()).await {
            tracing::warn!(%error, "git data of a sandbox that was removed stays");
        }
    }

    /// Of a sandbox whose files are another installation's, what is here is removed and the files are not touched.
    fn forget_foreign(&self, spec: &SandboxSpec) -> Result<(), EngineError> {
        if let Some(dir) = &spec.dir {
            description::remove(dir)?;
            let path = dir.path();
            tree::remove(path.as_path()).map_err(EngineError::io(format!("remove {path}")))?;
        }
        self.store()?.delete(spec.id.as_str())?;
        Ok(())
    }
}
