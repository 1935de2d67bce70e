//! `ls` and `inspect`: they look and change nothing.

use crate::adoption::UnrecordedSandbox;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::keep::SOCKET;
use crate::keeper::socket;
use crate::start::made_or_removed;
use crate::unrecorded::removal;
use palisade_core::{
    Capabilities, EnvironmentName, Foundation, HostPath, Layout, Method, Policy, SandboxId, SandboxName,
    State,
};
use palisade_host::process;
use palisade_protocol::client::{Client, StreamEvent};
use palisade_protocol::{KeeperVerb, Open, Report};
use palisade_store::{BadRow, Intent, Row};
use serde::Serialize;
use std::time::Duration;

/// A keeper that does not answer a question about itself in this time is not waited for.
const PATIENCE: Duration = Duration::from_secs(2);

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Summary {
    pub id: SandboxId,
    /// Its id, when it was given no name.
    pub name: SandboxName,
    pub method: Method,
    /// What it was made from.
    pub environment: Option<EnvironmentName>,
    pub state: State,
    /// Why it is in the state `error`, or what is wrong with it while it runs.
    pub error: Option<String>,
    /// Unix milliseconds.
    pub created_at: i64,
}

/// A sandbox of which there is no record, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct UnrecordedSummary {
    pub id: SandboxId,
    /// Its id, when nothing says how it was called.
    pub name: String,
    /// `null` when nothing says it.
    pub method: Option<Method>,
    pub state: UnrecordedState,
    /// Why it could not be recorded again.
    pub error: String,
    /// Where its files are, when they are on this host.
    pub directory: Option<HostPath>,
    /// The command that removes it with its files.
    pub remove: String,
}

/// The state of a sandbox without a record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum UnrecordedState {
    Unrecorded,
}

/// One of a listing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(untagged)]
pub enum ListedSandbox {
    Recorded(Summary),
    Unrecorded(UnrecordedSummary),
}

/// Everything there is to list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SandboxListing {
    pub sandboxes: Vec<Summary>,
    /// Records that cannot be read.
    pub bad: Vec<BadRow>,
    pub unrecorded: Vec<UnrecordedSummary>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Inspection {
    #[serde(flatten)]
    pub summary: Summary,
    /// In words.
    pub isolation: &'static str,
    /// The uid on the host under which everything inside runs.
    pub host_uid: u32,
    /// The sandbox's own directory on the host.
    pub directory: Option<HostPath>,
    /// The process that holds the sandbox, while it runs.
    pub keeper_pid: Option<u32>,
    pub policy: Policy,
    pub foundation: Foundation,
    pub layout: Layout,
    pub capabilities: Capabilities,
    /// The backend's own account while it runs: which limits are enforced, and how.
    #[cfg_attr(feature = "schema", schemars(with = "Option<palisade_core::Liveness>"))]
    pub running: Option<serde_json::Value>,
}

impl Engine {
    pub fn list(&self) -> Result<SandboxListing, EngineError> {
        let listing = self.store()?.list()?;
        let intents = self.store()?.intents()?.intents;
        let mut unrecorded = self.unrecorded.borrow().clone();
        let noted = self.noted_in_engines()?;
        unrecorded.extend(
            noted
                .into_iter()
                .filter(|noted| !unrecorded.iter().any(|known| known.id == noted.id))
                .collect::<Vec<_>>(),
        );
        Ok(SandboxListing {
            sandboxes: listing.rows.iter().map(|row| self.summary(row, &intents)).collect(),
            bad: listing.bad,
            unrecorded: unrecorded.into_iter().map(UnrecordedSummary::from).collect(),
        })
    }

    pub async fn inspect(&self, name: &str) -> Result<Inspection, EngineError> {
        let row = self.row(name)?;
        let backend = self.backend(row.spec.method)?;
        let running = if Self::keeper_lives(&row) { self.keeper_status(&row).await } else { None };
        Ok(Inspection {
            summary: self.summary(&row, &self.store()?.intents()?.intents),
            isolation: if row.spec.method == Method::Noop {
                "none: commands run on the host"
            } else {
                "isolated"
            },
            host_uid: row.spec.identity.uid,
            directory: row.spec.dir.as_ref().map(|dir| dir.path().clone()),
            keeper_pid: row.keeper.as_ref().filter(|_| Self::keeper_lives(&row)).map(|keeper| keeper.pid),
            layout: backend.layout(&row.spec),
            capabilities: backend.capabilities(),
            policy: row.spec.policy,
            foundation: row.spec.foundation,
            running,
        })
    }

    async fn keeper_status(&self, row: &Row) -> Option<serde_json::Value> {
        let ask = async {
            let dir = row.spec.dir.as_ref()?;
            let stream = socket::connect(dir.path(), SOCKET).await.ok()?;
            let (client, _) = Client::connect(stream).await.ok()?;
            let (_sender, mut receiver) = client.open(Open::Keeper(KeeperVerb::Status)).await.ok()?;
            while let Ok(Some(event)) = receiver.next().await {
                if let StreamEvent::Report(Report::Keeper(json)) = event {
                    return serde_json::from_str(&json).ok();
                }
            }
            None
        };
        tokio::time::timeout(PATIENCE, ask).await.ok().flatten()
    }
}

impl From<UnrecordedSandbox> for UnrecordedSummary {
    fn from(found: UnrecordedSandbox) -> Self {
        Self {
            name: found.name.unwrap_or_else(|| found.id.to_string()),
            method: found.method,
            state: UnrecordedState::Unrecorded,
            error: found.why,
            directory: found.directory,
            remove: removal(&found.id),
            id: found.id,
        }
    }
}

impl Engine {
    /// The state as it really is: a record that says "running" while the keeper is dead is an error not yet recorded.
    fn summary(&self, row: &Row, intents: &[Intent]) -> Summary {
        let foreign = self.refuse_foreign(row).err().map(|error| error.to_string());
        let trouble = foreign.or_else(|| trouble(row, intents));
        Summary {
            id: row.id().clone(),
            name: row.name.clone(),
            method: row.spec.method,
            environment: row.spec.foundation.environment.clone(),
            state: if trouble.is_some() { State::Error } else { row.state },
            error: trouble.or_else(|| row.error.clone()),
            created_at: row.created_at,
        }
    }
}

/// What a crash did to the sandbox and is not put in order yet.
fn trouble(row: &Row, intents: &[Intent]) -> Option<String> {
    let (living, dead): (Vec<&Intent>, Vec<&Intent>) = intents
        .iter()
        .filter(|intent| intent.sandbox_id == *row.id())
        .partition(|intent| process::is_alive(&intent.owner));
    if !living.is_empty() {
        return None;
    }
    if let Some(verb) = dead.iter().find_map(|intent| made_or_removed(intent.kind)) {
        let end = if verb == "create" { "takes it back" } else { "finishes it" };
        return Some(format!("its {verb} was interrupted; `palisade gc` {end}"));
    }
    let what = if row.keeper.is_none() { "its start was interrupted" } else { "its keeper died" };
    Engine::is_orphaned(row).then(|| format!("{what}; `palisade gc` puts it in order"))
}
