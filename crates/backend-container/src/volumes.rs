//! What stands in volumes: the guest, once per version and engine, and each sandbox's home and workspace.
//!
//! Nothing of the host's file system is needed for it, so an engine on another machine serves as well. Contents and
//! ownership come in an archive that is uploaded into a helper, a container that is never started: an engine takes no
//! upload into a container whose root is read-only.
//!
//! A volume cannot say of itself whether it is filled, so its *filler* says it: a container that is made before the
//! volume and removed when all is in it. A volume whose filler still stands is not filled; should the filler's process
//! have died, whoever comes next fills it again.

use crate::archive::{self, Owner};
use crate::client::{Client, LONGEST, QUICK};
use crate::labels::{self, Kind, Labels};
use crate::plan::{self, GUEST_NAME, HELPER_DIRECTORY, User};
use crate::trouble::{Failure, gone};
use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder,
    UploadToContainerOptionsBuilder,
};
use bytes::Bytes;
use palisade_core::{BackendError, HostPath, SandboxSpec};
use sha2::{Digest, Sha256};
use std::time::Duration;

/// How often to look whether somebody else has filled a volume, or removed a container.
const PAUSE: Duration = Duration::from_millis(50);
/// As much of a digest as tells one guest from another.
const DIGEST: usize = 16;

/// The name of the volume with this guest, filled. `image` is any that the engine has: nothing of it is used. `empty` is
/// a volume that was found so, whatever it looks like.
pub(crate) async fn guest(
    client: &Client,
    guest: &HostPath,
    owner: &str,
    image: &str,
    empty: Option<&str>,
) -> Result<String, BackendError> {
    let contents = std::fs::read(guest).map_err(BackendError::io(format!("read {guest}")))?;
    let volume = labels::guest_volume(&digest(&contents));
    let found_empty = empty == Some(volume.as_str());
    if !found_empty && is_filled(client, &volume).await? {
        return Ok(volume);
    }
    let archive = archive::program(GUEST_NAME, &contents).map_err(BackendError::io("pack the guest"))?;
    let archive = Bytes::from(archive);
    if found_empty {
        // It may well be in use, and then it is filled as it is.
        let _ = remove(client, &volume).await;
    }
    let deadline = tokio::time::Instant::now() + LONGEST;
    while !fill(client, &volume, owner, image, &archive).await? {
        if is_filled(client, &volume).await? {
            break;
        }
        if tokio::time::Instant::now() >= deadline {
            return Err(client.engine().silent("fill the volume with the guest", LONGEST.as_secs()));
        }
        tokio::time::sleep(PAUSE).await;
    }
    Ok(volume)
}

/// What the volume with this guest is called, in whichever engine.
pub(crate) fn guest_name(guest: &HostPath) -> Result<String, BackendError> {
    let contents = std::fs::read(guest).map_err(BackendError::io(format!("read {guest}")))?;
    Ok(labels::guest_volume(&digest(&contents)))
}

/// Tells a container that has not started where names are answered. Podman writes no such file into a container without
/// a network, and what the image has there is somebody else's.
pub(crate) async fn tell_name_server(client: &Client, container: &str) -> Result<(), BackendError> {
    let archive = archive::file("etc/resolv.conf", b"nameserver 127.0.0.1\n", 0o644);
    let archive = archive.map_err(BackendError::io("pack /etc/resolv.conf"))?;
    Ok(upload(client, container, "/", &Bytes::from(archive)).await?)
}

fn digest(contents: &[u8]) -> String {
    let digest = Sha256::digest(contents);
    digest
        .iter()
        .flat_map(|byte| [byte >> 4, byte & 15])
        .map(|half| char::from_digit(half.into(), 16).unwrap_or('0'))
        .take(DIGEST)
        .collect()
}

async fn is_filled(client: &Client, volume: &str) -> Result<bool, BackendError> {
    let filler = labels::filler(volume);
    let (volume, filler) = tokio::join!(
        client.call("look for the guest's volume", QUICK, |docker| async move {
            docker.inspect_volume(volume).await.map(drop)
        }),
        mark_of(client, &filler),
    );
    match (volume, filler) {
        (Err(Failure::Missing(_)), _) => Ok(false),
        (Err(error), _) | (_, Err(error)) => Err(error.into()),
        (Ok(()), Ok(filler)) => Ok(filler.is_none()),
    }
}

/// The process that a container belongs to: `None` without the container, empty without a mark.
async fn mark_of(client: &Client, container: &str) -> Result<Option<String>, Failure> {
    match client.inspect(container).await {
        Ok(found) => {
            let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
            Ok(Some(labels.get(labels::PROCESS).cloned().unwrap_or_default()))
        }
        Err(Failure::Missing(_)) => Ok(None),
        Err(error) => Err(error),
    }
}

/// Fills the volume, unless somebody living is at it; says whether it did.
async fn fill(
    client: &Client,
    volume: &str,
    owner: &str,
    image: &str,
    archive: &Bytes,
) -> Result<bool, BackendError> {
    let filler = labels::filler(volume);
    let mut labels = labels::of_owner(owner, Kind::Filler);
    labels.extend([labels::of_this_process()]);
    match create(client, &filler, &plan::helper(image, client.dialect, labels, &[])).await {
        Ok(()) => {}
        Err(Failure::Conflict(_)) => match mark_of(client, &filler).await? {
            Some(mark) if !labels::process_lives(&mark) => {}
            _ => return Ok(false),
        },
        Err(error) => return Err(error.into()),
    }
    let filled = async {
        create_volume(client, volume, &labels::of_owner(owner, Kind::Guest)).await?;
        let helper =
            Helper { name: format!("{volume}-helper"), labels: labels::of_owner(owner, Kind::Helper) };
        helper.upload(client, image, &[(volume, "volume")], "/volume", archive).await
    };
    if let Err(error) = filled.await {
        // A half-filled volume must not pass for a filled one; the filler goes last.
        for failure in [remove(client, volume).await, remove_container(client, &filler).await] {
            if let Err(failure) = failure.map_err(BackendError::from) {
                tracing::warn!(%failure, "a half-filled volume was not removed");
            }
        }
        return Err(error);
    }
    remove_container(client, &filler).await?;
    Ok(true)
}

/// A container that is never started.
struct Helper {
    name: String,
    labels: Labels,
}

impl Helper {
    /// Has it for as long as an upload takes. `place` is where below [`HELPER_DIRECTORY`] the archive is unpacked.
    async fn upload(
        self,
        client: &Client,
        image: &str,
        volumes: &[(&str, &str)],
        place: &str,
        archive: &Bytes,
    ) -> Result<(), BackendError> {
        let Self { name, mut labels } = self;
        labels.extend([labels::of_this_process()]);
        let body = plan::helper(image, client.dialect, labels, volumes);
        match create(client, &name, &body).await {
            // Left by somebody who died at the same work.
            Err(Failure::Conflict(_)) => {
                remove_container(client, &name).await?;
                create(client, &name, &body).await?;
            }
            other => other?,
        }
        let uploaded = upload(client, &name, &format!("{HELPER_DIRECTORY}{place}"), archive).await;
        let removed = remove_container(client, &name).await;
        uploaded?;
        Ok(removed?)
    }
}

/// Makes a sandbox's own volumes, empty and its user's.
pub(crate) async fn create_own(
    client: &Client,
    spec: &SandboxSpec,
    image: &str,
    user: User,
) -> Result<(), BackendError> {
    let (home, workspace) = (labels::home_volume(&spec.id), labels::workspace_volume(&spec.id));
    let (of_home, of_workspace) = (labels::of(spec, Kind::Home), labels::of(spec, Kind::Workspace));
    let (made_home, made_workspace) = tokio::join!(
        create_volume(client, &home, &of_home),
        create_volume(client, &workspace, &of_workspace),
    );
    made_home?;
    made_workspace?;
    let owner = Owner { uid: user.uid, gid: user.gid };
    let archive = archive::directories(&["home", "workspace"], 0o755, owner)
        .map_err(BackendError::io("pack the sandbox's directories"))?;
    let helper = Helper { name: labels::helper(&spec.id), labels: labels::of(spec, Kind::Helper) };
    let volumes = [(home.as_str(), "home"), (workspace.as_str(), "workspace")];
    helper.upload(client, image, &volumes, "", &Bytes::from(archive)).await
}

async fn create_volume(client: &Client, name: &str, labels: &Labels) -> Result<(), Failure> {
    client
        .call("make a volume", LONGEST, |docker| {
            let request = VolumeCreateRequest {
                name: Some(name.to_owned()),
                labels: Some(labels.clone()),
                ..VolumeCreateRequest::default()
            };
            async move { docker.create_volume(request).await.map(drop) }
        })
        .await
}

/// A volume that is not there is removed.
pub(crate) async fn remove(client: &Client, name: &str) -> Result<(), Failure> {
    let removed = client
        .call("remove a volume", LONGEST, |docker| async move {
            docker.remove_volume(name, Some(RemoveVolumeOptionsBuilder::default().build())).await
        })
        .await;
    gone(removed)
}

pub(crate) async fn create(client: &Client, name: &str, body: &ContainerCreateBody) -> Result<(), Failure> {
    create_warned(client, name, body).await.map(drop)
}

/// Podman 4 looks for a user's subordinate ids with a library that its threads cannot share. Asked for many containers
/// at once, it at times finds none, says this, and made nothing; a moment later it finds them.
const FOUND_NO_IDS: &str = "keep-id requires additional UIDs or GIDs";
const TRIES: u32 = 6;

/// Makes a container; what the engine could not do of it.
pub(crate) async fn create_warned(
    client: &Client,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<Vec<String>, Failure> {
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let mut tries = 0;
    loop {
        let made = client
            .call("make the container", LONGEST, |docker| {
                let (options, body) = (options.clone(), body.clone());
                async move { docker.create_container(Some(options), body).await.map(|made| made.warnings) }
            })
            .await;
        match made {
            Err(Failure::Trouble(error)) if tries < TRIES && error.to_string().contains(FOUND_NO_IDS) => {
                tries += 1;
                tokio::time::sleep(PAUSE * tries).await;
            }
            other => return other,
        }
    }
}

/// Also one that runs, and with it the volumes that only it has. One that is not there is removed.
pub(crate) async fn remove_container(client: &Client, name: &str) -> Result<(), Failure> {
    let options = RemoveContainerOptionsBuilder::default().force(true).v(true).build();
    let deadline = tokio::time::Instant::now() + LONGEST;
    loop {
        let removed = client
            .call("remove the container", LONGEST, |docker| {
                let options = options.clone();
                async move { docker.remove_container(name, Some(options)).await }
            })
            .await;
        match gone(removed) {
            // Somebody else is at it, or it is just ending by itself: the next look tells.
            Err(Failure::Conflict(_)) if tokio::time::Instant::now() < deadline => {
                tokio::time::sleep(PAUSE).await;
            }
            other => return other,
        }
    }
}

async fn upload(client: &Client, container: &str, path: &str, archive: &Bytes) -> Result<(), Failure> {
    let options = UploadToContainerOptionsBuilder::default().path(path).build();
    client
        .call("take an archive", LONGEST, |docker| {
            let (options, body) = (options.clone(), bollard::body_full(archive.clone()));
            async move { docker.upload_to_container(container, Some(options), body).await }
        })
        .await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guest_is_named_by_what_is_in_it() {
        assert_eq!(digest(b"one"), "7692c3ad3540bb80");
        assert_ne!(digest(b"one"), digest(b"two"));
    }
}
