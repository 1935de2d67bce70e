//! What a sandbox may see and use. A policy is data; each backend plans from it without I/O.

use crate::objects::{OBJECTS, ObjectStoreName};
use crate::path::{GuestPath, HostPath};
use crate::private_git::GIT_DIRECTORIES;
use crate::reach::{AllowRule, HostPort, PROXY_PORT};
use crate::resources::Resources;
use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// Where the workspace stands inside every sandbox.
pub const WORKSPACE: &str = "/workspace";
/// The home of the one user inside every sandbox.
pub const HOME: &str = "/home/agent";
/// The one user inside every sandbox.
pub const USER: &str = "agent";
/// Where our own program stands inside every sandbox with a file system of its own.
pub const GUEST: &str = "/.palisade/guest";
/// The uid and gid of that user, as seen inside.
pub const INSIDE_ID: u32 = 1000;
/// Files that every sandbox has of its own, whatever the method writes them with.
pub const OWN_FILES: [&str; 6] =
    ["/etc/passwd", "/etc/group", "/etc/hosts", "/etc/hostname", "/etc/resolv.conf", "/etc/nsswitch.conf"];

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Access {
    ReadOnly,
    ReadWrite,
}

/// How far the sandbox reaches into the network; ordered from narrow to wide.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Default, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Network {
    #[default]
    None,
    Allowlist,
    Open,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown network mode '{0}'; possible are none, allowlist, open")]
pub struct UnknownNetwork(String);

impl FromStr for Network {
    type Err = UnknownNetwork;
    fn from_str(text: &str) -> Result<Self, UnknownNetwork> {
        match text {
            "none" => Ok(Network::None),
            "allowlist" => Ok(Network::Allowlist),
            "open" => Ok(Network::Open),
            _ => Err(UnknownNetwork(text.escape_debug().to_string())),
        }
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl Network {
    pub fn as_str(self) -> &'static str {
        match self {
            Network::None => "none",
            Network::Allowlist => "allowlist",
            Network::Open => "open",
        }
    }
}

/// One extra host directory or file shown inside.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Mount {
    pub host: HostPath,
    pub guest: GuestPath,
    pub access: Access,
}

/// What stands at `/workspace`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Workspace {
    /// A directory of the sandbox's own that lives as long as the sandbox.
    Own,
    /// In memory, gone with the run.
    Scratch,
    /// A host directory (`-w`). In a writable one a sandbox has git data of its own, see `docs/adr`.
    Bound { host: HostPath, access: Access },
}

/// What the sandbox may see and use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Policy {
    pub network: Network,
    /// Whom the sandbox may reach under [`Network::Allowlist`], and which private addresses under
    /// [`Network::Open`].
    #[serde(default)]
    pub allow: Vec<AllowRule>,
    /// Ports of the host's loopback that appear on the sandbox's own.
    #[serde(default)]
    pub host_ports: Vec<HostPort>,
    pub workspace: Workspace,
    pub mounts: Vec<Mount>,
    /// Host directories with tools, each shown read-only at its own path.
    pub tools: Vec<HostPath>,
    /// What one program is installed as, files or directories, each shown read-only at its own path. Unlike tools they
    /// are not searched for other programs.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub programs: Vec<HostPath>,
    /// A directory of Palisade's own that stands as the home of a one-off run, so that it lasts beyond the run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub kept_home: Option<HostPath>,
    /// A store of git objects in Palisade's state, shown read-only.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub objects: Option<ObjectStoreName>,
    /// Whether programs may change the files of the system they run on, for themselves only.
    #[serde(default = "read_only")]
    pub root: Access,
    /// Show the host's `/opt` read-only.
    pub opt: bool,
    pub resources: Resources,
}

fn read_only() -> Access {
    Access::ReadOnly
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            network: Network::None,
            allow: Vec::new(),
            host_ports: Vec::new(),
            workspace: Workspace::Own,
            mounts: Vec::new(),
            tools: Vec::new(),
            programs: Vec::new(),
            kept_home: None,
            objects: None,
            root: Access::ReadOnly,
            opt: false,
            resources: Resources::default(),
        }
    }
}

impl Policy {
    /// What tells programs inside about the proxy on their loopback. Most need it not: names lead out by themselves.
    pub fn proxy_environment(&self) -> Vec<(String, String)> {
        if self.network == Network::None {
            return Vec::new();
        }
        let proxy = format!("http://127.0.0.1:{PROXY_PORT}");
        let both = |name: &str, value: &str| {
            [(name.to_owned(), value.to_owned()), (name.to_lowercase(), value.to_owned())]
        };
        let mut variables = Vec::new();
        for name in ["HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY"] {
            variables.extend(both(name, &proxy));
        }
        variables.extend(both("NO_PROXY", "localhost,127.0.0.1,::1"));
        variables
    }

    /// Why nothing may be mounted there: somebody would have to make the place in files that a sandbox may have filled
    /// with links, or that are the user's own, or would write over a file that every sandbox has.
    pub fn obstacle_at(&self, target: &GuestPath) -> Option<String> {
        if OWN_FILES.contains(&target.as_str()) {
            return Some(format!("its target {target} is a file that every sandbox has of its own"));
        }
        let below = |other: &&Mount| other.guest != *target && target.is_within(&other.guest);
        if let Some(other) = self.mounts.iter().find(below) {
            return Some(format!("its target {target} lies inside another mount's, {}", other.guest));
        }
        let bound = matches!(self.workspace, Workspace::Bound { .. });
        let in_workspace = std::path::Path::new(target.as_str()).starts_with(WORKSPACE);
        (bound && in_workspace).then(|| {
            format!("its target {target} lies in a directory of the host's that is bound at {WORKSPACE}")
        })
    }

    /// Whether code inside can write into a directory of the host's.
    pub fn writes_host(&self) -> bool {
        let bound = matches!(&self.workspace, Workspace::Bound { access: Access::ReadWrite, .. });
        bound || self.mounts.iter().any(|mount| mount.access == Access::ReadWrite)
    }
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum InvalidMount {
    #[error("'{0}' is not a mount; write HOST:GUEST or HOST:GUEST:ro")]
    Form(String),
    #[error("mount '{given}': {reason}")]
    Path { given: String, reason: String },
    #[error("mount '{given}': {target} belongs to the sandbox itself")]
    Reserved { given: String, target: String },
}

/// Places a user's mount may neither replace nor lie above.
const RESERVED: [&str; 7] = ["/", "/etc", "/home", "/run", "/var", WORKSPACE, HOME];
/// Places below which nothing may be mounted either; some of them are links inside.
const RESERVED_TREES: [&str; 14] = [
    "/.palisade",
    OBJECTS,
    GIT_DIRECTORIES,
    "/bin",
    "/dev",
    "/lib",
    "/lib32",
    "/lib64",
    "/libx32",
    "/proc",
    "/sbin",
    "/sys",
    "/usr",
    "/var/tmp",
];

/// Reads `HOST:GUEST[:ro|:rw]`. A path with a colon cannot be written this way and is refused.
pub fn parse_mount(text: &str) -> Result<Mount, InvalidMount> {
    let given = || text.escape_debug().to_string();
    let parts: Vec<&str> = text.split(':').collect();
    let (host, guest, access) = match parts[..] {
        [host, guest] | [host, guest, "rw"] => (host, guest, Access::ReadWrite),
        [host, guest, "ro"] => (host, guest, Access::ReadOnly),
        _ => return Err(InvalidMount::Form(given())),
    };
    let path = |reason: String| InvalidMount::Path { given: given(), reason };
    let host = HostPath::new(host).map_err(|error| path(error.to_string()))?;
    let guest = GuestPath::new(guest).map_err(|error| path(error.to_string()))?;
    let reserved = RESERVED.contains(&guest.as_str())
        || RESERVED_TREES.iter().any(|tree| std::path::Path::new(guest.as_str()).starts_with(tree));
    if reserved {
        return Err(InvalidMount::Reserved { given: given(), target: guest.to_string() });
    }
    Ok(Mount { host, guest, access })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_read_their_three_parts() {
        let mount = parse_mount("/srv/data:/data:ro").unwrap();
        assert_eq!(mount.host, HostPath::new("/srv/data").unwrap());
        assert_eq!(mount.guest.as_str(), "/data");
        assert_eq!(mount.access, Access::ReadOnly);
        assert_eq!(parse_mount("/a:/b").unwrap().access, Access::ReadWrite);
    }

    #[test]
    fn mounts_that_would_replace_the_sandbox_are_refused() {
        for bad in [
            "/a:/",
            "/a:/proc",
            "/a:/proc/sys",
            "/a:/usr/bin",
            "/a:/etc",
            "/a:/workspace",
            "/a:/.palisade/x",
            "/a:/dev/x",
        ] {
            assert!(matches!(parse_mount(bad), Err(InvalidMount::Reserved { .. })), "{bad}");
        }
    }

    #[test]
    fn mounts_cannot_smuggle_options() {
        for bad in ["", "/a", "/a:/b:exec", "/a:/b:ro:x", "a:/b", "/a:b", "/a:/b/../..", "/a:/b:"] {
            assert!(parse_mount(bad).is_err(), "{bad}");
        }
    }

    #[test]
    fn nothing_is_mounted_where_somebody_else_decides_what_lies_there() {
        let mut policy = Policy::default();
        policy.mounts.push(parse_mount("/a:/data").unwrap());
        let obstacle = |policy: &Policy, target: &str| policy.obstacle_at(&GuestPath::new(target).unwrap());
        for free in ["/data", "/data2", "/other", "/workspace/sub", "/home/agent/sub", "/etc/other"] {
            assert_eq!(obstacle(&policy, free), None, "{free}");
        }
        for taken in OWN_FILES.into_iter().chain(["/data/sub/place"]) {
            assert!(obstacle(&policy, taken).is_some(), "{taken}");
        }
        let host = HostPath::new("/srv").unwrap();
        policy.workspace = Workspace::Bound { host, access: Access::ReadOnly };
        assert!(obstacle(&policy, "/workspace/sub").is_some());
    }

    #[test]
    fn only_writable_host_directories_count_as_writing_the_host() {
        let mut policy = Policy::default();
        assert!(!policy.writes_host());
        policy.mounts.push(parse_mount("/a:/b:ro").unwrap());
        assert!(!policy.writes_host());
        policy.mounts.push(parse_mount("/a:/c").unwrap());
        assert!(policy.writes_host());
    }
}
