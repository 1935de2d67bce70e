//! The guest's volume, and what is remembered of it: a start that asked the engine for it each time, and read the guest
//! to know its name, would pay for that more than for anything else of its own.
//!
//! What is remembered is never believed further than the start: an engine that does not find the guest there is told to
//! take it anew, see [`is_amiss`].

use crate::ContainerConfig;
use crate::client::Client;
use crate::memory::Memory;
use crate::plan::{GUEST_DIRECTORY, GUEST_NAME};
use palisade_core::{BackendError, HostPath, Method};
use palisade_host::stamp;
use std::os::unix::fs::OpenOptionsExt;

/// Changes with the guest program and with the engine that would hold it.
fn identity(client: &Client, config: &ContainerConfig) -> Option<String> {
    Some(format!("{} {}", client.endpoint, stamp::of(config.guest.as_path())?))
}

fn file(method: Method, config: &ContainerConfig) -> HostPath {
    config.state.join(format!("guest-{method}"))
}

fn memory(client: &Client, config: &ContainerConfig) -> Memory {
    Memory::at(file(client.method, config))
}

/// Notes that something is about to be made in the engine, so that it is asked for it later. The file says nothing yet.
pub(crate) fn note_use(client: &Client, config: &ContainerConfig) {
    let file = file(client.method, config);
    if let Err(error) = std::fs::OpenOptions::new().append(true).create(true).mode(0o600).open(&file) {
        tracing::debug!(%error, "that the engine is used is not noted");
    }
}

/// The file, when it is there: this installation has made something in the engine.
pub(crate) fn use_note(method: Method, config: &ContainerConfig) -> Option<HostPath> {
    Some(file(method, config)).filter(|file| file.as_path().exists())
}

/// The volume in which this guest was found when somebody last looked.
pub(crate) fn remembered(client: &Client, config: &ContainerConfig) -> Option<String> {
    memory(client, config).recall(&identity(client, config)?)
}

pub(crate) fn remember(client: &Client, config: &ContainerConfig, volume: &str) {
    if let Some(identity) = identity(client, config) {
        memory(client, config).keep(&identity, volume);
    }
}

/// Whether a start failed because the guest is not in its volume, or not whole: somebody has removed the volume, and
/// the engine made an empty one in its place.
pub(crate) fn is_amiss(error: &BackendError) -> bool {
    matches!(error, BackendError::EngineRefused { reason, .. }
        if reason.contains(&format!("{GUEST_DIRECTORY}/{GUEST_NAME}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_that_is_not_there_is_told_from_other_refusals() {
        let refused = |reason: &str| BackendError::EngineRefused {
            engine: Method::Docker,
            what: "start the container".into(),
            reason: reason.into(),
        };
        let missing = "runc create failed: exec: \"/.palisade/guest\": stat /.palisade/guest: no such file";
        assert!(is_amiss(&refused(missing)));
        assert!(!is_amiss(&refused("no space left on device")));
    }
}
