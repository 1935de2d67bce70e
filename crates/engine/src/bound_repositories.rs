//! Repositories in host directories that a sandbox may write. The engine itself knows nothing of git: it asks here before
//! a sandbox starts, and before one ends.

use crate::unsaved_work::WorkError;
use palisade_core::{
    BoxFuture, CopiedDirectory, HostPath, Layout, PrivateGit, SandboxId, SandboxName, SandboxSpec,
};
use palisade_protocol::client::Client;
use std::path::PathBuf;

/// Git data of a run that was killed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct LeftBehind {
    pub sandbox: SandboxId,
    /// The bound directories, and where each was shown.
    pub directories: Vec<(HostPath, String)>,
    /// The copy that the run had as its workspace, if it had one.
    pub copy: Option<HostPath>,
    /// Whether it holds commits that the host does not have.
    pub has_commits: bool,
}

/// Why commits are brought.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BringCause {
    /// The sandbox is about to end: nothing is brought to it.
    End,
    /// Something has changed, inside or on the host.
    Change,
    /// The user asks: also for what waits since an earlier time.
    Request,
}

/// What was brought to the host, and to the sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct BroughtCommits {
    /// Working trees of the host's in which something has moved.
    pub moved: Vec<HostPath>,
    /// Working trees of the host's whose state the sandbox has taken over.
    pub followed: Vec<HostPath>,
    /// Working trees of the host's whose state the sandbox does not have yet, since git was at work.
    pub busy: Vec<HostPath>,
    /// What the user should know, in lines.
    pub notes: Vec<String>,
    /// Whether commits wait for the user.
    pub has_waiting: bool,
}

/// Git data that was made for a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct PreparedGit {
    pub git: Vec<PrivateGit>,
    /// What the user should know, in lines.
    pub notices: Vec<String>,
}

/// Gives sandboxes git data of their own, and brings their commits back.
pub trait BoundRepositories: Send + Sync {
    /// Makes the git data that a sandbox is to have in place of the host's. What an earlier start has left with commits
    /// that the host does not have is used again. In a copy of a host directory the sandbox has the git data of the
    /// directory itself; a repository that cannot be used is no error there.
    fn prepare<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        copied: Option<&'a CopiedDirectory>,
    ) -> BoxFuture<'a, Result<PreparedGit, WorkError>>;

    /// Brings commits to the host, while the sandbox runs, and what the host has done meanwhile to the sandbox.
    fn bring_back<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        client: &'a Client,
        layout: &'a Layout,
        cause: BringCause,
    ) -> BoxFuture<'a, Result<BroughtCommits, WorkError>>;

    /// Whether [`BoundRepositories::check_inside`] has anything to look for.
    fn needs_check(&self, id: &SandboxId) -> bool;

    /// Looks for what the repositories need inside, after the start and before anything of the user's runs.
    fn check_inside<'a>(
        &'a self,
        spec: &'a SandboxSpec,
        client: &'a Client,
        layout: &'a Layout,
    ) -> BoxFuture<'a, Result<(), WorkError>>;

    /// Does what has to wait until a sandbox has ended: directories become repositories in which it has committed. What the
    /// user should know, in lines.
    fn settle<'a>(&'a self, id: &'a SandboxId) -> BoxFuture<'a, Result<Vec<String>, WorkError>>;

    /// Files of the host's that change whenever the user commits or switches branches there.
    fn host_files(&self, id: &SandboxId) -> Vec<PathBuf>;

    /// Removes the git data of a sandbox that has ended. With commits that the host does not have it stays, as an error.
    fn put_away<'a>(
        &'a self,
        id: &'a SandboxId,
        name: Option<&'a SandboxName>,
    ) -> BoxFuture<'a, Result<(), WorkError>>;

    /// Whether a sandbox's git data holds commits that were not brought to the host.
    fn has_commits(&self, spec: &SandboxSpec) -> bool;

    /// Removes the git data of a sandbox, whatever is in it.
    fn discard(&self, spec: &SandboxSpec) -> Result<(), WorkError>;

    /// What runs without a name have left that ended without bringing their commits back.
    fn left_behind(&self) -> Vec<LeftBehind>;
}

/// For an engine whose sandboxes have no host directories to write.
#[derive(Debug, Clone, Copy)]
pub struct NoRepositories;

impl BoundRepositories for NoRepositories {
    fn prepare<'a>(
        &'a self,
        _: &'a SandboxSpec,
        _: Option<&'a CopiedDirectory>,
    ) -> BoxFuture<'a, Result<PreparedGit, WorkError>> {
        Box::pin(std::future::ready(Ok(PreparedGit::default())))
    }

    fn bring_back<'a>(
        &'a self,
        _: &'a SandboxSpec,
        _: &'a Client,
        _: &'a Layout,
        _: BringCause,
    ) -> BoxFuture<'a, Result<BroughtCommits, WorkError>> {
        Box::pin(std::future::ready(Ok(BroughtCommits::default())))
    }

    fn needs_check(&self, _: &SandboxId) -> bool {
        false
    }

    fn check_inside<'a>(
        &'a self,
        _: &'a SandboxSpec,
        _: &'a Client,
        _: &'a Layout,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn settle<'a>(&'a self, _: &'a SandboxId) -> BoxFuture<'a, Result<Vec<String>, WorkError>> {
        Box::pin(std::future::ready(Ok(Vec::new())))
    }

    fn host_files(&self, _: &SandboxId) -> Vec<PathBuf> {
        Vec::new()
    }

    fn put_away<'a>(
        &'a self,
        _: &'a SandboxId,
        _: Option<&'a SandboxName>,
    ) -> BoxFuture<'a, Result<(), WorkError>> {
        Box::pin(std::future::ready(Ok(())))
    }

    fn has_commits(&self, _: &SandboxSpec) -> bool {
        false
    }

    fn discard(&self, _: &SandboxSpec) -> Result<(), WorkError> {
        Ok(())
    }

    fn left_behind(&self) -> Vec<LeftBehind> {
        Vec::new()
    }
}
