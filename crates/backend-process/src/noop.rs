//! The `noop` method: the same guest and keeper on the bare host. It isolates nothing, says so, and is only ever
//! used when somebody named it.

use crate::ProcessConfig;
use crate::bwrap::{guest_stream, make_directories, remove_directories, require_places};
use crate::tools;
use crate::warden::{Launch, Warden};
use palisade_core::{
    Access, Backend, BackendError, BoxFuture, Capabilities, Capability, Check, Enforcement, HostPath,
    HostUsers, Layout, Leftover, LimitSource, Liveness, Method, Network, Preflight, Root, SandboxId,
    SandboxSpec, Stream, Workspace,
};
use palisade_host::marked;
use palisade_host::{process, tree};
use std::collections::HashMap;
use std::os::fd::AsRawFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

/// Every process of a noop sandbox carries this, so that they can be found when the guest is gone.
pub const MARK: &str = "PALISADE_SANDBOX_ID";
/// Which installation's sandbox it is: a copy of a state directory has sandboxes of the same ids.
pub const OWNER_MARK: &str = "PALISADE_INSTANCE_ID";

const LEAVE: Duration = Duration::from_secs(2);

#[derive(Debug)]
pub struct NoopBackend {
    config: ProcessConfig,
    running: Mutex<HashMap<SandboxId, (Warden, Option<UnixStream>)>>,
}

impl NoopBackend {
    pub fn new(config: ProcessConfig) -> Self {
        Self { config, running: Mutex::new(HashMap::new()) }
    }

    fn running(&self) -> std::sync::MutexGuard<'_, HashMap<SandboxId, (Warden, Option<UnixStream>)>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The directory of a one-off run, named after its process.
    fn scratch(&self, spec: &SandboxSpec) -> HostPath {
        let label = process::label(&process::this_process());
        self.config.state.join("runs").join(format!("run-{label}.{}", spec.id))
    }

    fn places(&self, spec: &SandboxSpec) -> (HostPath, HostPath) {
        let base = spec.dir.as_ref().map_or_else(|| self.scratch(spec), |dir| dir.path().clone());
        let workspace = match &spec.policy.workspace {
            Workspace::Bound { host, .. } => host.clone(),
            Workspace::Own | Workspace::Scratch => base.join("workspace"),
        };
        (spec.policy.kept_home.clone().unwrap_or_else(|| base.join("home")), workspace)
    }

    fn refuse_what_it_lacks(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        refuse_what_needs_isolation(spec)?;
        tools::require(spec, |tool| self.config.find_program(tool.as_str()).is_some())
    }

    async fn launch(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        self.refuse_what_it_lacks(spec)?;
        require_places(spec)?;
        let (home, workspace) = self.places(spec);
        for path in [&home, &workspace] {
            std::fs::create_dir_all(path).map_err(BackendError::io(format!("make {path}")))?;
        }
        let (ours, theirs) = UnixStream::pair().map_err(BackendError::io("make the guest's stream"))?;
        let guest = self.config.guest.as_path().to_owned();
        let launch = Launch {
            program: guest,
            name: None,
            arguments: ["serve", "--fd", &theirs.as_raw_fd().to_string(), "--subreaper"]
                .map(Into::into)
                .to_vec(),
            descriptors: vec![theirs.into()],
            detour: None,
            identity: None,
        };
        let warden = Warden::start(move || Ok(launch)).await?;
        self.running().insert(spec.id.clone(), (warden, Some(ours)));
        Ok(())
    }

    async fn end(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let running = self.running().remove(&spec.id);
        if let Some((warden, stream)) = running {
            drop(stream);
            if tokio::time::timeout(LEAVE, warden.end()).await.is_err() {
                warden.kill();
                warden.end().await;
            }
        }
        kill_marked(&spec.id, &spec.owner);
        if spec.dir.is_none() {
            let scratch = self.scratch(spec);
            tree::remove(scratch.as_path()).map_err(BackendError::io(format!("remove {scratch}")))?;
        }
        Ok(())
    }
}

/// What only means something with isolation is an error, not a silent wish.
fn refuse_what_needs_isolation(spec: &SandboxSpec) -> Result<(), BackendError> {
    let refuse = |what: &str| Err(BackendError::unsupported(Method::Noop, what));
    let policy = &spec.policy;
    if !policy.mounts.is_empty() {
        return refuse("mounts need a file system of the sandbox's own");
    }
    if matches!(&policy.workspace, Workspace::Bound { access: Access::ReadOnly, .. }) {
        return refuse("a read-only workspace needs a file system of the sandbox's own");
    }
    if spec.foundation.root != Root::Host || policy.root == Access::ReadWrite {
        return refuse("a root of its own needs a file system of the sandbox's own");
    }
    if policy.network == Network::Allowlist {
        return refuse("an allow-list of hosts needs a network of the sandbox's own");
    }
    if policy.host_ports.iter().any(|port| port.inside != port.host) {
        return refuse("a host port under another number needs a network of the sandbox's own");
    }
    let resources = &policy.resources;
    let asked = [
        ("memory", resources.memory.source),
        ("cpus", resources.cpus.source),
        ("pids", resources.pids.source),
    ];
    match asked.iter().find(|(_, source)| *source == LimitSource::Asked) {
        Some((limit, _)) => Err(BackendError::Limit {
            limit: (*limit).into(),
            reason: "method 'noop' enforces nothing".into(),
            fix: "choose another method, or leave the limit out".into(),
        }),
        None => Ok(()),
    }
}

/// Kills the processes that carry a sandbox's mark, and not another installation's.
fn kill_marked(id: &SandboxId, owner: &str) {
    marked::kill_all(|pid| {
        let environment = std::fs::read(format!("/proc/{pid}/environ")).unwrap_or_default();
        carries_mark(&environment, id, owner)
    });
}

fn carries_mark(environment: &[u8], id: &SandboxId, owner: &str) -> bool {
    let mark = format!("{MARK}={id}");
    let entries = || environment.split(|&byte| byte == 0);
    // A process of an earlier version says nothing of its installation.
    let other = |entry: &[u8]| {
        let value = entry.strip_prefix(OWNER_MARK.as_bytes()).and_then(|rest| rest.strip_prefix(b"="));
        value.is_some_and(|value| value != owner.as_bytes())
    };
    entries().any(|entry| entry == mark.as_bytes()) && !entries().any(other)
}

impl Backend for NoopBackend {
    fn method(&self) -> Method {
        Method::Noop
    }

    fn capabilities(&self) -> Capabilities {
        Capabilities(vec![Capability::BindWorkspace])
    }

    fn preflight(&self) -> BoxFuture<'_, Preflight> {
        Box::pin(async {
            let isolation = Check::warning(
                "isolation",
                "none: commands run on the host with your own rights",
                "use it for trying things out only; choose bwrap for anything you do not trust",
            );
            Preflight { method: Method::Noop, checks: vec![isolation] }
        })
    }

    fn host_users(&self) -> BoxFuture<'_, HostUsers> {
        let uid = rustix::process::geteuid().as_raw();
        Box::pin(std::future::ready(HostUsers::Given(format!("commands run as you, uid {uid}"))))
    }

    fn admit<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { self.refuse_what_it_lacks(spec) })
    }

    fn create<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { make_directories(spec, None) })
    }

    fn start<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.launch(spec))
    }

    fn connect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Stream, BackendError>> {
        Box::pin(async {
            let stream = self.running().get_mut(&spec.id).and_then(|(_, stream)| stream.take());
            guest_stream(stream)
        })
    }

    fn stop<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(self.end(spec))
    }

    fn remove<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async { remove_directories(spec) })
    }

    fn layout(&self, spec: &SandboxSpec) -> Layout {
        let (home, workspace) = self.places(spec);
        let entry = |name: &str, value: String| (name.to_owned(), value);
        let path: Vec<String> =
            self.config.search_path.iter().map(|path| path.display().to_string()).collect();
        Layout {
            directory: spec.foundation.directory(&workspace.to_string()),
            workspace: workspace.to_string(),
            home: home.to_string(),
            user: palisade_core::policy::USER.into(),
            guest: self.config.guest.as_path().display().to_string(),
            objects: None,
            environment: vec![
                entry("PATH", path.join(":")),
                entry("HOME", home.to_string()),
                entry("LANG", "C.UTF-8".into()),
                entry(MARK, spec.id.to_string()),
                entry(OWNER_MARK, spec.owner.clone()),
            ],
        }
    }

    fn explain<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, BackendError> {
        Box::pin(async {
            let said = self.running().get(&spec.id).map(|(warden, _)| warden.stderr()).unwrap_or_default();
            BackendError::Unavailable {
                method: Method::Noop,
                reason: format!("the guest did not answer: {said}"),
                fix: "reinstall Palisade".into(),
            }
        })
    }

    fn inspect<'a>(&'a self, spec: &'a SandboxSpec) -> BoxFuture<'a, Result<Liveness, BackendError>> {
        Box::pin(async {
            let running = self.running().get(&spec.id).is_some_and(|(warden, _)| warden.outcome().is_none());
            let row = |limit: &str| Enforcement {
                limit: limit.into(),
                value: "none".into(),
                enforced: false,
                how: "method 'noop' enforces nothing".into(),
            };
            Ok(Liveness {
                running,
                detail: Some("no isolation: commands run on the host".into()),
                limits: ["memory", "cpus", "pids"].map(row).to_vec(),
            })
        })
    }

    fn leftovers<'a>(&'a self, owner: &'a str) -> BoxFuture<'a, Result<Vec<Leftover>, BackendError>> {
        Box::pin(async move {
            let Ok(entries) = std::fs::read_dir(self.config.state.join("runs")) else {
                return Ok(Vec::new());
            };
            let names = entries.flatten().filter_map(|entry| entry.file_name().into_string().ok());
            let dead = |name: &String| {
                let label =
                    name.strip_prefix("run-").and_then(|rest| rest.split_once('.')).map(|(label, _)| label);
                label.and_then(process::label_is_alive) == Some(false)
            };
            Ok(names
                .filter(dead)
                .map(|name| {
                    Leftover::of_process(format!("directory of the run {name}"), format!("{owner}/{name}"))
                })
                .collect())
        })
    }

    fn discard<'a>(&'a self, leftover: &'a Leftover) -> BoxFuture<'a, Result<(), BackendError>> {
        Box::pin(async {
            let Some((owner, name)) = leftover.key.split_once('/') else { return Ok(()) };
            if let Some((_, id)) = name.split_once('.')
                && let Ok(id) = SandboxId::parse(id)
            {
                kill_marked(&id, owner);
            }
            let path = self.config.state.join("runs").join(name);
            tree::remove(path.as_path()).map_err(BackendError::io(format!("remove {path}")))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_mark_of_another_installation_is_not_ours() {
        let id = SandboxId::from_random([1; 15]);
        let environment = |text: String| text.replace(' ', "\0").into_bytes();
        for (text, expected) in [
            (format!("HOME=/x {MARK}={id} {OWNER_MARK}=me"), true),
            (format!("{MARK}={id} {OWNER_MARK}=you"), false),
            (format!("{MARK}={id}"), true),
            (format!("{OWNER_MARK}=me"), false),
            (format!("{MARK}={id}x {OWNER_MARK}=me"), false),
        ] {
            assert_eq!(carries_mark(&environment(text.clone()), &id, "me"), expected, "{text}");
        }
    }
}
