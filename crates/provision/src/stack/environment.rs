//! The variables that Compose gets of the host's environment.
//!
//! Compose fills `${VAR}` from its own environment first and from env files only then, and so do the env files that
//! services name. It is therefore given what programs need to run and to find the engine, and nothing else.

use palisade_core::VariableName;
use std::ffi::{OsStr, OsString};

/// What programs need to run and to find the engine. Names in full, since what begins like them may well be a secret:
/// `DOCKER_PASSWORD`, `BUILDX_BAKE_GIT_AUTH_TOKEN`; and no proxies, whose addresses may hold one.
const NEEDED: &[&str] = &[
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "PWD",
    "NO_COLOR",
    "SSH_AUTH_SOCK",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "DOCKER_HOST",
    "DOCKER_CONTEXT",
    "DOCKER_CONFIG",
    "DOCKER_TLS_VERIFY",
    "DOCKER_CERT_PATH",
    "DOCKER_API_VERSION",
    "DOCKER_DEFAULT_PLATFORM",
    "DOCKER_BUILDKIT",
    "DOCKER_CONTENT_TRUST",
    "BUILDKIT_HOST",
    "BUILDKIT_PROGRESS",
    "BUILDX_BUILDER",
    "BUILDX_CONFIG",
    "COMPOSE_PROFILES",
    "COMPOSE_PARALLEL_LIMIT",
    "COMPOSE_HTTP_TIMEOUT",
    "COMPOSE_BAKE",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
    "XDG_DATA_HOME",
    "XDG_RUNTIME_DIR",
    "XDG_STATE_HOME",
];
const NEEDED_PREFIXES: &[&str] = &["LC_"];

/// By default Compose takes included files from repositories and registries, before anybody could look at what it reads.
const REMOTE: [&str; 2] = ["COMPOSE_EXPERIMENTAL_GIT_REMOTE", "COMPOSE_EXPERIMENTAL_OCI_REMOTE"];

/// All variables of the Compose that is started.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct ComposeEnvironment(Vec<(OsString, OsString)>);

impl ComposeEnvironment {
    /// `declared` are the variables of the env files, which win over the host's. `granted` are variables of the host's
    /// that the project may have.
    pub fn of(
        host: impl IntoIterator<Item = (OsString, OsString)>,
        declared: &[VariableName],
        granted: &[VariableName],
    ) -> Self {
        let among = |names: &[VariableName], name: &OsStr| names.iter().any(|known| name == known.as_str());
        let kept = host
            .into_iter()
            .filter(|(name, _)| !among(declared, name) && (is_needed(name) || among(granted, name)));
        let mut kept: Vec<_> = kept.collect();
        kept.extend(REMOTE.map(|name| (name.into(), "false".into())));
        Self(kept)
    }

    /// Lets Compose fetch files from other machines, which the user has agreed to.
    pub fn with_remote_files(mut self) -> Self {
        for (_, value) in self.0.iter_mut().filter(|(name, _)| REMOTE.iter().any(|it| name == it)) {
            *value = "true".into();
        }
        self
    }

    pub(super) fn variables(&self) -> impl Iterator<Item = (&OsStr, &OsStr)> {
        self.0.iter().map(|(name, value)| (name.as_os_str(), value.as_os_str()))
    }
}

/// Whether services may have the variable of the host's without being asked for.
pub(crate) fn is_needed(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    NEEDED.contains(&name) || NEEDED_PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Names only: a value may be a secret of the user's.
impl std::fmt::Debug for ComposeEnvironment {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_list().entries(self.0.iter().map(|(name, _)| name)).finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_the_hosts_variables_compose_gets_what_it_needs_and_what_was_granted() {
        let host = [
            "PATH",
            "DOCKER_HOST",
            "COMPOSE_FILE",
            "GITHUB_TOKEN",
            "DOCKER_PASSWORD",
            "AWS_KEY",
            "LC_ALL",
            "USER",
        ];
        let host = host.map(|name| (OsString::from(name), OsString::from("x")));
        let names =
            |names: &[&str]| names.iter().map(|it| VariableName::new(it).unwrap()).collect::<Vec<_>>();
        let environment = ComposeEnvironment::of(host, &names(&["USER"]), &names(&["AWS_KEY"]));
        let remote = |environment: &ComposeEnvironment| {
            environment
                .variables()
                .filter(|it| REMOTE.iter().any(|name| it.0 == *name))
                .map(|it| it.1.to_owned())
                .collect::<Vec<_>>()
        };
        let kept: Vec<&OsStr> = environment.variables().map(|(name, _)| name).collect();
        assert_eq!(kept, [&["PATH", "DOCKER_HOST", "AWS_KEY", "LC_ALL"][..], &REMOTE].concat());
        assert!(!format!("{environment:?}").contains("\"x\""));
        assert_eq!(remote(&environment), ["false", "false"]);
        assert_eq!(remote(&environment.with_remote_files()), ["true", "true"]);
    }
}
