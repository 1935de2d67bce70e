//! The `bwrap` method: the program bubblewrap, driven by a plan, holding our guest as its pid 1.

mod diagnosis;
pub mod facts;
mod opened;
pub mod plan;
mod prepare;
mod probe;

use crate::cgroup::{Group, Limits, Means, Reached};
use crate::warden::Warden;
use crate::{ProcessConfig, low_ports, machine, tools};
use palisade_core::{
    Access, Backend, BackendError, BoxFuture, Capabilities, Capability, HostIdentity, HostPath, HostUsers,
    Lasting, Layout, Leftover, Liveness, Method, Network, Preflight, SandboxId, SandboxSpec, Stream,
    Workspace,
};
use palisade_host::fault::Step;
use palisade_host::fence::Journal;
use palisade_host::user_namespace::uid_is_mapped;
use palisade_host::{cgroup, process, stamp, tree};
use prepare::Held;
pub use prepare::open_file;
use rustix::fd::OwnedFd;
use std::collections::HashMap;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

#[derive(Debug)]
pub struct BwrapBackend {
    config: ProcessConfig,
    running: Mutex<HashMap<SandboxId, Running>>,
}

#[derive(Debug)]
struct Running {
    warden: Warden,
    stream: Option<std::os::unix::net::UnixStream>,
    group: Arc<Group>,
    held: Held,
}

/// How long the guest has to leave after its stream was closed, before it is killed.
const LEAVE: Duration = Duration::from_secs(2);

impl BwrapBackend {
    pub fn new(config: ProcessConfig) -> Self {
        Self { config, running: Mutex::new(HashMap::new()) }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<SandboxId, Running>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn program(&self) -> Result<PathBuf, BackendError> {
        self.config.find_program("bwrap").ok_or_else(|| BackendError::Unavailable {
            method: Method::Bwrap,
            reason: "the program bwrap is not installed".into(),
            fix: "install bubblewrap (Debian: apt-get install bubblewrap)".into(),
        })
    }

    /// Everything but the root can be had; programs that the environment needs must be there.
    fn refuse_what_it_lacks(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        if spec.policy.root == Access::ReadWrite {
            let what = "a root that programs inside can write; only containers have one";
            return Err(BackendError::unsupported(Method::Bwrap, what));
        }
        tools::require(spec, |tool| tools::is_shown(spec, tool))
    }

    async fn launch(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let bwrap = self.program()?;
        self.refuse_what_it_lacks(spec)?;
        require_places(spec)?;
        let mut held = Held::default();
        match self.launch_holding(spec, bwrap, &mut held).await {
            Ok((warden, stream, group)) => {
                let running = Running { warden, stream: Some(stream), group: Arc::new(group), held };
                self.running().insert(spec.id.clone(), running);
                Ok(())
            }
            Err(error) => {
                held.release();
                Err(error)
            }
        }
    }

    async fn launch_holding(
        &self,
        spec: &SandboxSpec,
        bwrap: PathBuf,
        held: &mut Held,
    ) -> Result<(Warden, std::os::unix::net::UnixStream, Group), BackendError> {
        if rustix::process::geteuid().is_root() && !uid_is_mapped(spec.identity.uid) {
            return Err(BackendError::Unavailable {
                method: Method::Bwrap,
                reason: format!("host uid {} does not exist in this user namespace", spec.identity.uid),
                fix: "set root.uid_base in the configuration to a uid that is mapped here, or start as an ordinary user".into(),
            });
        }
        let resolved = prepare::resolve(&self.config, spec, held)?;
        let (ours, theirs) =
            std::os::unix::net::UnixStream::pair().map_err(BackendError::io("make the guest's stream"))?;
        let means = machine::limit_means(&self.config);
        let moves = means.moves_whole_processes();
        let network = spec.policy.network != Network::None;
        let (info, tell) = match moves || network {
            true => rustix::pipe::pipe_with(rustix::pipe::PipeFlags::CLOEXEC)
                .map(|(read, write)| (Some(read), Some(write)))
                .map_err(|error| BackendError::io("make a pipe")(error.into()))?,
            false => (None, None),
        };
        let role = prepare::Role::Serve { stream: theirs.into(), info: tell };
        let (config, planned, program) = (self.config.clone(), spec.clone(), bwrap.clone());
        let (send, made) = std::sync::mpsc::channel();
        let prepare = move || {
            let launch = prepare::launch(&config, bwrap, &planned, resolved, role)?;
            Ok(crate::warden::Launch { detour: Some(made), ..launch })
        };
        // The group is made while the warden prepares everything else.
        let making = async move {
            let group = make_group(&means, spec)?;
            let detour = group.detour().map_err(BackendError::io("open the sandbox's cgroup"))?;
            // A warden that has failed already says why itself.
            let _ = send.send(detour);
            Ok(group)
        };
        let (warden, group) = tokio::join!(Warden::start(prepare), making);
        let result = match (warden, group) {
            (Ok(warden), Ok(group)) => {
                let joined = match info {
                    Some(info) => settle(&warden, info, moves.then_some(&group), network).await,
                    None => Ok(()),
                };
                match joined.and_then(|()| crate::step(Step::LaunchStarted)) {
                    Ok(()) => return Ok((warden, ours, group)),
                    Err(error) => (Some(warden), Some(group), error),
                }
            }
            (warden, Err(error)) => (warden.ok(), None, error),
            (Err(error), Ok(group)) => {
                let cause = too_low(&group, spec).unwrap_or_else(|| diagnosis::unstartable(error, &program));
                (None, Some(group), cause)
            }
        };
        let (warden, group, error) = result;
        if let Some(warden) = warden {
            warden.kill();
            warden.end().await;
        }
        if let Some(group) = group {
            // A failure here must not hide the first one.
            let _ = group.remove();
        }
        Err(error)
    }

    async fn end(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let running = self.running().remove(&spec.id);
        let Some(mut running) = running else { return self.clean_up_after_the_dead(spec) };
        drop(running.stream.take());
        if tokio::time::timeout(LEAVE, running.warden.end()).await.is_err() {
            running.warden.kill();
            running.warden.end().await;
        }
        let passed = crate::step(Step::LaunchEnded);
        running.held.release();
        let released = crate::step(Step::FenceReleased);
        passed.and(released)?;
        running.group.remove().map_err(BackendError::io("remove the sandbox's cgroup"))
    }

    /// For a sandbox whose keeper is gone: bwrap and everything inside died with it, the cgroup and the
    /// placeholders did not.
    fn clean_up_after_the_dead(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        Journal::sweep(&self.config.state.join("fences"), false);
        let Means::Hierarchies(hierarchies) = machine::limit_means(&self.config) else { return Ok(()) };
        let directories = hierarchies.leaves(&spec.owner).remove(&leaf(spec)).unwrap_or_default();
        let group = Group { directories, ..Group::none() };
        group.remove().map_err(BackendError::io("remove the sandbox's cgroup"))
    }

    async fn find_leftovers(&self, owner: &str) -> Vec<Leftover> {
        let mut found: Vec<Leftover> = Journal::sweep(&self.config.state.join("fences"), true)
            .into_iter()
            .map(|what| Leftover::of_process(what, FENCES.into()))
            .collect();
        if let Means::Hierarchies(hierarchies) = machine::limit_means(&self.config) {
            for (leaf, directories) in hierarchies.leaves(owner) {
                let key = format!("{owner}/{leaf}");
                let what = format!("cgroup palisade/{key}");
                if let Some(id) = leaf.strip_prefix("sb-").and_then(|id| SandboxId::parse(id).ok()) {
                    let sandbox = Some((id, Lasting::WhileItRuns));
                    let is_running = Group { directories, ..Group::none() }.has_processes();
                    found.push(Leftover { what, sandbox, is_running, says: None, key });
                } else if let Some((label, _)) =
                    leaf.strip_prefix("run-").and_then(|rest| rest.split_once('.'))
                    && process::label_is_alive(label) == Some(false)
                {
                    found.push(Leftover::of_process(what, key));
                }
            }
        }
        found
    }

    fn remove_leftover(&self, leftover: &Leftover) -> Result<(), BackendError> {
        if leftover.key == FENCES {
            Journal::sweep(&self.config.state.join("fences"), false);
            return Ok(());
        }
        let Means::Hierarchies(hierarchies) = machine::limit_means(&self.config) else { return Ok(()) };
        let Some((owner, leaf)) = leftover.key.split_once('/') else { return Ok(()) };
        let directories = hierarchies.leaves(owner).remove(leaf).unwrap_or_default();
        let group = Group { directories, ..Group::none() };
        group.remove().map_err(BackendError::io("remove a leftover cgroup"))?;
        hierarchies.remove_owner(owner);
        Ok(())
    }
}

/// The limit that a sandbox which did not start has reached.
fn too_low(group: &Group, spec: &SandboxSpec) -> Option<BackendError> {
    let resources = &spec.policy.resources;
    let value = match group.reached()? {
        Reached::Memory => ("memory", resources.memory.value.to_string()),
        Reached::Pids => ("pids", resources.pids.value.to_string()),
    };
    Some(BackendError::LimitTooLow { limit: value.0, value: value.1 })
}

fn make_group(means: &Means, spec: &SandboxSpec) -> Result<Group, BackendError> {
    let limits = Limits::of(&spec.policy.resources, machine::memory(), machine::processors());
    let leaf = leaf(spec);
    let group = means.group(&spec.owner, &leaf, &spec.policy.resources, &limits)?;
    let joined =
        means.adopt(&leaf, std::process::id(), &limits).and_then(|()| crate::step(Step::LaunchGroup));
    if let Err(error) = joined {
        // A failure here must not hide the first one; what stays is found by its name.
        let _ = group.remove();
        return Err(error);
    }
    Ok(group)
}

/// Puts bwrap and the process that becomes the guest into the sandbox's group, where they were not born in it, and
/// opens its network's ports to it. Nothing
/// of the sandbox's owner runs before the first command, and that is not sent before this is done. When bwrap ends
/// before it has told who its child is, there is nothing to put anywhere: the missing handshake says so.
async fn settle(
    warden: &Warden,
    info: OwnedFd,
    group: Option<&Group>,
    network: bool,
) -> Result<(), BackendError> {
    match tokio::time::timeout(LEAVE, read_info(info)).await.ok().flatten() {
        Some(guest) => {
            if network && let Err(error) = low_ports::open(guest) {
                // Where the kernel lets everybody listen there, nothing is lost; elsewhere the guest will say so.
                tracing::debug!(%error, "ports below 1024 were not opened to the guest");
            }
            match group {
                Some(group) => {
                    group.join(&[warden.pid(), guest]).map_err(BackendError::io("join the sandbox's cgroup"))
                }
                None => Ok(()),
            }
        }
        None => {
            warden.kill();
            Ok(())
        }
    }
}

/// bwrap's account of itself: a JSON object with the host's number of its child.
async fn read_info(info: OwnedFd) -> Option<u32> {
    use tokio::io::AsyncReadExt;
    let mut pipe = tokio::net::unix::pipe::Receiver::from_owned_fd(info).ok()?;
    let mut text = Vec::new();
    while !text.contains(&b'}') {
        if pipe.read_buf(&mut text).await.ok()? == 0 {
            return None;
        }
    }
    let account: serde_json::Value = serde_json::from_slice(&text).ok()?;
    account.get("child-pid")?.as_u64()?.try_into().ok()
}

/// The key of leftovers that the fences' journal knows.
const FENCES: &str = "fences";

/// The name of a sandbox's cgroup; a one-off run's tells its process, so that it can be judged without a record.
fn leaf(spec: &SandboxSpec) -> String {
    match &spec.dir {
        Some(_) => format!("sb-{}", spec.id),
        None => format!("run-{}.{}", process::label(&process::this_process()), spec.id),
    }
}

/// Our end of a guest's socket, ready for use. Shared with `noop`.
pub(crate) fn guest_stream(stream: Option<std::os::unix::net::UnixStream>) -> Result<Stream, BackendError> {
    let stream = stream.ok_or_else(|| BackendError::Io {
        what: "connect to the guest".into(),
        source: std::io::Error::other("the sandbox is not running here, or its stream is taken"),
    })?;
    let ready = stream.set_nonblocking(true).and_then(|()| tokio::net::UnixStream::from_std(stream));
    Ok(Box::new(ready.map_err(BackendError::io("connect to the guest"))?))
}

/// Makes a sandbox's own directories, for whoever its processes run as. Shared with `noop`, whose run as ourselves.
pub(crate) fn make_directories(spec: &SandboxSpec, owner: Option<HostIdentity>) -> Result<(), BackendError> {
    use std::os::unix::fs::{DirBuilderExt, chown};
    let Some(dir) = &spec.dir else { return Ok(()) };
    let make = |path: &HostPath, recursive: bool| {
        std::fs::DirBuilder::new()
            .recursive(recursive)
            .mode(0o700)
            .create(path)
            .map_err(BackendError::io(format!("make {path}")))
    };
    make(dir.path(), true)?;
    crate::step(Step::CreateDirectory)?;
    for path in [dir.home(), dir.workspace()] {
        make(&path, true)?;
        if let Some(HostIdentity { uid, gid }) = owner
            && rustix::process::geteuid().is_root()
        {
            chown(&path, Some(uid), Some(gid))
                .map_err(BackendError::io(format!("give {path} to the sandbox's uid")))?;
        }
    }
    crate::step(Step::CreatePlaces)
}

/// Refuses a sandbox whose own directories are gone: an empty one in their place would pass for its files. Shared with
/// `noop`.
pub(crate) fn require_places(spec: &SandboxSpec) -> Result<(), BackendError> {
    let Some(dir) = &spec.dir else { return Ok(()) };
    let home = spec.policy.kept_home.is_none().then(|| dir.home());
    let workspace = (spec.policy.workspace == Workspace::Own).then(|| dir.workspace());
    let missing = |path: &HostPath| match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Some(format!("directory {path}")),
        // Other faults of it are reported where it is used.
        _ => None,
    };
    let missing: Vec<String> = home.iter().chain(&workspace).filter_map(missing).collect();
    if missing.is_empty() {
        return Ok(());
    }
    let sandbox = spec.name.as_ref().map_or(spec.id.as_str(), |name| name.as_str()).to_owned();
    Err(BackendError::FilesMissing { sandbox, missing })
}

pub(crate) fn remove_directories(spec: &SandboxSpec) -> Result<(), BackendError> {
    match &spec.dir {
        Some(dir) => {
            tree::remove(dir.path().as_path()).map_err(BackendError::io(format!("remove {}", dir.path())))
        }
        None => Ok(()),
    }
}

impl Backend for BwrapBackend {
    fn method(&self) -> Method {
        Method::Bwrap
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = vec![
            Capability::Isolation,
            Capability::BindWorkspace,
            Capability::HostMounts,
            Capability::NetworkPolicy,
            Capability::SharedObjects,
        ];
        if !matches!(machine::limit_means(&self.config), Means::None { .. }) {
            capabilities.push(Capability::Limits);
        }
        Capabilities(capabilities)
    }

    fn preflight(&self) -> BoxFuture<'_, Preflight> {
        Box::pin(probe::preflight(&self.config))
    }

    fn host_users(&self) -> BoxFuture<'_, HostUsers> {
        let uid = rustix::process::geteuid();
        let users = match uid.is_root() {
            true => HostUsers::OnePerSandbox,
            false => HostUsers::Given(format!("sandboxes run as you, uid {}", uid.as_raw())),
        };
        Box::pin(std::future::ready(users))
    }

    fn admit<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { self.refuse_what_it_lacks(spec) })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { make_directories(spec, Some(spec.identity)) })
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.launch(spec))
    }

    fn connect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Stream, BackendError>> {
        Box::pin(async {
            let stream = self.running().get_mut(&spec.id).and_then(|running| running.stream.take());
            guest_stream(stream)
        })
    }

    fn stop<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.end(spec))
    }

    fn remove<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async {
            if let Means::Hierarchies(hierarchies) = machine::limit_means(&self.config) {
                hierarchies.remove_owner(&spec.owner);
            }
            remove_directories(spec)
        })
    }

    fn layout(&self, spec: &SandboxSpec) -> Layout {
        Layout::inside(spec)
    }

    fn tool_identity(&self) -> String {
        let program = self.program().ok().and_then(|path| stamp::of(&path));
        let parts = [program, stamp::of(self.config.guest.as_path())];
        parts.into_iter().collect::<Option<Vec<_>>>().map_or_else(String::new, |parts| parts.join(" "))
    }

    fn explain<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, BackendError> {
        Box::pin(async {
            let held = |running: &Running| (running.warden.clone(), Arc::clone(&running.group));
            let running = self.running().get(&spec.id).map(held);
            let Some((warden, group)) = running else {
                let (reason, fix) = ("it is not running".to_owned(), "run `palisade doctor`".to_owned());
                return BackendError::Unavailable { method: Method::Bwrap, reason, fix };
            };
            let how = tokio::time::timeout(LEAVE, warden.end()).await.unwrap_or_else(|_| "it hangs".into());
            let said = warden.stderr();
            diagnosis::changed_path(&said)
                .or_else(|| too_low(&group, spec))
                .unwrap_or_else(|| diagnosis::diagnose(&said, &how, probe::apparmor_restricts()))
        })
    }

    fn inspect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Liveness, BackendError>> {
        Box::pin(async {
            Ok(match self.running().get(&spec.id) {
                None => Liveness { running: false, detail: None, limits: Vec::new() },
                Some(running) => Liveness {
                    running: running.warden.outcome().is_none(),
                    detail: running
                        .warden
                        .outcome()
                        .or_else(|| Some(format!("bwrap is process {}", running.warden.pid()))),
                    limits: running.group.enforcement().to_vec(),
                },
            })
        })
    }

    fn memory_kills<'a>(&'a self, spec: &'a SandboxSpec, keeper: u32) -> BoxFuture<'a, u64> {
        let groups = match machine::limit_means(&self.config) {
            Means::Hierarchies(found) => found.leaves(&spec.owner).remove(&leaf(spec)).unwrap_or_default(),
            // The scope that holds the keeper.
            Means::UserManager(_) => cgroup::memory_group_of(keeper).into_iter().collect(),
            Means::None { .. } => Vec::new(),
        };
        let kills = groups.iter().find_map(|group| cgroup::memory_kills(group)).unwrap_or(0);
        Box::pin(std::future::ready(kills))
    }

    fn leftovers<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<Vec<Leftover>, BackendError>> {
        Box::pin(async { Ok(self.find_leftovers(owner).await) })
    }

    fn discard<'a>(&'a self, leftover: &'a Leftover) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { self.remove_leftover(leftover) })
    }
}
