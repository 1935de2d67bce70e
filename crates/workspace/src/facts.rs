//! What a host repository is and what state it is in, before anything is done with it.

use crate::git::{Git, GitError, Repository};
use crate::refs::{BranchName, ObjectId};
use palisade_core::HostPath;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

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

/// A path that differs from the commit, with git's two letters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Change {
    pub letters: String,
    pub path: PathBuf,
}

impl Change {
    pub fn untracked(&self) -> bool {
        self.letters == "??"
    }
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

/// Who commits. Empty when git has no opinion, and then the sandbox's own default stands.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Identity {
    pub name: String,
    pub email: String,
}

#[derive(Debug, thiserror::Error)]
pub enum NotUsable {
    #[error("{} is not in a git repository", .0.as_path().display())]
    NoRepository(HostPath),
    #[error("{} is a bare repository, and an agent works on a working tree", .0.as_path().display())]
    Bare(HostPath),
    #[error("{} has no commit yet", .0.as_path().display())]
    NoCommit(HostPath),
    #[error("{} is at a commit that no branch is at (a detached HEAD)", .0.as_path().display())]
    Detached(HostPath),
    #[error(transparent)]
    Git(#[from] GitError),
}

impl NotUsable {
    pub fn hint(&self) -> &'static str {
        match self {
            NotUsable::NoRepository(_) => "make one: git init && git add -A && git commit -m start",
            NotUsable::Bare(_) => "name a clone with a working tree",
            NotUsable::NoCommit(_) => "make the first one: git add -A && git commit -m start",
            NotUsable::Detached(_) => "go to a branch: git switch BRANCH, or git switch -c NEW",
            NotUsable::Git(_) => "try the same git command by hand in that directory",
        }
    }
}

impl Facts {
    pub async fn gather(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        let here = git.repository(directory).await?;
        let Ok(kind) = here.git(["rev-parse", "--is-bare-repository", "--is-inside-work-tree"]).text().await
        else {
            return Err(NotUsable::NoRepository(directory.clone()));
        };
        match kind.as_str() {
            "false\ntrue" => {}
            "true\nfalse" => return Err(NotUsable::Bare(directory.clone())),
            // Inside `.git` itself.
            _ => return Err(NotUsable::NoRepository(directory.clone())),
        }
        let root = path(here.git(["rev-parse", "--show-toplevel"]).bytes().await?);
        let root = HostPath::new(root).map_err(|_| NotUsable::NoRepository(directory.clone()))?;
        // Again from the top, whose configuration may differ from that of a directory below it.
        let repository = git.repository(&root).await?;
        let head = repository.git(["rev-parse", "--verify", "--quiet", "HEAD^{commit}"]);
        let Ok(head) = head.text().await else { return Err(NotUsable::NoCommit(root)) };
        let head = object("rev-parse", &head)?;
        let branch = repository.git(["symbolic-ref", "--quiet", "--short", "HEAD"]).text().await;
        let Some(branch) = branch.ok().and_then(|name| BranchName::new(&name).ok()) else {
            return Err(NotUsable::Detached(root));
        };
        let changes = changes(&repository).await?;
        let limits = limits(&repository).await?;
        let identity = Identity {
            name: setting(&repository, "user.name").await?,
            email: setting(&repository, "user.email").await?,
        };
        Ok(Self { repository, root, branch, head, changes, limits, identity })
    }
}

/// What differs from HEAD, ignored files left out.
pub(crate) async fn changes(repository: &Repository) -> Result<Vec<Change>, GitError> {
    let status = repository
        .git([
            "status",
            "--porcelain=v1",
            "-z",
            "--untracked-files=all",
            "--ignore-submodules=all",
            "--no-renames",
        ])
        .env("GIT_OPTIONAL_LOCKS", "0");
    Ok(parse_changes(&status.bytes().await?))
}

fn parse_changes(bytes: &[u8]) -> Vec<Change> {
    let entries = bytes.split(|byte| *byte == 0).filter(|entry| entry.len() > 3);
    entries
        .map(|entry| Change {
            letters: String::from_utf8_lossy(&entry[..2]).into_owned(),
            path: PathBuf::from(OsString::from_vec(entry[3..].to_vec())),
        })
        .collect()
}

async fn limits(repository: &Repository) -> Result<Vec<Limit>, GitError> {
    let mut limits = Vec::new();
    if repository.git(["cat-file", "-e", "HEAD:.gitmodules"]).succeeds().await? {
        limits.push(Limit::Submodules);
    }
    let pointers =
        ["grep", "--quiet", "--extended-regexp", "filter=lfs", "HEAD", "--", ":(glob)**/.gitattributes"];
    if repository.git(pointers).holds().await? {
        limits.push(Limit::LargeFiles);
    }
    if repository.git(["rev-parse", "--is-shallow-repository"]).text().await? == "true" {
        limits.push(Limit::Shallow);
    }
    Ok(limits)
}

async fn setting(repository: &Repository, name: &str) -> Result<String, GitError> {
    match repository.git(["config", "--get", name]).text().await {
        Ok(value) => Ok(value),
        // Not set.
        Err(GitError::Failed { status, .. }) if status.code() == Some(1) => Ok(String::new()),
        Err(error) => Err(error),
    }
}

pub(crate) fn object(what: &str, text: &str) -> Result<ObjectId, GitError> {
    ObjectId::parse(text)
        .ok_or_else(|| GitError::Answer { what: what.into(), answer: palisade_core::printable(text) })
}

fn path(mut bytes: Vec<u8>) -> PathBuf {
    if bytes.last() == Some(&b'\n') {
        bytes.pop();
    }
    PathBuf::from(OsString::from_vec(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_status_is_read_with_odd_names() {
        let change = |letters: &str, path: &[u8]| Change {
            letters: letters.into(),
            path: PathBuf::from(OsString::from_vec(path.to_vec())),
        };
        assert_eq!(
            parse_changes(b" M a b\0?? new\nline\0A  \xff\0"),
            [change(" M", b"a b"), change("??", b"new\nline"), change("A ", b"\xff")]
        );
        assert_eq!(parse_changes(b""), []);
    }
}
