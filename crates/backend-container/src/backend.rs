//! The two methods as the engine of sandboxes sees them: what is made when, and what is given back.
//!
//! A container lives from `start` to `stop`; what lasts is in volumes, from `create` to `remove`.

use crate::client::{self, Client};
use crate::endpoint::Endpoint;
use crate::host_paths::Held;
use crate::labels;
use crate::leftovers::Wanted;
use crate::limits::InForce;
use crate::plan::Role;
use crate::trouble::Failure;
use crate::{
    ContainerConfig, accounts, environment, filling, guest, host_paths, host_users, images, launch,
    leftovers, preflight, tools, volumes,
};
use bollard::models::{ContainerState, ContainerStateStatusEnum};
use palisade_core::{
    Backend, BackendError, BoxFuture, Capabilities, Capability, HostPath, HostUsers, ImageReference, Layout,
    Leftover, Liveness, Method, Preflight, SandboxId, SandboxSpec, Stream,
};
use palisade_host::{cgroup, stamp, tree};
use palisade_protocol::MOUNTS_DIFFER;
use std::collections::HashMap;
use std::os::unix::fs::DirBuilderExt;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use tokio::sync::OnceCell;

/// How long a guest that was told to end, or lost its host, may take before the engine ends it. That costs the engine
/// more than to put away a container which has ended by itself.
const LEAVING: Duration = Duration::from_secs(1);

/// How long an engine may take to notice that a guest has ended.
const SETTLING: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct ContainerBackend {
    method: Method,
    config: ContainerConfig,
    client: OnceCell<Client>,
    /// The names under which the engine has the images that this process asked for.
    found_images: Mutex<HashMap<String, String>>,
    /// What this process has started, and what it holds for it.
    launched: Mutex<HashMap<SandboxId, Held>>,
}

impl ContainerBackend {
    pub fn docker(config: ContainerConfig) -> Self {
        Self::new(Method::Docker, config)
    }

    pub fn podman(config: ContainerConfig) -> Self {
        Self::new(Method::Podman, config)
    }

    fn new(method: Method, config: ContainerConfig) -> Self {
        Self {
            method,
            config,
            client: OnceCell::new(),
            found_images: Mutex::default(),
            launched: Mutex::default(),
        }
    }

    pub(crate) fn launched(&self) -> MutexGuard<'_, HashMap<SandboxId, Held>> {
        self.launched.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn kind(&self) -> Method {
        self.method
    }

    pub(crate) fn config(&self) -> &ContainerConfig {
        &self.config
    }

    /// Made when first needed: most commands have nothing to do with an engine.
    pub(crate) async fn client(&self) -> Result<&Client, BackendError> {
        self.client.get_or_try_init(|| Client::open(self.method, &self.config)).await
    }

    /// Where the engine is, without asking it anything.
    pub(crate) fn endpoint(&self) -> Result<Endpoint, BackendError> {
        match self.client.get() {
            Some(client) => Ok(client.endpoint.clone()),
            None => client::find(self.method, &self.config.endpoints),
        }
    }

    pub(crate) fn image<'a>(&'a self, spec: &'a SandboxSpec) -> &'a str {
        self.reference(spec).as_str()
    }

    fn reference<'a>(&'a self, spec: &'a SandboxSpec) -> &'a ImageReference {
        spec.foundation.image.as_ref().unwrap_or(&self.config.image)
    }

    /// The image under a name that the engine knows, or knew when this process last asked.
    pub(crate) async fn known_image(
        &self,
        client: &Client,
        spec: &SandboxSpec,
    ) -> Result<String, BackendError> {
        let known = self.found_images().get(self.image(spec)).cloned();
        match known {
            Some(name) => Ok(name),
            None => self.find_image(client, spec).await,
        }
    }

    async fn find_image(&self, client: &Client, spec: &SandboxSpec) -> Result<String, BackendError> {
        let (name, _) =
            images::inspect(client, self.image(spec)).await?.ok_or_else(|| self.missing_image(spec))?;
        self.found_images().insert(self.image(spec).to_owned(), name.clone());
        Ok(name)
    }

    fn found_images(&self) -> MutexGuard<'_, HashMap<String, String>> {
        self.found_images.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn missing_image(&self, spec: &SandboxSpec) -> BackendError {
        let image = self.reference(spec);
        let fix = match palisade_images::of_image(image) {
            Some(recipe) => format!("palisade env build {} --method {}", recipe.name, self.method),
            None => format!("{} pull {image}", self.method),
        };
        BackendError::MissingImage { image: image.to_string(), fix }
    }

    async fn find_parts(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let client = self.client().await?;
        host_paths::resolve(client, &self.config, spec)?;
        self.find_image(client, spec).await.map(drop)
    }

    async fn make(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let client = self.client().await?;
        let image = self.known_image(client, spec).await?;
        let places = host_paths::resolve(client, &self.config, spec)?;
        guest::note_use(client, &self.config);
        if let Some(dir) = &spec.dir {
            let path = dir.path();
            std::fs::DirBuilder::new()
                .recursive(true)
                .mode(0o700)
                .create(path)
                .map_err(BackendError::io(format!("make {path}")))?;
        }
        let user = host_users::of_new(client, &self.config, spec, &places).await?;
        volumes::create_own(client, spec, &image, user).await
    }

    pub(crate) async fn state(&self, client: &Client, name: &str) -> Result<ContainerState, BackendError> {
        Ok(client.inspect(name).await?.state.unwrap_or_default())
    }

    async fn end(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let mut held = self.launched().remove(&spec.id);
        if held.is_none() && spec.dir.is_none() {
            // A run is nobody's but this process's, which has not started it.
            return Ok(());
        }
        if let Some(guest) = held.as_mut().and_then(|held| held.guest.take()) {
            guest.left(LEAVING).await;
        }
        let (client, name) = (self.client().await?, labels::container(&spec.id));
        let removed = match held.is_some() || launch::is_of(client, &name, spec).await? {
            true => volumes::remove_container(client, &name).await,
            false => Ok(()),
        };
        // Only now: as long as the container might run, the fence stands.
        held.unwrap_or_default().release();
        Ok(removed?)
    }

    async fn take_away(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let Some(dir) = &spec.dir else { return Ok(()) };
        let client = self.client().await?;
        // What a create that was cut short has left holds the volumes.
        volumes::remove_container(client, &labels::helper(&spec.id)).await?;
        let (home, workspace) = (labels::home_volume(&spec.id), labels::workspace_volume(&spec.id));
        let (home, workspace) = tokio::join!(
            volumes::remove_own(client, &home, spec),
            volumes::remove_own(client, &workspace, spec)
        );
        home?;
        workspace?;
        tree::remove(dir.path().as_path()).map_err(BackendError::io(format!("remove {}", dir.path())))
    }

    async fn liveness(&self, spec: &SandboxSpec) -> Result<Liveness, BackendError> {
        let none = Liveness { running: false, detail: None, limits: Vec::new() };
        let name = labels::container(&spec.id);
        let found = match self.client().await?.inspect(&name).await {
            Err(Failure::Missing(_)) => return Ok(none),
            other => other?,
        };
        let state = found.state.unwrap_or_default();
        let set = found.host_config.unwrap_or_default();
        let positive = |value: Option<i64>| value.is_some_and(|value| value > 0);
        let in_force = InForce {
            memory: positive(set.memory),
            cpus: positive(set.cpu_quota) || positive(set.nano_cpus),
            pids: positive(set.pids_limit),
        };
        Ok(Liveness {
            running: state.running == Some(true),
            detail: Some(format!("container {name}")),
            limits: in_force.told(self.method, &spec.policy.resources),
        })
    }

    /// The state of a container whose guest gave no answer. An engine, Podman above all, may know only a moment later that a
    /// guest has ended.
    async fn settled_state(&self, client: &Client, name: &str) -> Result<ContainerState, BackendError> {
        let deadline = tokio::time::Instant::now() + SETTLING;
        loop {
            let state = self.state(client, name).await?;
            let is_unsettled =
                state.running == Some(true) || state.status == Some(ContainerStateStatusEnum::CREATED);
            if !is_unsettled || tokio::time::Instant::now() >= deadline {
                return Ok(state);
            }
            tokio::time::sleep(SETTLING / 20).await;
        }
    }

    /// The kernel counts, where the engine is on this machine; an engine itself only says whether there was one.
    async fn count_memory_kills(&self, spec: &SandboxSpec) -> u64 {
        let Ok(client) = self.client().await else { return 0 };
        let Ok(state) = self.state(client, &labels::container(&spec.id)).await else { return 0 };
        let is_local = self.endpoint().is_ok_and(|endpoint| endpoint.is_local());
        let pid = state.pid.and_then(|pid| u32::try_from(pid).ok()).filter(|pid| *pid > 0 && is_local);
        let group = pid.and_then(cgroup::memory_group_of);
        let counted = group.as_deref().and_then(cgroup::memory_kills);
        counted.unwrap_or_default().max(u64::from(state.oom_killed == Some(true)))
    }

    async fn why(&self, spec: &SandboxSpec) -> BackendError {
        let look = async {
            let client = self.client().await?;
            self.settled_state(client, &labels::container(&spec.id)).await
        };
        let reason = match look.await {
            Err(error) => return error,
            Ok(state) if state.exit_code == Some(MOUNTS_DIFFER.into()) => {
                return BackendError::PathChanged {
                    path: "a path of the host's".into(),
                    reason: format!(
                        "{} shows another directory than the one that was opened, as when it is replaced while the \
                         sandbox is being started, or when the engine runs in a virtual machine",
                        self.method
                    ),
                };
            }
            Ok(state) if state.oom_killed == Some(true) => {
                let value = spec.policy.resources.memory.value.to_string();
                return BackendError::LimitTooLow { limit: "memory", value };
            }
            Ok(state) if state.running == Some(true) => "the guest runs and does not answer".to_owned(),
            Ok(state) => {
                let said = state.error.filter(|text| !text.is_empty()).map(|text| format!(": {text}"));
                let said = said.unwrap_or_default();
                match (state.status, state.exit_code) {
                    // One that never ran has a code too, which means nothing.
                    (Some(status @ ContainerStateStatusEnum::CREATED), _) => {
                        format!("the container is {status} and does not run{said}")
                    }
                    (_, code) => format!("the guest ended with code {}{said}", code.unwrap_or_default()),
                }
            }
        };
        BackendError::Unavailable { method: self.method, reason, fix: "run `palisade doctor`".into() }
    }
}

impl Backend for ContainerBackend {
    fn method(&self) -> Method {
        self.method
    }

    fn capabilities(&self) -> Capabilities {
        let mut capabilities = vec![
            Capability::Isolation,
            Capability::NetworkPolicy,
            Capability::Limits,
            Capability::OutlivesKeeper,
            Capability::SharedObjects,
        ];
        if self.endpoint().is_ok_and(|endpoint| endpoint.is_local()) {
            capabilities.extend([Capability::BindWorkspace, Capability::HostMounts]);
        }
        Capabilities(capabilities)
    }

    fn preflight(&self) -> BoxFuture<'_, Preflight> {
        Box::pin(preflight::preflight(self))
    }

    fn host_users(&self) -> BoxFuture<'_, HostUsers> {
        Box::pin(async {
            let asked = async { host_users::of_engine(self.client().await?, &self.config).await };
            asked.await.unwrap_or_else(|error: BackendError| HostUsers::Given(error.to_string()))
        })
    }

    fn admit<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.find_parts(spec))
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.make(spec))
    }

    fn prepare<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        match self.endpoint() {
            Ok(Endpoint::Tcp(_)) => Box::pin(self.send_tools(spec)),
            _ => Box::pin(std::future::ready(Ok(()))),
        }
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        let role = match &spec.dir {
            Some(_) if !spec.policy.writes_host() => Role::Sandbox,
            Some(_) => Role::Bound,
            None => Role::Run,
        };
        Box::pin(async move { self.launch(self.client().await?, spec, role).await })
    }

    fn connect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Stream, BackendError>> {
        Box::pin(self.reach_guest(spec))
    }

    fn stop<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.end(spec))
    }

    fn remove<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.take_away(spec))
    }

    fn layout(&self, spec: &SandboxSpec) -> Layout {
        let launched = self.launched().get(&spec.id).map(|held| held.image_environment.clone());
        environment::merged(Layout::inside(spec), &launched.unwrap_or_else(|| environment::kept(spec)))
    }

    /// A socket is made anew when its engine starts. Of an engine behind a network nobody can tell.
    fn tool_identity(&self) -> String {
        let engine = match self.endpoint() {
            Ok(Endpoint::Socket(path)) => stamp::of(&path),
            Ok(Endpoint::Tcp(_)) | Err(_) => None,
        };
        let parts = [engine, stamp::of(self.config.guest.as_path())];
        parts.into_iter().collect::<Option<Vec<_>>>().map_or_else(String::new, |parts| parts.join(" "))
    }

    fn explain<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, BackendError> {
        Box::pin(self.why(spec))
    }

    fn inspect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Liveness, BackendError>> {
        Box::pin(self.liveness(spec))
    }

    fn memory_kills<'a>(&'a self, spec: &'a SandboxSpec, _keeper: u32) -> BoxFuture<'a, u64> {
        Box::pin(self.count_memory_kills(spec))
    }

    /// The first thing that is made in an engine is noted, see [`guest::note_use`].
    fn use_note(&self) -> Option<HostPath> {
        guest::use_note(self.method, &self.config)
    }

    fn leftovers<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<Vec<Leftover>, BackendError>> {
        Box::pin(async move {
            accounts::sweep(&self.config);
            let client = self.client().await?;
            let guest = filling::guest_name(&self.config.guest).ok();
            let wanted = Wanted { guest, tools: tools::wanted(client, &self.config).await };
            leftovers::find(client, owner, &wanted).await
        })
    }

    fn discard<'a>(&'a self, leftover: &'a Leftover) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async move { leftovers::discard(self.client().await?, &self.config, leftover).await })
    }
}
