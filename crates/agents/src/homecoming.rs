//! `agent sync`: everything a sandbox has is fetched into refs of its own; then what the user asked for is laid into
//! the host's branch and working tree.

use crate::error::AgentError;
use crate::workshop::{AgentSandbox, Workshop, tree};
use palisade_core::printable;
use palisade_engine::Connection;
use palisade_workspace::{
    Application, Applied, BranchName, Description, Divergence, Facts, Repository, SandboxRefs, Snapshot,
    Trees, Wanted,
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
}

/// What came home of one branch.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Branch {
    pub name: BranchName,
    pub applied: Applied,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Homecoming {
    pub branches: Vec<Branch>,
    /// Branches under names that cannot come home.
    pub unnameable: usize,
}

/// What a sandbox has and the host has not, branch by branch, in the sandbox's own words, tamed.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Unsynced(pub Vec<(BranchName, Description)>);

impl Unsynced {
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    pub fn told(&self) -> String {
        let mut text = String::new();
        for (branch, description) in &self.0 {
            let _ = write!(text, "\n  on {}:", printable(branch.as_str()));
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

/// What is inside, as git inside tells it.
struct Survey {
    trees: Trees,
    snapshots: Vec<Snapshot>,
}

impl Survey {
    async fn take(connection: &Connection) -> Result<Self, AgentError> {
        let trees = tree(connection, &connection.layout.workspace).trees().await?;
        let mut snapshots = Vec::new();
        for (path, _) in &trees.trees {
            snapshots.push(tree(connection, path.as_str()).snapshot().await?);
        }
        Ok(Self { trees, snapshots })
    }

    fn wanted(&self) -> Wanted {
        let with_work = self.snapshots.iter().filter(|snapshot| snapshot.work.is_some());
        Wanted {
            branches: self.trees.branches.iter().map(|(name, _)| name.clone()).collect(),
            work: with_work.map(|snapshot| snapshot.branch.clone()).collect(),
        }
    }
}

impl Workshop<'_> {
    pub async fn sync(
        &self,
        sandbox: &AgentSandbox,
        request: &SyncRequest,
    ) -> Result<Homecoming, AgentError> {
        self.git.require().await?;
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let facts = Facts::gather(&self.git, &sandbox.record.repository).await?;
        let _turn = facts.repository.turn().await?;
        let survey = self.fetch(sandbox, &connection, &facts.repository).await?;
        let chosen: Vec<BranchName> = match &request.which {
            Which::Main => {
                survey.snapshots.first().map(|snapshot| snapshot.branch.clone()).into_iter().collect()
            }
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
        let refs = sandbox.refs();
        let application = Application {
            repository: &facts.repository,
            refs: &refs,
            checked_out: &facts.branch,
            on_divergence: request.on_divergence,
        };
        let mut branches = Vec::new();
        for name in chosen {
            let fetched = facts.repository.fetched(&refs, &name).await?;
            branches.push(Branch { applied: application.apply(&fetched).await?, name });
        }
        Ok(Homecoming { branches, unnameable: survey.trees.unnameable })
    }

    /// Everything into refs, nothing into a tree.
    async fn fetch(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        repository: &Repository,
    ) -> Result<Survey, AgentError> {
        let survey = Survey::take(connection).await?;
        let refs = sandbox.refs();
        let link = self.link(&sandbox.row, &connection.layout);
        if missing(repository, &refs, &survey).await?.is_empty() {
            tracing::debug!("the host has everything already");
        } else {
            repository.fetch_from(&link, &refs, &survey.wanted()).await?;
        }
        for snapshot in survey.snapshots.iter().filter(|snapshot| snapshot.work.is_none()) {
            repository.forget_work(&refs, &snapshot.branch).await?;
        }
        Ok(survey)
    }

    /// What would be lost with the sandbox. It must be running.
    pub async fn unsynced(&self, sandbox: &AgentSandbox) -> Result<Unsynced, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let facts = Facts::gather(&self.git, &sandbox.record.repository).await?;
        let survey = Survey::take(&connection).await?;
        let refs = sandbox.refs();
        let mut unsynced = Unsynced::default();
        for branch in missing(&facts.repository, &refs, &survey).await? {
            if self.held(&facts.repository, &branch, &survey).await? {
                continue;
            }
            let known = facts.repository.commit_if_any(&refs.commits(&branch)).await?;
            // Named relative to what the host has only where the sandbox has that, too.
            let known = known.filter(|id| survey.trees.branches.iter().any(|(_, inside)| inside == id));
            let description =
                tree(&connection, &connection.layout.workspace).describe(&branch, known.as_ref()).await?;
            if description != Description::default() {
                unsynced.0.push((branch, description));
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

/// The branches whose commits or uncommitted work the host's refs have not.
async fn missing(
    repository: &Repository,
    refs: &SandboxRefs,
    survey: &Survey,
) -> Result<BTreeSet<BranchName>, AgentError> {
    let mut missing = BTreeSet::new();
    for (name, id) in &survey.trees.branches {
        if repository.commit_if_any(&refs.commits(name)).await?.as_ref() != Some(id) {
            missing.insert(name.clone());
        }
    }
    for snapshot in survey.snapshots.iter().filter(|snapshot| snapshot.work.is_some()) {
        if repository.commit_if_any(&refs.work(&snapshot.branch)).await? != snapshot.work {
            missing.insert(snapshot.branch.clone());
        }
    }
    Ok(missing)
}
