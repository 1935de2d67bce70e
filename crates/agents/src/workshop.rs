//! Where a repository, a sandbox and host git meet: what every agent command starts from.

use crate::error::AgentError;
use crate::record::Record;
use palisade_core::SandboxName;
use palisade_engine::{Connection, Engine};
use palisade_protocol::ExecRequest;
use palisade_store::Row;
use palisade_workspace::transport::{Limits, Service};
use palisade_workspace::{Git, GitError, Handover, Link, SandboxRefs, Tree};
use std::ffi::OsString;
use std::time::Duration;

#[derive(Debug)]
pub struct Workshop<'a> {
    pub engine: &'a Engine,
    pub git: Git,
    pub transport: Transport,
    /// The longest that one transfer may take.
    pub transfer_time: Duration,
}

/// How git reaches a sandbox's repository.
#[derive(Debug)]
pub struct Transport {
    /// A shell command that hands its pipes over to us.
    pub command: OsString,
    /// What it is told in the place of a host's name.
    pub host: String,
    pub limits: Limits,
}

/// A sandbox in which an agent works.
#[derive(Debug)]
pub struct AgentSandbox {
    pub row: Row,
    pub record: Record,
}

impl AgentSandbox {
    pub fn name(&self) -> &SandboxName {
        &self.row.name
    }

    /// Writes the record down.
    pub(crate) fn remember(&self) -> Result<(), AgentError> {
        match &self.row.spec.dir {
            Some(dir) => self.record.write(dir).map_err(AgentError::io("record the agent's sandbox")),
            None => Ok(()),
        }
    }

    pub fn refs(&self) -> SandboxRefs {
        SandboxRefs::new(self.row.name.clone())
    }
}

impl Workshop<'_> {
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

    /// Has git speak with a pack program of the sandbox's.
    pub(crate) async fn linked<T>(
        &self,
        connection: &Connection,
        service: Service,
        exchange: impl AsyncFnOnce(&Link) -> Result<T, GitError>,
    ) -> Result<T, AgentError> {
        const WHAT: &str = "give git a way into the sandbox";
        let Transport { command, host, limits } = &self.transport;
        let layout = &connection.layout;
        let (handover, theirs) = Handover::new().map_err(AgentError::io(WHAT))?;
        let link = Link {
            command: command.clone(),
            inherited: Some(theirs),
            host: host.clone(),
            directory: layout.workspace.clone(),
            limit: self.transfer_time,
        };
        let request = ExecRequest {
            argv: service.argv(&layout.workspace),
            env: variables(connection),
            cwd: layout.workspace.clone().into_bytes(),
            ..ExecRequest::default()
        };
        tokio::select! {
            biased;
            never = handover.serve(&connection.client, service, request, *limits) => match never {},
            done = first_the_other(exchange(&link)) => Ok(done?),
        }
    }
}

/// Lets what is asked of the sandbox go out before a process is started for the other, which keeps this thread a while.
pub(crate) async fn first_the_other<T>(started: impl Future<Output = T>) -> T {
    tokio::task::yield_now().await;
    started.await
}

/// A working tree in a running sandbox.
pub(crate) fn tree<'a>(connection: &'a Connection, directory: &str) -> Tree<'a> {
    Tree::new(&connection.client, variables(connection), directory)
}

fn variables(connection: &Connection) -> Vec<Vec<u8>> {
    let variables = connection.layout.environment.iter();
    variables.map(|(name, value)| format!("{name}={value}").into_bytes()).collect()
}

pub(crate) fn record(row: &Row) -> Result<Option<Record>, AgentError> {
    let Some(dir) = &row.spec.dir else { return Ok(None) };
    Record::read(dir).map_err(AgentError::io(format!("the record of sandbox '{}'", row.name)))
}
