//! Git data of a sandbox's own, in place of that of a host directory which it may write.

use crate::path::HostPath;
use crate::policy::{Access, Policy, Workspace};
use crate::spec::SandboxSpec;
use std::path::PathBuf;

/// Where the git directory of a working tree stands inside when the tree has only a `.git` file.
pub const GIT_DIRECTORIES: &str = "/.palisade-git";

/// Something of the host's to be shown at a place in the sandbox, for git.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitBind {
    pub host: HostPath,
    pub guest: String,
    pub access: Access,
    /// Whether it belongs to the same user as the bound directory.
    pub of_owner: bool,
}

/// What a sandbox sees of git in one host directory that it may write. It is made anew for every start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PrivateGit {
    /// The bound directory.
    pub directory: HostPath,
    /// Its git data and that of its submodules, outer ones first.
    pub binds: Vec<GitBind>,
    /// Working trees in the directory that have git data of their own inside, relative to it; empty for itself.
    pub trees: Vec<PathBuf>,
    /// Paths in the directory that git on the host runs or reads settings from, relative to it.
    pub read_only: Vec<ReadOnlyPath>,
    /// What stands at `.git` on the host while the sandbox runs, in a directory that has none: a file that leads nowhere, or
    /// an empty directory, which git passes by on its way to the repository above.
    pub git_when_absent: WhenAbsent,
    /// What the user should know while the sandbox runs.
    pub notice: Option<String>,
    pub sharing: Sharing,
    /// The `.git` of other repositories below the directory, relative to it, where they were looked for already.
    pub nested: Option<Vec<PathBuf>>,
}

/// Whether the host works in a directory that a sandbox may write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// The user's own directory: what the user's tools run by themselves stays closed in it.
    WithHost,
    /// A copy in the state directory, made for this sandbox. Nothing on the host runs anything in it.
    OwnCopy,
}

impl PrivateGit {
    /// For a copy in which git does not work.
    pub fn of_copy(directory: HostPath) -> Self {
        let (binds, trees, read_only) = (Vec::new(), Vec::new(), Vec::new());
        Self {
            directory,
            binds,
            trees,
            read_only,
            git_when_absent: WhenAbsent::File,
            notice: None,
            sharing: Sharing::OwnCopy,
            nested: None,
        }
    }
}

/// A copy of a host directory, which a sandbox gets in the place of the directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopiedDirectory {
    /// The user's own directory.
    pub source: HostPath,
    /// The copy.
    pub tree: HostPath,
}

impl SandboxSpec {
    /// Whether a directory is a copy that was made for this sandbox: the only part of the state directory that it may see.
    pub fn is_own_copy(&self, directory: &HostPath) -> bool {
        self.git.iter().any(|git| git.sharing == Sharing::OwnCopy && git.directory == *directory)
    }
}

/// A path that must not change while a sandbox runs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ReadOnlyPath {
    pub path: PathBuf,
    pub when_absent: WhenAbsent,
}

/// What stands at a protected path while nothing is there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WhenAbsent {
    Directory,
    /// An empty file, such as one with settings.
    File,
    /// A script that fails: with an empty one a filter would make every file empty.
    Program,
}

impl Policy {
    /// The host directories that code inside can write, and where they are shown.
    pub fn written_directories(&self) -> Vec<(HostPath, String)> {
        let mut found = Vec::new();
        if let Workspace::Bound { host, access: Access::ReadWrite } = &self.workspace {
            found.push((host.clone(), crate::policy::WORKSPACE.to_owned()));
        }
        let mounts = self.mounts.iter().filter(|mount| mount.access == Access::ReadWrite);
        found.extend(mounts.map(|mount| (mount.host.clone(), mount.guest.to_string())));
        found
    }
}
