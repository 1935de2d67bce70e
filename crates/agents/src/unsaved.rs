//! What of an agent's work is only in its sandbox, for whatever ends or removes that.

use crate::error::AgentError;
use crate::record::Record;
use crate::service::{AgentSandbox, record, repository};
use crate::working::is_working;
use crate::worktrees::is_agent_session;
use palisade_core::{BoxFuture, HostPath};
use palisade_engine::{ArchiveCause, ArchivedWork, Connection, UnsavedReport, UnsavedWork, WorkError};
use palisade_store::Row;
use palisade_workspace::{
    ArchiveReason, ArchiveReport, CommitsOutcome, Exchange, ExchangeReport, FilesOutcome, Git,
    TransferLimits, WhyFilesWait,
};

/// Lines of a list for people; the rest is counted.
const MAX_LINES: usize = 40;

/// The work of agents' sandboxes, as the engine asks about it.
#[derive(Debug)]
pub struct AgentWork {
    pub git: Git,
    pub limits: TransferLimits,
    /// The directory that the user is in.
    pub here: Option<HostPath>,
}

impl AgentWork {
    fn sandbox(&self, row: &Row) -> Result<Option<AgentSandbox>, AgentError> {
        let found = record(row)?;
        Ok(found.map(|record| AgentSandbox { row: row.clone(), record }))
    }

    async fn with_exchange<T>(
        &self,
        connection: &Connection,
        act: impl AsyncFnOnce(&Exchange<'_>) -> Result<T, AgentError>,
    ) -> Result<Option<T>, AgentError> {
        let Some(sandbox) = self.sandbox(&connection.row)? else { return Ok(None) };
        let root = crate::identity::locate(&self.git, &sandbox, self.here.as_ref()).await?;
        let refs = sandbox.refs();
        let side = repository(connection, self.limits);
        let agent = sandbox.record.agent.as_str();
        let exchange = Exchange { git: &self.git, root: &root, refs: &refs, sandbox: side, agent };
        act(&exchange).await.map(Some)
    }

    async fn listed(&self, connection: &Connection) -> Result<UnsavedReport, AgentError> {
        let report = self
            .with_exchange(connection, async |exchange| Ok(exchange.unapplied(ArchiveReason::Remove).await?))
            .await?;
        Ok(report.map(|report| unsaved(&report)).unwrap_or_default())
    }

    async fn archived(
        &self,
        connection: &Connection,
        cause: ArchiveCause,
    ) -> Result<ArchivedWork, AgentError> {
        let reason = match cause {
            ArchiveCause::Stop => ArchiveReason::Stop,
            ArchiveCause::Remove => ArchiveReason::Remove,
        };
        let archived = self
            .with_exchange(connection, async |exchange| {
                let report = exchange.archive(reason).await?;
                let archives = exchange.archive_references().await?;
                let ignored = match cause {
                    ArchiveCause::Remove => exchange.sandbox.ignored_size().await?,
                    ArchiveCause::Stop => (0, 0),
                };
                Ok((report, archives, ignored))
            })
            .await?;
        let Some((report, archives, (ignored_files, ignored_bytes))) = archived else {
            return Ok(ArchivedWork::default());
        };
        Ok(ArchivedWork {
            archives,
            not_archived: not_archived(&report),
            ignored_files,
            ignored_bytes,
            has_conversations: cause == ArchiveCause::Remove,
        })
    }
}

impl UnsavedWork for AgentWork {
    fn concerns(&self, sandbox: &Row) -> bool {
        // A record that cannot be read is one all the same.
        sandbox.spec.dir.as_ref().is_some_and(Record::exists)
    }

    fn is_agent_session(&self, session: &str) -> bool {
        is_agent_session(session)
    }

    fn has_working_agent(&self, sandbox: &Row) -> bool {
        is_working(sandbox, None)
    }

    fn list<'a>(&'a self, connection: &'a Connection) -> BoxFuture<'a, Result<UnsavedReport, WorkError>> {
        Box::pin(async move { self.listed(connection).await.map_err(|error| Box::new(error) as WorkError) })
    }

    fn archive<'a>(
        &'a self,
        connection: &'a Connection,
        cause: ArchiveCause,
    ) -> BoxFuture<'a, Result<ArchivedWork, WorkError>> {
        Box::pin(async move {
            self.archived(connection, cause).await.map_err(|error| Box::new(error) as WorkError)
        })
    }

    fn unpublished<'a>(
        &'a self,
        connection: &'a Connection,
    ) -> BoxFuture<'a, Result<Vec<String>, WorkError>> {
        Box::pin(async move {
            let found = repository(connection, self.limits).unpublished().await;
            found.map_err(|error| Box::new(AgentError::from(error)) as WorkError)
        })
    }
}

/// What a plan of a sync would bring, and what could not be archived.
pub(crate) fn unsaved(report: &ExchangeReport) -> UnsavedReport {
    let mut lines = Vec::new();
    for branch in &report.sync.branches {
        let commits = |count: u32| format!("{count} {}", if count == 1 { "commit" } else { "commits" });
        let count = match &branch.commits {
            CommitsOutcome::Nothing => continue,
            CommitsOutcome::Moved { count, .. }
            | CommitsOutcome::Created { count, .. }
            | CommitsOutcome::Merged { count } => *count,
            CommitsOutcome::Waiting(waiting) => waiting.count,
        };
        lines.push(format!("branch {}: {}", branch.name, commits(count)));
    }
    for tree in &report.sync.trees {
        match &tree.files {
            FilesOutcome::Waiting(WhyFilesWait::SandboxBusy(operation)) => {
                lines.push(format!("{}: changes in the middle of a {operation}", tree.path));
            }
            FilesOutcome::Waiting(_) => lines.push(format!("{}: files that are not committed", tree.path)),
            FilesOutcome::Applied { report, .. } => {
                let paths = report.written.iter().chain(&report.conflicts).chain(&report.waiting);
                lines.extend(paths.map(|path| {
                    format!(
                        "{}: {} (not committed)",
                        tree.path,
                        palisade_core::printable(&path.to_string_lossy())
                    )
                }));
            }
        }
    }
    for (path, commit) in &report.sync.detached {
        lines.push(format!("{path}: commits on no branch, at {}", commit.short()));
    }
    for entry in &report.sync.stashes {
        lines.push(format!("stash entry: {}", if entry.message.is_empty() { "-" } else { &entry.message }));
    }
    for tag in &report.sync.tags {
        lines.push(format!("tag {}", palisade_core::printable(&tag.name)));
    }
    for nested in report.archived.nested.iter().filter(|nested| !nested.is_on_host) {
        lines.push(format!("nested repository {}", nested.path));
    }
    UnsavedReport { unapplied: shortened(lines), not_archived: shortened(not_archived(&report.archived)) }
}

fn not_archived(report: &ArchiveReport) -> Vec<String> {
    let left_out = report.left_out.iter().map(|left_out| format!("{}: {}", left_out.path, left_out.reason));
    let nested = report.nested.iter().flat_map(|nested| &nested.outcome.refused);
    let refused = report.main.refused.iter().chain(nested);
    let refused = refused.map(|refused| format!("{}: {}", refused.what.describe(), refused.reason));
    left_out.chain(refused).collect()
}

fn shortened(mut lines: Vec<String>) -> Vec<String> {
    if lines.len() > MAX_LINES {
        let more = lines.len() - MAX_LINES;
        lines.truncate(MAX_LINES);
        lines.push(format!("and {more} more"));
    }
    lines
}
