//! `agent start` up to the agent itself: the repository is checked, the sandbox is there and running, and holds the
//! code, the files and the identity that an agent needs.

use crate::drift::{Given, without_effect};
use crate::env_files;
use crate::error::AgentError;
use crate::inside::run_inside;
use crate::profile::Profile;
use crate::record::Record;
use crate::surroundings::Surroundings;
use crate::workshop::{AgentSandbox, Workshop, tree};
use palisade_core::{FilePattern, Foundation, HostPath, Method, Policy, SandboxName, SyncMode};
use palisade_engine::{Connection, CreateRequest, EngineError, Started};
use palisade_store::StoreError;
use palisade_workspace::transport::Service;
use palisade_workspace::{Arrival, Facts, Identity, Link, Progress};
use std::path::{Path, PathBuf};

/// What to start from.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub directory: HostPath,
    /// Else the repository's own.
    pub name: Option<SandboxName>,
    pub allow_dirty: bool,
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
    /// What of that was said on the command line.
    pub given: Vec<Given>,
    /// When the work is to come into refs by itself, as it was said for this start.
    pub sync: Option<SyncMode>,
    /// When nobody says so, for a new sandbox.
    pub default_sync: SyncMode,
    pub idle_seconds: u32,
    /// Files beside the code that the agent needs.
    pub env_files: Vec<FilePattern>,
    /// Those that its sessions have as variables.
    pub env_load: Vec<FilePattern>,
}

/// What happened on the way, for whoever watches.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Repository {
        root: PathBuf,
        branch: String,
        commit: String,
    },
    /// Something will not come along.
    Limit(&'static str),
    LeftBehind {
        changes: usize,
    },
    Created(SandboxName),
    Reused(SandboxName),
    /// Options that count only when a sandbox is made.
    WithoutEffect(Vec<&'static str>),
    Syncs(SyncMode),
    /// The keeper is of an earlier version and knows nothing of modes.
    SyncsLater,
    Running {
        already: bool,
    },
    /// Something has begun that may take a while.
    Doing(&'static str),
    Sending(Progress),
    Arrived(Arrival),
    EnvFiles(Vec<String>),
    Loaded(Surroundings),
    /// A file that matches, but is a link or a directory.
    NotSent(String),
    Key {
        made: bool,
    },
}

/// Whether the keeper of a sandbox that runs knows already what it is to do.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Orders {
    Known,
    New,
}

/// A sandbox with everything in place.
#[derive(Debug)]
pub struct Ready {
    pub sandbox: AgentSandbox,
    pub connection: Connection,
}

impl Workshop<'_> {
    pub async fn arrive(
        &self,
        request: StartRequest,
        profile: &Profile,
        tell: &mut dyn FnMut(Step),
    ) -> Result<Ready, AgentError> {
        let facts = Facts::gather(&self.git, &request.directory).await?;
        tell(Step::Repository {
            root: facts.root.as_path().to_owned(),
            branch: facts.branch.to_string(),
            commit: facts.head.short().to_owned(),
        });
        facts.limits.iter().for_each(|limit| tell(Step::Limit(limit.told())));
        if !facts.changes.is_empty() {
            if !request.allow_dirty {
                return Err(AgentError::Uncommitted { root: facts.root, changes: facts.changes });
            }
            tell(Step::LeftBehind { changes: facts.changes.len() });
        }
        let (mut sandbox, orders) = self.create_or_reuse(&request, profile, &facts, tell).await?;
        tell(Step::Doing("starting the sandbox"));
        let started = self.engine.start(sandbox.row.id().as_str()).await?;
        tell(Step::Running { already: started == Started::Already });
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        // Over a connection of its own: a keeper that does not know the word hangs up.
        if started == Started::Already
            && orders == Orders::New
            && !self.engine.connect(sandbox.row.id().as_str()).await?.give_orders().await
        {
            tell(Step::SyncsLater);
        }
        self.send(&connection, &facts, tell).await?;
        let sent = env_files::send(&connection, &facts, &request.env_files, tell).await?;
        sandbox.record.env_files = sent;
        sandbox.record.env_load = request.env_load.iter().map(ToString::to_string).collect();
        sandbox.remember()?;
        env_files::furnish(&connection, &request.env_load).await?;
        make_key(&connection, tell).await?;
        Ok(Ready { sandbox, connection })
    }

    /// The sandbox of an earlier start, if it is this repository's.
    pub async fn earlier(&self, request: &StartRequest) -> Result<Option<AgentSandbox>, AgentError> {
        let facts = Facts::gather(&self.git, &request.directory).await?;
        let name = self.name(request, &facts)?;
        match self.engine.store()?.find(name.as_str()) {
            Ok(row) => self.of_repository(row.id().as_str(), &facts).map(Some),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    fn name(&self, request: &StartRequest, facts: &Facts) -> Result<SandboxName, AgentError> {
        let given = request.name.clone();
        given
            .or_else(|| name_for(facts.root.as_path()))
            .ok_or_else(|| AgentError::NoName { root: facts.root.clone() })
    }

    fn of_repository(&self, id: &str, facts: &Facts) -> Result<AgentSandbox, AgentError> {
        let known = self.find(id)?;
        if known.record.repository != facts.root {
            return Err(AgentError::OtherRepository { name: known.row.name, other: known.record.repository });
        }
        Ok(known)
    }

    async fn create_or_reuse(
        &self,
        request: &StartRequest,
        profile: &Profile,
        facts: &Facts,
        tell: &mut dyn FnMut(Step),
    ) -> Result<(AgentSandbox, Orders), AgentError> {
        let name = self.name(request, facts)?;
        let mut orders = Orders::New;
        let mut record = Record::new(facts.root.clone(), &facts.branch, &profile.name);
        record.idle_seconds = request.idle_seconds;
        record.sync = request.sync.unwrap_or(request.default_sync);
        let row = match self.engine.store()?.find(name.as_str()) {
            Ok(row) => {
                let known = self.of_repository(row.id().as_str(), facts)?;
                record.sync = request.sync.unwrap_or(known.record.sync);
                if (record.sync, record.idle_seconds) == (known.record.sync, known.record.idle_seconds) {
                    orders = Orders::Known;
                }
                tell(Step::Reused(name));
                let wanted = (request.method, &request.policy);
                let idle = without_effect(&request.given, wanted, (row.spec.method, &row.spec.policy));
                if !idle.is_empty() {
                    tell(Step::WithoutEffect(idle));
                }
                row
            }
            Err(StoreError::NotFound { .. }) => {
                let wanted = CreateRequest {
                    name: name.clone(),
                    method: request.method,
                    policy: request.policy.clone(),
                    foundation: request.foundation.clone(),
                };
                let row = self.engine.create(wanted).await?;
                tell(Step::Created(name));
                row
            }
            Err(error) => return Err(EngineError::from(error).into()),
        };
        let sandbox = AgentSandbox { row, record };
        sandbox.remember()?;
        if sandbox.record.sync != SyncMode::Manual {
            tell(Step::Syncs(sandbox.record.sync));
        }
        Ok((sandbox, orders))
    }

    /// The host's branch goes in; the working branch follows where nothing is in the way.
    async fn send(
        &self,
        connection: &Connection,
        facts: &Facts,
        tell: &mut dyn FnMut(Step),
    ) -> Result<(), AgentError> {
        let tree = tree(connection, &connection.layout.workspace);
        let Identity { name, email } = &facts.identity;
        let known = tree.prepare(&facts.branch, name, email).await?;
        if known.as_ref() != Some(&facts.head) {
            tell(Step::Doing("sending the code"));
            let push = async |link: &Link| {
                facts.repository.push_to(link, &facts.branch, |progress| tell(Step::Sending(progress))).await
            };
            self.linked(connection, Service::ReceivePack, push).await?;
            tell(Step::Doing("checking out"));
        }
        tell(Step::Arrived(tree.arrive(&facts.branch).await?));
        Ok(())
    }
}

/// Whether a program is found inside.
pub async fn has_program(connection: &Connection, program: &str) -> Result<bool, AgentError> {
    let script = "command -v -- \"$1\" >/dev/null && echo yes || echo no";
    let words = [program.to_owned()];
    let said =
        run_inside(connection, &connection.layout, "looking for the agent", script, &words, &[]).await?;
    Ok(said.trim_ascii() == b"yes")
}

/// The repository's directory as a name, with what a name cannot have left out.
fn name_for(root: &Path) -> Option<SandboxName> {
    let directory = root.file_name().unwrap_or_default().to_string_lossy().to_lowercase();
    let mut text = String::new();
    for c in directory.chars() {
        match c {
            'a'..='z' | '0'..='9' => text.push(c),
            _ if text.ends_with('-') || text.is_empty() => {}
            _ => text.push('-'),
        }
    }
    text.truncate(40);
    SandboxName::new(text.trim_end_matches('-')).ok()
}

/// A key of the sandbox's own.
async fn make_key(connection: &Connection, tell: &mut dyn FnMut(Step)) -> Result<(), AgentError> {
    tell(Step::Doing("making a key"));
    let script = include_str!("key.sh");
    let said = run_inside(connection, &connection.layout, "making a key", script, &[], &[]).await?;
    tell(Step::Key { made: said.trim_ascii() == b"made" });
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_directory_becomes_a_name() {
        for (directory, name) in
            [("/src/My Project!", "my-project"), ("/src/web_app", "web-app"), ("/src/-x-", "x")]
        {
            assert_eq!(name_for(Path::new(directory)).unwrap().as_str(), name, "{directory}");
        }
        assert_eq!((name_for(Path::new("/src/日本")), name_for(Path::new("/"))), (None, None));
        assert_eq!(name_for(Path::new(&format!("/{}", "x".repeat(99)))).unwrap().as_str().len(), 40);
    }
}
