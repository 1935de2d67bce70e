//! What a host repository is and what state it is in, before anything is done with it.

use crate::git::{Git, GitError, Identity, Repository};
use crate::place::{History, NotUsable, Place};
use crate::refs::{BranchName, ObjectId};
use crate::status::{Change, Status};
use palisade_core::HostPath;

/// A repository with a commit to work from.
#[derive(Debug, Clone)]
pub struct Facts {
    pub repository: Repository,
    /// The top of the working tree.
    pub root: HostPath,
    pub branch: BranchName,
    pub head: ObjectId,
    pub changes: Vec<Change>,
    pub limits: Vec<Limit>,
    pub identity: Identity,
}

/// What will not come along, or not whole.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Limit {
    Submodules,
    LargeFiles,
    Shallow,
}

impl Limit {
    /// What will and what won't work, for people.
    pub fn told(self) -> &'static str {
        match self {
            Limit::Submodules => {
                "it has submodules: their commits are recorded inside, their contents are not brought along"
            }
            Limit::LargeFiles => {
                "it keeps files with Git LFS: the sandbox sees their pointers, not their contents; \
                 everything else works"
            }
            Limit::Shallow => {
                "it is a shallow clone: the sandbox gets the history that is here, and no older one"
            }
        }
    }
}

impl Facts {
    pub async fn gather(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        let Place { repository, root, branch, head, history } = Place::find(git, directory).await?;
        let (status, mut limits) = tokio::try_join!(Status::look(&repository), limits(&repository))?;
        if history == History::Shallow {
            limits.push(Limit::Shallow);
        }
        let identity = repository.identity().clone();
        Ok(Self { repository, root, branch, head, changes: status.changes, limits, identity })
    }
}

async fn limits(repository: &Repository) -> Result<Vec<Limit>, GitError> {
    let pointers =
        ["grep", "--quiet", "--extended-regexp", "filter=lfs", "HEAD", "--", ":(glob)**/.gitattributes"];
    let (submodules, pointers) = tokio::try_join!(
        repository.git(["cat-file", "-e", "HEAD:.gitmodules"]).succeeds(),
        repository.git(pointers).holds()
    )?;
    let found = [(submodules, Limit::Submodules), (pointers, Limit::LargeFiles)];
    Ok(found.into_iter().filter(|(there, _)| *there).map(|(_, limit)| limit).collect())
}

pub(crate) fn object(what: &str, text: &str) -> Result<ObjectId, GitError> {
    ObjectId::parse(text)
        .ok_or_else(|| GitError::Answer { what: what.into(), answer: palisade_core::printable(text) })
}
