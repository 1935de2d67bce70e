//! What two sandboxes of one project cannot both have, found in its rendered services.

use crate::stack::{Model, ModelService};
use std::fmt;

/// A port of the project's, and what it is in this slot.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SlotPort {
    pub base: u16,
    pub port: u16,
}

/// What a fixed port becomes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NewPort {
    /// The slot's own for it.
    Slot(u16),
    /// One that the engine chooses: no variable stands for the port.
    Any,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SlotCollision {
    ContainerName {
        service: String,
        name: String,
    },
    Port {
        service: String,
        published: String,
        target: u16,
        protocol: String,
        becomes: NewPort,
    },
    /// Cannot be undone from outside.
    HostNetwork {
        service: String,
    },
    /// What is built under a name that every sandbox builds, or uses what is.
    ImageName {
        service: String,
        image: String,
        becomes: String,
    },
    VolumeName {
        volume: String,
        name: String,
    },
    NetworkName {
        network: String,
        name: String,
    },
}

/// In the order of services, then volumes and networks. `ports` are those of this slot, which are nobody else's.
pub fn collisions(model: &Model, ports: &[SlotPort]) -> Vec<SlotCollision> {
    let mut found = Vec::new();
    for (name, service) in &model.services {
        if let Some(container) = service.container_name.as_ref().filter(|it| !is_of(&model.name, it)) {
            found.push(SlotCollision::ContainerName { service: name.clone(), name: container.clone() });
        }
        if let Some((image, becomes)) = built_image(model, name) {
            found.push(SlotCollision::ImageName { service: name.clone(), image, becomes });
        }
        if service.network_mode.as_deref() == Some("host") {
            found.push(SlotCollision::HostNetwork { service: name.clone() });
            continue;
        }
        for port in &service.ports {
            // Of a range the engine takes what is free.
            let Some(published) = port.published.as_ref() else { continue };
            let Ok(number) = published.parse::<u16>() else { continue };
            if number == 0 || ports.iter().any(|slot| slot.port == number) {
                continue;
            }
            let own = ports.iter().find(|slot| slot.base == number);
            found.push(SlotCollision::Port {
                service: name.clone(),
                published: published.clone(),
                target: port.target,
                protocol: port.protocol.clone(),
                becomes: own.map_or(NewPort::Any, |slot| NewPort::Slot(slot.port)),
            });
        }
    }
    for (key, volume) in model.volumes.iter().filter(|(_, volume)| !volume.external) {
        if let Some(name) = volume.name.as_ref().filter(|it| !is_of(&model.name, it)) {
            found.push(SlotCollision::VolumeName { volume: key.clone(), name: name.clone() });
        }
    }
    for (key, network) in model.networks.iter().filter(|(_, network)| !network.external) {
        if let Some(name) = network.name.as_ref().filter(|it| !is_of(&model.name, it)) {
            found.push(SlotCollision::NetworkName { network: key.clone(), name: name.clone() });
        }
    }
    found
}

/// The image of a service when it is built in this project under a name of its own, and what Compose would call it
/// without that name. A service may use what another one builds.
fn built_image(model: &Model, service: &str) -> Option<(String, String)> {
    let image = model.services.get(service)?.image.as_ref().filter(|it| !is_of(&model.name, it))?;
    let builds = |it: &ModelService| it.build.is_some() && it.image.as_ref() == Some(image);
    let (builder, _) = model.services.iter().find(|(_, it)| builds(it))?;
    let own = if model.services.get(service).is_some_and(builds) { service } else { builder.as_str() };
    Some((image.clone(), format!("{}-{own}", model.name)))
}

/// Whether a name holds the compose project's as a word of its own, so that it differs from slot to slot.
pub(crate) fn is_of(project: &str, name: &str) -> bool {
    name.match_indices(project).any(|(at, _)| {
        let before = name[..at].chars().next_back();
        let after = name[at + project.len()..].chars().next();
        !before.is_some_and(char::is_alphanumeric) && !after.is_some_and(char::is_alphanumeric)
    })
}

impl SlotCollision {
    /// Whether an override can undo it.
    pub fn can_be_undone(&self) -> bool {
        !matches!(self, Self::HostNetwork { .. })
    }

    /// What an override makes of it.
    pub fn remedy(&self) -> String {
        match self {
            Self::ContainerName { .. } => "the container is named after its sandbox instead".into(),
            Self::Port { becomes: NewPort::Slot(port), .. } => format!("it becomes {port} in this sandbox"),
            Self::Port { becomes: NewPort::Any, .. } => {
                "the engine chooses a free port instead; declare it in [sandbox.ports] to know which".into()
            }
            Self::ImageName { becomes, .. } => format!("it is called {becomes} instead"),
            Self::VolumeName { .. } => "this sandbox gets a volume of its own instead".into(),
            Self::NetworkName { .. } => "this sandbox gets a network of its own instead".into(),
            Self::HostNetwork { .. } => "only one sandbox at a time can run it".into(),
        }
    }
}

/// Why two sandboxes cannot both have it.
impl fmt::Display for SlotCollision {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ContainerName { service, name } => {
                write!(
                    f,
                    "service {service} has the fixed container name {name}, which only one container can have"
                )
            }
            Self::Port { service, published, target, protocol, .. } => write!(
                f,
                "service {service} publishes {target}/{protocol} on the fixed port {published}, which only one can have"
            ),
            Self::HostNetwork { service } => {
                write!(f, "service {service} listens on the host's own network, where only one can")
            }
            Self::ImageName { service, image, .. } => {
                write!(
                    f,
                    "service {service} uses the image {image} that every sandbox builds, each from its own code"
                )
            }
            Self::VolumeName { volume, name } => {
                write!(
                    f,
                    "volume {volume} has the fixed name {name}: all sandboxes would share it and one would remove it"
                )
            }
            Self::NetworkName { network, name } => {
                write!(f, "network {network} has the fixed name {name}: all sandboxes would share it")
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::is_of;

    #[test]
    fn a_name_differs_between_slots_when_it_holds_the_projects_as_a_word() {
        for name in ["shop-3", "shop-3_data", "x.shop-3", "api-shop-3-1"] {
            assert!(is_of("shop-3", name), "{name}");
        }
        for name in ["shop-33", "workshop-3", "shop", "data"] {
            assert!(!is_of("shop-3", name), "{name}");
        }
    }
}
