//! The engine's part in git data of sandboxes in bound directories: when it is made, and when commits come back.

use crate::bound_repositories::{BoundRepositories, BringCause, BroughtCommits, LeftBehind, PreparedGit};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::one_off::{greet, self_check};
use crate::session::Connection;
use palisade_core::policy::WORKSPACE;
use palisade_core::{
    Access, Backend, Capability, CopiedDirectory, Diagnostic, Event, Foundation, GuestPath, Layout, Method,
    Mount, Policy, PrivateGit, SandboxSpec, Sharing, Workspace,
};
use palisade_protocol::client::Client;
use palisade_store::Row;

impl Engine {
    /// Git data of its own for every host directory that a sandbox may write. A method that isolates nothing has none.
    pub(crate) async fn private_git(
        &self,
        backend: &dyn Backend,
        spec: &SandboxSpec,
        copied: Option<&CopiedDirectory>,
    ) -> Result<Vec<PrivateGit>, EngineError> {
        if !spec.policy.writes_host() || !backend.capabilities().has(Capability::Isolation) {
            return Ok(Vec::new());
        }
        let prepared = self.config.bound_repositories.prepare(spec, copied).await;
        let PreparedGit { mut git, notices } = prepared.map_err(EngineError::Work)?;
        let notices = notices.iter().chain(git.iter().filter_map(|git| git.notice.as_ref()));
        notices.for_each(|text| (self.config.tell)(text));
        if let Some(CopiedDirectory { tree, .. }) = copied
            && git.iter().all(|git| git.directory != *tree)
        {
            git.push(PrivateGit::of_copy(tree.clone()));
        }
        Ok(git)
    }

    /// Brings commits of a running sandbox to the repositories in its bound directories, and what the user has done there
    /// meanwhile to the sandbox.
    pub async fn sync_commits(&self, name: &str) -> Result<BroughtCommits, EngineError> {
        let Connection { row, client, layout } = self.connect(name).await?;
        let repositories = &self.config.bound_repositories;
        let brought = repositories.bring_back(&row.spec, &client, &layout, BringCause::Request).await;
        brought.map_err(EngineError::Work)
    }

    /// The same when something has changed; what the user should know becomes an event. Whether nothing is left to do.
    pub async fn bring_commits(&self, name: &str, cause: BringCause) -> Result<bool, EngineError> {
        let Connection { row, client, layout } = self.connect(name).await?;
        let brought = self.config.bound_repositories.bring_back(&row.spec, &client, &layout, cause).await;
        let brought = brought.map_err(EngineError::Work)?;
        let mut lines = brought.notes.into_iter();
        lines.try_for_each(|text| self.note(row.id(), &Event::Notice { text }))?;
        Ok(brought.busy.is_empty())
    }

    /// Does what has to wait until a sandbox with a name has ended.
    pub(crate) async fn settle_repositories(&self, row: &Row) {
        if !row.spec.policy.writes_host() {
            return;
        }
        let settled = self.config.bound_repositories.settle(row.id()).await;
        let lines = settled.unwrap_or_else(|error| vec![with_hints(error.as_ref())]);
        for text in lines {
            if let Err(error) = self.note(row.id(), &Event::Notice { text }) {
                tracing::warn!(%error, "a notice could not be written");
            }
        }
    }

    /// Brings commits of runs back that were killed, for the directories that are about to be used again.
    pub(crate) async fn bring_left_behind(&self, method: Method, policy: &Policy) {
        let wanted = policy.written_directories();
        let concerns = |left: &LeftBehind| {
            left.directories.iter().any(|(host, _)| wanted.iter().any(|(other, _)| other == host))
        };
        for left in self.config.bound_repositories.left_behind().into_iter().filter(concerns) {
            let id = left.sandbox.clone();
            // It stays where it is, and is tried again the next time.
            if let Err(error) = self.bring_one_left_behind(method, left).await {
                let text =
                    format!("commits of an earlier run could not be brought back: {}", with_hints(&error));
                tracing::warn!(sandbox.id = %id, text);
                (self.config.tell)(&text);
            }
        }
    }

    /// The sandbox that a killed run was, as far as its git data is concerned.
    fn spec_of(&self, method: Method, left: LeftBehind) -> Result<SandboxSpec, EngineError> {
        let mut policy = Policy { workspace: Workspace::Scratch, ..Policy::default() };
        for (host, guest) in left.directories {
            let host = left.copy.clone().filter(|_| guest == WORKSPACE).unwrap_or(host);
            let access = Access::ReadWrite;
            match GuestPath::new(&guest) {
                Ok(guest) if guest.as_str() != WORKSPACE => policy.mounts.push(Mount { host, guest, access }),
                _ => policy.workspace = Workspace::Bound { host, access },
            }
        }
        let foundation = Foundation::default();
        let paths = self.record_paths(&policy, &foundation)?;
        Ok(SandboxSpec {
            id: left.sandbox,
            name: None,
            method,
            policy,
            foundation,
            paths,
            dir: None,
            identity: self.identity(),
            owner: self.owner()?.to_owned(),
            git: Vec::new(),
        })
    }

    /// Starts a sandbox with the same git data, only to ask it for the commits.
    async fn bring_one_left_behind(&self, method: Method, left: LeftBehind) -> Result<(), EngineError> {
        let (id, repositories) = (left.sandbox.clone(), &self.config.bound_repositories);
        if !left.has_commits {
            return repositories.put_away(&id, None).await.map_err(EngineError::Work);
        }
        let backend = self.backend(method)?;
        let copied = self.copy_left_behind(&left)?;
        let mut spec = self.spec_of(method, left)?;
        spec.git = self.private_git(backend.as_ref(), &spec, copied.as_ref()).await?;
        if let Some(git) = spec.git.iter().find(|git| git.sharing == Sharing::OwnCopy) {
            self.make_mount_points(git)?;
        }
        let brought = async {
            backend.start(&spec).await?;
            let layout = backend.layout(&spec);
            let (client, _streams) = greet(&backend, &spec, self_check(&layout), None).await?;
            let brought = repositories.bring_back(&spec, &client, &layout, BringCause::End).await;
            brought.map_err(EngineError::Work)
        };
        let brought = brought.await;
        backend.stop(&spec).await?;
        for line in brought?.notes {
            (self.config.tell)(&line);
        }
        for line in repositories.settle(&id).await.map_err(EngineError::Work)? {
            (self.config.tell)(&line);
        }
        repositories.put_away(&id, None).await.map_err(EngineError::Work)?;
        self.remove_copy_without_record(&id);
        Ok(())
    }
}

/// Brings commits back; a failure is something to know and no reason not to end.
pub(crate) async fn bring_back(
    repositories: &dyn BoundRepositories,
    spec: &SandboxSpec,
    client: &Client,
    layout: &Layout,
) -> Vec<String> {
    match repositories.bring_back(spec, client, layout, BringCause::End).await {
        Ok(brought) => brought.notes,
        Err(error) => vec![format!("commits could not be brought back: {error}")],
    }
}

pub(crate) fn with_hints(error: &dyn Diagnostic) -> String {
    let hints = error.hints();
    if hints.is_empty() { error.to_string() } else { format!("{error}; {}", hints.join("; ")) }
}
