//! Volumes that many sandboxes share, filled once per content: the guest, and tools of this host's.
//!
//! A volume cannot say of itself whether it is filled, so its *filler* says it: a container that is made before the
//! volume and removed when all is in it. A volume whose filler still stands is not filled; should the filler's process
//! have died, whoever comes next fills it again. One without our label was made by the engine itself, empty, for a
//! container that asked for it, and is not filled either.

use crate::archive;
use crate::client::{Client, LONGEST};
use crate::labels::{self, Kind};
use crate::plan::{self, GUEST_NAME};
use crate::trouble::Failure;
use crate::upload::Archive;
use crate::volumes::{self, Helper, PAUSE};
use palisade_core::{BackendError, HostPath};
use palisade_host::digest::Digest;
use tokio::time::Instant;

/// As much of a digest as tells one content from another.
const DIGEST: usize = 16;

/// A volume, and what is to be in it.
#[derive(Debug)]
pub(crate) struct Filling<'a> {
    pub(crate) volume: &'a str,
    pub(crate) kind: Kind,
    pub(crate) owner: &'a str,
    /// Any that the engine has: nothing of it is used.
    pub(crate) image: &'a str,
    pub(crate) archive: Archive,
}

/// Whether a volume that looks filled is believed to be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Trust {
    AsItLooks,
    /// It was found to be empty, or half filled.
    None,
}

pub(crate) fn short(digest: Digest) -> String {
    digest.prefix(DIGEST)
}

/// The name of the volume with this guest, filled. `empty` is a volume that was found so, whatever it looks like.
pub(crate) async fn guest(
    client: &Client,
    guest: &HostPath,
    owner: &str,
    image: &str,
    empty: Option<&str>,
) -> Result<String, BackendError> {
    let (contents, volume) = read_guest(guest)?;
    let trust = if empty == Some(volume.as_str()) { Trust::None } else { Trust::AsItLooks };
    if trust == Trust::AsItLooks && is_filled(client, &volume, Kind::Guest).await? {
        return Ok(volume);
    }
    let archive = archive::program(GUEST_NAME, &contents).map_err(BackendError::io("pack the guest"))?;
    let archive = Archive::Whole(archive.into());
    fill(client, &Filling { volume: &volume, kind: Kind::Guest, owner, image, archive }, trust).await?;
    Ok(volume)
}

/// What the volume with this guest is called, in whichever engine.
pub(crate) fn guest_name(guest: &HostPath) -> Result<String, BackendError> {
    Ok(read_guest(guest)?.1)
}

/// The guest, and what its volume is called.
fn read_guest(guest: &HostPath) -> Result<(Vec<u8>, String), BackendError> {
    let contents = std::fs::read(guest).map_err(BackendError::io(format!("read {guest}")))?;
    let volume = labels::guest_volume(&short(Digest::of_bytes(&contents)));
    Ok((contents, volume))
}

/// The volume is asked for first: whoever fills it made the filler before. Asked for at once, the filler could be told as
/// not there yet and the volume as there already.
pub(crate) async fn is_filled(client: &Client, volume: &str, kind: Kind) -> Result<bool, BackendError> {
    Ok(is_made(client, volume, kind).await? && mark_of(client, &labels::filler(volume)).await?.is_none())
}

/// Whether somebody has made the volume to fill it.
async fn is_made(client: &Client, volume: &str, kind: Kind) -> Result<bool, BackendError> {
    let found = client.call("look for a volume", client.quick(), |docker| async move {
        docker.inspect_volume(volume).await.map(|volume| volume.labels)
    });
    match found.await {
        Err(Failure::Missing(_)) => Ok(false),
        Ok(found) => Ok(labels::are_of(&found, kind)),
        Err(error) => Err(error.into()),
    }
}

/// The process that a container belongs to: `None` without the container, empty without a mark.
pub(crate) async fn mark_of(client: &Client, container: &str) -> Result<Option<String>, Failure> {
    match client.inspect(container).await {
        Ok(found) => {
            let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
            Ok(Some(labels.get(labels::PROCESS).cloned().unwrap_or_default()))
        }
        Err(Failure::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Returns when the volume is filled, by whomever.
pub(crate) async fn fill(client: &Client, filling: &Filling<'_>, trust: Trust) -> Result<(), BackendError> {
    if trust == Trust::None {
        // It may well be in use, and then it is filled as it is.
        let _ = volumes::remove(client, filling.volume).await;
    }
    let patience = client.busy_with_images(LONGEST);
    let deadline = Instant::now() + patience;
    while !try_to_fill(client, filling, trust).await? {
        if is_filled(client, filling.volume, filling.kind).await? {
            break;
        }
        if Instant::now() >= deadline {
            return Err(client.engine().silent("fill a volume", patience.as_secs()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(())
}

/// Fills the volume, unless somebody living is at it; says whether it is filled now.
async fn try_to_fill(client: &Client, filling: &Filling<'_>, trust: Trust) -> Result<bool, BackendError> {
    let Filling { volume, kind, owner, image, archive } = filling;
    let filler = labels::filler(volume);
    let mut labels = labels::of_owner(owner, Kind::Filler);
    labels.extend([labels::of_this_process()]);
    match volumes::create(client, &filler, &plan::helper(image, client.dialect, labels, &[])).await {
        // Nobody was at it, so somebody has finished meanwhile. Who may use it already, and must not find it changing.
        Ok(()) if trust == Trust::AsItLooks && is_made(client, volume, *kind).await? => {
            volumes::remove_container(client, &filler).await?;
            return Ok(true);
        }
        Ok(()) => {}
        Err(Failure::Conflict(_)) => match mark_of(client, &filler).await? {
            Some(mark) if !labels::process_lives(&mark) => {}
            _ => return Ok(false),
        },
        Err(error) => return Err(error.into()),
    }
    let filled = async {
        create_labelled(client, volume, owner, *kind).await?;
        let name = labels::filling_helper(volume);
        let helper = Helper { name, labels: labels::of_owner(owner, Kind::Helper) };
        helper.upload(client, image, &[(volume, "volume")], "/volume", archive).await
    };
    if let Err(error) = filled.await {
        // A half-filled volume must not pass for a filled one; the filler goes last.
        for failure in
            [volumes::remove(client, volume).await, volumes::remove_container(client, &filler).await]
        {
            if let Err(failure) = failure.map_err(BackendError::from) {
                tracing::warn!(%failure, "a half-filled volume was not removed");
            }
        }
        return Err(error);
    }
    volumes::remove_container(client, &filler).await?;
    Ok(true)
}

/// Makes the volume with our labels. One that the engine made by itself has none and gives way, as soon as the
/// container that it was made for has.
async fn create_labelled(client: &Client, volume: &str, owner: &str, kind: Kind) -> Result<(), BackendError> {
    let wanted = labels::of_owner(owner, kind);
    let deadline = Instant::now() + client.quick();
    loop {
        let found = volumes::create_volume(client, volume, &wanted, None).await?;
        if labels::are_of(&found, kind) {
            return Ok(());
        }
        match volumes::remove(client, volume).await {
            Err(Failure::Conflict(_)) if Instant::now() < deadline => tokio::time::sleep(PAUSE).await,
            other => other?,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_named_by_what_is_in_it() {
        assert_eq!(short(Digest::of_bytes(b"one")), "7692c3ad3540bb80");
        assert_ne!(short(Digest::of_bytes(b"one")), short(Digest::of_bytes(b"two")));
    }
}
