//! What goes wrong with a stack, with what to do about it.

use super::OLDEST_COMPOSE;
use palisade_core::{Diagnostic, ErrorCode, ExitCode};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// What an engine says when somebody took a port after it was found to be free.
const PORT_TAKEN: [&str; 2] = ["address already in use", "port is already allocated"];

#[derive(Debug, thiserror::Error)]
pub enum StackError {
    #[error("there is no program '{}'", .docker.display())]
    DockerMissing { docker: PathBuf },
    #[error("'{} compose' does not work", .docker.display())]
    ComposeMissing { docker: PathBuf },
    #[error("Docker Compose {found} is too old; {} is needed", oldest())]
    ComposeTooOld { found: String },
    #[error("the container engine does not answer: {reason}")]
    EngineUnreachable { reason: String },
    #[error("'{}' could not be started: {reason}", .docker.display())]
    NotStarted { docker: PathBuf, reason: String },
    #[error("the compose file cannot be used: {reason}")]
    Invalid { reason: String },
    #[error("the services did not come up: {reason}")]
    NotUp { reason: String, services: Vec<FailedService> },
    #[error("could not {what}: {reason}")]
    Failed { what: &'static str, reason: String },
    #[error("could not {what} within {} seconds", .patience.as_secs())]
    TimedOut { what: &'static str, patience: Duration },
    #[error("what Docker Compose answered cannot be read: {reason}")]
    Unreadable { reason: String },
}

/// A service that is the reason, or has failed beside it, with the last lines it said.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FailedService {
    pub service: String,
    pub state: String,
    pub lines: Vec<String>,
}

impl StackError {
    pub(super) fn not_started(docker: &Path, error: &std::io::Error) -> Self {
        Self::NotStarted { docker: docker.to_owned(), reason: error.to_string() }
    }

    /// What Compose complained about, told apart as far as the reader can act on it.
    pub(super) fn of_output(what: &'static str, said: &[String]) -> Self {
        const UNREACHABLE: &[&str] = &[
            "cannot connect to the docker daemon",
            "error during connect",
            "permission denied while trying to connect",
            "docker daemon is not running",
        ];
        const NO_COMPOSE: &[&str] = &["'compose' is not a docker command", "unknown command: docker compose"];
        let reason = reason(said);
        let all = said.join("\n").to_lowercase();
        let says = |words: &[&str]| words.iter().any(|word| all.contains(word));
        if says(NO_COMPOSE) {
            Self::ComposeMissing { docker: "docker".into() }
        } else if says(UNREACHABLE) {
            Self::EngineUnreachable { reason }
        } else {
            Self::Failed { what, reason }
        }
    }

    /// Rendering needs no engine, so what fails is the file.
    pub(super) fn of_render(error: Self) -> Self {
        match error {
            Self::Failed { reason, .. } => Self::Invalid { reason },
            other => other,
        }
    }
}

/// The last line that is no warning is Compose's reason.
pub(super) fn reason(said: &[String]) -> String {
    let warning = |line: &&String| !line.contains("level=warning") && !line.trim().is_empty();
    let last = said.iter().rev().find(warning).map(|line| line.trim().to_owned());
    last.unwrap_or_else(|| "Docker Compose gave no reason".into())
}

fn oldest() -> String {
    let (major, minor, patch) = OLDEST_COMPOSE;
    format!("{major}.{minor}.{patch}")
}

impl Diagnostic for StackError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::DockerMissing { .. } => "docker-missing",
            Self::ComposeMissing { .. } => "compose-missing",
            Self::ComposeTooOld { .. } => "compose-too-old",
            Self::EngineUnreachable { .. } => "engine-unreachable",
            Self::NotStarted { .. } => "compose-not-started",
            Self::Invalid { .. } => "compose-file-invalid",
            Self::NotUp { .. } => "stack-not-up",
            Self::Failed { .. } => "compose-failed",
            Self::TimedOut { .. } => "compose-timeout",
            Self::Unreadable { .. } => "compose-answer-unreadable",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::DockerMissing { .. }
            | Self::ComposeMissing { .. }
            | Self::ComposeTooOld { .. }
            | Self::EngineUnreachable { .. } => ExitCode::Preflight,
            Self::Invalid { .. } => ExitCode::Configuration,
            Self::NotStarted { .. } | Self::NotUp { .. } | Self::Failed { .. } | Self::Unreadable { .. } => {
                ExitCode::Provisioning
            }
            Self::TimedOut { .. } => ExitCode::Timeout,
        }
    }

    fn hints(&self) -> Vec<String> {
        let hint = match self {
            Self::DockerMissing { .. } => "install Docker with its Compose plugin",
            Self::ComposeMissing { .. } => {
                "install the Compose plugin of Docker (package docker-compose-plugin or docker-compose-v2)"
            }
            Self::ComposeTooOld { .. } => "update Docker Compose",
            Self::EngineUnreachable { .. } => {
                "start the engine, or let DOCKER_HOST or 'docker context use' name one that answers"
            }
            Self::Invalid { .. } => "see the whole message with: docker compose config",
            Self::TimedOut { .. } => "see whether the engine answers: docker version",
            Self::NotUp { reason, .. } if PORT_TAKEN.iter().any(|words| reason.contains(words)) => {
                "end what listens on the port, or take other ports: palisade done NAME/MILESTONE, then palisade impl NAME/MILESTONE"
            }
            Self::NotStarted { .. } | Self::NotUp { .. } | Self::Failed { .. } | Self::Unreadable { .. } => {
                return Vec::new();
            }
        };
        vec![hint.to_owned()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_complaint_is_told_apart_by_what_can_be_done() {
        let of = |lines: &[&str]| {
            let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
            let error = StackError::of_output("stop the services", &lines);
            (error.code(), error.exit(), error.to_string())
        };
        let warned = "time=\"x\" level=warning msg=\"The \\\"A\\\" variable is not set.\"";
        assert_eq!(
            of(&["no such service: x", warned, ""]),
            (
                "compose-failed",
                ExitCode::Provisioning,
                "could not stop the services: no such service: x".into()
            )
        );
        assert_eq!(of(&["Cannot connect to the Docker daemon at unix:///x."]).0, "engine-unreachable");
        assert_eq!(of(&["docker: 'compose' is not a docker command."]).1, ExitCode::Preflight);
        let not_up = |reason: &str| StackError::NotUp { reason: reason.into(), services: Vec::new() }.hints();
        assert!(not_up("listen tcp4 0.0.0.0:1: bind: address already in use")[0].contains("palisade done"));
        assert_eq!(not_up("no such image"), [""; 0]);
    }
}
