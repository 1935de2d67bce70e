//! The git data of sandboxes that share a working tree with the host, as the engine asks for it.

mod bring;
mod new_repository;

use crate::error::AgentError;
use palisade_core::{
    BoxFuture, CopiedDirectory, HostPath, Layout, PrivateGit, SandboxId, SandboxName, SandboxSpec, Sharing,
};
use palisade_engine::{BoundRepositories, BringCause, BroughtCommits, LeftBehind, PreparedGit, WorkError};
use palisade_host::{as_owner, fence, process};
use palisade_protocol::client::Client;
use palisade_workspace::{
    BoundTree, Contents, Git, HostSide, PlaceRecord, PrivatePlace, SandboxRefs, SettingsOf, TransferLimits,
    unpin,
};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// Repositories in bound directories.
#[derive(Debug)]
pub struct BoundGit {
    pub git: Git,
    pub limits: TransferLimits,
    pub state: HostPath,
}

impl BoundGit {
    async fn make(
        &self,
        spec: &SandboxSpec,
        copied: Option<&CopiedDirectory>,
    ) -> Result<PreparedGit, AgentError> {
        let place = PrivatePlace::of(&self.state, &spec.id);
        // What an earlier start has left; where it cannot be put into its place, it is used again.
        if let Err(error) = self.make_repositories(&spec.id).await {
            tracing::warn!(%error, "commits of an earlier start stay in the state directory");
        }
        let earlier = self.unsaved(&place)?;
        if earlier.is_none() {
            place.remove().map_err(AgentError::io(format!("remove {}", place.path())))?;
        }
        let refs = refs(&spec.id, spec.name.as_ref())?;
        let mut record = PlaceRecord {
            sandbox: spec.id.clone(),
            name: refs.name().clone(),
            is_run: spec.name.is_none(),
            process: process::this_process(),
            directories: Vec::new(),
            repositories: Vec::new(),
            copy: copied.map(|copied| copied.tree.clone()),
        };
        let mut prepared = PreparedGit::default();
        for (directory, guest) in spec.policy.written_directories() {
            // Git data comes from the user's own directory, and the sandbox has it in the copy.
            let copy = copied.filter(|copied| copied.tree == directory);
            let source = copy.map_or(&directory, |copied| &copied.source);
            let Some(real) = std::fs::canonicalize(source).ok().and_then(|path| HostPath::new(path).ok())
            else {
                continue;
            };
            if !real.as_path().is_dir() {
                continue;
            }
            let io = || AgentError::io(format!("read the repository in {real}"));
            let user = as_owner::other_owner(real.as_path()).map_err(io())?;
            let (git, top) = (self.git.clone(), real.clone());
            let settings_of = if user.is_some() { SettingsOf::AnotherUser } else { SettingsOf::Owner };
            let read = move || async move { BoundTree::read(&git, &top, settings_of).await };
            let tree = match as_owner::run_as(user, read).await.map_err(io())? {
                // The files can be worked on all the same.
                Err(error) if copy.is_some() => {
                    prepared.notices.push(format!("git does not work in the copy of {real}: {error}"));
                    prepared.git.push(PrivateGit::of_copy(directory));
                    continue;
                }
                read => read?,
            };
            let is_repository = tree.repositories.first().is_some_and(|it| it.host == HostSide::Repository);
            // A copy of a directory that is not a repository is the sandbox's own: git makes one there, and it stays there.
            if copy.is_some() && !is_repository {
                prepared.git.push(PrivateGit::of_copy(directory));
                continue;
            }
            if tree.repositories.is_empty() {
                prepared.git.push(tree.without_git_data(real));
                continue;
            }
            let failed = || AgentError::io(format!("make git data for a sandbox in {}", place.path()));
            record.directories.push((real.clone(), guest.clone()));
            let tree = match earlier {
                // What both sides had in common then decides what is brought back.
                Some(_) => tree,
                None => {
                    // Written down before anything is made, so that it is found after a crash.
                    place.write(&record).map_err(failed())?;
                    let refs = refs.clone();
                    let pin = move || async move { tree.pin(&refs).await.map(|()| tree) };
                    as_owner::run_as(user, pin).await.map_err(io())??
                }
            };
            let owned = if copy.is_some() { &directory } else { &real };
            let meta = std::fs::metadata(owned).map_err(io())?;
            let owner = rustix::process::geteuid().is_root().then_some((meta.uid(), meta.gid()));
            let contents = if earlier.is_none() { Contents::Write(owner) } else { Contents::Keep };
            let first = record.repositories.len();
            let (git, recorded) = place.make(first, (&real, &guest), &tree, contents).map_err(failed())?;
            record.repositories.extend(recorded);
            prepared.git.push(match copy {
                Some(_) => PrivateGit { directory, read_only: Vec::new(), sharing: Sharing::OwnCopy, ..git },
                None => git,
            });
        }
        if let Some(earlier) = earlier {
            record.repositories = earlier.repositories;
        }
        if !record.repositories.is_empty() {
            place.write(&record).map_err(AgentError::io(format!("write {}", place.path())))?;
        }
        Ok(prepared)
    }

    /// The record of an earlier start that has left commits which are not on the host.
    fn unsaved(&self, place: &PrivatePlace) -> Result<Option<PlaceRecord>, AgentError> {
        let record = place.read().map_err(AgentError::io(format!("look at {}", place.path())))?;
        let is_unsaved = |record: &PlaceRecord| {
            let mut all = record.repositories.iter().enumerate();
            all.any(|(number, it)| place.has_changed(number, it) || place.pending(number).exists())
        };
        Ok(record.filter(is_unsaved))
    }

    /// Whether the sandbox has to be asked for commits. A record that cannot be read may be of anything.
    fn has_unread_commits(&self, place: &PrivatePlace) -> bool {
        match place.read() {
            Ok(None) => false,
            Ok(Some(record)) => {
                let mut all = record.repositories.iter().enumerate();
                all.any(|(number, it)| place.has_changed(number, it))
            }
            Err(_) => true,
        }
    }

    /// Git data with commits that are not on the host must not be removed.
    fn refuse_unsaved(
        &self,
        place: &PrivatePlace,
        id: &SandboxId,
        name: Option<&SandboxName>,
    ) -> Result<(), AgentError> {
        let io = || AgentError::io(format!("look at {}", place.path()));
        if let Some(record) = self.unsaved(place)? {
            let sandbox = name.map_or_else(|| id.to_string(), ToString::to_string);
            let directory = record.repositories.first().map_or_else(|| place.path().clone(), |it| it.tree());
            return Err(AgentError::CommitsLeft { sandbox, directory });
        }
        place.remove().map_err(io())
    }

    async fn remove(&self, id: &SandboxId, name: Option<&SandboxName>) -> Result<(), AgentError> {
        let place = PrivatePlace::of(&self.state, id);
        let io = || AgentError::io(format!("remove {}", place.path()));
        let Some(mut record) = place.read().map_err(io())? else { return Ok(()) };
        let made = self.make_repositories(id).await;
        if let Err(error) = made.and_then(|_| self.refuse_unsaved(&place, id, name)) {
            // The next run in the directory tries again, as for a run that was killed.
            record.is_run = true;
            place.write(&record).map_err(io())?;
            return Err(error);
        }
        // The top is pinned before it is written down that there is a repository.
        let tops = record.directories.iter().map(|(directory, _)| (directory.clone(), directory.clone()));
        let trees = record.repositories.iter().map(|it| match &it.host {
            HostSide::Below(top) => (top.clone(), top.clone()),
            HostSide::Repository | HostSide::Plain => (it.directory.clone(), it.tree()),
        });
        let all: BTreeSet<(HostPath, HostPath)> = tops.chain(trees).collect();
        for (directory, tree) in all {
            // The user may have removed it meanwhile, and the refs with it. Others have never been repositories.
            if !tree.join(".git").as_path().exists() || fence::leads_nowhere(&tree) {
                continue;
            }
            let (git, refs) = (self.git.clone(), refs(id, name)?);
            let user = as_owner::other_owner(directory.as_path()).map_err(io())?;
            as_owner::run_as(user, move || async move { unpin(&git, &tree, &refs).await })
                .await
                .map_err(io())??;
        }
        Ok(())
    }
}

/// A sandbox without a name has one for its branches.
fn refs(id: &SandboxId, name: Option<&SandboxName>) -> Result<SandboxRefs, AgentError> {
    let name = match name {
        Some(name) => name.clone(),
        None => {
            let short: String = id.as_str().chars().take(8).collect();
            SandboxName::new(&format!("run-{short}"))
                .map_err(|error| AgentError::io("name the run's branches")(std::io::Error::other(error)))?
        }
    };
    Ok(SandboxRefs::new(id.clone(), name))
}

impl BoundRepositories for BoundGit {
    fn prepare<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        copied: Option<&'a CopiedDirectory>,
    ) -> BoxFuture<'a, Result<PreparedGit, WorkError>> {
        Box::pin(async move { self.make(spec, copied).await.map_err(|error| Box::new(error) as WorkError) })
    }

    fn bring_back<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        client: &'a Client,
        layout: &'a Layout,
        cause: BringCause,
    ) -> BoxFuture<'a, Result<BroughtCommits, WorkError>> {
        Box::pin(async move {
            self.bring(spec, client, layout, cause).await.map_err(|error| Box::new(error) as WorkError)
        })
    }

    fn needs_check(&self, id: &SandboxId) -> bool {
        let record = PrivatePlace::of(&self.state, id).read().ok().flatten();
        record.is_some_and(|record| record.repositories.iter().any(|it| !it.filters.is_empty()))
    }

    fn check_inside<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        client: &'a Client,
        layout: &'a Layout,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(async move {
            self.require_filters(spec, client, layout).await.map_err(|error| Box::new(error) as WorkError)
        })
    }

    fn settle<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<Vec<String>, WorkError>> {
        Box::pin(
            async move { self.make_repositories(id).await.map_err(|error| Box::new(error) as WorkError) },
        )
    }

    fn host_files(&self, id: &SandboxId) -> Vec<PathBuf> {
        let record = PrivatePlace::of(&self.state, id).read().ok().flatten();
        record.map(|record| record.host_files()).unwrap_or_default()
    }

    fn put_away<'a>(
        &'a self,
        id: &'a SandboxId,
        name: Option<&'a SandboxName>,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(async move { self.remove(id, name).await.map_err(|error| Box::new(error) as WorkError) })
    }

    fn has_commits(&self, spec: &SandboxSpec) -> bool {
        self.has_unread_commits(&PrivatePlace::of(&self.state, &spec.id))
    }

    fn discard(&self, spec: &SandboxSpec) -> Result<(), WorkError> {
        let place = PrivatePlace::of(&self.state, &spec.id);
        let removed = place.remove().map_err(AgentError::io(format!("remove {}", place.path())));
        removed.map_err(|error| Box::new(error) as WorkError)
    }

    fn left_behind(&self) -> Vec<LeftBehind> {
        PrivatePlace::finish_removals(&self.state);
        let all = PrivatePlace::all(&self.state).into_iter();
        let dead = all.filter(|(_, record)| record.is_run && !process::is_alive(&record.process));
        let left = dead.map(|(place, record)| LeftBehind {
            has_commits: self.has_unread_commits(&place),
            sandbox: record.sandbox,
            directories: record.directories,
            copy: record.copy,
        });
        left.collect()
    }
}
