//! Whom sandboxes run as on the host. Started by an engine of root's on this machine, each has a uid of its own, so that one
//! which gets out of its container still has no right to another's files and processes.
//!
//! Some engines cannot do that: those in a user namespace have few uids, and those of another machine are not known here.
//! Their sandboxes run as the user that images know.

use crate::ContainerConfig;
use crate::client::Client;
use crate::endpoint::Endpoint;
use crate::host_paths::Places;
use crate::memory::Memory;
use crate::plan::{Dialect, User};
use bollard::models::SystemInfo;
use palisade_core::policy::INSIDE_ID;
use palisade_core::{Access, BackendError, HIGHEST_CONTAINER_UID, HostIdentity, HostUsers, SandboxSpec};
use palisade_host::stamp;
use palisade_host::user_namespace::uid_is_mapped;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Where Docker is told to map all its containers to other uids.
const DOCKER_SETTINGS: &str = "/etc/docker/daemon.json";

/// What an engine of root's on this machine says of itself, as far as it decides about uids.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum EngineOfRoot {
    Plain,
    /// Its containers are in a user namespace, which has few uids.
    WithUserNamespace,
    /// Its directory is not there, as when this process is in a container that was given the engine's socket.
    OnAnotherFileSystem,
}

impl EngineOfRoot {
    const ALL: [Self; 3] = [Self::Plain, Self::WithUserNamespace, Self::OnAnotherFileSystem];

    /// Reads what it says. `is_here` says whether the engine's directory is there.
    fn told(info: &SystemInfo, is_here: bool) -> Self {
        let options = info.security_options.iter().flatten();
        let has = |name: &str| options.clone().any(|option| option.split(',').any(|part| part == name));
        match has("name=userns") || has("name=rootless") {
            true => Self::WithUserNamespace,
            false if is_here => Self::Plain,
            false => Self::OnAnotherFileSystem,
        }
    }

    /// What is remembered of it.
    fn word(self) -> &'static str {
        match self {
            Self::Plain => "plain",
            Self::WithUserNamespace => "user-namespace",
            Self::OnAnotherFileSystem => "another-file-system",
        }
    }

    fn users(self) -> HostUsers {
        match self {
            Self::Plain => HostUsers::OnePerSandbox,
            Self::WithUserNamespace => {
                HostUsers::Given(shared("the engine has a user namespace for its containers"))
            }
            Self::OnAnotherFileSystem => {
                HostUsers::Given(shared("the engine has another file system than Palisade"))
            }
        }
    }
}

/// Says whom the sandboxes of an engine run as. The engine is asked once for each time that it was started.
pub(crate) async fn of_engine(client: &Client, config: &ContainerConfig) -> Result<HostUsers, BackendError> {
    if let Some(given) = known_without_asking(client, config) {
        return Ok(HostUsers::Given(given));
    }
    let identity = identity(client);
    let memory = memory(client, config);
    let recalled = identity.as_deref().and_then(|identity| memory.recall(identity));
    let known = recalled.and_then(|word| EngineOfRoot::ALL.into_iter().find(|engine| engine.word() == word));
    if let Some(known) = known {
        return Ok(known.users());
    }
    let info = client.call("tell about itself", client.quick(), |docker| async move { docker.info().await });
    Ok(remember(client, config, &info.await?))
}

/// Reads from what an engine has told about itself whom its sandboxes run as, and keeps it for [`of_engine`].
pub(crate) fn remember(client: &Client, config: &ContainerConfig, info: &SystemInfo) -> HostUsers {
    if let Some(given) = known_without_asking(client, config) {
        return HostUsers::Given(given);
    }
    let is_here = info.docker_root_dir.as_ref().is_some_and(|directory| Path::new(directory).is_dir());
    let found = EngineOfRoot::told(info, is_here);
    if let Some(identity) = identity(client) {
        memory(client, config).keep(&identity, found.word());
    }
    found.users()
}

fn memory(client: &Client, config: &ContainerConfig) -> Memory {
    Memory::at(config.state.join(format!("users-{}", client.method)))
}

/// Changes when the engine is started again, or its settings are.
fn identity(client: &Client) -> Option<String> {
    let Endpoint::Socket(path) = &client.endpoint else { return None };
    let settings = stamp::of(Path::new(DOCKER_SETTINGS)).unwrap_or_default();
    Some(format!("{} {settings}", stamp::of(path)?))
}

/// One for all, and why.
fn shared(why: &str) -> String {
    format!("all sandboxes have one uid, {INSIDE_ID} in their containers: {why}")
}

fn known_without_asking(client: &Client, config: &ContainerConfig) -> Option<String> {
    let Endpoint::Socket(socket) = &client.endpoint else {
        return Some(shared("the engine is on another machine"));
    };
    let owner = std::fs::metadata(socket).map_or(0, |meta| meta.uid());
    if client.dialect == Dialect::RootlessPodman {
        return Some(format!("sandboxes run as uid {owner}, whose podman it is"));
    }
    if owner != 0 {
        return Some(shared(&format!("the engine is an ordinary user's, uid {owner}")));
    }
    if !uid_is_mapped(HIGHEST_CONTAINER_UID) {
        return Some(shared("this user namespace has not enough uids"));
    }
    // Podman writes mounts down in a line of options, and reads that again.
    let is_plain = |text: &str| client.dialect == Dialect::Docker || !text.contains([',', '"', '\n', '\r']);
    if !config.state.as_path().to_str().is_some_and(is_plain) {
        return Some(shared("the path of the state directory has characters that the engine does not take"));
    }
    None
}

/// Decides whom a sandbox runs as that is made now, or a run.
pub(crate) async fn of_new(
    client: &Client,
    config: &ContainerConfig,
    spec: &SandboxSpec,
    places: &Places,
) -> Result<User, BackendError> {
    if let Some(owner) = places.owner {
        return Ok(owner);
    }
    match of_engine(client, config).await? {
        HostUsers::Given(_) => Ok(User::default()),
        HostUsers::OnePerSandbox => of_kept_home(spec, places, rustix::process::geteuid().as_raw()),
    }
}

/// Decides whom a sandbox runs as that was made before. Volumes of an earlier version do not say whom they belong to.
pub(crate) fn of_made(places: &Places, recorded: Option<User>) -> User {
    places.owner.or(recorded).unwrap_or_default()
}

/// A home that is kept on the host stays with the user that has written it: only root can give it to another, and would
/// have to give away all that is in it.
fn of_kept_home(spec: &SandboxSpec, places: &Places, caller: u32) -> Result<User, BackendError> {
    if let Some(home) = &spec.policy.kept_home {
        let meta = std::fs::symlink_metadata(home).map_err(BackendError::io(format!("look at {home}")))?;
        if caller != 0 || meta.uid() == INSIDE_ID {
            return Ok(User { uid: meta.uid(), gid: meta.gid() });
        }
    }
    Ok(places.reader.or_else(|| own(spec, caller)).unwrap_or_default())
}

/// The uid of the specification, where that is a uid for a container. What an image has given to its own user can be written
/// in an environment with a writable root, so there the sandbox is that user.
fn own(spec: &SandboxSpec, caller: u32) -> Option<User> {
    let HostIdentity { uid, gid } = spec.identity;
    let is_dedicated = (1..=HIGHEST_CONTAINER_UID).contains(&uid)
        && (1..=HIGHEST_CONTAINER_UID).contains(&gid)
        && uid != caller;
    (is_dedicated && spec.policy.root == Access::ReadOnly).then_some(User { uid, gid })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::plan::Place;
    use palisade_core::{Foundation, HostPath, Method, Policy, SandboxId};

    fn info(options: &[&str]) -> SystemInfo {
        let options = options.iter().map(|option| (*option).to_owned()).collect();
        SystemInfo { security_options: Some(options), ..SystemInfo::default() }
    }

    fn spec(uid: u32) -> SandboxSpec {
        SandboxSpec {
            id: SandboxId::from_random([7; 15]),
            name: None,
            method: Method::Docker,
            policy: Policy::default(),
            foundation: Foundation::default(),
            paths: Vec::new(),
            dir: None,
            identity: HostIdentity { uid, gid: uid },
            owner: "owner".into(),
            git: Vec::new(),
        }
    }

    fn places() -> Places {
        Places {
            home: Place::Memory,
            workspace: Place::Memory,
            binds: Vec::new(),
            trees: Vec::new(),
            owner: None,
            reader: None,
            user: User::default(),
            opened: Vec::new(),
        }
    }

    #[test]
    fn an_engine_without_a_user_namespace_on_this_file_system_can_do_it() {
        let told = EngineOfRoot::told;
        let plain = info(&["name=seccomp,profile=builtin", "name=cgroupns"]);
        assert_eq!(told(&plain, true), EngineOfRoot::Plain);
        assert_eq!(told(&SystemInfo::default(), true), EngineOfRoot::Plain);
        assert_eq!(told(&plain, false), EngineOfRoot::OnAnotherFileSystem);
        for mapped in ["name=userns", "name=rootless", "name=userns,profile=x"] {
            let found = told(&info(&["name=cgroupns", mapped]), true);
            assert_eq!(found, EngineOfRoot::WithUserNamespace, "{mapped}");
        }
        let own: Vec<EngineOfRoot> = EngineOfRoot::ALL
            .into_iter()
            .filter(|engine| engine.users() == HostUsers::OnePerSandbox)
            .collect();
        assert_eq!(own, [EngineOfRoot::Plain]);
    }

    #[test]
    fn a_sandbox_has_the_uid_of_its_specification_unless_its_files_are_anothers() {
        let dedicated = User { uid: 1_910_000_003, gid: 1_910_000_003 };
        let of = |spec: &SandboxSpec, places: &Places| of_kept_home(spec, places, 0).unwrap();
        assert_eq!(of(&spec(dedicated.uid), &places()), dedicated);
        let reader = User { uid: 54321, gid: 54322 };
        let closed = Places { reader: Some(reader), ..places() };
        assert_eq!(of(&spec(dedicated.uid), &closed), reader);
        for other in [0, HIGHEST_CONTAINER_UID + 1, u32::MAX] {
            assert_eq!(of(&spec(other), &places()), User::default(), "{other} is no uid for a container");
        }
        assert_eq!(of_kept_home(&spec(999), &places(), 999).unwrap(), User::default(), "the caller's own");
        let mut writable = spec(dedicated.uid);
        writable.policy.root = Access::ReadWrite;
        assert_eq!(of(&writable, &places()), User::default());
    }

    #[test]
    fn a_kept_home_stays_with_its_user() {
        use std::os::unix::fs::MetadataExt;
        let home = tempfile::tempdir().unwrap();
        let mut spec = spec(1_910_000_003);
        spec.policy.kept_home = Some(HostPath::new(home.path()).unwrap());
        let meta = home.path().metadata().unwrap();
        let owner = User { uid: meta.uid(), gid: meta.gid() };
        assert_eq!(of_kept_home(&spec, &places(), 999).unwrap(), owner, "the caller cannot give it away");
        if owner.uid == 0 {
            let give = |uid| std::os::unix::fs::lchown(home.path(), Some(uid), Some(uid)).unwrap();
            give(INSIDE_ID);
            assert_eq!(of_kept_home(&spec, &places(), 0).unwrap(), User::default(), "an earlier version's");
            give(1_910_000_003);
            assert_eq!(of_kept_home(&spec, &places(), 0).unwrap().uid, 1_910_000_003);
        }
    }

    #[test]
    fn a_sandbox_of_an_earlier_version_keeps_the_user_that_its_volumes_belong_to() {
        assert_eq!(of_made(&places(), None), User { uid: INSIDE_ID, gid: INSIDE_ID });
        let recorded = User { uid: 1_910_000_003, gid: 1_910_000_003 };
        assert_eq!(of_made(&places(), Some(recorded)), recorded);
        let owner = User { uid: 54321, gid: 54321 };
        assert_eq!(of_made(&Places { owner: Some(owner), ..places() }, Some(recorded)), owner);
    }
}
