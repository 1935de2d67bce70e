//! What can go wrong between us and an engine, told apart because the user does something else about each.

use crate::endpoint::{Endpoint, variable};
use bollard::errors::Error;
use palisade_core::{BackendError, HostTrouble, Method, one_line, printable_lines};
use std::io::ErrorKind;

/// How a call to the engine failed.
#[derive(Debug)]
pub(crate) enum Failure {
    /// There is no such thing.
    Missing(BackendError),
    /// The name is taken, or the thing is in use.
    Conflict(BackendError),
    /// The answer says nothing about the thing: its form is not known, or the engine looked at a process of the container's
    /// while that ended. Worth asking again.
    Unclear(BackendError),
    Trouble(BackendError),
}

impl From<Failure> for BackendError {
    fn from(failure: Failure) -> Self {
        match failure {
            Failure::Missing(error)
            | Failure::Conflict(error)
            | Failure::Unclear(error)
            | Failure::Trouble(error) => error,
        }
    }
}

/// Turns "it is not there" into a success, for whoever wants it gone.
pub(crate) fn gone(outcome: Result<(), Failure>) -> Result<(), Failure> {
    match outcome {
        Err(Failure::Missing(_)) => Ok(()),
        other => other,
    }
}

pub(crate) struct Engine<'a> {
    pub(crate) method: Method,
    pub(crate) endpoint: &'a Endpoint,
}

impl Engine<'_> {
    fn unavailable(&self, reason: String, fix: String) -> BackendError {
        BackendError::Unavailable { method: self.method, reason, fix }
    }

    /// Nobody listens where an engine should.
    pub(crate) fn absent(&self) -> BackendError {
        let start = match self.method {
            Method::Podman => {
                "start Podman's service (systemctl --user start podman.socket; as root without --user)"
            }
            _ => "start Docker (systemctl start docker)",
        };
        let fix = format!("{start}, or say where it listens in {}", variable(self.method));
        self.unavailable(format!("no engine answers at {}", self.endpoint), fix)
    }

    fn forbidden(&self) -> BackendError {
        let fix = match self.method {
            Method::Podman => {
                "use your own service: systemctl --user start podman.socket, and unset CONTAINER_HOST"
            }
            _ => "add yourself to the group docker (sudo usermod -aG docker $USER) and log in again",
        };
        self.unavailable(format!("{} may not be used by you", self.endpoint), fix.into())
    }

    pub(crate) fn silent(&self, what: &str, seconds: u64) -> BackendError {
        BackendError::EngineSilent {
            engine: self.method,
            what: what.into(),
            seconds,
            fix: format!("look at the engine: it hangs or is overloaded; restart {}", self.method),
        }
    }

    /// `what` completes "cannot …" and "refused to …".
    pub(crate) fn failure(&self, what: &str, error: &Error) -> Failure {
        match error {
            Error::DockerResponseServerError { status_code, message } => {
                self.answered(what, *status_code, message)
            }
            Error::SocketNotFoundError(_) => Failure::Trouble(self.absent()),
            Error::RequestTimeoutError => {
                Failure::Trouble(self.silent(what, crate::client::LONGEST.as_secs()))
            }
            Error::JsonDataError { message, .. } => Failure::Unclear(BackendError::EngineRefused {
                engine: self.method,
                what: what.into(),
                reason: format!("its answer is not understood: {}", one_line(message)),
            }),
            other => Failure::Trouble(match io_kind(other) {
                Some(ErrorKind::NotFound | ErrorKind::ConnectionRefused) => self.absent(),
                Some(ErrorKind::PermissionDenied) => self.forbidden(),
                _ => self.unavailable(
                    format!(
                        "the connection to {} broke while trying to {what}: {}",
                        self.endpoint,
                        innermost(other)
                    ),
                    format!("see whether {} is restarting, then try again", self.method),
                ),
            }),
        }
    }

    fn answered(&self, what: &str, status: u16, message: &str) -> Failure {
        if message.contains("no space left on device") || message.contains("disk quota exceeded") {
            let what = format!("{what} (on the disk of {})", self.method);
            return Failure::Trouble(HostTrouble::Full { what }.into());
        }
        let error = BackendError::EngineRefused {
            engine: self.method,
            what: what.into(),
            reason: printable_lines(message),
        };
        let says = |all: &[&str]| all.iter().any(|words| message.contains(words));
        let in_use = says(&["already in use", "volume is being used", "container state improper"]);
        let is_missing = says(&["no such container", "no such volume", "no such image", "no such object"]);
        // Seen as "read /proc/4711/cgroup: no such process": the container is there, and has just ended.
        let has_just_ended = message.contains("/proc/") && says(&["no such process", "no such file"]);
        match status {
            404 => Failure::Missing(error),
            409 => Failure::Conflict(error),
            // Podman gives no code of its own to these.
            500 if in_use => Failure::Conflict(error),
            500 if is_missing => Failure::Missing(error),
            500 if has_just_ended => Failure::Unclear(error),
            _ => Failure::Trouble(error),
        }
    }
}

/// What an error is about in the end; the layers above it only name themselves.
fn innermost(error: &Error) -> String {
    let mut last: &dyn std::error::Error = error;
    while let Some(source) = last.source() {
        last = source;
    }
    one_line(&last.to_string())
}

/// The system's own error somewhere below.
fn io_kind(error: &Error) -> Option<ErrorKind> {
    // Passed through as if it were the error itself, so it is not among the sources.
    if let Error::IOError { err } = error {
        return Some(err.kind());
    }
    let mut next: Option<&(dyn std::error::Error + 'static)> = Some(error);
    while let Some(error) = next {
        if let Some(error) = error.downcast_ref::<std::io::Error>() {
            return Some(error.kind());
        }
        next = error.source();
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::{Diagnostic, ExitCode};

    fn failure(error: Error) -> Failure {
        let endpoint = Endpoint::Socket("/run/s".into());
        Engine { method: Method::Docker, endpoint: &endpoint }.failure("start the container", &error)
    }

    fn answer(status_code: u16, message: &str) -> Error {
        Error::DockerResponseServerError { status_code, message: message.into() }
    }

    fn told(failure: Failure) -> (String, &'static str, ExitCode) {
        let error = BackendError::from(failure);
        (error.to_string(), error.code(), error.exit())
    }

    #[test]
    fn an_engine_that_is_not_there_is_told_with_how_to_start_it() {
        let error = BackendError::from(failure(Error::SocketNotFoundError("/run/s".into())));
        assert_eq!(error.to_string(), "method 'docker' cannot be used: no engine answers at unix:///run/s");
        assert_eq!(
            error.hints(),
            ["start Docker (systemctl start docker), or say where it listens in DOCKER_HOST"]
        );
        assert_eq!(error.exit(), ExitCode::Preflight);
    }

    #[test]
    fn a_socket_of_others_is_told_with_the_group_to_join() {
        let denied = std::io::Error::from(ErrorKind::PermissionDenied);
        let error = BackendError::from(failure(Error::IOError { err: denied }));
        assert!(error.hints()[0].contains("group docker"), "{error}");
    }

    #[test]
    fn answers_are_told_apart_by_what_one_does_about_them() {
        assert!(matches!(failure(answer(404, "No such container: x")), Failure::Missing(_)));
        assert!(matches!(failure(answer(409, "the name is already in use")), Failure::Conflict(_)));
        assert!(matches!(failure(answer(500, "volume is being used by 1")), Failure::Conflict(_)));
        assert!(matches!(failure(answer(500, "no such container")), Failure::Missing(_)));
        // Podman has looked at a process of the container's while it ended. The container is not missing.
        let ended = "read /proc/16099/cgroup: no such process";
        assert!(matches!(failure(answer(500, ended)), Failure::Unclear(_)));
        let file = "open /var/lib/x/config.json: no such file or directory";
        assert!(matches!(failure(answer(500, file)), Failure::Trouble(_)));
        assert_eq!(
            told(failure(answer(500, "write /x: no space left on device"))),
            (
                "cannot start the container (on the disk of docker): no space is left on the device".into(),
                "disk-full",
                ExitCode::Failed
            )
        );
        assert_eq!(
            told(failure(answer(500, "boom\x1b[2J"))),
            (
                "docker refused to start the container: boom\\u{1b}[2J".into(),
                "engine-refused",
                ExitCode::Failed
            )
        );
        assert_eq!(told(failure(Error::RequestTimeoutError)).1, "engine-silent");
    }
}
