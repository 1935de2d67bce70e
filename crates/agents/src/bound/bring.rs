//! Brings commits of a sandbox to the host, and what the host has done meanwhile to the sandbox.

use super::{BoundGit, refs};
use crate::error::AgentError;
use palisade_core::{HostPath, Layout, SandboxSpec, Sharing};
use palisade_engine::{BringCause, BroughtCommits};
use palisade_host::as_owner;
use palisade_protocol::client::Client;
use palisade_workspace::{
    BoundError, BringBack, BroughtBack, FollowHost, FollowOutcome, HostSide, Moves, PlaceRecord,
    PrivatePlace, RecordedRepository, SandboxRepository, missing_filters,
};

/// A sandbox that runs.
#[derive(Clone)]
pub(super) struct Running<'a> {
    spec: &'a SandboxSpec,
    client: &'a Client,
    layout: &'a Layout,
    cause: BringCause,
    sharing: Sharing,
}

impl Running<'_> {
    fn environment(&self) -> Vec<Vec<u8>> {
        let variables = self.layout.environment.iter();
        variables.map(|(name, value)| format!("{name}={value}").into_bytes()).collect()
    }
}

impl BoundGit {
    pub(super) async fn bring(
        &self,
        spec: &SandboxSpec,
        client: &Client,
        layout: &Layout,
        cause: BringCause,
    ) -> Result<BroughtCommits, AgentError> {
        let place = PrivatePlace::of(&self.state, &spec.id);
        let io = || AgentError::io(format!("look at {}", place.path()));
        let mut brought = BroughtCommits::default();
        // A keeper's background process, a stop and a sync may come at the same time.
        let _lock = place.lock().await.map_err(io())?;
        let Some(mut record) = place.read().map_err(io())? else { return Ok(brought) };
        let sharing = if record.copy.is_some() { Sharing::OwnCopy } else { Sharing::WithHost };
        let running = Running { spec, client, layout, cause, sharing };
        for number in 0..record.repositories.len() {
            if cause == BringCause::Request || place.has_changed(number, &record.repositories[number]) {
                self.bring_changes(&place, &mut record, number, &running, &mut brought).await?;
            }
            if cause == BringCause::End {
                continue;
            }
            match self.follow_host(&record.repositories[number], &running).await? {
                FollowOutcome::Followed(base) => {
                    record.repositories[number].base = base;
                    place.write(&record).map_err(io())?;
                    // What was written inside is ours, unless something else has changed at the same time.
                    self.bring_changes(&place, &mut record, number, &running, &mut brought).await?;
                    brought.followed.push(record.repositories[number].tree());
                }
                FollowOutcome::Busy => brought.busy.push(record.repositories[number].tree()),
                FollowOutcome::Unchanged | FollowOutcome::Refused => {}
            }
        }
        Ok(brought)
    }

    async fn bring_changes(
        &self,
        place: &PrivatePlace,
        record: &mut PlaceRecord,
        number: usize,
        running: &Running<'_>,
        found: &mut BroughtCommits,
    ) -> Result<(), AgentError> {
        let recorded = record.repositories[number].clone();
        // What changes while this is looked at is found the next time.
        let stamp = place.stamp(number);
        let tree = recorded.tree();
        let named = |line: String| format!("{tree}: {line}");
        let brought = self.bring_one(place, number, running, recorded.clone()).await?;
        match (&recorded.host, running.cause) {
            (HostSide::Plain, BringCause::Request) if !brought.base.refs.is_empty() => {
                let line =
                    "its commits are kept, and the directory becomes a git repository when the sandbox stops";
                found.notes.push(named(line.into()));
            }
            (HostSide::Plain, _) => {}
            _ if brought.base != recorded.base && !found.moved.contains(&tree) => {
                found.moved.push(tree.clone());
            }
            _ => {}
        }
        found.has_waiting |= brought.has_waiting;
        found.notes.extend(brought.notes.into_iter().map(named));
        let is_complete = brought.not_archived.is_empty();
        let missing = brought.not_archived.into_iter();
        found.notes.extend(missing.map(|line| named(format!("not archived: {line}"))));
        let repository = &mut record.repositories[number];
        repository.base = brought.base;
        if is_complete {
            repository.stamp = stamp;
        }
        place.write(record).map_err(AgentError::io(format!("write {}", place.path())))
    }

    async fn bring_one(
        &self,
        place: &PrivatePlace,
        number: usize,
        running: &Running<'_>,
        recorded: RecordedRepository,
    ) -> Result<BroughtBack, AgentError> {
        let io = || AgentError::io(format!("bring commits to {}", recorded.tree()));
        let (tree, moves, owned) = match &recorded.host {
            HostSide::Repository => (recorded.tree(), Moves::All, Some(recorded.directory.clone())),
            HostSide::Below(top) => (top.clone(), Moves::Nothing, Some(top.clone())),
            // It is ours as long as it is in the state directory.
            HostSide::Plain => {
                let pending = place.pending(number);
                pending.make(&self.git, &recorded.base).await?;
                (pending.top()?, Moves::All, None)
            }
        };
        let user = match owned {
            Some(directory) => as_owner::other_owner(directory.as_path()).map_err(io())?,
            None => None,
        };
        let refs = refs(&running.spec.id, running.spec.name.as_ref())?;
        let (git, limits, client) = (self.git.clone(), self.limits, running.client.clone());
        let (environment, guest) = (running.environment(), running.layout.guest.clone());
        let (directory, base, shared) = (recorded.guest.clone(), recorded.base.clone(), recorded.tree());
        let sharing = running.sharing;
        let bring = move || async move {
            let sandbox = SandboxRepository::new(&client, environment, guest, directory, limits);
            let (tree, directory, base) = (&tree, &shared, &base);
            BringBack { git: &git, tree, directory, moves, refs: &refs, sandbox, base, sharing }.run().await
        };
        Ok(as_owner::run_as(user, bring).await.map_err(io())??)
    }

    /// Gives the sandbox what the host has done meanwhile.
    async fn follow_host(
        &self,
        recorded: &RecordedRepository,
        running: &Running<'_>,
    ) -> Result<FollowOutcome, AgentError> {
        if recorded.host != HostSide::Repository || running.sharing == Sharing::OwnCopy {
            return Ok(FollowOutcome::Refused);
        }
        let tree: HostPath = recorded.tree();
        let io = || AgentError::io(format!("look at {}", recorded.tree()));
        let user = as_owner::other_owner(recorded.directory.as_path()).map_err(io())?;
        let refs = refs(&running.spec.id, running.spec.name.as_ref())?;
        let (git, limits, client) = (self.git.clone(), self.limits, running.client.clone());
        let (environment, guest) = (running.environment(), running.layout.guest.clone());
        let (directory, base) = (recorded.guest.clone(), recorded.base.clone());
        let follow = move || async move {
            let sandbox = SandboxRepository::new(&client, environment, guest, directory, limits);
            FollowHost { git: &git, tree: &tree, refs: &refs, sandbox, base: &base }.run().await
        };
        Ok(as_owner::run_as(user, follow).await.map_err(io())??)
    }

    /// Refuses a sandbox in which a filter that the repository needs does not work.
    pub(super) async fn require_filters(
        &self,
        spec: &SandboxSpec,
        client: &Client,
        layout: &Layout,
    ) -> Result<(), AgentError> {
        let place = PrivatePlace::of(&self.state, &spec.id);
        let record = place.read().map_err(AgentError::io(format!("look at {}", place.path())))?;
        let (cause, sharing) = (BringCause::Change, Sharing::WithHost);
        let running = Running { spec, client, layout, cause, sharing };
        // In a copy, files can be worked on without git.
        let record = record.filter(|record| record.copy.is_none());
        for recorded in record.into_iter().flat_map(|record| record.repositories) {
            if recorded.filters.is_empty() {
                continue;
            }
            let (environment, guest) = (running.environment(), layout.guest.clone());
            let sandbox =
                SandboxRepository::new(client, environment, guest, recorded.guest.clone(), self.limits);
            if let Some(missing) = missing_filters(&sandbox, &recorded.filters).await?.into_iter().next() {
                let (directory, filter, program) = (recorded.tree(), missing.name, missing.program);
                return Err(BoundError::FilterMissing { directory, filter, program }.into());
            }
        }
        Ok(())
    }
}
