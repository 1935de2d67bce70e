//! What `init` tells of a project, in the words of its questions.

use super::Found;
use palisade_config::infra::INFRA_FILE;
use palisade_core::printable;
use palisade_provision::{Change, Collision, FileUse, Port, Published, Role, Variable};
use std::fmt::Write as _;

/// More services than these are counted.
const LISTED: usize = 12;

/// What kind of project it is, its services and their ports.
pub(super) fn inspection(found: &Found) -> String {
    let project = &found.project;
    let services = &project.compose.services;
    let names: Vec<String> = services.iter().take(LISTED).map(|service| printable(&service.name)).collect();
    let more = if services.len() > LISTED { ", …" } else { "" };
    let count = match services.len() {
        1 => "1 service".to_owned(),
        count => format!("{count} services"),
    };
    let mut text = format!(
        "Inspecting project...\n  Found: {} ({count}: {}{more})\n",
        project.compose_file,
        names.join(", ")
    );
    // Writing to a String cannot fail.
    let _ = match &project.kind {
        Some(kind) => {
            let name = kind.name.as_ref().map(|name| format!(", name: {name}")).unwrap_or_default();
            writeln!(text, "  Found: {} project ({}{name})", kind.language, kind.file)
        }
        None => writeln!(text, "  Project name: {}", project.name),
    };
    let _ = writeln!(text, "\nServices and ports:");
    for service in services {
        let role = Role::of(service).name().map(|role| format!(" ({role})")).unwrap_or_default();
        let _ = writeln!(text, "  {}: {}{role}", printable(&service.name), ports(&service.ports));
    }
    text
}

fn ports(ports: &[Port]) -> String {
    if ports.is_empty() {
        return "no port".to_owned();
    }
    let shown = |port: &Port| match &port.published {
        Published::Fixed { first, last } if first == last => first.to_string(),
        Published::Fixed { first, last } => format!("{first}-{last}"),
        Published::Variable { name, default: None } => format!("${{{name}}}"),
        Published::Variable { default: Some(port), .. } => port.to_string(),
        Published::Any => "any".to_owned(),
        Published::Other(text) => printable(text),
    };
    ports.iter().map(shown).collect::<Vec<_>>().join(", ")
}

pub(super) fn onboarded(found: &Found) -> String {
    let state = if found.project.declared().is_some() { "already onboarded" } else { "not onboarded yet" };
    format!("Project: {} ({state})", found.project.name)
}

pub(super) fn variables(found: &Found) -> String {
    let mut text = "Environment variables detected in compose (not ports):\n".to_owned();
    for variable in &found.findings.variables {
        let _ = writeln!(text, "  {}", variable_and_services(variable));
    }
    text
}

pub(super) fn variable_and_services(variable: &Variable) -> String {
    let services: Vec<String> = variable.services.iter().map(|service| printable(service)).collect();
    match &services[..] {
        [] => variable.name.clone(),
        [service] => format!("{} ({service} service)", variable.name),
        several => format!("{} ({} services)", variable.name, several.join(", ")),
    }
}

pub(super) fn files(found: &Found) -> String {
    let mut text = "Gitignored files mounted as volumes:\n".to_owned();
    for file in &found.findings.files {
        for one in &file.uses {
            let user =
                user(one).map_or_else(|| "the project".to_owned(), |service| format!("{service} service"));
            let _ = writeln!(text, "  {} → {user} ({})", file.path, printable(&one.written));
        }
    }
    text
}

/// The service that uses a file; none when all of them may.
pub(super) fn user(one: &FileUse) -> Option<String> {
    one.service.as_deref().map(printable)
}

/// What is no gap, but worth knowing.
pub(super) fn remarks(found: &Found) -> Vec<String> {
    let findings = &found.findings;
    let compose = &found.project.compose_file;
    let mut remarks = Vec::new();
    if found.infra_is_ignored {
        remarks.push(format!("git ignores {INFRA_FILE}, so that nobody else would get it"));
    }
    let optional: Vec<&str> = findings.optional.iter().map(|variable| variable.name.as_str()).collect();
    if !optional.is_empty() {
        remarks
            .push(format!("{compose} has a default for {}: no declaration is needed", optional.join(", ")));
    }
    for variable in &findings.undeclarable {
        remarks.push(format!(
            "{compose} needs {}, a name that steers programs of the host and cannot be declared; take another one",
            variable.name
        ));
    }
    if let Some(path) = &found.project.override_file {
        remarks.push(format!("{path} is not used in sandboxes, which have an override of their own"));
    }
    for directory in &findings.directories {
        remarks.push(format!("git ignores the directory {directory}; it begins empty in a sandbox"));
    }
    for collision in &findings.collisions {
        remarks.push(match collision {
            Collision::ContainerName { service, name } => format!(
                "{}: container_name {} can be had once only; two sandboxes would collide",
                printable(service),
                printable(name)
            ),
            Collision::HostNetwork { service } => {
                format!("{}: network_mode host gives every sandbox the same ports", printable(service))
            }
            Collision::Port(port) => {
                format!(
                    "{compose}:{}: {}: a port stays as it is: {}",
                    port.line,
                    printable(&port.service),
                    port.reason
                )
            }
        });
    }
    for path in &found.project.unread {
        remarks.push(format!("{compose} takes services from {}, which was not looked into", printable(path)));
    }
    remarks
}

/// What is left to do by hand, and what is worth knowing.
pub(super) fn afterwards(found: &Found, changes: &[Change]) -> Vec<String> {
    let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
    let commit = (!paths.is_empty())
        .then(|| format!("commit {}: a sandbox is made from what is committed", paths.join(" and ")));
    let without_source = found.findings.files.iter().filter(|file| file.sources.is_empty());
    let missing = without_source
        .map(|file| format!("{} is not there yet; make it before the first sandbox", file.path));
    missing.chain(remarks(found)).chain(commit).collect()
}
