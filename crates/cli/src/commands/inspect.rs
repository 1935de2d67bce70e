//! `palisade inspect`.

use crate::context::Context;
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_core::{Enforcement, Workspace, one_line, printable};
use palisade_engine::Inspection;
use std::fmt::Write as _;

/// Show all there is to know about a sandbox
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Name or id
    pub(crate) name: String,
    /// As JSON
    #[arg(long)]
    pub(crate) json: bool,
}

pub(crate) async fn run(context: &Context, arguments: &Arguments) -> Result<Status, Failure> {
    let inspection = context.engine.inspect(&arguments.name).await?;
    if arguments.json {
        output::json(&inspection)?;
    } else {
        output::data(&describe(&inspection))?;
    }
    Ok(OK)
}

fn describe(inspection: &Inspection) -> String {
    let mut text = String::new();
    let mut line = |label: &str, value: &str| {
        // Writing to a String cannot fail.
        let _ = writeln!(text, "{label:<11} {value}");
    };
    let summary = &inspection.summary;
    line("name", summary.name.as_str());
    line("id", summary.id.as_str());
    line("method", &format!("{} ({})", summary.method, inspection.isolation));
    let foundation = &inspection.foundation;
    if let Some(environment) = &foundation.environment {
        line("environment", environment.as_str());
    }
    match &foundation.image {
        Some(image) if summary.method.starts_from_image() => line("image", image.as_str()),
        None if summary.method.starts_from_image() => {}
        _ if foundation.environment.is_some() => line("root", &foundation.root.shown()),
        _ => {}
    }
    line("state", summary.state.as_str());
    if let Some(error) = &summary.error {
        line("error", &one_line(error));
    }
    line("network", inspection.policy.network.as_str());
    for rule in &inspection.policy.allow {
        line("allow", &rule.to_string());
    }
    for port in &inspection.policy.host_ports {
        line("host port", &port.to_string());
    }
    line(
        "workspace",
        &match &inspection.policy.workspace {
            Workspace::Bound { host, access } => {
                format!("{} ← {host} ({access:?})", inspection.layout.workspace)
            }
            _ => inspection.layout.workspace.clone(),
        },
    );
    for mount in &inspection.policy.mounts {
        line("mount", &format!("{} ← {} ({:?})", mount.guest, mount.host, mount.access));
    }
    for tool in &inspection.policy.tools {
        line("tool", &tool.to_string());
    }
    line("host uid", &inspection.host_uid.to_string());
    if let Some(directory) = &inspection.directory {
        line("directory", &directory.to_string());
    }
    if let Some(pid) = inspection.keeper_pid {
        line("keeper", &format!("process {pid}"));
    }
    for limit in limits(inspection) {
        let state = if limit.enforced { "enforced by" } else { "NOT enforced:" };
        line("limit", &format!("{} {} — {state} {}", limit.limit, limit.value, printable(&limit.how)));
    }
    text
}

/// Known while it runs; the keeper tells them.
fn limits(inspection: &Inspection) -> Vec<Enforcement> {
    let running = inspection.running.as_ref().and_then(|running| running.get("limits").cloned());
    running.and_then(|limits| serde_json::from_value(limits).ok()).unwrap_or_default()
}
