//! An ordinary user's limits: the systemd user manager makes a transient scope and moves our process into it.
//! Spoken to through `busctl`, which every systemd machine has, so that no D-Bus library is needed.

use super::Limits;
use palisade_core::BackendError;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UserManager {
    busctl: PathBuf,
    runtime_dir: PathBuf,
}

impl UserManager {
    /// Present when the user's bus is there and the cgroups are unified: on v1 the manager cannot delegate.
    pub fn detect(busctl: Option<PathBuf>, runtime_dir: Option<&Path>) -> Result<Self, String> {
        let runtime_dir = runtime_dir.ok_or("there is no user session (XDG_RUNTIME_DIR is not set)")?;
        if !runtime_dir.join("systemd/private").exists() && !runtime_dir.join("bus").exists() {
            return Err("no systemd user manager runs for this user".into());
        }
        if !Path::new("/sys/fs/cgroup/cgroup.controllers").exists() {
            return Err("cgroups are not unified (v2), so the user manager cannot set limits".into());
        }
        let busctl = busctl.ok_or("busctl is not installed")?;
        Ok(Self { busctl, runtime_dir: runtime_dir.to_owned() })
    }

    pub(super) fn start_scope(&self, leaf: &str, pid: u32, limits: &Limits) -> Result<(), BackendError> {
        let failed = |reason: String| BackendError::Limit {
            limit: "memory, cpus and pids".into(),
            reason,
            fix: "check `systemctl --user status`, or start Palisade as root".into(),
        };
        let output = Command::new(&self.busctl)
            .args(scope_call(leaf, pid, limits))
            .env("XDG_RUNTIME_DIR", &self.runtime_dir)
            .stdin(Stdio::null())
            .output()
            .map_err(|error| failed(format!("busctl: {error}")))?;
        if output.status.success() {
            Ok(())
        } else {
            Err(failed(format!(
                "the user manager refused: {}",
                palisade_core::printable_lines(&String::from_utf8_lossy(&output.stderr))
            )))
        }
    }
}

/// The call `StartTransientUnit(name, mode, properties, aux)` in busctl's notation.
fn scope_call(leaf: &str, pid: u32, limits: &Limits) -> Vec<String> {
    let quota_per_second = u64::from(limits.cpus.milli()) * 1000;
    [
        "--user",
        "call",
        "org.freedesktop.systemd1",
        "/org/freedesktop/systemd1",
        "org.freedesktop.systemd1.Manager",
        "StartTransientUnit",
        "ssa(sv)a(sa(sv))",
        &format!("palisade-{leaf}.scope"),
        "fail",
        "6",
        "PIDs",
        "au",
        "1",
        &pid.to_string(),
        "MemoryMax",
        "t",
        &limits.memory.to_string(),
        "MemorySwapMax",
        "t",
        "0",
        "CPUQuotaPerSecUSec",
        "t",
        &quota_per_second.to_string(),
        "TasksMax",
        "t",
        &limits.pids.to_string(),
        "CollectMode",
        "s",
        "inactive-or-failed",
        "0",
    ]
    .map(str::to_owned)
    .to_vec()
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::CpuCount;

    #[test]
    fn the_call_names_the_process_and_every_limit() {
        let limits = Limits { memory: 512 << 20, cpus: CpuCount::whole(2), every_cpu: false, pids: 100 };
        assert_eq!(
            scope_call("sb-x", 42, &limits)[7..].join(" "),
            "palisade-sb-x.scope fail 6 PIDs au 1 42 MemoryMax t 536870912 MemorySwapMax t 0 \
             CPUQuotaPerSecUSec t 2000000 TasksMax t 100 CollectMode s inactive-or-failed 0"
        );
    }

    #[test]
    fn without_a_session_it_says_what_is_missing() {
        assert_eq!(
            UserManager::detect(None, None),
            Err("there is no user session (XDG_RUNTIME_DIR is not set)".into())
        );
    }
}
