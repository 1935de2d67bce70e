//! A path of the host's that is shown in a sandbox, as the place that it was when it was given.
//!
//! A name can be made to lead elsewhere, by a sandbox that may write a directory above it. So a record says which
//! directory was meant, in a way that survives a restart of the machine, and every later start compares.

use crate::path::HostPath;
use crate::policy::Workspace;
use crate::spec::SandboxSpec;
use crate::{Foundation, Policy, Root};
use serde::{Deserialize, Serialize};

/// Which directory or file a path led to when it was recorded.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundPath {
    /// The path as the user gave it, perhaps with links in it.
    pub given: HostPath,
    /// The same without links.
    pub real: HostPath,
    /// What was found there. For a file it is the identity of the directory that it lies in: editors replace files.
    pub identity: PathIdentity,
    /// Unix milliseconds.
    pub recorded_at: i64,
}

/// What tells a directory from every other, whatever its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum PathIdentity {
    /// The kernel's file handle. It has the generation of the inode, so a directory that got the number of a removed one
    /// differs from it.
    Handle {
        /// The type and the bytes of the handle, in hexadecimal.
        handle: String,
        /// The id of the file system, where it has one that does not depend on device numbers.
        #[serde(default, skip_serializing_if = "Option::is_none")]
        file_system: Option<String>,
    },
    /// Where a file system has no lasting handles. It means nothing after a restart of the machine.
    Inode { device: u64, inode: u64, boot: String },
}

/// How two identities of one path relate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum IdentityMatch {
    Same,
    Different,
    /// They were taken in different boots of the machine, or by different means.
    Unknown,
}

impl PathIdentity {
    pub fn compare(&self, other: &PathIdentity) -> IdentityMatch {
        let same = match (self, other) {
            (
                Self::Handle { handle, file_system },
                Self::Handle { handle: other, file_system: other_system },
            ) => {
                let systems_differ =
                    file_system.is_some() && other_system.is_some() && file_system != other_system;
                handle == other && !systems_differ
            }
            (Self::Inode { boot, .. }, Self::Inode { boot: other_boot, .. }) if boot == other_boot => {
                self == other
            }
            _ => return IdentityMatch::Unknown,
        };
        if same { IdentityMatch::Same } else { IdentityMatch::Different }
    }
}

/// Every path of the host's that a user has named for a sandbox, each once. Palisade's own directories are not among
/// them.
pub fn given_paths(policy: &Policy, foundation: &Foundation) -> Vec<HostPath> {
    let workspace = match &policy.workspace {
        Workspace::Bound { host, .. } => Some(host),
        Workspace::Own | Workspace::Scratch => None,
    };
    let root = match &foundation.root {
        Root::Directory { path } => Some(path),
        Root::Host => None,
    };
    let shown = policy.tools.iter().chain(&policy.programs);
    let all =
        workspace.into_iter().chain(root).chain(shown).chain(policy.mounts.iter().map(|mount| &mount.host));
    let mut paths: Vec<HostPath> = Vec::new();
    for path in all {
        if !paths.contains(path) {
            paths.push(path.clone());
        }
    }
    paths
}

impl SandboxSpec {
    /// What is recorded of a path that the user has given.
    pub fn bound_path(&self, given: &HostPath) -> Option<&BoundPath> {
        self.paths.iter().find(|path| path.given == *given)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::parse_mount;

    fn handle(handle: &str, file_system: Option<&str>) -> PathIdentity {
        PathIdentity::Handle { handle: handle.into(), file_system: file_system.map(str::to_owned) }
    }

    fn inode(inode: u64, boot: &str) -> PathIdentity {
        PathIdentity::Inode { device: 1, inode, boot: boot.into() }
    }

    #[test]
    fn handles_are_compared_across_boots_and_inodes_within_one() {
        use IdentityMatch::{Different, Same, Unknown};
        for (one, other, expected) in [
            (handle("1:a", Some("x")), handle("1:a", Some("x")), Same),
            (handle("1:a", Some("x")), handle("1:a", None), Same),
            (handle("1:a", Some("x")), handle("1:b", Some("x")), Different),
            (handle("1:a", Some("x")), handle("1:a", Some("y")), Different),
            (inode(7, "boot"), inode(7, "boot"), Same),
            (inode(7, "boot"), inode(8, "boot"), Different),
            (inode(7, "boot"), inode(7, "later"), Unknown),
            (inode(7, "boot"), handle("1:a", None), Unknown),
        ] {
            assert_eq!(one.compare(&other), expected, "{one:?} {other:?}");
            assert_eq!(other.compare(&one), expected, "{other:?} {one:?}");
        }
    }

    #[test]
    fn every_path_that_was_given_is_named_once() {
        let path = |text: &str| HostPath::new(text).unwrap();
        let mut policy = Policy {
            workspace: Workspace::Bound { host: path("/work"), access: crate::Access::ReadWrite },
            tools: vec![path("/tool")],
            programs: vec![path("/program"), path("/tool")],
            kept_home: Some(path("/state/home")),
            ..Policy::default()
        };
        policy.mounts.push(parse_mount("/data:/data").unwrap());
        policy.mounts.push(parse_mount("/data:/again").unwrap());
        let foundation =
            Foundation { root: Root::Directory { path: path("/root-of-it") }, ..Foundation::default() };
        let named = given_paths(&policy, &foundation);
        assert_eq!(named, ["/work", "/root-of-it", "/tool", "/program", "/data"].map(path));
        assert_eq!(given_paths(&Policy::default(), &Foundation::default()), []);
    }
}
