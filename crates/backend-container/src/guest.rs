//! The guest's volume, and what is remembered of it: a start that asked the engine for it each time, and read the guest
//! to know its name, would pay for that more than for anything else of its own.
//!
//! What is remembered is never believed further than the start: an engine that does not find the guest there is told to
//! take it anew, see [`is_amiss`].

use crate::ContainerConfig;
use crate::client::Client;
use crate::plan::{GUEST_DIRECTORY, GUEST_NAME};
use palisade_core::{BackendError, HostPath};
use palisade_host::stamp;

/// Changes with the guest program and with the engine that would hold it.
fn identity(client: &Client, config: &ContainerConfig) -> Option<String> {
    Some(format!("{} {}", client.endpoint, stamp::of(config.guest.as_path())?))
}

fn file(client: &Client, config: &ContainerConfig) -> HostPath {
    config.state.join(format!("guest-{}", client.method))
}

/// The volume in which this guest was found when somebody last looked.
pub(crate) fn remembered(client: &Client, config: &ContainerConfig) -> Option<String> {
    let text = std::fs::read_to_string(file(client, config)).ok()?;
    read(&text, &identity(client, config)?).map(str::to_owned)
}

fn read<'a>(text: &'a str, identity: &str) -> Option<&'a str> {
    let (known, volume) = text.strip_suffix('\n')?.split_once('\n')?;
    (known == identity && !volume.is_empty() && !volume.contains('\n')).then_some(volume)
}

/// Only a saving of time: when it cannot be written, the next one looks again.
pub(crate) fn remember(client: &Client, config: &ContainerConfig, volume: &str) {
    let Some(identity) = identity(client, config) else { return };
    let (file, fresh) = (file(client, config), config.state.join(format!(".guest-{}", std::process::id())));
    let written = std::fs::write(&fresh, format!("{identity}\n{volume}\n"));
    if written.and_then(|()| std::fs::rename(&fresh, file)).is_err() {
        let _ = std::fs::remove_file(fresh);
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
    use palisade_core::Method;

    #[test]
    fn only_what_was_written_for_the_same_guest_and_engine_counts() {
        assert_eq!(read("identity\nvolume\n", "identity"), Some("volume"));
        for text in ["", "identity", "identity\n", "identity\n\n", "identity\nvol", "identity\na\nb\n"] {
            assert_eq!(read(text, "identity"), None, "{text:?}");
        }
        assert_eq!(read("another\nvolume\n", "identity"), None);
    }

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
