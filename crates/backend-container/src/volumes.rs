//! Volumes and containers as an engine makes, fills and removes them, and each sandbox's own home and workspace.
//!
//! Nothing of the host's file system is needed for it, so an engine on another machine serves as well. Contents and
//! ownership come in an archive that is uploaded into a helper, a container that is never started: an engine takes no
//! upload into a container whose root is read-only. What many sandboxes share is in [`crate::filling`].

use crate::archive::{self, Owner};
use crate::client::{Client, LONGEST};
use crate::labels::{self, Kind, Labels};
use crate::plan::{self, HELPER_DIRECTORY, User};
use crate::trouble::{Failure, gone};
use crate::turns::Turn;
use crate::upload::{Archive, upload};
use bollard::models::{ContainerCreateBody, VolumeCreateRequest};
use bollard::query_parameters::{
    CreateContainerOptionsBuilder, RemoveContainerOptionsBuilder, RemoveVolumeOptionsBuilder,
};
use palisade_core::{BackendError, SandboxSpec};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often to look whether somebody else has filled a volume, or removed a container.
pub(crate) const PAUSE: Duration = Duration::from_millis(50);

/// Tells a container that has not started where names are answered. Podman writes no such file into a container without
/// a network, and what the image has there is somebody else's.
pub(crate) async fn tell_name_server(client: &Client, container: &str) -> Result<(), BackendError> {
    let archive = archive::file("etc/resolv.conf", b"nameserver 127.0.0.1\n", 0o644);
    let archive = archive.map_err(BackendError::io("pack /etc/resolv.conf"))?;
    upload(client, container, "/", &Archive::Whole(archive.into())).await
}

/// A container that is never started.
pub(crate) struct Helper {
    pub(crate) name: String,
    pub(crate) labels: Labels,
}

impl Helper {
    /// Has it for as long as an upload takes. `place` is where below [`HELPER_DIRECTORY`] the archive is unpacked.
    pub(crate) async fn upload(
        self,
        client: &Client,
        image: &str,
        volumes: &[(&str, &str)],
        place: &str,
        archive: &Archive,
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
    let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as i64);
    let of_files = |kind| labels::of_files(spec, kind, user, now);
    let (of_home, of_workspace) = (of_files(Kind::Home), of_files(Kind::Workspace));
    let (made_home, made_workspace) = tokio::join!(
        create_volume(client, &home, &of_home, Some(user)),
        create_volume(client, &workspace, &of_workspace, Some(user)),
    );
    made_home?;
    made_workspace?;
    let owner = Owner { uid: user.uid, gid: user.gid };
    let archive = archive::directories(&["home", "workspace"], 0o755, owner)
        .map_err(BackendError::io("pack the sandbox's directories"))?;
    let helper = Helper { name: labels::helper(&spec.id), labels: labels::of(spec, Kind::Helper) };
    let volumes = [(home.as_str(), "home"), (workspace.as_str(), "workspace")];
    helper.upload(client, image, &volumes, "", &Archive::Whole(archive.into())).await
}

/// The labels of the volume that is there now: of one that was there before, they are its own.
pub(crate) async fn create_volume(
    client: &Client,
    name: &str,
    labels: &Labels,
    user: Option<User>,
) -> Result<Labels, Failure> {
    client
        .call("make a volume", LONGEST, |docker| {
            let request = VolumeCreateRequest {
                name: Some(name.to_owned()),
                labels: Some(labels.clone()),
                driver_opts: user.and_then(|user| plan::volume_options(client.dialect, user)),
                ..VolumeCreateRequest::default()
            };
            async move { docker.create_volume(request).await.map(|volume| volume.labels) }
        })
        .await
}

/// What an engine knows of a sandbox's own volumes.
#[derive(Debug, Default)]
pub(crate) struct OwnVolumes {
    /// Those that it does not have, for people.
    pub(crate) missing: Vec<String>,
    /// Whom the others belong to, where they say it.
    pub(crate) user: Option<User>,
}

/// Looks at a sandbox's own volumes. Asked before a container is made: an engine makes a missing volume by itself, empty,
/// and that would pass for the sandbox's files.
pub(crate) async fn look_at_own(client: &Client, names: &[String]) -> Result<OwnVolumes, BackendError> {
    let ask = |name: Option<String>| async move {
        match name {
            Some(name) => Ok(Some((labels_of(client, &name).await?, name))),
            None => Ok(None),
        }
    };
    // A home and a workspace: both at once.
    let (one, other) = tokio::join!(ask(names.first().cloned()), ask(names.get(1).cloned()));
    let found: [Result<_, BackendError>; 2] = [one, other];
    let mut volumes = OwnVolumes::default();
    for volume in found {
        match volume? {
            Some((Some(labels), _)) => volumes.user = volumes.user.or(labels::user_of(&labels)),
            Some((None, name)) => {
                volumes.missing.push(format!("volume {name} in {} at {}", client.method, client.endpoint));
            }
            None => {}
        }
    }
    Ok(volumes)
}

/// The labels of a volume; `None` when no volume has this name.
async fn labels_of(client: &Client, name: &str) -> Result<Option<Labels>, Failure> {
    let found = client.call("look for a volume", client.quick(), |docker| async move {
        docker.inspect_volume(name).await.map(|volume| volume.labels)
    });
    match found.await {
        Err(Failure::Missing(_)) => Ok(None),
        found => found.map(Some),
    }
}

/// Removes a volume of this sandbox's, and no other's that has its name. One that is not there is removed.
pub(crate) async fn remove_own(client: &Client, name: &str, spec: &SandboxSpec) -> Result<(), Failure> {
    match labels_of(client, name).await? {
        Some(labels) if labels::may_be_of(&labels, spec) => remove(client, name).await,
        Some(_) => {
            tracing::warn!(name, "a volume of this name is another installation's, and is left alone");
            Ok(())
        }
        None => Ok(()),
    }
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

/// What an ordinary user's Podman says when others asked at the same moment, who take no [`Turn`]; it made nothing, and
/// a moment later it finds them.
const FOUND_NO_IDS: &str = "keep-id requires additional UIDs or GIDs";
const TRIES: u32 = 6;

const MAKE: &str = "make the container";

/// Makes a container; what the engine could not do of it.
pub(crate) async fn create_warned(
    client: &Client,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<Vec<String>, Failure> {
    client.persist(MAKE, create_in_turn(client, name, body)).await
}

async fn create_in_turn(
    client: &Client,
    name: &str,
    body: &ContainerCreateBody,
) -> Result<Vec<String>, Failure> {
    let options = CreateContainerOptionsBuilder::default().name(name).build();
    let patience = client.busy_with_images(LONGEST);
    let mut tries = 0;
    loop {
        let turn = Turn::take(&client.endpoint, client.dialect, patience).await;
        let turn = turn.ok_or_else(|| Failure::Trouble(client.engine().silent(MAKE, patience.as_secs())))?;
        let made = client
            .call(MAKE, patience, |docker| {
                let (docker, options, body) = (docker.with_timeout(patience), options.clone(), body.clone());
                async move { docker.create_container(Some(options), body).await.map(|made| made.warnings) }
            })
            .await;
        drop(turn);
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
