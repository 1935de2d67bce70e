//! Why an image could not be made, and what to do about it.

use palisade_core::{BackendError, Diagnostic, ErrorCode, ExitCode, HostTrouble};

#[derive(Debug, thiserror::Error)]
pub enum ImageError {
    #[error(transparent)]
    Engine(BackendError),
    #[error(transparent)]
    Host(HostTrouble),
    #[error("cannot {what}: {error}")]
    Io { what: String, error: std::io::Error },
    #[error("{image} can neither be pulled nor made here: {pull}; mmdebstrap is not installed")]
    NoRoot { image: String, pull: String },
    #[error("mmdebstrap could not make a Debian ({how}): {said}")]
    Root { how: String, said: String },
    #[error("cannot build {image}: {said}")]
    Step { image: String, said: String },
    #[error("cannot build {image}: its packages could not be fetched: {said}")]
    Network { image: String, said: String },
}

/// What a step says when it could not reach a server, in the words of apt, npm and the resolver.
const UNREACHABLE: [&str; 10] = [
    "Temporary failure resolving",
    "Could not resolve",
    "Could not connect",
    "Unable to connect",
    "Failed to fetch",
    "Network is unreachable",
    "Connection timed out",
    "ENOTFOUND",
    "EAI_AGAIN",
    "ETIMEDOUT",
];
const FULL: [&str; 2] = ["No space left on device", "no space left on device"];

impl ImageError {
    /// What a failed step was, from everything that the build has said.
    pub(crate) fn of_step(image: &str, error: &str, lines: &[String]) -> Self {
        let told = |signs: &[&str]| {
            let is_sign = |line: &&str| signs.iter().any(|sign| line.contains(sign));
            lines.iter().map(String::as_str).rev().chain([error]).find(is_sign).map(str::to_owned)
        };
        if told(&FULL).is_some() {
            return Self::Host(HostTrouble::Full { what: format!("build {image}") });
        }
        match told(&UNREACHABLE) {
            Some(said) => Self::Network { image: image.into(), said },
            None => Self::Step { image: image.into(), said: error.into() },
        }
    }

    pub(crate) fn io(what: impl Into<String>, error: std::io::Error) -> Self {
        let what = what.into();
        match HostTrouble::of(&what, &error) {
            Some(trouble) => Self::Host(trouble),
            None => Self::Io { what, error },
        }
    }
}

impl From<BackendError> for ImageError {
    fn from(error: BackendError) -> Self {
        Self::Engine(error)
    }
}

impl Diagnostic for ImageError {
    fn code(&self) -> ErrorCode {
        match self {
            Self::Engine(error) => error.code(),
            Self::Host(trouble) => trouble.code(),
            Self::Io { .. } => "io",
            Self::NoRoot { .. } => "no-base-image",
            Self::Root { .. } => "base-image-failed",
            Self::Step { .. } => "image-build-failed",
            Self::Network { .. } => "image-build-network",
        }
    }

    fn exit(&self) -> ExitCode {
        match self {
            Self::Engine(error) => error.exit(),
            Self::Host(trouble) => trouble.exit(),
            Self::Io { .. } => ExitCode::Failed,
            Self::NoRoot { .. } | Self::Root { .. } => ExitCode::Provisioning,
            Self::Step { .. } | Self::Network { .. } => ExitCode::Provisioning,
        }
    }

    fn hints(&self) -> Vec<String> {
        let network = "look at the network; behind a proxy, set http_proxy and https_proxy";
        let hint = match self {
            Self::Engine(error) => return error.hints(),
            Self::Host(trouble) => return trouble.hints(),
            Self::Io { .. } => return Vec::new(),
            Self::NoRoot { .. } => {
                "install mmdebstrap (apt-get install mmdebstrap), or name a Debian that the engine has: --base IMAGE"
            }
            Self::Root { .. } => {
                "look at the network; an ordinary user needs the package uidmap and a line in /etc/subuid, too"
            }
            Self::Step { .. } => "the lines above tell more; --fresh builds without anything remembered",
            Self::Network { .. } => network,
        };
        vec![hint.into()]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(error: &str, lines: &[&str]) -> (String, &'static str) {
        let lines: Vec<String> = lines.iter().map(|line| (*line).to_owned()).collect();
        let error = ImageError::of_step("palisade-bash:latest", error, &lines);
        (error.to_string(), error.code())
    }

    #[test]
    fn a_failed_step_is_told_by_its_cause() {
        let failed = "The command '/bin/sh -c apt-get update' returned a non-zero code: 100";
        let unreachable = "W: Temporary failure resolving 'packages.example'";
        assert_eq!(
            told(failed, &["Step 2/3", unreachable, "E: done"]),
            (
                format!(
                    "cannot build palisade-bash:latest: its packages could not be fetched: {unreachable}"
                ),
                "image-build-network"
            )
        );
        assert_eq!(
            told(failed, &["tar: write error: No space left on device"]),
            ("cannot build palisade-bash:latest: no space is left on the device".into(), "disk-full")
        );
        assert_eq!(
            told(failed, &["E: Unable to locate package x"]),
            (format!("cannot build palisade-bash:latest: {failed}"), "image-build-failed")
        );
    }
}
