//! Where a host repository is and what it is at. Git is asked all of it at once.

use crate::git::{Git, GitError, Places, Repository};
use crate::refs::{BranchName, ObjectId};
use palisade_core::HostPath;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

/// A repository with a branch and a commit to work from.
#[derive(Debug, Clone)]
pub struct Place {
    pub repository: Repository,
    /// The top of the working tree.
    pub root: HostPath,
    pub branch: BranchName,
    pub head: ObjectId,
}

#[derive(Debug, thiserror::Error)]
pub enum NotUsable {
    #[error("{} does not exist", .0.as_path().display())]
    Missing(HostPath),
    #[error("{} is not in a git repository", .0.as_path().display())]
    NoRepository(HostPath),
    #[error("{} is a bare repository, and an agent works on a working tree", .0.as_path().display())]
    Bare(HostPath),
    #[error("{} is in a repository whose path holds a line break", .0.as_path().display())]
    LineBreak(HostPath),
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
            NotUsable::Missing(_) => "name a directory in a git repository",
            NotUsable::NoRepository(_) => "make one: git init && git add -A && git commit -m start",
            NotUsable::Bare(_) => "name a clone with a working tree",
            NotUsable::LineBreak(_) => "move it to a path without one",
            NotUsable::NoCommit(_) => "make the first one: git add -A && git commit -m start",
            NotUsable::Detached(_) => "go to a branch: git switch BRANCH, or git switch -c NEW",
            NotUsable::Git(_) => "try the same git command by hand in that directory",
        }
    }
}

impl Repository {
    /// The repository whose working tree has its top exactly here, whatever it is at: for its refs.
    pub async fn find(git: &Git, top: &HostPath) -> Result<Self, NotUsable> {
        let gone = || NotUsable::NoRepository(top.clone());
        let (version, found) = tokio::join!(git.require(), ask(git, top));
        version?;
        let found = found?;
        // One further up is another repository.
        if found.root == *top { Ok(found.repository) } else { Err(gone()) }
    }

    /// The repository that a directory lies in, from the top of its working tree, whatever it is at.
    pub async fn around(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        let (version, found) = tokio::join!(git.require(), ask(git, directory));
        version?;
        let found = found?;
        if found.root == *directory {
            return Ok(found.repository);
        }
        // Again from the top, whose configuration may differ from that of a directory below it.
        Ok(ask(git, &found.root).await?.repository)
    }
}

impl Place {
    /// With a git that has all that is used here.
    pub async fn find(git: &Git, directory: &HostPath) -> Result<Self, NotUsable> {
        let (version, found) = tokio::join!(git.require(), look(git, directory));
        version?;
        let found = found?;
        if found.root == *directory {
            return Ok(found);
        }
        // Again from the top, whose configuration may differ from that of a directory below it.
        look(git, &found.root).await
    }
}

/// In the order in which git answers; what cannot be answered ends the answers.
const QUESTIONS: [&str; 11] = [
    "rev-parse",
    "--is-bare-repository",
    "--is-inside-work-tree",
    "--path-format=absolute",
    "--absolute-git-dir",
    "--git-common-dir",
    "--show-toplevel",
    "HEAD^{commit}",
    "HEAD^{tree}",
    "--symbolic-full-name",
    "HEAD",
];

/// What git answered, before it matters what the repository is at.
pub(crate) struct Found {
    pub(crate) repository: Repository,
    pub(crate) root: HostPath,
    /// The commit, its tree and the ref; only one when there is no commit.
    pub(crate) at: Vec<Vec<u8>>,
}

pub(crate) async fn ask(git: &Git, directory: &HostPath) -> Result<Found, NotUsable> {
    // A program cannot be started there, and it would look as if the program were missing.
    if !directory.as_path().is_dir() {
        return Err(NotUsable::Missing(directory.clone()));
    }
    let repository = git.unguarded(directory);
    // Neither runs anything, whatever the configuration says.
    let (listing, answers) = tokio::try_join!(
        repository.git(["config", "--list", "-z"]).bytes(),
        repository.git(QUESTIONS).answers()
    )?;
    let answers = answers.strip_suffix(b"\n").unwrap_or(&answers);
    let lines: Vec<&[u8]> = answers.split(|byte| *byte == b'\n').collect();
    let path = |line: &[u8]| PathBuf::from(OsString::from_vec(line.to_vec()));
    let (own, common, root, at) = match lines.as_slice() {
        [b"true", b"false", ..] => return Err(NotUsable::Bare(directory.clone())),
        [b"false", b"true", own, common, root, at @ ..] => (own, common, root, at),
        // Also inside `.git` itself.
        _ => return Err(NotUsable::NoRepository(directory.clone())),
    };
    let root = HostPath::new(path(root)).map_err(|_| NotUsable::NoRepository(directory.clone()))?;
    let places = Places { own: path(own), common: path(common) };
    if let [commit, tree, _] = at
        && let (Some(commit), Some(tree)) = (object_id(commit), object_id(tree))
    {
        repository.answers().remember_tree(&commit, tree);
    }
    let at = at.iter().map(|line| line.to_vec()).collect();
    Ok(Found { repository: repository.guarded(&listing, places), root, at })
}

fn object_id(line: &[u8]) -> Option<ObjectId> {
    ObjectId::parse(&String::from_utf8_lossy(line))
}

async fn look(git: &Git, directory: &HostPath) -> Result<Place, NotUsable> {
    let Found { repository, root, at } = ask(git, directory).await?;
    let text = |line: &[u8]| String::from_utf8_lossy(line).into_owned();
    let (head, branch) = match at.as_slice() {
        [head, _tree, branch] => (object_id(head), text(branch)),
        // The question itself is the answer when there is no commit.
        [_] => return Err(NotUsable::NoCommit(root)),
        _ => return Err(NotUsable::LineBreak(directory.clone())),
    };
    let head = head.ok_or_else(|| NotUsable::NoCommit(root.clone()))?;
    let branch = branch.strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok());
    let branch = branch.ok_or_else(|| NotUsable::Detached(root.clone()))?;
    Ok(Place { repository, root, branch, head })
}
