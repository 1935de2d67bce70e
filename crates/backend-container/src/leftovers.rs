//! What this installation's dead processes have left in an engine, found by its labels alone: a name proves nothing.

use crate::ContainerConfig;
use crate::client::Client;
use crate::labels::{self, Kind, Known, Labels};
use crate::trouble::Failure;
use crate::{filling, tools, volumes};
use bollard::models::ContainerSummaryStateEnum;
use bollard::query_parameters::{ListContainersOptionsBuilder, ListVolumesOptionsBuilder};
use palisade_core::{BackendError, Lasting, Leftover, LeftoverLabels};
use std::collections::{HashMap, HashSet};

const CONTAINER: &str = "container";
const VOLUME: &str = "volume";

/// The shared volumes that the next sandbox wants.
#[derive(Debug, Default)]
pub(crate) struct Wanted {
    /// With today's guest; when nobody knows that, all are.
    pub(crate) guest: Option<String>,
    pub(crate) tools: HashSet<String>,
}

impl Wanted {
    fn has(&self, kind: Kind, volume: &str) -> bool {
        match kind {
            Kind::Tools => self.tools.contains(volume),
            _ => self.guest.as_deref().is_none_or(|guest| guest == volume),
        }
    }
}

pub(crate) async fn find(
    client: &Client,
    owner: &str,
    wanted: &Wanted,
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
        let is_running = !container.state.is_some_and(has_ended);
        found.extend(judged(CONTAINER, name, container.labels.as_ref(), owner, is_running));
    }
    let volumes = ListVolumesOptionsBuilder::default().filters(&ours).build();
    let volumes = client
        .call("list volumes", client.quick(), |docker| {
            let options = volumes.clone();
            async move { docker.list_volumes(Some(options)).await }
        })
        .await?;
    for volume in volumes.volumes.unwrap_or_default() {
        let kind = labels::read(&volume.labels, owner).map(|known| known.kind);
        if let Some(kind @ (Kind::Guest | Kind::Tools)) = kind {
            if !wanted.has(kind, &volume.name) && !is_used(client, &volume.name).await? {
                found.push(leftover(VOLUME, &volume.name));
            }
            continue;
        }
        found.extend(judged(VOLUME, volume.name, Some(&volume.labels), owner, false));
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

/// Whether nothing runs in a container in this state. What an engine does not tell may run.
fn has_ended(state: ContainerSummaryStateEnum) -> bool {
    matches!(
        state,
        ContainerSummaryStateEnum::CREATED
            | ContainerSummaryStateEnum::EXITED
            | ContainerSummaryStateEnum::REMOVING
            | ContainerSummaryStateEnum::DEAD
    )
}

fn leftover(what: &str, name: &str) -> Leftover {
    Leftover::of_process(format!("{what} {name}"), format!("{what}/{name}"))
}

/// Whether it may be a leftover; what belongs to a sandbox is for the engine to decide, which has the record.
fn judged(
    what: &str,
    name: String,
    labels: Option<&Labels>,
    owner: &str,
    is_running: bool,
) -> Option<Leftover> {
    let Known { kind, sandbox, name: called, description, process } = labels::read(labels?, owner)?;
    let sandbox = match kind {
        Kind::Sandbox => Some((sandbox?, Lasting::WhileItRuns)),
        Kind::Home | Kind::Workspace => Some((sandbox?, Lasting::WithTheSandbox)),
        Kind::Run | Kind::Helper | Kind::Filler if !labels::process_lives(process.as_deref()?) => {
            return Some(leftover(what, &name));
        }
        // Volumes that are shared are no process's.
        Kind::Run | Kind::Helper | Kind::Filler | Kind::Guest | Kind::Tools => return None,
    };
    let says = Some(LeftoverLabels { name: called, description });
    Some(Leftover { sandbox, is_running, says, ..leftover(what, &name) })
}

pub(crate) async fn discard(
    client: &Client,
    config: &ContainerConfig,
    leftover: &Leftover,
) -> Result<(), BackendError> {
    let Some((what, name)) = leftover.key.split_once('/') else { return Ok(()) };
    if what == VOLUME {
        return Ok(volumes::remove(client, name).await?);
    }
    match labels::filled_by(name) {
        Some(volume) => discard_filler(client, config, name, volume).await,
        None => Ok(volumes::remove_container(client, name).await?),
    }
}

/// Without its filler, a volume that is not filled would pass for one that is: the filler goes last, and stays with a
/// volume that somebody has. Whoever fills it meanwhile goes on undisturbed.
async fn discard_filler(
    client: &Client,
    config: &ContainerConfig,
    filler: &str,
    volume: &str,
) -> Result<(), BackendError> {
    let Some(_lock) = tools::try_lock(config) else { return Ok(()) };
    for container in [filler.to_owned(), labels::filling_helper(volume)] {
        if filling::mark_of(client, &container).await?.is_some_and(|mark| labels::process_lives(&mark)) {
            return Ok(());
        }
    }
    volumes::remove_container(client, &labels::filling_helper(volume)).await?;
    match volumes::remove(client, volume).await {
        Err(Failure::Conflict(_)) => Ok(()),
        Err(error) => Err(error.into()),
        Ok(()) => Ok(volumes::remove_container(client, filler).await?),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::SandboxId;

    fn labels(kind: Kind, process: Option<&str>) -> Labels {
        let mut labels = labels::of_owner("me", kind);
        labels.insert(labels::SANDBOX.into(), SandboxId::from_random([1; 15]).to_string());
        labels.extend(process.map(|process| (labels::PROCESS.to_owned(), process.to_owned())));
        labels
    }

    fn judge(labels: &Labels) -> Option<Option<Lasting>> {
        let leftover = judged(CONTAINER, "name".into(), Some(labels), "me", false)?;
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
        assert_eq!(judge(&labels(Kind::Tools, None)), None);
    }

    #[test]
    fn of_shared_volumes_todays_are_wanted() {
        let none = Wanted::default();
        assert!(none.has(Kind::Guest, "any") && !none.has(Kind::Tools, "any"));
        let wanted = Wanted { guest: Some("guest".into()), tools: HashSet::from(["tool".into()]) };
        assert!(wanted.has(Kind::Guest, "guest") && !wanted.has(Kind::Guest, "tool"));
        assert!(wanted.has(Kind::Tools, "tool") && !wanted.has(Kind::Tools, "guest"));
    }

    #[test]
    fn a_look_alike_is_not_touched() {
        let mut foreign = labels(Kind::Sandbox, None);
        foreign.insert(labels::OWNER.into(), "you".into());
        assert_eq!(judged(CONTAINER, "palisade-x".into(), Some(&foreign), "me", true), None);
        assert_eq!(judged(VOLUME, "palisade-x-home".into(), None, "me", false), None);
    }
}
