//! Files that git ignores, on their way home: which there are inside, where on the host they may go, and what was laid
//! there before.
//!
//! What git inside lists is a stranger's word. It says only what to ask for; where that may be written is decided here:
//! below the working tree, never under a name that stands for `.git`, never where git has a file of the user's, and never
//! over a file that is not what was brought before.

mod memory;

pub use memory::{Fingerprint, Memory};

use crate::git::{GitError, Repository};
use crate::refs::BranchName;
use crate::sandbox::{SandboxError, SandboxRepository};
use palisade_core::{HostPath, stands_for_git};
use palisade_host::beneath;
use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::ops::Bound;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Component, Path, PathBuf};

/// Each is asked for by itself.
const MOST_ITEMS: usize = 10_000;

/// A file or directory by its path from the top of a working tree.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ArtifactPath(Vec<OsString>);

#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
pub enum InvalidArtifact {
    #[error("it leads out of the working tree")]
    LeadsOut,
    #[error("it leads into git's own directory")]
    Git,
    #[error("it is the working tree itself")]
    Whole,
}

impl ArtifactPath {
    pub fn new(path: &Path) -> Result<Self, InvalidArtifact> {
        let mut names = Vec::new();
        for component in path.components() {
            match component {
                Component::Normal(name) if stands_for_git(name.as_bytes()) => {
                    return Err(InvalidArtifact::Git);
                }
                Component::Normal(name) => names.push(name.to_owned()),
                Component::CurDir => {}
                Component::ParentDir | Component::RootDir | Component::Prefix(_) => {
                    return Err(InvalidArtifact::LeadsOut);
                }
            }
        }
        if names.is_empty() { Err(InvalidArtifact::Whole) } else { Ok(Self(names)) }
    }

    pub fn names(&self) -> &[OsString] {
        &self.0
    }

    pub fn to_path(&self) -> PathBuf {
        self.0.iter().collect()
    }
}

/// Whether a link may be made: when it stays in `item`, the directory that is being brought, and does not lead into a
/// `.git`.
pub fn link_stays(item: &ArtifactPath, link: &Path, target: &Path) -> bool {
    let is_git =
        |part: Component<'_>| matches!(part, Component::Normal(name) if stands_for_git(name.as_bytes()));
    beneath::link_stays(item.0.len(), link, target) && !target.components().any(is_git)
}

impl SandboxRepository<'_> {
    /// What git ignores in this working tree, a directory as a whole where a rule names it; and how many names of the
    /// answer cannot be asked for.
    pub async fn ignored(&self) -> Result<(Vec<ArtifactPath>, usize), SandboxError> {
        const STATUS: [&str; 8] = [
            "--no-optional-locks",
            "status",
            "--porcelain=v1",
            "-z",
            "--ignored=matching",
            "--untracked-files=all",
            "--no-renames",
            "--ignore-submodules=all",
        ];
        let mut answer = Vec::new();
        self.git("listing what git ignores", &STATUS, &mut tokio::io::empty(), &mut answer).await?;
        let (items, strange) = parse_ignored(&answer);
        if items.len() > MOST_ITEMS {
            return Err(SandboxError::TooMany { what: "ignored files and directories", most: MOST_ITEMS });
        }
        Ok((items, strange))
    }
}

/// `!! path NUL` among others.
fn parse_ignored(answer: &[u8]) -> (Vec<ArtifactPath>, usize) {
    let (mut items, mut strange) = (BTreeSet::new(), 0);
    for path in answer.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(b"!! ")) {
        match ArtifactPath::new(Path::new(OsStr::from_bytes(path))) {
            Ok(item) => drop(items.insert(item)),
            Err(_) => strange += 1,
        }
    }
    (items.into_iter().collect(), strange)
}

/// What git has of the user's in one working tree: no artifact takes its place.
#[derive(Debug, Clone, Default)]
pub struct Tracked(BTreeSet<OsString>);

impl Tracked {
    /// Whether git has a file, a link or a submodule at the path or on the way to it.
    pub fn holds(&self, path: &Path) -> bool {
        path.ancestors().any(|part| self.0.contains(part.as_os_str()))
    }

    /// Whether git has something below the path.
    pub fn lies_below(&self, path: &Path) -> bool {
        let mut directory = path.as_os_str().to_owned();
        directory.push("/");
        let from = (Bound::Included(directory.as_os_str()), Bound::Unbounded);
        let next = self.0.range::<OsStr, _>(from).next();
        next.is_some_and(|next| next.as_bytes().starts_with(directory.as_bytes()))
    }
}

impl<S: Into<OsString>> FromIterator<S> for Tracked {
    fn from_iter<I: IntoIterator<Item = S>>(paths: I) -> Self {
        Self(paths.into_iter().map(Into::into).collect())
    }
}

impl Repository {
    /// All that the index has, also files that were only announced to it.
    pub async fn tracked(&self) -> Result<Tracked, GitError> {
        let (_, paths) = self.git(["ls-files", "-z", "--full-name"]).words().await?;
        Ok(paths.into_iter().collect())
    }

    /// The user's working tree in which a branch is checked out, if one is.
    pub async fn tree_at(&self, branch: &BranchName) -> Result<Option<HostPath>, GitError> {
        let list = self.git(["worktree", "list", "--porcelain", "-z"]).bytes().await?;
        Ok(find_tree(&list, &branch.full()))
    }

    /// What was laid into this working tree by the sandbox of this name, for one who changes it alone.
    pub fn memory(&self, sandbox: &str) -> std::io::Result<Option<Memory>> {
        Memory::open(&self.places().own.join("palisade-artifacts"), sandbox)
    }
}

/// Blocks of `key value` lines, each ended by a NUL, and each block by another.
fn find_tree(list: &[u8], full: &str) -> Option<HostPath> {
    let mut path = None;
    for line in list.split(|byte| *byte == 0) {
        if let Some(found) = line.strip_prefix(b"worktree ") {
            path = HostPath::new(PathBuf::from(OsString::from_vec(found.to_vec()))).ok();
        } else if line.strip_prefix(b"branch ").is_some_and(|branch| branch == full.as_bytes()) {
            return path;
        }
    }
    None
}

#[cfg(test)]
mod tests;
