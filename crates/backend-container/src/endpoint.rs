//! Where an engine listens: what the user's environment says, else the places where the engines' own packages put
//! their sockets.

use crate::EndpointConfig;
use palisade_core::{BackendError, Method};
use std::fmt;
use std::path::PathBuf;

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Endpoint {
    Socket(PathBuf),
    /// `HOST:PORT`, without encryption.
    Tcp(String),
}

impl fmt::Display for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Socket(path) => write!(f, "unix://{}", path.display()),
            Self::Tcp(address) => write!(f, "tcp://{address}"),
        }
    }
}

impl Endpoint {
    /// Whether a path of this host's means the same to the engine. An engine behind a network is taken to be on
    /// another machine, also when the address is this one's: it may sit in a virtual machine.
    pub fn is_local(&self) -> bool {
        matches!(self, Self::Socket(_))
    }
}

/// The variable that names the endpoint of a method.
pub fn variable(method: Method) -> &'static str {
    match method {
        Method::Podman => "CONTAINER_HOST",
        _ => "DOCKER_HOST",
    }
}

/// The places to look at, best first; one only when the user has said it.
pub fn candidates(
    method: Method,
    config: &EndpointConfig,
    is_root: bool,
) -> Result<Vec<Endpoint>, BackendError> {
    let said = match method {
        Method::Podman => &config.container_host,
        _ => &config.docker_host,
    };
    if let Some(text) = said.as_deref().filter(|text| !text.is_empty()) {
        return parse(method, text).map(|endpoint| vec![endpoint]);
    }
    let of_user = |name: &str| config.runtime_dir.as_ref().map(|directory| directory.join(name));
    let sockets: Vec<PathBuf> = match method {
        Method::Podman if is_root => vec!["/run/podman/podman.sock".into()],
        // Root's socket is not a fallback for a user's: it is another engine, with other sandboxes.
        Method::Podman => of_user("podman/podman.sock").into_iter().collect(),
        _ => {
            let desktop = config.home.as_ref().map(|home| home.join(".docker/run/docker.sock"));
            let others = [of_user("docker.sock"), desktop];
            std::iter::once("/var/run/docker.sock".into()).chain(others.into_iter().flatten()).collect()
        }
    };
    Ok(sockets.into_iter().map(Endpoint::Socket).collect())
}

fn parse(method: Method, text: &str) -> Result<Endpoint, BackendError> {
    let refuse = |reason: &str| BackendError::Unavailable {
        method,
        reason: format!("{} is '{}': {reason}", variable(method), palisade_core::printable(text)),
        fix: format!("set {} to unix:///path/to/socket or tcp://HOST:PORT, or unset it", variable(method)),
    };
    match text.split_once("://") {
        Some(("unix", path)) if path.starts_with('/') => Ok(Endpoint::Socket(path.into())),
        Some(("tcp" | "http", address)) => {
            let address = address.trim_end_matches('/');
            let plain = address.rsplit_once(':').is_some_and(|(host, port)| {
                !host.is_empty() && !host.contains(['/', '@']) && port.parse::<u16>().is_ok()
            });
            if plain { Ok(Endpoint::Tcp(address.to_owned())) } else { Err(refuse("it is not HOST:PORT")) }
        }
        Some(("ssh", _)) => Err(refuse("an engine behind ssh is reached by forwarding its socket: ssh -L")),
        Some(("unix", _)) => Err(refuse("the path of a socket is absolute")),
        _ => Err(refuse("nobody knows how to reach that")),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn said(text: &str) -> EndpointConfig {
        EndpointConfig { docker_host: Some(text.into()), ..EndpointConfig::default() }
    }

    fn shown(method: Method, config: &EndpointConfig, is_root: bool) -> Vec<String> {
        candidates(method, config, is_root).unwrap().iter().map(ToString::to_string).collect()
    }

    #[test]
    fn what_the_user_says_is_the_only_place_looked_at() {
        assert_eq!(shown(Method::Docker, &said("unix:///x/s"), false), ["unix:///x/s"]);
        assert_eq!(shown(Method::Docker, &said("tcp://[::1]:2375/"), false), ["tcp://[::1]:2375"]);
        for bad in ["unix://x", "tcp://host", "ssh://host", "x", "tcp://u@h:1", "fd://", "tcp://h:99999"] {
            assert!(candidates(Method::Docker, &said(bad), false).is_err(), "{bad}");
        }
    }

    #[test]
    fn each_engine_has_its_own_variable() {
        let config = EndpointConfig { container_host: Some("unix:///p".into()), ..said("unix:///d") };
        assert_eq!(shown(Method::Podman, &config, false), ["unix:///p"]);
        assert_eq!(shown(Method::Docker, &config, false), ["unix:///d"]);
    }

    #[test]
    fn otherwise_the_usual_places_are_tried() {
        let config = EndpointConfig {
            runtime_dir: Some("/run/user/7".into()),
            home: Some("/home/ada".into()),
            ..EndpointConfig::default()
        };
        assert_eq!(
            shown(Method::Docker, &config, false),
            [
                "unix:///var/run/docker.sock",
                "unix:///run/user/7/docker.sock",
                "unix:///home/ada/.docker/run/docker.sock"
            ]
        );
        assert_eq!(shown(Method::Podman, &config, false), ["unix:///run/user/7/podman/podman.sock"]);
        assert_eq!(shown(Method::Podman, &config, true), ["unix:///run/podman/podman.sock"]);
    }
}
