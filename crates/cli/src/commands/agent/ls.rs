//! `palisade agent ls`.

use super::service;
use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_agents::AgentSandbox;
use palisade_core::{HostPath, SandboxName, State, SyncMode, one_line, printable, time};
use palisade_engine::Summary;
use serde::Serialize;

/// List the sandboxes in which agents work
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

/// One agent's sandbox, as `--json` tells it.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Listed<'a> {
    name: &'a SandboxName,
    state: State,
    /// Why it is in the state `error`.
    error: Option<&'a str>,
    agent: &'a str,
    repository: &'a HostPath,
    /// The host's branch that was sent in last.
    branch: Option<String>,
    /// When its work comes into refs by itself.
    sync: SyncMode,
    /// When a sync last moved something, in unix milliseconds.
    synced_at: Option<i64>,
}

impl<'a> Listed<'a> {
    /// The state as it really is, which may be worse than what was recorded.
    fn new(sandbox: &'a AgentSandbox, synced_at: Option<i64>, summaries: &'a [Summary]) -> Self {
        let record = &sandbox.record;
        let summary = summaries.iter().find(|summary| summary.id == *sandbox.row.id());
        Self {
            name: &sandbox.row.name,
            state: summary.map_or(sandbox.row.state, |summary| summary.state),
            error: summary.and_then(|summary| summary.error.as_deref()),
            agent: &record.agent,
            repository: &record.repository,
            branch: record.branch().map(|branch| branch.to_string()),
            sync: record.sync,
            synced_at,
        }
    }
}

pub(crate) fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let service = service(context)?;
    let sandboxes = service.all()?;
    let summaries = context.engine.list()?.sandboxes;
    let mut listed = Vec::new();
    for sandbox in &sandboxes {
        let syncs = service.syncs(sandbox)?;
        let synced_at = syncs.iter().rev().find(|sync| sync.error.is_none()).map(|sync| sync.at);
        listed.push(Listed::new(sandbox, synced_at, &summaries));
    }
    if arguments.json {
        output::json(&listed)?;
        return Ok(OK);
    }
    let row = |one: &Listed<'_>| {
        vec![
            one.name.to_string(),
            one.state.to_string(),
            printable(one.agent),
            printable(one.branch.as_deref().unwrap_or("-")),
            one.sync.to_string(),
            one.synced_at.map_or_else(|| "-".to_owned(), time::utc),
            printable(&one.repository.as_path().to_string_lossy()),
            one.error.map(one_line).unwrap_or_default(),
        ]
    };
    let rows: Vec<Vec<String>> = listed.iter().map(row).collect();
    output::data(&output::table(
        &["NAME", "STATE", "AGENT", "BRANCH", "SYNC", "SYNCED", "REPOSITORY", ""],
        &rows,
    ))?;
    Ok(OK)
}
