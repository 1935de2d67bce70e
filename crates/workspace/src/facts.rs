//! What of a host repository does not go into a sandbox, or not whole.

use crate::git::GitError;
use crate::host_tree::HostTree;
use crate::refs::ObjectId;

/// What does not go into a sandbox, or not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Submodules,
    Shallow,
}

impl Limit {
    /// What works and what does not, for people.
    pub fn describe(self) -> &'static str {
        match self {
            Limit::Submodules => {
                "it has submodules that are not checked out here: they are empty inside, too"
            }
            Limit::Shallow => {
                "it is a shallow clone: the sandbox gets the history that is here, and no older one"
            }
        }
    }

    /// The limits of a repository.
    pub async fn of(host: &HostTree) -> Result<Vec<Self>, GitError> {
        let repository = &host.repository;
        let submodules = host.has_empty_submodules().await?;
        let shallow = !repository.shallow_commits()?.is_empty();
        let found = [(submodules, Limit::Submodules), (shallow, Limit::Shallow)];
        Ok(found.into_iter().filter(|(there, _)| *there).map(|(_, limit)| limit).collect())
    }
}

pub(crate) fn object(what: &str, text: &str) -> Result<ObjectId, GitError> {
    ObjectId::parse(text)
        .ok_or_else(|| GitError::Answer { what: what.into(), answer: palisade_core::printable(text) })
}
