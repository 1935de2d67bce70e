//! Where a repository, a sandbox and host git meet: what every agent command starts from.

use crate::error::AgentError;
use crate::record::Record;
use palisade_core::{HostPath, SandboxName};
use palisade_engine::{Connection, Engine, Started};
use palisade_store::Row;
use palisade_workspace::{
    Exchange, Git, HostTree, NotUsable, SandboxRefs, SandboxRepository, TransferLimits,
};
use std::time::Duration;

/// How long processes have to end in a sandbox that was started for one command only.
const STOP_GRACE: Duration = Duration::from_secs(2);

/// Agents in sandboxes: starting them, bringing their work back, and what is known of them.
#[derive(Debug)]
pub struct AgentService<'a> {
    pub engine: &'a Engine,
    pub git: Git,
    pub limits: TransferLimits,
    /// The directory that the user is in, which tells where a repository has been moved to.
    pub here: Option<HostPath>,
}

/// A sandbox in which an agent works.
#[derive(Debug, Clone)]
pub struct AgentSandbox {
    pub row: Row,
    pub record: Record,
}

impl AgentSandbox {
    pub fn name(&self) -> &SandboxName {
        &self.row.name
    }

    pub fn refs(&self) -> SandboxRefs {
        SandboxRefs::new(self.row.id().clone(), self.row.name.clone())
    }

    /// Writes the record.
    pub(crate) fn save(&self) -> Result<(), AgentError> {
        match &self.row.spec.dir {
            Some(dir) => self.record.write(dir).map_err(AgentError::io("record the agent's sandbox")),
            None => Ok(()),
        }
    }
}

impl AgentService<'_> {
    /// An agent's sandbox by name or id.
    pub fn find(&self, name: &str) -> Result<AgentSandbox, AgentError> {
        let row = self.engine.store()?.find(name).map_err(palisade_engine::EngineError::from)?;
        match record(&row)? {
            Some(record) => Ok(AgentSandbox { record, row }),
            None => Err(AgentError::NotAnAgents { name: row.name }),
        }
    }

    /// All sandboxes in which agents work.
    pub fn all(&self) -> Result<Vec<AgentSandbox>, AgentError> {
        let rows = self.engine.store()?.list().map_err(palisade_engine::EngineError::from)?.rows;
        let mut found = Vec::new();
        for row in rows {
            if let Some(record) = record(&row)? {
                found.push(AgentSandbox { row, record });
            }
        }
        Ok(found)
    }

    /// The sandboxes that belong to the repository of a directory.
    pub async fn of_repository(
        &self,
        directory: &HostPath,
    ) -> Result<(HostPath, Vec<AgentSandbox>), AgentError> {
        let place = HostTree::around(&self.git, directory).await?;
        let id = crate::identity::read(&place.repository);
        let mut found = self.all()?;
        found.retain(|sandbox| {
            let same_place = sandbox.record.repository == place.root;
            let same_id = id.is_some() && sandbox.record.repository_id == id;
            // One that was moved is found by its id; the place that it was at is gone.
            same_place || (same_id && !crate::identity::is_at(&sandbox.record))
        });
        Ok((place.root, found))
    }

    /// Does something with a sandbox that runs; one that does not is started for it, and stopped again unless something
    /// else uses it by then.
    pub(crate) async fn with_running<T>(
        &self,
        sandbox: &AgentSandbox,
        act: impl AsyncFnOnce(&Connection) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let id = sandbox.row.id().as_str();
        let started = self.engine.start(id).await?;
        let connection = self.engine.connect(id).await?;
        let done = act(&connection).await;
        if started == Started::Now {
            let sessions = connection.sessions().await?;
            if sessions.iter().all(|session| session.exit.is_some()) {
                connection.stop_if_unused(STOP_GRACE).await?;
            }
        }
        done
    }

    /// The repository's place now: where it was, or where it has been moved to.
    pub(crate) async fn locate(&self, sandbox: &AgentSandbox) -> Result<HostPath, AgentError> {
        crate::identity::locate(&self.git, sandbox, self.here.as_ref()).await
    }

    /// Both sides of the exchange.
    pub(crate) async fn exchange<T>(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        act: impl AsyncFnOnce(&Exchange<'_>) -> Result<T, AgentError>,
    ) -> Result<T, AgentError> {
        let (root, refs) = (self.locate(sandbox).await?, sandbox.refs());
        let sandbox_side = repository(connection, self.limits);
        let agent = sandbox.record.agent.as_str();
        act(&Exchange { git: &self.git, root: &root, refs: &refs, sandbox: sandbox_side, agent }).await
    }
}

/// The repository in a running sandbox.
pub(crate) fn repository(connection: &Connection, limits: TransferLimits) -> SandboxRepository<'_> {
    let layout = &connection.layout;
    let environment = layout.environment.iter();
    let environment = environment.map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
    let (guest, workspace) = (layout.guest.clone(), layout.workspace.clone());
    SandboxRepository::new(&connection.client, environment, guest, workspace, limits)
}

pub(crate) fn record(row: &Row) -> Result<Option<Record>, AgentError> {
    let Some(dir) = &row.spec.dir else { return Ok(None) };
    Record::read(dir).map_err(AgentError::io(format!("the record of sandbox '{}'", row.name)))
}

/// A repository that cannot be used is not the sandbox's fault.
impl From<NotUsable> for AgentError {
    fn from(error: NotUsable) -> Self {
        match error {
            NotUsable::Git(git) => git.into(),
            other => Self::Repository(other),
        }
    }
}
