//! The full check of the method: not whether the program is there, but whether a trivial command ran isolated.

use super::{diagnosis, prepare};
use crate::ProcessConfig;
use crate::cgroup::Means;
use crate::machine;
use crate::warden::{Launch, Warden};
use palisade_core::{
    BackendError, Check, Diagnostic, Foundation, HostIdentity, Method, Policy, Preflight, SandboxId,
    SandboxSpec, Workspace,
};
use std::path::{Path, PathBuf};
use std::time::Duration;

const PATIENCE: Duration = Duration::from_secs(10);

pub(super) async fn preflight(config: &ProcessConfig) -> Preflight {
    let mut checks = Vec::new();
    match config.find_program("bwrap") {
        None => checks.push(Check::failed(
            "bwrap",
            "the program bwrap is not in the search path",
            "install bubblewrap (Debian: apt-get install bubblewrap)",
        )),
        Some(bwrap) => {
            checks.push(version(&bwrap));
            checks.push(namespaces());
            checks.push(isolated_command(config, bwrap.clone()).await);
            checks.push(link_following(config, bwrap).await);
        }
    }
    checks.push(guest(config));
    checks.push(limits(config));
    Preflight { method: Method::Bwrap, checks }
}

fn version(bwrap: &Path) -> Check {
    match std::process::Command::new(bwrap).arg("--version").env_clear().output() {
        Ok(output) if output.status.success() => {
            let text = String::from_utf8_lossy(&output.stdout).trim().to_owned();
            Check::ok("bwrap", format!("{text} at {}", bwrap.display()))
        }
        Ok(output) => Check::failed(
            "bwrap",
            format!("{} --version ended with {}", bwrap.display(), output.status),
            "reinstall bubblewrap",
        ),
        Err(error) => {
            let error = BackendError::start(format!("start {}", bwrap.display()))(error);
            failed("bwrap", &diagnosis::unstartable(error, bwrap))
        }
    }
}

/// Ubuntu's switch that denies user namespaces to programs without a profile.
pub(super) fn apparmor_restricts() -> bool {
    read_number("/proc/sys/kernel/apparmor_restrict_unprivileged_userns") == Some(1)
}

fn read_number(path: &str) -> Option<u64> {
    std::fs::read_to_string(path).ok()?.trim().parse().ok()
}

fn namespaces() -> Check {
    const NAME: &str = "user namespaces";
    if read_number("/proc/sys/kernel/unprivileged_userns_clone") == Some(0) {
        return Check::failed(
            NAME,
            "kernel.unprivileged_userns_clone is 0",
            "sysctl -w kernel.unprivileged_userns_clone=1",
        );
    }
    match read_number("/proc/sys/user/max_user_namespaces") {
        Some(0) => {
            Check::failed(NAME, "user.max_user_namespaces is 0", "sysctl -w user.max_user_namespaces=15000")
        }
        _ if apparmor_restricts() => Check::warning(
            NAME,
            "AppArmor denies them to programs without a profile",
            "if the next check fails, install a profile that allows bwrap to use userns",
        ),
        Some(most) => Check::ok(NAME, format!("up to {most}")),
        None => {
            Check::failed(NAME, "this kernel has none", "use a kernel with CONFIG_USER_NS, or another method")
        }
    }
}

/// The guest itself, started with the very plan of a sandbox, must run and leave in order.
async fn isolated_command(config: &ProcessConfig, bwrap: PathBuf) -> Check {
    const NAME: &str = "isolated command";
    let spec = trial_spec();
    let prepared = prepare::resolve(config, &spec, &mut prepare::Held::default());
    let result = match prepared {
        Ok(resolved) => {
            let config = config.clone();
            run(move || prepare::launch(&config, bwrap, &spec, resolved, prepare::Role::Check)).await
        }
        Err(error) => Err(error),
    };
    match result {
        Ok((outcome, _)) if outcome == "exit code 0" => Check::ok(
            NAME,
            "a command ran in namespaces of its own, without privileges, under the system call filter",
        ),
        Ok((outcome, said)) => failed(NAME, &diagnosis::diagnose(&said, &outcome, apparmor_restricts())),
        Err(error) => failed(NAME, &error),
    }
}

fn failed(name: &'static str, error: &BackendError) -> Check {
    let (detail, fix) = match error {
        BackendError::Unavailable { reason, fix, .. } => (reason.clone(), Some(fix.clone())),
        other => (other.to_string(), other.hints().into_iter().next()),
    };
    Check::failed(
        name,
        detail,
        fix.unwrap_or_else(|| "run `palisade doctor` again after mending this".into()),
    )
}

fn trial_spec() -> SandboxSpec {
    let uid = rustix::process::geteuid().as_raw();
    let gid = rustix::process::getegid().as_raw();
    // Root never runs a sandbox as itself, nor this trial.
    const TRIAL_ID: u32 = 65534;
    let identity =
        if uid == 0 { HostIdentity { uid: TRIAL_ID, gid: TRIAL_ID } } else { HostIdentity { uid, gid } };
    SandboxSpec {
        id: SandboxId::from_random([0; 15]),
        name: None,
        method: Method::Bwrap,
        policy: Policy { workspace: Workspace::Scratch, ..Policy::default() },
        foundation: Foundation::default(),
        paths: Vec::new(),
        dir: None,
        identity,
        owner: "preflight".into(),
        git: Vec::new(),
    }
}

async fn run<F>(prepare: F) -> Result<(String, String), BackendError>
where
    F: FnOnce() -> Result<Launch, BackendError> + Send + 'static,
{
    let warden = Warden::start(prepare).await?;
    let outcome = match tokio::time::timeout(PATIENCE, warden.end()).await {
        Ok(outcome) => outcome,
        Err(_) => {
            warden.kill();
            format!("no end after {} s", PATIENCE.as_secs())
        }
    };
    Ok((outcome, warden.stderr()))
}

/// CVE-2026-87766: bwrap follows a link inside a bound directory when it makes a mount target, out of the sandbox.
async fn link_following(config: &ProcessConfig, bwrap: PathBuf) -> Check {
    const NAME: &str = "CVE-2026-87766";
    match follows_links(config, bwrap).await {
        Ok(false) => Check::ok(NAME, "this bwrap does not follow links when it makes mount targets"),
        Ok(true) => Check::warning(
            NAME,
            "this bwrap follows links out of a bound directory when it makes mount targets; Palisade makes every \
             target itself and is not exposed",
            "upgrade bubblewrap when your distribution offers a fixed version",
        ),
        Err(why) => Check::warning(NAME, format!("could not be tried: {why}"), "see the check before"),
    }
}

async fn follows_links(config: &ProcessConfig, bwrap: PathBuf) -> Result<bool, String> {
    // In memory, or at least in a place of our own: nothing but our own probe directory can be hit.
    let place = config.state.join(format!("probe-{}", std::process::id()));
    let (bound, outside) = (place.join("bound"), place.join("outside"));
    let text = |error: std::io::Error| error.to_string();
    let make = || -> std::io::Result<()> {
        use std::os::unix::fs::DirBuilderExt;
        for directory in [&bound, &outside] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        std::os::unix::fs::symlink(format!("/oldroot{outside}"), bound.join("link"))
    };
    let result = match make() {
        Err(error) => Err(text(error)),
        Ok(()) => {
            let arguments =
                ["--unshare-user", "--unshare-pid", "--unshare-net", "--ro-bind", "/usr", "/usr", "--bind"]
                    .map(Into::into)
                    .into_iter()
                    .chain([
                        bound.as_path().into(),
                        "/bound".into(),
                        "--dir".into(),
                        "/bound/link/made".into(),
                    ])
                    .chain(["--", "/usr/bin/true"].map(Into::into))
                    .collect();
            let launch = Launch {
                program: bwrap,
                name: None,
                arguments,
                descriptors: Vec::new(),
                detour: None,
                identity: None,
            };
            run(move || Ok(launch)).await.map_err(|error| error.to_string())
        }
    };
    let followed = outside.join("made").as_path().exists();
    palisade_host::tree::remove(place.as_path()).map_err(text)?;
    result.map(|_| followed)
}

fn guest(config: &ProcessConfig) -> Check {
    match std::fs::metadata(&config.guest) {
        Ok(meta) if meta.is_file() => {
            Check::ok("guest", format!("{} ({} KiB)", config.guest, meta.len() / 1024))
        }
        Ok(_) => Check::failed("guest", format!("{} is not a file", config.guest), "reinstall Palisade"),
        Err(error) => Check::failed("guest", format!("{}: {error}", config.guest), "reinstall Palisade"),
    }
}

fn limits(config: &ProcessConfig) -> Check {
    match machine::limit_means(config) {
        Means::Hierarchies(found) => Check::ok("limits", found.describe()),
        Means::UserManager(_) => Check::ok("limits", "systemd user manager"),
        Means::None { why } => Check::warning(
            "limits",
            format!("memory, cpus and pids cannot be limited: {why}"),
            "start Palisade as root, or from a systemd user session on a machine with unified cgroups",
        ),
    }
}
