//! `palisade init --check`: what a project's `infra.toml` lacks, and the lines that would say it.

use super::{Found, difference, told};
use crate::failure::Failure;
use crate::{OK, Status, output};
use palisade_config::infra::INFRA_FILE;
use palisade_core::{ExitCode, ProjectPath, printable};
use palisade_provision::{
    Additions, Collision, FileKind, Heading, MissingFile, Need, PortVariable, Role, Variable,
};
use serde::Serialize;
use std::fmt::Write as _;

/// What was found in a project and is not declared.
#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
pub(crate) struct Report {
    project: ReportedProject,
    /// Whether nothing is missing; the exit code is 0 then, else 1.
    complete: bool,
    /// Relative to the project's root, as all paths here.
    compose_file: ProjectPath,
    services: Vec<ReportedService>,
    /// Variables without a default that are not declared.
    variables: Vec<ReportedVariable>,
    /// Variables that the compose file has a default for: they need no declaration.
    optional: Vec<ReportedVariable>,
    /// Files that services use, git ignores, and `[sandbox.files]` does not have.
    files: Vec<ReportedFile>,
    /// Ports that are not in `[sandbox.ports]`, or are not variables in the compose file.
    ports: Vec<ReportedPort>,
    /// What is no gap, but worth knowing, for people.
    remarks: Vec<String>,
    /// What two sandboxes could not both have, and `init` does not change.
    collisions: Vec<ReportedCollision>,
    /// What `--apply` would write; `null` when there is nothing.
    suggestion: Option<Suggestion>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedProject {
    /// The top of its working tree.
    root: palisade_core::HostPath,
    name: String,
    prefix: String,
    /// Such as `Python`; `null` when no file tells.
    language: Option<&'static str>,
    /// Whether it has an `infra.toml`.
    onboarded: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedService {
    name: String,
    image: Option<String>,
    /// A guess: `API`, `database` and the like.
    role: Option<&'static str>,
    /// The path that its own check asks for with HTTP.
    health: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedVariable {
    name: String,
    services: Vec<String>,
    /// The first default that the compose file has.
    default: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedFile {
    path: ProjectPath,
    uses: Vec<ReportedUse>,
    /// What it can be copied from, the likeliest first. Empty when neither it nor an example is there.
    sources: Vec<ProjectPath>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedUse {
    /// `null` for a secret or config of the whole project.
    service: Option<String>,
    /// `mount`, `env_file`, `secret` or `config`.
    kind: &'static str,
    /// As the compose file has it.
    written: String,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedPort {
    service: String,
    /// Its variable, be it in the compose file already or proposed.
    variable: String,
    /// The project's own port; sandbox N has this plus N.
    base: u16,
    /// Whether the variable is in `[sandbox.ports]`.
    declared: bool,
    /// Whether the compose file has the port written out, so that two sandboxes would collide.
    fixed: bool,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct ReportedCollision {
    service: String,
    /// `container_name`, `host_network` or `port`.
    kind: &'static str,
    /// The name, or why a port stays.
    detail: Option<String>,
}

#[derive(Debug, Serialize)]
#[cfg_attr(test, derive(schemars::JsonSchema))]
struct Suggestion {
    /// The lines for `infra.toml`; for a project without one, the whole file.
    infra: String,
    /// The change of the compose file and of those that it takes services from, as a unified diff; `null` when all stay.
    compose: Option<String>,
}

pub(super) fn run(found: &Found, as_json: bool) -> Result<Status, Failure> {
    if as_json {
        output::json(&report(found))?;
    } else {
        let mut whole = text(found);
        if !found.findings.is_complete() {
            whole += &suggestions(found);
        }
        output::data(&whole)?;
    }
    if found.findings.is_complete() {
        return Ok(OK);
    }
    if !as_json {
        output::note(&format!("\nWrite them with: {} init --apply", crate::called()));
    }
    Ok(ExitCode::Failed as Status)
}

/// The gaps, for people.
pub(super) fn text(found: &Found) -> String {
    let findings = &found.findings;
    let mut text = format!("{}\n", told::onboarded(found));
    // Writing to a String cannot fail.
    if !findings.variables.is_empty() {
        let _ = writeln!(text, "\n⚠ Undeclared environment variables in compose:");
        for variable in &findings.variables {
            let _ = writeln!(text, "  {}", told::variable_and_services(variable));
        }
    }
    if !findings.files.is_empty() {
        let _ = writeln!(text, "\n⚠ Gitignored volume mounts without [sandbox.files]:");
        for file in &findings.files {
            for one in &file.uses {
                let user = told::user(one).unwrap_or_else(|| "the project".to_owned());
                let _ = writeln!(text, "  {} → {user} ({})", file.path, printable(&one.written));
            }
            if file.sources.is_empty() {
                let _ = writeln!(text, "    neither it nor an example of it is there yet");
            }
        }
    }
    if !findings.ports.is_empty() {
        let _ = writeln!(text, "\n⚠ Ports without [sandbox.ports]:");
        for port in &findings.ports {
            let _ = writeln!(text, "  {}: {} ({})", printable(&port.service), port.base, port.name);
        }
    }
    if findings.fixed_ports {
        let changes = found.project.compose_changes(findings);
        let paths: Vec<&str> = changes.iter().map(|change| change.path.as_str()).collect();
        let _ =
            writeln!(text, "\n⚠ Fixed ports in {}, on which two sandboxes would collide:", paths.join(", "));
        for port in findings.all_ports().filter(|port| is_fixed(found, port)) {
            let _ = writeln!(
                text,
                "  {}: {} → ${{{}:-{}}}",
                printable(&port.service),
                port.base,
                port.name,
                port.base
            );
        }
    }
    if findings.is_complete() {
        let told = match findings.undeclarable.is_empty() {
            true => "Everything that the compose file needs is declared.",
            false => "Everything that can be declared is; what cannot follows.",
        };
        let _ = writeln!(text, "\n✓ {told}");
    }
    let remarks = told::remarks(found);
    if !remarks.is_empty() {
        let _ = writeln!(text, "\nWorth knowing:");
        for remark in remarks {
            let _ = writeln!(text, "  {remark}");
        }
    }
    text
}

fn suggestions(found: &Found) -> String {
    let mut text = String::new();
    let additions = Additions::proposed(&found.findings);
    if !additions.is_empty() || found.project.declared().is_none() {
        let kind = if found.project.declared().is_some() { "additions to" } else { "contents of" };
        let _ = writeln!(text, "\nSuggested {kind} {INFRA_FILE}:\n");
        text += &indented(&suggested_lines(found));
    }
    for change in found.project.compose_changes(&found.findings) {
        let _ = writeln!(text, "\nSuggested change to {}:\n", change.path);
        text += &indented(&difference::shown(&change, output::Colours::Off));
    }
    text
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".to_owned() } else { format!("  {line}\n") }).collect()
}

/// What `--apply` would add, or the whole of a new file without the method, which is only found out when it is written.
fn suggested_lines(found: &Found) -> String {
    let project = &found.project;
    let additions = Additions::proposed(&found.findings);
    if project.declared().is_some() {
        return additions.lines();
    }
    let likely = project.health(&found.findings);
    additions.headed(&Heading {
        name: project.name.clone(),
        prefix: project.prefix.clone(),
        compose_file: project.compose_file.clone(),
        method: None,
        health: likely.and_then(|likely| Some((likely.endpoint?, Some(likely.port)))),
    })
}

/// Of all compose files that change, one behind the other.
fn compose_difference(found: &Found) -> Option<String> {
    let changes = found.project.compose_changes(&found.findings);
    let shown = changes.iter().map(|change| difference::shown(change, output::Colours::Off));
    shown.reduce(|all, one| format!("{all}\n{one}"))
}

fn is_fixed(found: &Found, port: &PortVariable) -> bool {
    !found.project.has_variable(&port.name)
}

fn report(found: &Found) -> Report {
    let (project, findings) = (&found.project, &found.findings);
    let declared = |port: &PortVariable| !findings.ports.iter().any(|missing| missing.name == port.name);
    let ports = findings.all_ports().map(|port| ReportedPort {
        service: port.service.clone(),
        variable: port.name.clone(),
        base: port.base,
        declared: declared(port),
        fixed: is_fixed(found, port),
    });
    Report {
        project: ReportedProject {
            root: project.root.clone(),
            name: project.name.clone(),
            prefix: project.prefix.clone(),
            language: project.kind.as_ref().map(|kind| kind.language),
            onboarded: project.declared().is_some(),
        },
        complete: findings.is_complete(),
        compose_file: project.compose_file.clone(),
        services: project
            .compose
            .services
            .iter()
            .map(|service| ReportedService {
                name: service.name.clone(),
                image: service.image.clone(),
                role: Role::of(service).name(),
                health: service.health.clone(),
            })
            .collect(),
        variables: findings.variables.iter().map(reported_variable).collect(),
        optional: findings.optional.iter().map(reported_variable).collect(),
        files: findings.files.iter().map(reported_file).collect(),
        ports: ports.filter(|port| port.fixed || !port.declared).collect(),
        remarks: told::remarks(found),
        collisions: findings.collisions.iter().map(reported_collision).collect(),
        suggestion: (!findings.is_complete())
            .then(|| Suggestion { infra: suggested_lines(found), compose: compose_difference(found) }),
    }
}

fn reported_variable(variable: &Variable) -> ReportedVariable {
    let default = match &variable.need {
        Need::Needed => None,
        Need::Optional { default } => Some(default.clone()),
    };
    ReportedVariable { name: variable.name.clone(), services: variable.services.clone(), default }
}

fn reported_file(file: &MissingFile) -> ReportedFile {
    let kind = |kind: FileKind| match kind {
        FileKind::Mount => "mount",
        FileKind::EnvironmentFile | FileKind::OptionalEnvironmentFile => "env_file",
        FileKind::Secret => "secret",
        FileKind::Config => "config",
    };
    let uses = file.uses.iter().map(|one| ReportedUse {
        service: one.service.clone(),
        kind: kind(one.how),
        written: one.written.clone(),
    });
    ReportedFile { path: file.path.clone(), uses: uses.collect(), sources: file.sources.clone() }
}

fn reported_collision(collision: &Collision) -> ReportedCollision {
    let (service, kind, detail) = match collision {
        Collision::ContainerName { service, name } => (service, "container_name", Some(name.clone())),
        Collision::HostNetwork { service } => (service, "host_network", None),
        Collision::Port(port) => {
            (&port.service, "port", Some(format!("line {}: {}", port.line, port.reason)))
        }
    };
    ReportedCollision { service: service.clone(), kind, detail }
}
