//! Worktrees inside a sandbox: one branch and one agent each, beside the main one.

use crate::env_files;
use crate::error::AgentError;
use crate::service::{AgentSandbox, AgentService, record, repository};
use crate::unsaved::unsaved;
use crate::working::is_working;
use palisade_core::{GuestPath, Layout};
use palisade_engine::{Connection, EngineError};
use palisade_workspace::{
    ArchiveReason, ArchiveReport, BranchName, ExchangeError, ExchangeReport, SandboxRepository, TreeSurvey,
};

/// The session of the agent in `/workspace`, and the first part of the others' names.
const SESSION: &str = "agent";
/// The most a session's name has left for a branch.
const LONGEST: usize = 50;

/// The session in which an agent works, by the worktree it works in.
pub fn session_name(worktree: Option<&BranchName>) -> String {
    let Some(branch) = worktree else { return SESSION.into() };
    let letter = |c: char| if c.is_ascii_lowercase() || c.is_ascii_digit() { c } else { '-' };
    let text: String = branch.as_str().to_lowercase().chars().map(letter).take(LONGEST).collect();
    format!("{SESSION}-{text}")
}

/// Whether a session of this name is an agent's.
pub(crate) fn is_agent_session(session: &str) -> bool {
    session == SESSION || session.strip_prefix(SESSION).is_some_and(|rest| rest.starts_with('-'))
}

/// How far the removal of a worktree may go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WorktreeRemoval {
    /// Only one whose work is in the user's branches and files, and in which no agent works.
    Careful,
    /// The work is archived first.
    Force,
    /// What cannot be archived is given up.
    Discard,
}

impl AgentService<'_> {
    /// The worktree of a branch, made when it is not there.
    pub async fn worktree(
        &self,
        connection: &Connection,
        branch: &BranchName,
    ) -> Result<GuestPath, AgentError> {
        let repository = repository(connection, self.limits);
        let survey = repository.survey().await?.ok_or(ExchangeError::NoRepositoryInside)?;
        let is_of_branch = |tree: &&TreeSurvey| tree.branch.as_ref() == Some(branch);
        if let Some(tree) = survey.main.trees.iter().find(is_of_branch) {
            share(connection, &tree.path).await?;
            return Ok(tree.path.clone());
        }
        let path = format!("{}/.worktrees/{branch}", connection.layout.workspace);
        let path = GuestPath::new(path)
            .map_err(|error| AgentError::io("the worktree's path")(std::io::Error::other(error)))?;
        repository.add_worktree(&survey.main, branch, &path).await?;
        share(connection, &path).await?;
        Ok(path)
    }

    /// As [`AgentService::worktree`], in a sandbox that is started for it if need be, and stays so.
    pub async fn add_worktree(
        &self,
        sandbox: &AgentSandbox,
        branch: &BranchName,
    ) -> Result<GuestPath, AgentError> {
        let id = sandbox.row.id().as_str();
        self.engine.start(id).await?;
        self.worktree(&self.engine.connect(id).await?, branch).await
    }

    /// All working trees, the main one first.
    pub async fn worktrees(&self, sandbox: &AgentSandbox) -> Result<Vec<TreeSurvey>, AgentError> {
        self.with_running(sandbox, async |connection| {
            let survey = repository(connection, self.limits).survey().await?;
            Ok(survey.ok_or(ExchangeError::NoRepositoryInside)?.main.trees)
        })
        .await
    }

    /// Removes a worktree; its branch stays. Its work is archived first, and it is refused while that is not in the user's
    /// branches and files.
    pub async fn remove_worktree(
        &self,
        sandbox: &AgentSandbox,
        branch: &BranchName,
        removal: WorktreeRemoval,
    ) -> Result<ArchiveReport, AgentError> {
        self.with_running(sandbox, async |connection| {
            if removal == WorktreeRemoval::Careful {
                refuse_working_agent(sandbox, connection, branch).await?;
            }
            let report = self
                .exchange(sandbox, connection, async |exchange| {
                    Ok(exchange.unapplied(ArchiveReason::WorktreeRemove).await?)
                })
                .await?;
            let repository = repository(connection, self.limits);
            let survey = repository.survey().await?.ok_or(ExchangeError::NoRepositoryInside)?;
            let tree = survey.main.trees.iter().skip(1).find(|tree| tree.branch.as_ref() == Some(branch));
            let tree = tree.ok_or_else(|| AgentError::NoWorktree {
                name: sandbox.name().clone(),
                branch: branch.to_string(),
            })?;
            refuse_unsaved(sandbox, tree, connection, &report, removal)?;
            repository.remove_worktree(&tree.path).await?;
            Ok(report.archived)
        })
        .await
    }

    /// What an agent has changed and not committed, with control characters escaped.
    pub async fn diff(&self, sandbox: &AgentSandbox, worktree: Option<&str>) -> Result<String, AgentError> {
        self.with_running(sandbox, async |connection| {
            let repository = repository(connection, self.limits);
            let tree = find_tree(&repository, sandbox, worktree).await?;
            Ok(repository.diff(&tree).await?)
        })
        .await
    }

    /// The commits that an agent has made since the host's code was sent in, with control characters escaped.
    pub async fn log(&self, sandbox: &AgentSandbox, worktree: Option<&str>) -> Result<String, AgentError> {
        self.with_running(sandbox, async |connection| {
            let repository = repository(connection, self.limits);
            match find_tree(&repository, sandbox, worktree).await?.head {
                Some(head) => Ok(repository.log(&head).await?),
                None => Ok(String::new()),
            }
        })
        .await
    }
}

/// The working tree of a branch, or the main one.
async fn find_tree(
    repository: &SandboxRepository<'_>,
    sandbox: &AgentSandbox,
    worktree: Option<&str>,
) -> Result<TreeSurvey, AgentError> {
    let survey = repository.survey().await?.ok_or(ExchangeError::NoRepositoryInside)?;
    let is_meant = |tree: &TreeSurvey| {
        worktree.is_none_or(|name| tree.branch.as_ref().is_some_and(|branch| branch.as_str() == name))
    };
    survey.main.trees.into_iter().find(is_meant).ok_or_else(|| AgentError::NoWorktree {
        name: sandbox.name().clone(),
        branch: palisade_core::printable(worktree.unwrap_or_default()),
    })
}

async fn refuse_working_agent(
    sandbox: &AgentSandbox,
    connection: &Connection,
    branch: &BranchName,
) -> Result<(), AgentError> {
    let session = session_name(Some(branch));
    let sessions = connection.sessions().await?;
    let in_session = sessions.iter().any(|running| running.name == session && running.exit.is_none());
    if in_session || is_working(&sandbox.row, Some(Some(branch))) {
        let session = in_session.then_some(session);
        return Err(EngineError::AgentWorking { name: sandbox.name().clone(), session }.into());
    }
    Ok(())
}

/// What of a worktree is only there: files that are not committed, and what could not be archived. Its commits stay with
/// its branch.
fn refuse_unsaved(
    sandbox: &AgentSandbox,
    tree: &TreeSurvey,
    connection: &Connection,
    report: &ExchangeReport,
    removal: WorktreeRemoval,
) -> Result<(), AgentError> {
    let below = tree.path.as_str().strip_prefix(&connection.layout.workspace).unwrap_or_default();
    let below = format!("{}/", below.trim_start_matches('/'));
    let left_out = report.archived.left_out.iter().filter(|left_out| left_out.path.starts_with(&below));
    let not_archived: Vec<String> =
        left_out.map(|left_out| format!("{}: {}", left_out.path, left_out.reason)).collect();
    let name = sandbox.name().clone();
    if !not_archived.is_empty() && removal != WorktreeRemoval::Discard {
        return Err(EngineError::NotArchived { name, items: not_archived }.into());
    }
    let mut only = report.clone();
    only.sync.branches.clear();
    only.sync.trees.retain(|outcome| outcome.path == tree.path);
    only.sync.detached.retain(|(path, _)| *path == tree.path);
    (only.sync.stashes, only.sync.tags) = (Vec::new(), Vec::new());
    only.archived.nested.retain(|nested| nested.path.as_str().starts_with(&below));
    let unapplied = unsaved(&only).unapplied;
    if removal == WorktreeRemoval::Careful && !unapplied.is_empty() {
        return Err(EngineError::UnsavedWork { name, unapplied, not_archived: Vec::new() }.into());
    }
    Ok(())
}

/// The files beside the code, as they are in the main working tree.
async fn share(connection: &Connection, worktree: &GuestPath) -> Result<(), AgentError> {
    if worktree.as_str() == connection.layout.workspace {
        return Ok(());
    }
    let Some(record) = record(&connection.row)? else { return Ok(()) };
    let layout = Layout { workspace: worktree.as_str().to_owned(), ..connection.layout.clone() };
    env_files::share(connection, &layout, &record.env_files, &record.env_load).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_worktree_has_a_session_of_its_own() {
        let name = |branch: &str| session_name(Some(&BranchName::new(branch).unwrap()));
        assert_eq!((session_name(None).as_str(), name("feature/M1").as_str()), ("agent", "agent-feature-m1"));
        assert!(name(&"x".repeat(200)).len() <= 63);
    }
}
