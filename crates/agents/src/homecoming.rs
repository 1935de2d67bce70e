//! `agent sync`: everything a sandbox has is fetched into refs of its own; then what the user asked for is laid into
//! the host's branch and working tree.

use crate::error::AgentError;
use crate::workshop::{AgentSandbox, Workshop, first_the_other, tree};
use palisade_core::{GuestPath, SyncTrigger, printable};
use palisade_engine::Connection;
use palisade_workspace::transport::Service;
use palisade_workspace::{
    Application, Applied, Autorun, BranchName, Description, Divergence, Ground, InsideError, Known, Link,
    Place, Repository, SandboxRefs, Survey, Turn, Wanted,
};
use std::collections::BTreeSet;
use std::fmt::Write;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Which {
    /// What `/workspace` itself is at.
    Main,
    Worktree(BranchName),
    All,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncRequest {
    pub which: Which,
    pub on_divergence: Divergence,
    /// Bytes of files that may be laid into the working tree.
    pub most: u64,
}

/// What came home of one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub name: BranchName,
    pub applied: Applied,
    /// Changed files that run by themselves.
    pub autorun: Vec<Autorun>,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homecoming {
    pub branches: Vec<Branch>,
    /// Branches under names that cannot come home.
    pub unnameable: usize,
}

/// What a sandbox has and the host has not, in the sandbox's own words, tamed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsynced {
    pub branches: Vec<(BranchName, Description)>,
    /// What is on no branch, by the working tree that is at it.
    pub adrift: Vec<(GuestPath, Description)>,
}

impl Unsynced {
    pub fn is_empty(&self) -> bool {
        self.branches.is_empty() && self.adrift.is_empty()
    }

    pub fn told(&self) -> String {
        let branches = self.branches.iter();
        let branches = branches.map(|(name, what)| (format!("on {}:", printable(name.as_str())), what));
        let adrift = self.adrift.iter().map(|(path, what)| {
            (format!("on no branch, in {path}; there, first: git switch -c BRANCH"), what)
        });
        let mut text = String::new();
        for (place, description) in branches.chain(adrift) {
            let _ = write!(text, "\n  {place}");
            for commit in &description.commits {
                let _ = write!(text, "\n    commit {commit}");
            }
            for file in &description.files {
                let _ = write!(text, "\n    not committed: {file}");
            }
        }
        text
    }
}

/// How often more to look when the agent has committed between the look at its work and the fetch. One that never stops is
/// taken as it is; the next sync puts it right.
pub(crate) const AGAIN: u32 = 2;

/// The host's side while it is our turn: nobody else moves its refs.
#[derive(Debug)]
pub(crate) struct HostSide {
    turn: Turn,
    /// The refs of the sandbox as they were when the turn came.
    pub(crate) known: Known,
}

impl HostSide {
    pub(crate) async fn hold(repository: &Repository, refs: &SandboxRefs) -> Result<Self, AgentError> {
        let turn = repository.turn().await?;
        Ok(Self { known: repository.known(refs).await?, turn })
    }

    /// What was seen inside before the turn came is good enough when nobody else had it meanwhile.
    pub(crate) async fn trusts(
        &self,
        early: Result<Survey, InsideError>,
        connection: &Connection,
    ) -> Result<Survey, InsideError> {
        match early {
            Ok(early) if self.turn.came_at_once() => Ok(early),
            // The others wait for their turn meanwhile.
            Err(slow @ InsideError::Slow { .. }) => Err(slow),
            _ => survey(connection).await,
        }
    }
}

/// What is inside now.
pub(crate) async fn survey(connection: &Connection) -> Result<Survey, InsideError> {
    tree(connection, &connection.layout.workspace).survey().await
}

/// What a fetch is to bring of all that.
fn wanted(survey: &Survey) -> Wanted {
    let with_work = survey.snapshots.iter().filter(|snapshot| snapshot.work.is_some());
    Wanted {
        branches: survey.trees.branches.iter().map(|(name, _)| name.clone()).collect(),
        work: with_work.map(|snapshot| snapshot.branch.clone()).collect(),
    }
}

impl Workshop<'_> {
    pub async fn sync(
        &self,
        sandbox: &AgentSandbox,
        request: &SyncRequest,
    ) -> Result<Homecoming, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let refs = sandbox.refs();
        let hosts = async {
            let place = first_the_other(Place::find(&self.git, &sandbox.record.repository)).await?;
            let side = HostSide::hold(&place.repository, &refs).await?;
            Ok::<_, AgentError>((place, side))
        };
        let (early, hosts) = tokio::join!(survey(&connection), hosts);
        let (Place { repository, branch: checked_out, .. }, side) = hosts?;
        let mut seen = side.trusts(early, &connection).await?;
        let (mut known, mut tries) = (side.known.clone(), 0);
        let (survey, application) = loop {
            let fetch = self.fetch(sandbox, &connection, &repository, &known, &seen);
            let ground = async {
                let ground = first_the_other(Ground::look(&repository)).await;
                if tries == 0 && seen.said(&checked_out).is_some() && !has_all(&known, &refs, &seen) {
                    Application::expect(&repository, &refs).await;
                }
                ground
            };
            // A fetch is never left half-way because of the other.
            let (fetched, ground) = tokio::join!(fetch, ground);
            fetched?;
            let (ground, said) = (ground?, seen.said(&checked_out));
            let application = Application::look(
                &repository,
                &refs,
                &checked_out,
                request.on_divergence,
                ground,
                said.as_ref(),
            )
            .await?;
            if tries == AGAIN || !seen.is_outdated(&refs, application.known()) {
                break (seen, application.at_most(request.most));
            }
            tries += 1;
            known = application.known().clone();
            seen = survey(&connection).await?;
        };
        let chosen: Vec<BranchName> = match &request.which {
            Which::Main => vec![survey.main.clone().ok_or_else(|| InsideError::Failed {
                what: "looking at the work",
                said: "HEAD is at no branch; make one with: git switch -c NAME".into(),
            })?],
            Which::Worktree(branch) => {
                let known = survey.trees.trees.iter().any(|(_, name)| name == branch);
                if !known {
                    return Err(AgentError::NoWorktree {
                        name: sandbox.row.name.clone(),
                        branch: branch.to_string(),
                    });
                }
                vec![branch.clone()]
            }
            Which::All => survey.trees.branches.iter().map(|(name, _)| name.clone()).collect(),
        };
        application.mark_seen();
        let autorun = async {
            let mut found = Vec::new();
            for name in &chosen {
                found.push(application.autorun(name).await?);
            }
            Ok(found)
        };
        let (moved, autorun) =
            tokio::try_join!(repository.moved(&refs, &side.known, application.known()), autorun)?;
        self.note_sync(sandbox, SyncTrigger::Asked, &Ok(moved));
        let mut branches = Vec::new();
        for (name, autorun) in chosen.into_iter().zip(autorun) {
            branches.push(Branch { applied: application.apply(&name).await?, name, autorun });
        }
        application.finish().await?;
        repository.dismiss().await;
        Ok(Homecoming { branches, unnameable: survey.trees.unnameable })
    }

    /// Everything that was seen inside into refs, nothing into a tree.
    pub(crate) async fn fetch(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        repository: &Repository,
        known: &Known,
        seen: &Survey,
    ) -> Result<(), AgentError> {
        let refs = sandbox.refs();
        if has_all(known, &refs, seen) {
            tracing::debug!("the host has everything already");
        } else {
            let fetch = async |link: &Link| repository.fetch_from(link, &refs, &wanted(seen)).await;
            self.linked(connection, Service::UploadPack, fetch).await?;
        }
        let without = seen.snapshots.iter().filter(|snapshot| snapshot.work.is_none());
        repository.forget_work(&refs, known, without.map(|snapshot| &snapshot.branch)).await?;
        Ok(())
    }

    /// What would be lost with the sandbox. It must be running.
    pub async fn unsynced(&self, sandbox: &AgentSandbox) -> Result<Unsynced, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let repository = Place::find(&self.git, &sandbox.record.repository).await?.repository;
        let inside = tree(&connection, &connection.layout.workspace);
        let survey = inside.survey().await?;
        let refs = sandbox.refs();
        let known = repository.known(&refs).await?;
        let mut unsynced = Unsynced { adrift: inside.adrift().await?, ..Unsynced::default() };
        // What came by itself is safe, and still nothing that the user has heard of.
        let names =
            Names { commits: &|branch| refs.seen_commits(branch), work: &|branch| refs.seen_work(branch) };
        for branch in missing(&known, &names, &survey) {
            if self.held(&repository, &branch, &survey).await? {
                continue;
            }
            let known = known.get(&refs.seen_commits(&branch));
            // Named relative to what the host has only where the sandbox has that, too.
            let known = known.filter(|id| survey.trees.branches.iter().any(|(_, inside)| inside == *id));
            let description = inside.describe(&branch, known).await?;
            if description != Description::default() {
                unsynced.branches.push((branch, description));
            }
        }
        Ok(unsynced)
    }
}

impl Workshop<'_> {
    /// Whether the host has all of a branch, under whatever name.
    async fn held(
        &self,
        repository: &Repository,
        branch: &BranchName,
        survey: &Survey,
    ) -> Result<bool, AgentError> {
        if survey.snapshots.iter().any(|snapshot| snapshot.branch == *branch && snapshot.work.is_some()) {
            return Ok(false);
        }
        match survey.trees.branches.iter().find(|(name, _)| name == branch) {
            Some((_, id)) => Ok(repository.leads_to(id).await?),
            None => Ok(true),
        }
    }
}

/// Whether all that was seen inside is in refs of the host's.
fn has_all(known: &Known, refs: &SandboxRefs, seen: &Survey) -> bool {
    let names = Names { commits: &|branch| refs.commits(branch), work: &|branch| refs.work(branch) };
    missing(known, &names, seen).is_empty()
}

/// Which refs to look at for a branch.
struct Names<'a> {
    commits: &'a dyn Fn(&BranchName) -> String,
    work: &'a dyn Fn(&BranchName) -> String,
}

/// The branches whose commits or uncommitted work those refs have not.
fn missing(known: &Known, names: &Names<'_>, survey: &Survey) -> BTreeSet<BranchName> {
    let commits = survey.trees.branches.iter();
    let commits =
        commits.filter(|(name, id)| known.get(&(names.commits)(name)) != Some(id)).map(|(name, _)| name);
    let work = survey.snapshots.iter().filter(|snapshot| {
        snapshot.work.is_some() && known.get(&(names.work)(&snapshot.branch)) != snapshot.work.as_ref()
    });
    commits.chain(work.map(|snapshot| &snapshot.branch)).cloned().collect()
}
