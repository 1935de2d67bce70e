//! `agent start` up to the agent itself: the repository is checked, the sandbox is there and running, and holds the
//! code, the files and the identity that an agent needs.

use crate::env_files::{self, EnvFiles};
use crate::error::AgentError;
use crate::ignored_options::{Given, without_effect};
use crate::inside::run_inside;
use crate::profile::Profile;
use crate::record::Record;
use crate::service::{AgentSandbox, AgentService};
use crate::surroundings::Surroundings;
use crate::working::is_working;
use crate::worktrees::session_name;
use palisade_core::{FilePattern, Foundation, HostPath, Method, Policy, RefScope, SandboxName, SyncMode};
use palisade_engine::{Connection, CreateRequest, EngineError, Started};
use palisade_store::StoreError;
use palisade_workspace::{
    HostTree, Limit, OnUnapplied, OnUncommitted, Progress, SharedObjects, StartOptions, StartReport,
};
use std::path::{Path, PathBuf};

/// What to start from.
#[derive(Debug, Clone)]
pub struct StartRequest {
    pub directory: HostPath,
    /// Else the repository's own.
    pub name: Option<SandboxName>,
    pub on_uncommitted: OnUncommitted,
    pub on_unapplied: OnUnapplied,
    /// Which refs a new sandbox sees.
    pub refs: RefScope,
    pub method: Method,
    pub policy: Policy,
    pub foundation: Foundation,
    /// The options about these that were given on the command line.
    pub given: Vec<Given>,
    /// When the work is archived by itself, if this start says so.
    pub sync: Option<SyncMode>,
    /// The same for a new sandbox, when no start says so.
    pub default_sync: SyncMode,
    pub idle_seconds: u32,
    /// Files beside the code that the agent needs.
    pub env_files: Vec<FilePattern>,
    /// Those that its sessions have as variables.
    pub env_load: Vec<FilePattern>,
}

/// What happens during a start, for whatever shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Step {
    Repository {
        root: PathBuf,
        branch: String,
        commit: String,
    },
    /// Something does not go in, or not whole.
    Limit(&'static str),
    Created(SandboxName),
    Reused(SandboxName),
    /// Options that count only when a sandbox is made.
    WithoutEffect(Vec<&'static str>),
    /// The sandbox was created with another value of `agent.refs` than the settings have now.
    RefsStay(RefScope),
    Syncs(SyncMode),
    /// The keeper is of an earlier version and knows nothing of modes.
    SyncsLater,
    Running {
        already: bool,
    },
    /// The store of the repository's commits was missing, or a part of it.
    StoreWrittenAgain,
    /// Something has begun that may take a while.
    Doing(&'static str),
    Sending(Progress),
    Arrived(Box<StartReport>),
    EnvFiles(Vec<String>),
    Loaded(Surroundings),
    /// A file that matches, but is a link or a directory.
    NotSent(String),
    Key {
        made: bool,
    },
}

/// Whether the keeper of a sandbox that runs knows its sync mode already.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SyncSettings {
    Known,
    New,
}

/// The sandbox of an earlier start, or a new one.
struct FoundSandbox {
    sandbox: AgentSandbox,
    settings: SyncSettings,
    shared: Option<SharedObjects>,
}

/// A sandbox with everything in place.
#[derive(Debug)]
pub struct Ready {
    pub sandbox: AgentSandbox,
    pub connection: Connection,
    pub report: StartReport,
    /// What the sandbox sees of the host's commits without a transfer.
    shared: Option<SharedObjects>,
}

impl AgentService<'_> {
    /// Starts the sandbox of a repository, and sends the host's state into it.
    pub async fn start(
        &self,
        request: StartRequest,
        profile: &Profile,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<Ready, AgentError> {
        let host = self.repository_of(&request).await?;
        let limits = Limit::of(&host).await?;
        limits.iter().for_each(|limit| tell(Step::Limit(limit.describe())));
        let files = EnvFiles::find(&host, &request.env_files).await?;
        let FoundSandbox { mut sandbox, settings, shared } =
            self.create_or_reuse(&request, profile, &host, &files, tell).await?;
        tell(Step::Doing("starting the sandbox"));
        let id = sandbox.row.id().clone();
        let started = self.engine.start(id.as_str()).await?;
        tell(Step::Running { already: started == Started::Already });
        let connection = self.engine.connect(id.as_str()).await?;
        // Over a connection of its own: a keeper that does not know the word hangs up.
        if started == Started::Already
            && settings == SyncSettings::New
            && !self.engine.connect(id.as_str()).await?.give_orders().await
        {
            tell(Step::SyncsLater);
        }
        let report = self.send(&sandbox, &connection, &request, &files, shared.as_ref(), tell).await?;
        tell(Step::Arrived(Box::new(report.clone())));
        env_files::send(&connection, &host.root, &files, tell).await?;
        sandbox.record.env_files = files.plain;
        sandbox.record.env_load = request.env_load.iter().map(ToString::to_string).collect();
        sandbox.save()?;
        env_files::furnish(&connection, &request.env_load).await?;
        make_key(&connection, tell).await?;
        Ok(Ready { sandbox, connection, report, shared })
    }

    /// The host's state goes in again, for a user who has decided otherwise about work that is not applied.
    pub async fn follow_host(
        &self,
        ready: &mut Ready,
        request: &StartRequest,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<(), AgentError> {
        let request = StartRequest { on_unapplied: OnUnapplied::FollowHost, ..request.clone() };
        let files = EnvFiles { plain: ready.sandbox.record.env_files.clone(), others: Vec::new() };
        let shared = ready.shared.as_ref();
        ready.report = self.send(&ready.sandbox, &ready.connection, &request, &files, shared, tell).await?;
        tell(Step::Arrived(Box::new(ready.report.clone())));
        Ok(())
    }

    async fn send(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        request: &StartRequest,
        files: &EnvFiles,
        shared: Option<&SharedObjects>,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<StartReport, AgentError> {
        let session = session_name(None);
        let sessions = connection.sessions().await?;
        let in_session = sessions.iter().any(|running| running.name == session && running.exit.is_none());
        let options = StartOptions {
            scope: sandbox.record.refs,
            on_uncommitted: request.on_uncommitted,
            on_unapplied: request.on_unapplied,
            is_busy: in_session || is_working(&sandbox.row, Some(None)),
            sent_apart: files.names(),
            shared: shared.cloned(),
        };
        tell(Step::Doing("sending the code"));
        self.exchange(sandbox, connection, async |exchange| {
            Ok(exchange.start(&options, |progress| tell(Step::Sending(progress))).await?)
        })
        .await
    }

    async fn repository_of(&self, request: &StartRequest) -> Result<HostTree, AgentError> {
        let host = HostTree::around(&self.git, &request.directory).await?;
        host.require_branch()?;
        Ok(host)
    }

    /// The sandbox of an earlier start, if it is this repository's.
    pub async fn earlier(&self, request: &StartRequest) -> Result<Option<AgentSandbox>, AgentError> {
        let host = self.repository_of(request).await?;
        let name = self.name(request, &host)?;
        match self.engine.store()?.find(name.as_str()) {
            Ok(row) => self.check_repository(row.id().as_str(), &host).await.map(Some),
            Err(StoreError::NotFound { .. }) => Ok(None),
            Err(error) => Err(EngineError::from(error).into()),
        }
    }

    fn name(&self, request: &StartRequest, host: &HostTree) -> Result<SandboxName, AgentError> {
        let given = request.name.clone();
        given
            .or_else(|| name_for(host.root.as_path()))
            .ok_or_else(|| AgentError::NoName { root: host.root.clone() })
    }

    async fn check_repository(&self, id: &str, host: &HostTree) -> Result<AgentSandbox, AgentError> {
        let mut known = self.find(id)?;
        if known.record.repository == host.root {
            return Ok(known);
        }
        // It may have been moved here.
        let here = Some(&host.root);
        match crate::identity::locate(&self.git, &known, here).await {
            Ok(root) if root == host.root => {
                known.record.repository = root;
                Ok(known)
            }
            Ok(_) | Err(AgentError::RepositoryGone { .. }) => {
                Err(AgentError::OtherRepository { name: known.row.name, other: known.record.repository })
            }
            Err(error) => Err(error),
        }
    }

    async fn create_or_reuse(
        &self,
        request: &StartRequest,
        profile: &Profile,
        host: &HostTree,
        files: &EnvFiles,
        tell: &mut (dyn FnMut(Step) + Send),
    ) -> Result<FoundSandbox, AgentError> {
        let (branch, head) = host.require_branch()?;
        tell(Step::Repository {
            root: host.root.as_path().to_owned(),
            branch: branch.to_string(),
            commit: head.short().to_owned(),
        });
        let name = self.name(request, host)?;
        let mut settings = SyncSettings::New;
        let mut record = Record::new(host.root.clone(), branch, &profile.name);
        let repository_id = crate::identity::read_or_make(&host.repository)?;
        record.repository_id = Some(repository_id.clone());
        let mut shared = None;
        record.idle_seconds = request.idle_seconds;
        record.refs = request.refs;
        record.sync = request.sync.unwrap_or(request.default_sync);
        let row = match self.engine.store()?.find(name.as_str()) {
            Ok(row) => {
                let known = self.check_repository(row.id().as_str(), host).await?;
                record.sync = request.sync.unwrap_or(known.record.sync);
                record.refs = known.record.refs;
                record.env_files.clone_from(&known.record.env_files);
                record.env_load.clone_from(&known.record.env_load);
                if (record.sync, record.idle_seconds) == (known.record.sync, known.record.idle_seconds) {
                    settings = SyncSettings::Known;
                }
                tell(Step::Reused(name));
                let wanted = (request.method, &request.policy);
                let ignored = without_effect(&request.given, wanted, (row.spec.method, &row.spec.policy));
                if !ignored.is_empty() {
                    tell(Step::WithoutEffect(ignored));
                }
                if record.refs != request.refs {
                    tell(Step::RefsStay(record.refs));
                }
                if let Some(store) = &row.spec.policy.objects {
                    let capabilities = self.engine.backend(row.spec.method)?.capabilities();
                    let written =
                        self.store_for_existing(store, &capabilities, host, record.refs, tell).await?;
                    shared = Some(written.objects);
                }
                row
            }
            Err(StoreError::NotFound { .. }) => {
                if request.on_uncommitted == OnUncommitted::Refuse {
                    host.require_committed(&files.names()).await?;
                }
                let capabilities = self.engine.backend(request.method)?.capabilities();
                // Its lock is held until the sandbox is recorded, which keeps it from being removed.
                let store =
                    self.store_for_new(&capabilities, &repository_id, host, request.refs, tell).await?;
                let objects = store.as_ref().map(|store| store.name.clone());
                shared = store.as_ref().map(|store| store.objects.clone());
                let wanted = CreateRequest {
                    name: name.clone(),
                    method: request.method,
                    policy: Policy { objects, ..request.policy.clone() },
                    foundation: request.foundation.clone(),
                };
                let created = self.engine.create(wanted).await;
                let unlocked = store.map(|store| store.name);
                if let (Err(_), Some(name)) = (&created, unlocked)
                    && let Err(error) = self.engine.remove_unused_objects(&name)
                {
                    tracing::warn!(%error, "a store of objects that was written for nothing stays");
                }
                let row = created?;
                tell(Step::Created(name));
                row
            }
            Err(error) => return Err(EngineError::from(error).into()),
        };
        let sandbox = AgentSandbox { row, record };
        sandbox.save()?;
        if sandbox.record.sync != SyncMode::Manual {
            tell(Step::Syncs(sandbox.record.sync));
        }
        Ok(FoundSandbox { sandbox, settings, shared })
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
async fn make_key(connection: &Connection, tell: &mut (dyn FnMut(Step) + Send)) -> Result<(), AgentError> {
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
