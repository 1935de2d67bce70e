//! The isolation method, and where the choice of it came from. There is no automatic mode and no fallback:
//! one method is selected, it is shown with its origin, and when it cannot be used the command ends.

use serde::{Deserialize, Serialize};
use std::fmt;
use std::str::FromStr;

/// What stands between the code inside and the host.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Method {
    Bwrap,
    Docker,
    Podman,
    Microvm,
    Kubernetes,
    Noop,
}

#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("unknown method '{given}'; possible are {}", Method::names())]
pub struct UnknownMethod {
    given: String,
}

impl Method {
    pub const ALL: [Method; 6] =
        [Method::Bwrap, Method::Docker, Method::Podman, Method::Microvm, Method::Kubernetes, Method::Noop];

    pub const DEFAULT: Method = Method::Bwrap;

    pub fn as_str(self) -> &'static str {
        match self {
            Method::Bwrap => "bwrap",
            Method::Docker => "docker",
            Method::Podman => "podman",
            Method::Microvm => "microvm",
            Method::Kubernetes => "kubernetes",
            Method::Noop => "noop",
        }
    }

    fn names() -> String {
        Self::ALL.map(Self::as_str).join(", ")
    }

    /// Whether this program can use it; the others are known by name, and naming one is a clear error.
    pub fn is_in_this_build(self) -> bool {
        !matches!(self, Method::Microvm | Method::Kubernetes)
    }

    /// Whether its sandboxes start from an image.
    pub fn starts_from_image(self) -> bool {
        match self {
            Method::Docker | Method::Podman | Method::Microvm | Method::Kubernetes => true,
            Method::Bwrap | Method::Noop => false,
        }
    }

    /// Whether an engine keeps a sandbox's home and workspace, rather than its own directory on this host. What says whose
    /// they are is then a label, which cannot be changed.
    pub fn keeps_files_in_engine(self) -> bool {
        match self {
            Method::Docker | Method::Podman | Method::Kubernetes => true,
            Method::Bwrap | Method::Noop | Method::Microvm => false,
        }
    }

    /// How much stands between the code inside and the host; only the order counts. A project's own file may
    /// ask for a stronger method than the user's, not for a weaker one.
    pub fn strength(self) -> u8 {
        match self {
            Method::Noop => 0,
            Method::Bwrap | Method::Docker | Method::Podman => 1,
            Method::Kubernetes => 2,
            Method::Microvm => 3,
        }
    }
}

impl fmt::Display for Method {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl FromStr for Method {
    type Err = UnknownMethod;
    fn from_str(text: &str) -> Result<Self, UnknownMethod> {
        Self::ALL
            .into_iter()
            .find(|method| method.as_str() == text)
            .ok_or_else(|| UnknownMethod { given: text.escape_debug().to_string() })
    }
}

/// Where a setting's value came from, weakest first.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "kind", rename_all = "lowercase")]
pub enum Origin {
    Default,
    System {
        file: String,
        line: usize,
    },
    User {
        file: String,
        line: usize,
    },
    Project {
        file: String,
        line: usize,
    },
    /// An environment's file.
    Manifest {
        file: String,
        line: usize,
    },
    Environment {
        variable: String,
    },
    Flag {
        flag: String,
    },
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Origin::Default => f.write_str("default"),
            Origin::System { file, line } => write!(f, "system {file}:{line}"),
            Origin::User { file, line } => write!(f, "user {file}:{line}"),
            Origin::Project { file, line } => write!(f, "project {file}:{line}"),
            Origin::Manifest { file, line } => write!(f, "environment file {file}:{line}"),
            Origin::Environment { variable } => write!(f, "environment {variable}"),
            Origin::Flag { flag } => write!(f, "flag {flag}"),
        }
    }
}

/// The winner and where it came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Selection {
    pub method: Method,
    pub origin: Origin,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_method_parses_and_prints_the_same() {
        for method in Method::ALL {
            assert_eq!(method.as_str().parse::<Method>(), Ok(method));
            assert_eq!(serde_json::to_string(&method).unwrap(), format!("\"{method}\""));
        }
    }

    #[test]
    fn an_unknown_method_names_the_possible_ones_and_auto_is_not_among_them() {
        let error = "auto".parse::<Method>().unwrap_err().to_string();
        assert_eq!(
            error,
            "unknown method 'auto'; possible are bwrap, docker, podman, microvm, kubernetes, noop"
        );
    }
}
