//! The override file of a slot: what a sandbox changes in its project's services.
//!
//! Pure, but for following the links of the worktree: from the rendered services and what the project declares to the
//! text of a file that Compose merges over the project's own. It adds code mounts, telemetry, and secrets that only some
//! services get; and it undoes what two sandboxes of one project cannot both have, when the user agrees.

mod collision;
mod writing;

pub(crate) use collision::is_of;
pub use collision::{NewPort, SlotCollision, SlotPort, collisions};

use crate::reach::resolved;
use crate::stack::{Model, ModelService};
use palisade_config::infra::{CodeMount, MountAccess, Otel};
use palisade_core::{Diagnostic, ErrorCode, ExitCode, HostPath, VariableName, printable};
use std::collections::BTreeMap;

const ENDPOINT: &str = "OTEL_EXPORTER_OTLP_ENDPOINT";
const ATTRIBUTES: &str = "OTEL_RESOURCE_ATTRIBUTES";
/// What the network of the collector is called within the project.
const TELEMETRY: &str = "palisade-telemetry";

/// A secret that only some services get.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ScopedSecret {
    pub name: VariableName,
    pub services: Vec<String>,
}

/// Everything that the override follows from.
#[derive(Debug, Clone, Copy)]
pub struct OverrideInput<'a> {
    /// The project's services without an override.
    pub model: &'a Model,
    /// Services that are there but do not run, because no profile asks for them.
    pub inactive: &'a [String],
    pub worktree: &'a HostPath,
    pub mounts: &'a [CodeMount],
    pub otel: Option<&'a Otel>,
    pub secrets: &'a [ScopedSecret],
    pub ports: &'a [SlotPort],
    pub collisions: CollisionChoice,
}

/// What is done about what two sandboxes cannot both have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CollisionChoice {
    /// The user agrees that names and ports become the slot's own.
    Override,
    Leave,
}

/// `infra.toml` names a service that there is not.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{} in {section}; the services are: {}", .unknown.join(", "), .known.join(", "))]
pub struct UnknownServices {
    /// A sentence for each.
    pub unknown: Vec<String>,
    pub section: &'static str,
    pub known: Vec<String>,
}

impl Diagnostic for UnknownServices {
    fn code(&self) -> ErrorCode {
        "unknown-service"
    }

    fn exit(&self) -> ExitCode {
        ExitCode::Configuration
    }

    fn hints(&self) -> Vec<String> {
        vec!["correct the name in .devops-ai/infra.toml".into()]
    }
}

/// One service's part of the override.
#[derive(Debug, Default)]
struct ServiceOverride {
    forget_container_name: bool,
    image: Option<NewImage>,
    /// `None` takes the value that Compose has for the name.
    environment: BTreeMap<String, Option<String>>,
    networks: Vec<String>,
    /// All ports of the service, in place of its own.
    ports: Option<Vec<crate::stack::PublishedPort>>,
    mounts: Vec<CodeMount>,
    /// Where the worktree's `.git` is seen inside.
    fenced_git: Vec<String>,
}

#[derive(Debug)]
enum NewImage {
    /// The service builds it: without a name, Compose names it after the sandbox and knows it for its own.
    Unnamed,
    /// Another service builds it.
    Named(String),
}

#[derive(Debug, Default)]
struct Override {
    services: BTreeMap<String, ServiceOverride>,
    /// Key and name on the engine.
    external_network: Option<(String, String)>,
    networks: BTreeMap<String, String>,
    volumes: BTreeMap<String, String>,
}

/// The text of the override file.
pub fn plan(input: &OverrideInput<'_>) -> Result<String, UnknownServices> {
    known_services(input)?;
    let mut planned = Override::default();
    telemetry_network(input, &mut planned);
    for (name, service) in &input.model.services {
        let part = service_part(input, name, service, planned.external_network.as_ref());
        planned.services.insert(name.clone(), part);
    }
    if input.collisions == CollisionChoice::Override {
        for collision in collisions(input.model, input.ports) {
            undo(input.model, &mut planned, collision);
        }
    }
    Ok(writing::write(&planned, input))
}

fn known_services(input: &OverrideInput<'_>) -> Result<(), UnknownServices> {
    let known = |service: &String| {
        input.model.services.contains_key(service) || input.inactive.iter().any(|it| it == service)
    };
    let refused = |section, unknown: Vec<String>| {
        if unknown.is_empty() {
            return Ok(());
        }
        let known = input.model.services.keys().chain(input.inactive).cloned().collect();
        Err(UnknownServices { unknown, section, known })
    };
    let mut unknown: Vec<String> = Vec::new();
    for secret in input.secrets {
        let strangers = secret.services.iter().filter(|service| !known(service));
        unknown.extend(
            strangers
                .map(|it| format!("{} is for a service {} that there is not", secret.name, printable(it))),
        );
    }
    refused("[sandbox.secrets]", unknown)?;
    let strangers = input.mounts.iter().filter(|mount| !known(&mount.service));
    let mut unknown: Vec<String> =
        strangers.map(|mount| format!("there is no service {}", printable(&mount.service))).collect();
    unknown.dedup();
    refused("[sandbox.mounts]", unknown)
}

/// A network that the project has already is not declared a second time.
fn telemetry_network(input: &OverrideInput<'_>, planned: &mut Override) {
    let Some(name) = input.otel.and_then(|otel| otel.network.clone()) else { return };
    let networks = &input.model.networks;
    let known = networks.iter().find(|(_, it)| it.external && it.name.as_deref() == Some(name.as_str()));
    let key = match known {
        Some((key, _)) => key.clone(),
        None => {
            let mut key = TELEMETRY.to_owned();
            while networks.contains_key(&key) {
                key.push('_');
            }
            key
        }
    };
    planned.external_network = Some((key, name));
}

fn service_part(
    input: &OverrideInput<'_>,
    name: &str,
    service: &ModelService,
    telemetry: Option<&(String, String)>,
) -> ServiceOverride {
    let mut part = ServiceOverride::default();
    if let Some(endpoint) = input.otel.and_then(|otel| otel.endpoint.clone()) {
        part.environment.insert(ENDPOINT.into(), Some(endpoint));
        if !service.environment.contains(ATTRIBUTES) {
            let namespace = format!("service.namespace={}", input.model.name);
            part.environment.insert(ATTRIBUTES.into(), Some(namespace));
        }
    }
    for secret in input.secrets.iter().filter(|secret| secret.services.iter().any(|it| it == name)) {
        part.environment.insert(secret.name.as_str().to_owned(), None);
    }
    // One that shares another's network, or has none, can join no other.
    if let Some((key, _)) = telemetry
        && service.network_mode.is_none()
    {
        // Naming any network takes the default one away, unless that is named, too.
        if service.networks.contains_key("default") {
            part.networks.push("default".into());
        }
        part.networks.push(key.clone());
    }
    part.mounts = input.mounts.iter().filter(|mount| mount.service == name).cloned().collect();
    part.fenced_git = fenced_git(input, service, &part.mounts);
    part
}

/// Where the whole worktree is written from inside, its `.git` is not: it tells the user's own git which repository to
/// trust, and so which programs to run.
fn fenced_git(input: &OverrideInput<'_>, service: &ModelService, mounts: &[CodeMount]) -> Vec<String> {
    let root = resolved(input.worktree.as_path());
    let own = service.volumes.iter().filter(|mount| mount.kind == "bind" && !mount.read_only);
    let own = own.filter_map(|mount| Some((mount.source.as_deref()?, mount.target.as_deref()?)));
    let added = mounts.iter().filter(|mount| mount.access == MountAccess::ReadWrite);
    let added = added.map(|mount| (mount.source.as_str(), mount.target.as_str()));
    own.chain(added)
        // A link of the repository's may lead to the whole of it, too.
        .filter(|(source, _)| resolved(&input.worktree.as_path().join(source)) == root)
        .map(|(_, target)| format!("{}/.git", target.trim_end_matches('/')))
        .collect()
}

fn undo(model: &Model, planned: &mut Override, collision: SlotCollision) {
    let own = |key: &str| format!("{}_{key}", model.name);
    match collision {
        SlotCollision::ContainerName { service, .. } => {
            planned.services.entry(service).or_default().forget_container_name = true;
        }
        SlotCollision::Port { service, published, protocol, becomes, .. } => {
            let Some(own) = model.services.get(&service) else { return };
            let part = planned.services.entry(service).or_default();
            let ports = part.ports.get_or_insert_with(|| own.ports.clone());
            for port in ports.iter_mut() {
                if port.published.as_deref() == Some(published.as_str()) && port.protocol == protocol {
                    port.published = match becomes {
                        NewPort::Slot(port) => Some(port.to_string()),
                        NewPort::Any => None,
                    };
                }
            }
        }
        SlotCollision::ImageName { service, becomes, .. } => {
            let builds = model.services.get(&service).is_some_and(|it| it.build.is_some());
            let image = if builds { NewImage::Unnamed } else { NewImage::Named(becomes) };
            planned.services.entry(service).or_default().image = Some(image);
        }
        SlotCollision::VolumeName { volume, .. } => {
            let name = own(&volume);
            planned.volumes.insert(volume, name);
        }
        SlotCollision::NetworkName { network, .. } => {
            let name = own(&network);
            planned.networks.insert(network, name);
        }
        // What listens on the host's own network cannot be moved from outside.
        SlotCollision::HostNetwork { .. } => {}
    }
}

#[cfg(test)]
mod tests;
