//! How the containers of a project are.

use super::error::StackError;
use palisade_core::printable;
use serde::{Deserialize, Serialize};
use std::fmt;

/// One container of a service.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct ServiceState {
    pub service: String,
    /// The container's own name.
    pub container: String,
    pub state: ContainerState,
    /// As its health check says; none for a container without one.
    pub health: Option<ContainerHealth>,
    /// For one that has ended.
    pub exit_code: Option<i64>,
    pub ports: Vec<PublishedState>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ContainerState {
    Created,
    Running,
    Paused,
    Restarting,
    Removing,
    Exited,
    Dead,
    /// A state that Compose has and this program does not know.
    #[serde(other)]
    Unknown,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ContainerHealth {
    Starting,
    Healthy,
    Unhealthy,
}

/// A port of the host's that leads to the container.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct PublishedState {
    pub published: u16,
    pub target: u16,
    pub protocol: String,
}

impl fmt::Display for ServiceState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.state {
            ContainerState::Created => "created",
            ContainerState::Running => "running",
            ContainerState::Paused => "paused",
            ContainerState::Restarting => "restarting",
            ContainerState::Removing => "being removed",
            ContainerState::Exited => "exited",
            ContainerState::Dead => "dead",
            ContainerState::Unknown => "in an unknown state",
        };
        f.write_str(state)?;
        match (self.state, self.exit_code, self.health) {
            (ContainerState::Exited | ContainerState::Restarting, Some(code), _) => {
                write!(f, " with code {code}")
            }
            (_, _, Some(ContainerHealth::Starting)) => f.write_str(", health not known yet"),
            (_, _, Some(ContainerHealth::Healthy)) => f.write_str(", healthy"),
            (_, _, Some(ContainerHealth::Unhealthy)) => f.write_str(", unhealthy"),
            (_, _, None) => Ok(()),
        }
    }
}

impl ServiceState {
    /// It ended badly, keeps ending, or its health check fails.
    pub fn has_failed(&self) -> bool {
        match self.state {
            ContainerState::Exited => self.exit_code != Some(0),
            ContainerState::Restarting | ContainerState::Dead => true,
            _ => self.health == Some(ContainerHealth::Unhealthy),
        }
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Written {
    service: String,
    name: String,
    state: ContainerState,
    #[serde(default)]
    health: String,
    #[serde(default)]
    exit_code: i64,
    #[serde(default)]
    publishers: Option<Vec<Publisher>>,
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Publisher {
    #[serde(default)]
    target_port: u16,
    #[serde(default)]
    published_port: u16,
    #[serde(default)]
    protocol: String,
}

/// One object a line, or, before Compose 2.21, one list.
pub(super) fn read(told: &[u8]) -> Result<Vec<ServiceState>, StackError> {
    let unreadable = |error: serde_json::Error| StackError::Unreadable { reason: error.to_string() };
    let written: Vec<Written> = if told.trim_ascii().starts_with(b"[") {
        serde_json::from_slice(told).map_err(unreadable)?
    } else {
        let stream = serde_json::Deserializer::from_slice(told).into_iter();
        stream.collect::<Result<_, _>>().map_err(unreadable)?
    };
    let mut states: Vec<ServiceState> = written.into_iter().map(state).collect();
    states.sort_by(|one, other| (&one.service, &one.container).cmp(&(&other.service, &other.container)));
    Ok(states)
}

fn state(written: Written) -> ServiceState {
    let mut ports: Vec<PublishedState> = Vec::new();
    for publisher in written.publishers.unwrap_or_default() {
        let Publisher { target_port: target, published_port: published, protocol } = publisher;
        let port = PublishedState { published, target, protocol };
        // The same port is told for IPv4 and for IPv6.
        if published != 0 && !ports.contains(&port) {
            ports.push(port);
        }
    }
    ports.sort();
    let ended = matches!(written.state, ContainerState::Exited | ContainerState::Restarting);
    ServiceState {
        service: printable(&written.service),
        container: printable(&written.name),
        state: written.state,
        health: match written.health.as_str() {
            "starting" => Some(ContainerHealth::Starting),
            "healthy" => Some(ContainerHealth::Healthy),
            "unhealthy" => Some(ContainerHealth::Unhealthy),
            _ => None,
        },
        exit_code: ended.then_some(written.exit_code),
        ports,
    }
}

/// The containers that a complaint of Compose's names, else those that have failed.
pub(super) fn blamed<'a>(states: &'a [ServiceState], complaint: &str) -> Vec<&'a ServiceState> {
    let names = |word: &str| {
        let whole = |character: char| !character.is_ascii_alphanumeric() && !matches!(character, '-' | '_');
        complaint.split(whole).any(|part| part == word)
    };
    let named: Vec<_> = states.iter().filter(|state| names(&state.container)).collect();
    if !named.is_empty() {
        return named;
    }
    states.iter().filter(|state| state.has_failed()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const TOLD: &str = r#"{"Service":"api","Name":"shop-1-api-1","State":"exited","Health":"","ExitCode":3,"Publishers":null}
{"Service":"db","Name":"shop-1-db-1","State":"running","Health":"healthy","ExitCode":0,"Publishers":[{"URL":"0.0.0.0","TargetPort":5432,"PublishedPort":5433,"Protocol":"tcp"},{"URL":"::","TargetPort":5432,"PublishedPort":5433,"Protocol":"tcp"},{"URL":"","TargetPort":9,"PublishedPort":0,"Protocol":"tcp"}]}
{"Service":"db2","Name":"shop-1-db-10","State":"weird","Health":"","ExitCode":0}
"#;

    #[test]
    fn states_are_read_from_lines_and_from_a_list() {
        let lines = read(TOLD.as_bytes()).unwrap();
        let list = format!("[{}]", TOLD.trim().replace("}\n{", "},{"));
        assert_eq!(read(list.as_bytes()).unwrap(), lines);
        let shown: Vec<String> = lines.iter().map(|state| format!("{} {state}", state.service)).collect();
        assert_eq!(shown, ["api exited with code 3", "db running, healthy", "db2 in an unknown state"]);
        let port = PublishedState { published: 5433, target: 5432, protocol: "tcp".into() };
        assert_eq!(lines[1].ports, [port]);
        assert_eq!(read(b"").unwrap(), []);
    }

    #[test]
    fn the_container_that_is_named_is_blamed_before_those_that_failed() {
        let states = read(TOLD.as_bytes()).unwrap();
        let blamed = |complaint: &str| {
            blamed(&states, complaint).iter().map(|state| state.service.as_str()).collect::<Vec<_>>()
        };
        assert_eq!(blamed("dependency failed to start: container shop-1-db-1 is unhealthy"), ["db"]);
        assert_eq!(blamed("no such image"), ["api"]);
    }
}
