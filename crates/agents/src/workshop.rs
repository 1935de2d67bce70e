//! Where a repository, a sandbox and host git meet: what every agent command starts from.

use crate::error::AgentError;
use crate::record::Record;
use palisade_core::{Layout, SandboxName};
use palisade_engine::{Connection, Engine};
use palisade_store::Row;
use palisade_workspace::{Git, Link, SandboxRefs, Tree};
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

/// What git runs to reach a sandbox's repository.
#[derive(Debug)]
pub struct Transport {
    /// A shell command.
    pub command: OsString,
    /// What it is told in the place of a host's name, before the sandbox's id.
    pub prefix: String,
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

    pub(crate) fn link(&self, sandbox: &Row, layout: &Layout) -> Link {
        let Transport { command, prefix } = &self.transport;
        Link {
            command: command.clone(),
            // Letters and digits only, so it is nothing else to git.
            host: format!("{prefix}{}", sandbox.id()),
            directory: layout.workspace.clone(),
            limit: self.transfer_time,
        }
    }
}

/// A working tree in a running sandbox.
pub(crate) fn tree<'a>(connection: &'a Connection, directory: &str) -> Tree<'a> {
    let variables = connection.layout.environment.iter();
    let variables = variables.map(|(name, value)| format!("{name}={value}").into_bytes()).collect();
    Tree::new(&connection.client, variables, directory)
}

pub(crate) fn record(row: &Row) -> Result<Option<Record>, AgentError> {
    let Some(dir) = &row.spec.dir else { return Ok(None) };
    Record::read(dir).map_err(AgentError::io(format!("the record of sandbox '{}'", row.name)))
}
