//! One errand under way: a process of its own, with everything it starts in one group.

use super::Errand;
use palisade_core::{SandboxId, SyncTrigger};
use rustix::process::{Pid, Signal, kill_process_group};
use std::ffi::OsString;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::{Child, Command};
use tokio::time::Instant;

/// Longer than its own limits on what it does.
const LIMIT: Duration = Duration::from_secs(3600);

/// Dropping it ends the errand.
#[derive(Debug)]
pub(super) struct Running {
    child: Child,
    deadline: Instant,
}

impl Running {
    /// In the keeper's own environment, with `environment` on top.
    pub(super) fn start(
        errand: &Errand,
        id: &SandboxId,
        trigger: SyncTrigger,
        environment: Vec<(OsString, OsString)>,
    ) -> std::io::Result<Self> {
        let (program, arguments) =
            errand.command.split_first().ok_or_else(|| std::io::Error::other("it has no command"))?;
        tracing::debug!(%trigger, "an errand begins");
        let child = Command::new(program)
            .args(arguments)
            .args([id.as_str(), trigger.as_str()])
            .envs(environment)
            .current_dir("/")
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            // Standard error is the keeper's log.
            .process_group(0)
            .kill_on_drop(true)
            .spawn()?;
        Ok(Self { child, deadline: Instant::now() + LIMIT })
    }

    /// Whether it succeeded. May be waited for again when a wait was given up.
    pub(super) async fn finished(&mut self) -> bool {
        match tokio::time::timeout_at(self.deadline, self.child.wait()).await {
            Ok(Ok(status)) => {
                tracing::debug!(%status, "an errand has ended");
                status.success()
            }
            Ok(Err(error)) => {
                tracing::warn!(%error, "an errand cannot be waited for");
                false
            }
            Err(_) => {
                tracing::warn!("an errand took too long and was ended");
                self.end();
                false
            }
        }
    }

    fn end(&self) {
        if let Some(pid) = self.child.id().and_then(|id| Pid::from_raw(id.cast_signed())) {
            // It may have ended by itself.
            let _ = kill_process_group(pid, Signal::KILL);
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.end();
    }
}
