//! Worktrees inside a sandbox: one branch and one agent each, beside the main one.

use crate::env_files;
use crate::error::AgentError;
use crate::workshop::{AgentSandbox, Workshop, record, tree};
use palisade_core::{GuestPath, Layout};
use palisade_engine::Connection;
use palisade_workspace::BranchName;

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

impl Workshop<'_> {
    /// The worktree of a branch, made when it is not there.
    pub async fn worktree(
        &self,
        connection: &Connection,
        branch: &BranchName,
    ) -> Result<GuestPath, AgentError> {
        let main = tree(connection, &connection.layout.workspace);
        if let Some((path, _)) = main.trees().await?.trees.into_iter().find(|(_, name)| name == branch) {
            share(connection, &path).await?;
            return Ok(path);
        }
        let path = format!("{}/.worktrees/{branch}", connection.layout.workspace);
        let path = GuestPath::new(path)
            .map_err(|error| AgentError::io("the worktree's path")(std::io::Error::other(error)))?;
        main.add_worktree(branch, &path).await?;
        share(connection, &path).await?;
        Ok(path)
    }

    /// All working trees of a running sandbox, the main one first.
    pub async fn worktrees(
        &self,
        sandbox: &AgentSandbox,
    ) -> Result<Vec<(GuestPath, BranchName)>, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        Ok(tree(&connection, &connection.layout.workspace).trees().await?.trees)
    }

    /// Takes a worktree away; what was not committed in it is recorded first and can still come home.
    pub async fn remove_worktree(
        &self,
        sandbox: &AgentSandbox,
        branch: &BranchName,
    ) -> Result<(), AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let path = self.place(sandbox, &connection, Some(branch.as_str())).await?;
        let main = tree(&connection, &connection.layout.workspace);
        if path.as_str() == connection.layout.workspace {
            return Err(AgentError::NoWorktree { name: sandbox.name().clone(), branch: branch.to_string() });
        }
        tree(&connection, path.as_str()).snapshot().await?;
        main.remove_worktree(&path).await?;
        Ok(())
    }

    /// What an agent has changed and not committed, as git inside tells it, tamed.
    pub async fn diff(&self, sandbox: &AgentSandbox, worktree: Option<&str>) -> Result<String, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let path = self.place(sandbox, &connection, worktree).await?;
        let tree = tree(&connection, path.as_str());
        let snapshot = tree.snapshot().await?;
        Ok(tree.diff(&snapshot).await?)
    }

    /// The commits that an agent has made since the code was sent in, tamed.
    pub async fn log(&self, sandbox: &AgentSandbox, worktree: Option<&str>) -> Result<String, AgentError> {
        let connection = self.engine.connect(sandbox.row.id().as_str()).await?;
        let path = self.place(sandbox, &connection, worktree).await?;
        Ok(tree(&connection, path.as_str()).log().await?)
    }

    async fn place(
        &self,
        sandbox: &AgentSandbox,
        connection: &Connection,
        worktree: Option<&str>,
    ) -> Result<GuestPath, AgentError> {
        let trees = tree(connection, &connection.layout.workspace).trees().await?.trees;
        let wanted =
            |(_, branch): &&(GuestPath, BranchName)| worktree.is_none_or(|name| branch.as_str() == name);
        let found = trees.iter().find(wanted);
        found.map(|(path, _)| path.clone()).ok_or_else(|| AgentError::NoWorktree {
            name: sandbox.name().clone(),
            branch: palisade_core::printable(worktree.unwrap_or_default()),
        })
    }
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
