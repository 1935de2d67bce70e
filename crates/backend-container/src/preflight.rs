//! The full check of the method: not whether an engine is installed, but whether a trivial command ran isolated in a
//! container of the very plan that sandboxes get.

use crate::backend::ContainerBackend;
use crate::client::{Client, LONGEST};
use crate::plan::Role;
use crate::{host_users, volumes};
use bollard::models::{SystemInfo, SystemInfoCgroupVersionEnum};
use palisade_core::{
    BackendError, Check, Diagnostic, Foundation, HostIdentity, Policy, Preflight, SandboxId, SandboxSpec,
    Workspace,
};
use std::time::Duration;

/// How often to look whether the trial has ended.
const PAUSE: Duration = Duration::from_millis(20);

pub(crate) async fn preflight(backend: &ContainerBackend) -> Preflight {
    let mut checks = vec![guest(backend)];
    match reach(backend).await {
        Err(error) => checks.push(failed("engine", &error)),
        Ok((client, info)) => {
            let version = info.server_version.clone().unwrap_or_else(|| "unknown".into());
            let at = &client.endpoint;
            checks.push(Check::ok("engine", format!("{} {version} at {at}", client.method)));
            checks.push(limits(&info));
            host_users::remember(client, backend.config(), &info);
            checks.push(isolated_command(backend, client).await);
        }
    }
    Preflight { method: backend.kind(), checks }
}

fn failed(name: &str, error: &BackendError) -> Check {
    let (detail, fix) = match error {
        BackendError::Unavailable { reason, fix, .. } => (reason.clone(), fix.clone()),
        BackendError::MissingImage { image, fix } => {
            (format!("there is no image {image}"), format!("run {fix}"))
        }
        other => {
            let fix = other.hints().into_iter().next();
            (other.to_string(), fix.unwrap_or_else(|| "look at the engine's own log".into()))
        }
    };
    Check::failed(name, detail, fix)
}

async fn reach(backend: &ContainerBackend) -> Result<(&Client, SystemInfo), BackendError> {
    let client = backend.client().await?;
    let info =
        client.call("tell about itself", client.quick(), |docker| async move { docker.info().await }).await?;
    Ok((client, info))
}

fn guest(backend: &ContainerBackend) -> Check {
    let guest = &backend.config().guest;
    match std::fs::metadata(guest) {
        Ok(meta) if meta.is_file() => Check::ok("guest", format!("{guest} ({} KiB)", meta.len() / 1024)),
        Ok(_) => Check::failed("guest", format!("{guest} is not a file"), "reinstall Palisade"),
        Err(error) => Check::failed("guest", format!("{guest}: {error}"), "reinstall Palisade"),
    }
}

fn limits(info: &SystemInfo) -> Check {
    let cgroups = match info.cgroup_version {
        Some(SystemInfoCgroupVersionEnum::_2) => "cgroup v2",
        _ => "cgroup v1",
    };
    let can = [("memory", info.memory_limit), ("cpus", info.cpu_cfs_quota), ("pids", info.pids_limit)];
    let missing: Vec<&str> =
        can.iter().filter(|(_, can)| *can != Some(true)).map(|(limit, _)| *limit).collect();
    if missing.is_empty() {
        return Check::ok("limits", format!("memory, cpus and pids by {cgroups}"));
    }
    Check::warning(
        "limits",
        format!("{} cannot be limited ({cgroups})", missing.join(", ")),
        "let the engine use cgroups v2 with these controllers (for a rootless one: delegate them to your user)",
    )
}

/// The guest itself, started with the very plan of a sandbox, must run and leave in order.
async fn isolated_command(backend: &ContainerBackend, client: &Client) -> Check {
    const NAME: &str = "isolated command";
    match try_command(backend, client).await {
        Ok(0) => Check::ok(
            NAME,
            format!(
                "a command ran in a container of {}, without privileges, under the system call filter",
                backend.config().image
            ),
        ),
        Ok(code) => Check::failed(
            NAME,
            format!("the guest ended with code {code}: the container is not isolated as asked"),
            "see whether the engine runs with its default profile for system calls, and not in compatibility modes",
        ),
        Err(error) => failed(NAME, &error),
    }
}

async fn try_command(backend: &ContainerBackend, client: &Client) -> Result<i64, BackendError> {
    let spec = trial_spec(backend)?;
    let name = crate::labels::container(&spec.id);
    let outcome = async {
        backend.launch(client, &spec, Role::Check).await?;
        let deadline = tokio::time::Instant::now() + LONGEST;
        loop {
            let state = backend.state(client, &name).await?;
            if let Some(code) = state.exit_code.filter(|_| state.running == Some(false)) {
                return Ok(code);
            }
            if tokio::time::Instant::now() >= deadline {
                return Err(client.engine().silent("run a trivial command", LONGEST.as_secs()));
            }
            tokio::time::sleep(PAUSE).await;
        }
    };
    let outcome = outcome.await;
    volumes::remove_container(client, &name).await?;
    outcome
}

fn trial_spec(backend: &ContainerBackend) -> Result<SandboxSpec, BackendError> {
    let mut bytes = [0; 15];
    // Told apart from those of other processes at the same time; it need not be a secret.
    bytes[..4].copy_from_slice(&std::process::id().to_be_bytes());
    Ok(SandboxSpec {
        id: SandboxId::from_random(bytes),
        name: None,
        method: backend.kind(),
        policy: Policy { workspace: Workspace::Scratch, ..Policy::default() },
        foundation: Foundation::default(),
        paths: Vec::new(),
        dir: None,
        identity: HostIdentity { uid: 65534, gid: 65534 },
        owner: "preflight".into(),
        git: Vec::new(),
    })
}
