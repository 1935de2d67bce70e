//! `palisade sandbox status`.

use crate::failure::Failure;
use crate::output;
use palisade_core::{HostPath, printable};
use palisade_provision::{HealthState, Provisioner, SandboxStatus};

/// Show the services of the worktree here: slot, ports, states, health and addresses
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(
    provisioner: &Provisioner,
    here: &HostPath,
    arguments: &Arguments,
) -> Result<(), Failure> {
    let status = provisioner.status(here).await?;
    if arguments.json {
        return output::json(&status);
    }
    output::data(&text(&status))
}

fn text(status: &SandboxStatus) -> String {
    let slot = &status.slot;
    let mut text = format!(
        "Sandbox: {} ({})\n  Worktree: {}\n  Branch: {}\n  Slot: {}\n",
        slot.feature,
        status.state,
        printable(&slot.worktree.as_path().to_string_lossy()),
        slot.branch,
        slot.slot
    );
    for (name, port) in &slot.ports {
        text.push_str(&format!("  {name}: {port}\n"));
    }
    if let Some(health) = &status.health {
        let mark = if health.state == HealthState::Healthy { "✓" } else { "✗" };
        text.push_str(&format!("  Health: {} {mark}\n", printable(&health.url)));
    }
    if !status.services.is_empty() {
        let rows = status.services.iter().map(|service| {
            let ports = service.ports.iter().map(|port| format!("localhost:{}", port.published));
            vec![service.service.clone(), service.to_string(), ports.collect::<Vec<_>>().join(" ")]
        });
        let rows: Vec<Vec<String>> = rows.collect();
        text.push('\n');
        text.push_str(&output::table(&["SERVICE", "STATE", "ADDRESSES"], &rows));
    }
    text
}
