//! What this installation's dead processes have left in an engine, found by its labels alone: a name proves nothing.

use crate::client::{Client, QUICK};
use crate::labels::{self, Kind, Known, Labels};
use crate::trouble::Failure;
use crate::volumes;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use palisade_core::{BackendError, Lasting, Leftover, SandboxId};
use std::collections::HashMap;

const CONTAINER: &str = "container";
const VOLUME: &str = "volume";

/// `guest` is the volume of today's guest, which the next sandbox wants.
pub(crate) async fn find(
    client: &Client,
    owner: &str,
    guest: Option<&str>,
) -> Result<Vec<Leftover>, BackendError> {
    let ours = HashMap::from([("label", vec![format!("{}={owner}", labels::OWNER)])]);
    let containers = ListContainersOptionsBuilder::default().all(true).filters(&ours).build();
    let containers = client
        .look("list containers", |docker| {
            let options = containers.clone();
            async move { docker.list_containers(Some(options)).await }
        })
        .await?;
    let mut found = Vec::new();
    for container in containers {
        let name = container.names.unwrap_or_default().into_iter().next().unwrap_or_default();
        let name = name.trim_start_matches('/').to_owned();
        found.extend(judged(CONTAINER, name, container.labels.as_ref(), owner));
    }
    let volumes = ListVolumesOptionsBuilder::default().filters(&ours).build();
    let volumes = client
        .call("list volumes", QUICK, |docker| {
            let options = volumes.clone();
            async move { docker.list_volumes(Some(options)).await }
        })
        .await?;
    for volume in volumes.volumes.unwrap_or_default() {
        let known = labels::read(&volume.labels, owner);
        if known.is_some_and(|known| known.kind == Kind::Guest) {
            if guest.is_some()
                && guest != Some(volume.name.as_str())
                && !is_used(client, &volume.name).await?
            {
                found.push(leftover(VOLUME, &volume.name, None));
            }
            continue;
        }
        found.extend(judged(VOLUME, volume.name, Some(&volume.labels), owner));
    }
    Ok(found)
}

/// Whether there is a container of anybody's that has the volume.
async fn is_used(client: &Client, volume: &str) -> Result<bool, BackendError> {
    let having = HashMap::from([("volume", vec![volume.to_owned()])]);
    let options = ListContainersOptionsBuilder::default().all(true).filters(&having).build();
    let found = client
        .look("list containers", |docker| {
            let options = options.clone();
            async move { docker.list_containers(Some(options)).await }
        })
        .await?;
    Ok(!found.is_empty())
}

fn leftover(what: &str, name: &str, sandbox: Option<(SandboxId, Lasting)>) -> Leftover {
    Leftover { what: format!("{what} {name}"), sandbox, key: format!("{what}/{name}") }
}

/// Whether it may be a leftover; for what belongs to a sandbox, somebody with the record decides.
fn judged(what: &str, name: String, labels: Option<&Labels>, owner: &str) -> Option<Leftover> {
    let Known { kind, sandbox, process } = labels::read(labels?, owner)?;
    let sandbox = match kind {
        Kind::Sandbox => Some((sandbox?, Lasting::WhileItRuns)),
        Kind::Home | Kind::Workspace => Some((sandbox?, Lasting::WithTheSandbox)),
        Kind::Run | Kind::Helper | Kind::Filler if !labels::process_lives(process.as_deref()?) => None,
        // Volumes of guests are no process's.
        Kind::Run | Kind::Helper | Kind::Filler | Kind::Guest => return None,
    };
    Some(leftover(what, &name, sandbox))
}

pub(crate) async fn discard(client: &Client, leftover: &Leftover) -> Result<(), BackendError> {
    let Some((what, name)) = leftover.key.split_once('/') else { return Ok(()) };
    if what == VOLUME {
        return Ok(volumes::remove(client, name).await?);
    }
    volumes::remove_container(client, name).await?;
    match labels::filled_by(name) {
        // Without its filler, a volume that is not filled would pass for one that is.
        Some(volume) => match volumes::remove(client, volume).await {
            Err(Failure::Conflict(_)) => Ok(()),
            other => Ok(other?),
        },
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn labels(kind: Kind, process: Option<&str>) -> Labels {
        let mut labels = labels::of_owner("me", kind);
        labels.insert(labels::SANDBOX.into(), SandboxId::from_random([1; 15]).to_string());
        labels.extend(process.map(|process| (labels::PROCESS.to_owned(), process.to_owned())));
        labels
    }

    fn judge(labels: &Labels) -> Option<Option<Lasting>> {
        let leftover = judged(CONTAINER, "name".into(), Some(labels), "me")?;
        assert_eq!((leftover.what.as_str(), leftover.key.as_str()), ("container name", "container/name"));
        Some(leftover.sandbox.map(|(_, lasting)| lasting))
    }

    #[test]
    fn what_belongs_to_a_sandbox_is_judged_by_its_record_and_the_rest_by_its_process() {
        assert_eq!(judge(&labels(Kind::Sandbox, None)), Some(Some(Lasting::WhileItRuns)));
        assert_eq!(judge(&labels(Kind::Home, None)), Some(Some(Lasting::WithTheSandbox)));
        assert_eq!(judge(&labels(Kind::Workspace, None)), Some(Some(Lasting::WithTheSandbox)));
        let (_, mine) = labels::of_this_process();
        for kind in [Kind::Run, Kind::Helper, Kind::Filler] {
            assert_eq!(judge(&labels(kind, Some(&mine))), None, "its process lives");
            assert_eq!(judge(&labels(kind, Some("1-1.00000000"))), Some(None));
            assert_eq!(judge(&labels(kind, None)), None, "nobody knows whose it is");
        }
        assert_eq!(judge(&labels(Kind::Guest, None)), None);
    }

    #[test]
    fn a_look_alike_is_not_touched() {
        let mut foreign = labels(Kind::Sandbox, None);
        foreign.insert(labels::OWNER.into(), "you".into());
        assert_eq!(judged(CONTAINER, "palisade-x".into(), Some(&foreign), "me"), None);
        assert_eq!(judged(VOLUME, "palisade-x-home".into(), None, "me"), None);
    }
}
