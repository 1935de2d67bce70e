//! Specification → the body of a container, as a pure function: what isolates a sandbox can be read and tested here
//! without an engine.
//!
//! Invariants: no network but loopback, no capability, no way to gain privileges, never root; the engine's own system
//! call filter stays on, and ours stands before it; the root is read-only unless the environment says otherwise, and
//! every writable place has a size limit or is a volume of the sandbox's own; the engine keeps no log of the stream; no
//! secret is in here, since whoever may ask the engine reads all of it.

use crate::labels::{self, Kind, Labels};
use bollard::models::{
    ContainerCreateBody, HealthConfig, HostConfig, HostConfigCgroupnsModeEnum, HostConfigLogConfig, Mount,
    MountBindOptions, MountBindOptionsPropagationEnum, MountType, MountVolumeOptions, RestartPolicy,
    RestartPolicyNameEnum,
};
use palisade_core::policy::{HOME, INSIDE_ID, WORKSPACE};
use palisade_core::{Access, HostPath, Network, Resources, SandboxSpec};
use palisade_protocol::{EXPECT_MOUNT, ExpectedMount};
use std::collections::HashMap;

/// Where the volume with the guest stands inside.
pub const GUEST_DIRECTORY: &str = "/.palisade";
/// The guest's name in its volume.
pub const GUEST_NAME: &str = "guest";
/// What carries the stream of a keeper that comes later, where the engine lets nobody attach twice.
pub const BRIDGE: [&str; 2] = ["/.palisade/guest", "bridge"];
/// The files that name accounts: what they are called on the host, and where they stand inside.
pub const ACCOUNT_FILES: [(&str, &str); 2] = [("passwd", "/etc/passwd"), ("group", "/etc/group")];
/// Where a helper has the volumes that are filled through it.
pub const HELPER_DIRECTORY: &str = "/palisade";
/// The kernel's usual period in which a share of processors is measured out, in microseconds.
const CPU_PERIOD: i64 = 100_000;

/// The size of `/dev/shm`, which engines would choose differently.
const SHARED_MEMORY: i64 = 64 << 20;
/// Tells how busy the host is, and can be opened for writing.
const PRESSURE: &str = "/proc/pressure";
/// What Docker itself hides, of all its versions, and [`PRESSURE`].
const MASKED: [&str; 13] = [
    PRESSURE,
    "/proc/acpi",
    "/proc/asound",
    "/proc/interrupts",
    "/proc/kcore",
    "/proc/keys",
    "/proc/latency_stats",
    "/proc/sched_debug",
    "/proc/scsi",
    "/proc/timer_list",
    "/proc/timer_stats",
    "/sys/devices/virtual/powercap",
    "/sys/firmware",
];

/// Where two engines understand the same API differently.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dialect {
    Docker,
    Podman,
    /// The service of an ordinary user, who becomes the user inside.
    RootlessPodman,
}

/// What a writable place is made of.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Place {
    Volume(String),
    Host(HostPath, Access),
    /// In memory, gone with the container.
    Memory,
}

/// A path of the host's to be shown inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Bind {
    pub host: HostPath,
    pub guest: String,
    pub access: Access,
}

/// A volume to be shown inside, read-only.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Shown {
    pub volume: String,
    pub guest: String,
}

/// Whom everything inside runs as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

impl Default for User {
    fn default() -> Self {
        Self { uid: INSIDE_ID, gid: INSIDE_ID }
    }
}

/// How long the guest serves.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// Until it is told to end; a keeper that dies is followed by another.
    Sandbox,
    /// The same, but it ends with its keeper, who holds something for it.
    Bound,
    /// Until its one host goes away.
    Run,
    /// Looks around once and says by its exit code whether it is isolated.
    Check,
}

/// Which addresses a sandbox has for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Loopback {
    BothFamilies,
    /// The kernel has no other, or nobody knows whether it has.
    AsTheEngineHasIt,
}

#[derive(Debug, Clone)]
pub struct PlanInput<'a> {
    pub spec: &'a SandboxSpec,
    pub dialect: Dialect,
    pub image: &'a str,
    pub guest_volume: &'a str,
    pub role: Role,
    pub user: User,
    pub home: Place,
    pub workspace: Place,
    /// Tools that the engine has in volumes.
    pub tools: Vec<Shown>,
    /// Tools, extra mounts and read-only carve-outs, in order.
    pub binds: Vec<Bind>,
    /// Where `passwd` and `group` are that name the user inside, for one whom no image knows.
    pub accounts: Option<HostPath>,
    /// What the guest must find mounted before it runs anything.
    pub expected: Vec<ExpectedMount>,
    pub loopback: Loopback,
    /// The label of the process that must put it away, for what has no record.
    pub mark: Option<(String, String)>,
}

/// The container in which a sandbox runs.
pub fn container(input: &PlanInput<'_>) -> ContainerCreateBody {
    let spec = input.spec;
    let hostname = spec.name.as_ref().map_or("sandbox", |name| name.as_str());
    let kind = match input.role {
        Role::Sandbox | Role::Bound => Kind::Sandbox,
        Role::Run | Role::Check => Kind::Run,
    };
    let mut labels = labels::of(spec, kind);
    labels.extend(input.mark.clone());
    let command: &[&str] = match input.role {
        Role::Sandbox if input.dialect == Dialect::Docker => &["serve", "--stdio", "--on-eof", "wait"],
        Role::Sandbox => &["serve", "--stdio", "--on-eof", "wait", "--bridge"],
        Role::Bound | Role::Run => &["serve", "--stdio", "--on-eof", "exit"],
        Role::Check => &["selfcheck"],
    };
    let expected = input.expected.iter().flat_map(|mount| [EXPECT_MOUNT.to_owned(), mount.to_string()]);
    let expected = expected.filter(|_| input.role != Role::Check);
    // Behind the engine's own filter of system calls stands ours, which the guest takes upon itself.
    let confined = if spec.policy.writes_host() { "confined-bound" } else { "confined" };
    let User { uid, gid } = input.user;
    ContainerCreateBody {
        image: Some(input.image.to_owned()),
        hostname: Some(hostname.to_owned()),
        user: Some(format!("{uid}:{gid}")),
        working_dir: Some("/".into()),
        entrypoint: Some(vec![format!("{GUEST_DIRECTORY}/{GUEST_NAME}"), confined.into()]),
        cmd: Some(command.iter().map(|word| (*word).to_owned()).chain(expected).collect()),
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(false),
        open_stdin: Some(true),
        // Podman waits so long before it ends a container that it is told to remove. Ours were asked to leave before.
        stop_timeout: (input.dialect != Dialect::Docker).then_some(0),
        stdin_once: Some(matches!(input.role, Role::Bound | Role::Run)),
        tty: Some(false),
        // An image's own check would run commands that nobody asked for.
        healthcheck: Some(HealthConfig { test: Some(vec!["NONE".into()]), ..HealthConfig::default() }),
        labels: Some(labels),
        host_config: Some(host_config(input, hostname)),
        ..ContainerCreateBody::default()
    }
}

fn host_config(input: &PlanInput<'_>, hostname: &str) -> HostConfig {
    let policy = &input.spec.policy;
    let limited = limits(&policy.resources);
    let docker = input.dialect == Dialect::Docker;
    HostConfig {
        cap_drop: Some(vec!["ALL".into()]),
        security_opt: Some(security(input.dialect)),
        masked_paths: docker.then(|| MASKED.iter().map(|path| (*path).to_owned()).collect()),
        privileged: Some(false),
        cgroupns_mode: Some(HostConfigCgroupnsModeEnum::PRIVATE),
        ipc_mode: Some("private".into()),
        shm_size: Some(SHARED_MEMORY),
        readonly_rootfs: Some(policy.root == Access::ReadOnly),
        mounts: Some(mounts(input)),
        binds: volume_binds(input),
        tmpfs: Some(tmpfs(input)),
        // Podman takes no name servers for a container without a network; it is given the file before it starts.
        dns: docker.then(|| vec!["127.0.0.1".into()]),
        dns_search: docker.then(|| vec![".".into()]),
        extra_hosts: docker.then(|| vec![format!("{hostname}:127.0.0.1")]),
        sysctls: sysctls(input),
        ..common(input.dialect, limited)
    }
}

/// Of the network namespace that is the sandbox's own.
fn sysctls(input: &PlanInput<'_>) -> Option<HashMap<String, String>> {
    let mut settings = Vec::new();
    if input.spec.policy.network != Network::None {
        // The guest answers on 53, 80 and the like.
        settings.push(("net.ipv4.ip_unprivileged_port_start", "0"));
    }
    if (input.dialect, input.loopback) == (Dialect::Docker, Loopback::BothFamilies) {
        // Docker switches it off together with the network, and with it `::1`.
        settings.push(("net.ipv6.conf.all.disable_ipv6", "0"));
    }
    let settings = settings.into_iter().map(|(name, value)| (name.to_owned(), value.to_owned()));
    Some(settings.collect()).filter(|settings: &HashMap<_, _>| !settings.is_empty())
}

/// Podman hides more when it is told; Docker takes the whole list.
fn security(dialect: Dialect) -> Vec<String> {
    let mut options = vec!["no-new-privileges".to_owned()];
    if dialect != Dialect::Docker {
        options.push(format!("mask={PRESSURE}"));
    }
    options
}

/// What a container that runs and one that is never started have in common.
fn common(dialect: Dialect, base: HostConfig) -> HostConfig {
    HostConfig {
        network_mode: Some("none".into()),
        log_config: Some(HostConfigLogConfig { typ: Some("none".into()), config: None }),
        restart_policy: Some(RestartPolicy {
            name: Some(RestartPolicyNameEnum::NO),
            ..RestartPolicy::default()
        }),
        userns_mode: (dialect == Dialect::RootlessPodman)
            .then(|| format!("keep-id:uid={INSIDE_ID},gid={INSIDE_ID}")),
        auto_remove: Some(false),
        init: Some(false),
        ..base
    }
}

fn limits(resources: &Resources) -> HostConfig {
    let memory = i64::try_from(resources.memory.value.0).unwrap_or(i64::MAX);
    HostConfig {
        memory: Some(memory),
        // The same number: memory and swap together.
        memory_swap: Some(memory),
        // A share of time rather than a number of processors, which an engine refuses beyond those it has.
        cpu_period: Some(CPU_PERIOD),
        cpu_quota: Some(i64::from(resources.cpus.value.milli()) * CPU_PERIOD / 1000),
        pids_limit: Some(resources.pids.value.into()),
        ..HostConfig::default()
    }
}

fn volume(name: &str, target: &str, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::VOLUME),
        source: Some(name.to_owned()),
        target: Some(target.to_owned()),
        read_only: Some(access == Access::ReadOnly),
        // What an image has at that place is not the sandbox's, and its owner would become the volume's.
        volume_options: Some(MountVolumeOptions { no_copy: Some(true), ..MountVolumeOptions::default() }),
        ..Mount::default()
    }
}

fn bind(host: &HostPath, target: &str, access: Access) -> Mount {
    Mount {
        typ: Some(MountType::BIND),
        source: Some(host.as_path().to_string_lossy().into_owned()),
        target: Some(target.to_owned()),
        read_only: Some(access == Access::ReadOnly),
        bind_options: Some(MountBindOptions {
            propagation: Some(MountBindOptionsPropagationEnum::RPRIVATE),
            ..MountBindOptions::default()
        }),
        ..Mount::default()
    }
}

/// The volumes, with where they stand.
fn volumes<'a>(input: &'a PlanInput<'_>) -> Vec<(&'a str, &'a str, Access)> {
    let own = |place: &'a Place, target| match place {
        Place::Volume(name) => Some((name.as_str(), target, Access::ReadWrite)),
        Place::Host(..) | Place::Memory => None,
    };
    let guest = (input.guest_volume, GUEST_DIRECTORY, Access::ReadOnly);
    let own = [Some(guest), own(&input.home, HOME), own(&input.workspace, WORKSPACE)];
    let shown = |tool: &'a Shown| (tool.volume.as_str(), tool.guest.as_str(), Access::ReadOnly);
    own.into_iter().flatten().chain(input.tools.iter().map(shown)).collect()
}

/// Podman copies an image's files into a volume whatever a mount says about it, and does not in the older form.
fn volume_binds(input: &PlanInput<'_>) -> Option<Vec<String>> {
    let bound = |(name, target, access): (&str, &str, Access)| match access {
        Access::ReadOnly => format!("{name}:{target}:ro,nocopy"),
        Access::ReadWrite => format!("{name}:{target}:rw,nocopy"),
    };
    (input.dialect != Dialect::Docker).then(|| volumes(input).into_iter().map(bound).collect())
}

fn mounts(input: &PlanInput<'_>) -> Vec<Mount> {
    let shown = |place: &Place, target: &str| match place {
        Place::Host(host, access) => Some(bind(host, target, *access)),
        Place::Volume(_) | Place::Memory => None,
    };
    let mut mounts = Vec::new();
    if input.dialect == Dialect::Docker {
        mounts.extend(volumes(input).into_iter().map(|(name, target, access)| volume(name, target, access)));
    }
    if let Some(accounts) = &input.accounts {
        let files = ACCOUNT_FILES.map(|(name, target)| bind(&accounts.join(name), target, Access::ReadOnly));
        mounts.extend(files);
    }
    mounts.extend(shown(&input.home, HOME));
    mounts.extend(shown(&input.workspace, WORKSPACE));
    mounts.extend(input.binds.iter().map(|shown| bind(&shown.host, &shown.guest, shown.access)));
    mounts
}

/// The places in memory. Programs are built and run there, which Docker forbids unless it is told.
fn tmpfs(input: &PlanInput<'_>) -> HashMap<String, String> {
    let size = input.spec.policy.resources.tmp.0;
    let User { uid, gid } = input.user;
    let owner = match input.dialect {
        Dialect::Docker => format!("uid={uid},gid={gid}"),
        // It would also fill them with what the image has there.
        Dialect::Podman | Dialect::RootlessPodman => "U,notmpcopyup".to_owned(),
    };
    let options = |mode: &str| format!("rw,exec,nosuid,nodev,size={size},mode={mode},{owner}");
    let mut places: Vec<(&str, &str)> = vec![("/tmp", "1777"), ("/var/tmp", "1777"), ("/run", "0755")];
    if input.home == Place::Memory {
        places.push((HOME, "0755"));
    }
    if input.workspace == Place::Memory {
        places.push((WORKSPACE, "0755"));
    }
    places.into_iter().map(|(path, mode)| (path.to_owned(), options(mode))).collect()
}

/// How a volume stays its user's. When a container with a volume starts for the first time, Podman gives the volume to the
/// owner of the directory that the image has at that place, unless the volume was made with an owner.
pub fn volume_options(dialect: Dialect, user: User) -> Option<HashMap<String, String>> {
    let User { uid, gid } = user;
    let is_the_images = user == User::default();
    (dialect == Dialect::Podman && !is_the_images)
        .then(|| HashMap::from([("o".to_owned(), format!("uid={uid},gid={gid}"))]))
}

/// A container that is never started: what is uploaded into it lands in the volumes it has.
pub fn helper(
    image: &str,
    dialect: Dialect,
    labels: Labels,
    volumes: &[(&str, &str)],
) -> ContainerCreateBody {
    let mount = |(name, place): &(&str, &str)| {
        volume(name, &format!("{HELPER_DIRECTORY}/{place}"), Access::ReadWrite)
    };
    let host_config = HostConfig {
        mounts: Some(volumes.iter().map(mount).collect()),
        ..common(dialect, HostConfig::default())
    };
    ContainerCreateBody {
        image: Some(image.to_owned()),
        // An image may have neither, and an engine wants to know what it would start.
        entrypoint: Some(vec!["/never-started".into()]),
        labels: Some(labels),
        host_config: Some(host_config),
        ..ContainerCreateBody::default()
    }
}

#[cfg(test)]
mod tests;
