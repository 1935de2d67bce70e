//! Everything a backend needs to know to build one sandbox.

use crate::bound_path::BoundPath;
use crate::environment::Foundation;
use crate::id::SandboxId;
use crate::method::Method;
use crate::name::SandboxName;
use crate::path::HostPath;
use crate::policy::Policy;
use crate::private_git::PrivateGit;
use serde::{Deserialize, Serialize};

/// The host uid and gid under which a sandbox runs, where its method lets the host choose. Never 0.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostIdentity {
    pub uid: u32,
    pub gid: u32,
}

/// The highest uid that container engines take for the user of a container.
pub const HIGHEST_CONTAINER_UID: u32 = i32::MAX as u32;

/// A sandbox's own directory on the host, and the names in it. Only we create these names, and nothing inside
/// a sandbox can reach the directory itself, only what lies in `home` and `workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(transparent)]
pub struct SandboxDir(HostPath);

/// Where the directories of all sandboxes are, in a state directory.
pub const SANDBOXES: &str = "sandboxes";

impl SandboxDir {
    pub fn new(path: HostPath) -> Self {
        Self(path)
    }

    /// The directory of a sandbox of this state directory. It is derived from where the state directory is now, never
    /// from where it was: a state directory that was moved is found with everything in it.
    pub fn of(state: &HostPath, id: &SandboxId) -> Self {
        Self(state.join(SANDBOXES).join(id.as_str()))
    }

    pub fn path(&self) -> &HostPath {
        &self.0
    }

    /// Shown inside as `/home/agent`.
    pub fn home(&self) -> HostPath {
        self.0.join("home")
    }

    /// Shown inside as `/workspace`, unless a host directory is bound there.
    pub fn workspace(&self) -> HostPath {
        self.0.join("workspace")
    }

    pub fn socket(&self) -> HostPath {
        self.0.join("keeper.sock")
    }

    /// What the sandbox is, for whoever has lost the record of it.
    pub fn description(&self) -> HostPath {
        self.0.join("sandbox.json")
    }

    pub fn log(&self) -> HostPath {
        self.0.join("keeper.log")
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SandboxSpec {
    pub id: SandboxId,
    /// One-off runs have no name.
    pub name: Option<SandboxName>,
    pub method: Method,
    pub policy: Policy,
    /// What it is made from.
    #[serde(default, skip_serializing_if = "Foundation::is_plain")]
    pub foundation: Foundation,
    /// Which places the paths of the policy led to when they were given. Records of before have none of them.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub paths: Vec<BoundPath>,
    /// `None` for one-off runs, which keep nothing. What was written down of it counts only as far as there is one:
    /// readers derive it, see [`SandboxDir::of`].
    pub dir: Option<SandboxDir>,
    pub identity: HostIdentity,
    /// Tells this installation's resources from another's.
    pub owner: String,
    /// Git data of its own for the host directories that it may write. Made for each start, and not recorded.
    #[serde(skip)]
    pub git: Vec<PrivateGit>,
}
