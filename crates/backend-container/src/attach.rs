//! The way to the guest of a container that runs.
//!
//! Whoever has started it attaches to its first process. So does, on Docker, whoever comes later. Podman's conmon closes
//! the input of a container when the first one who was attached goes away, and nobody can open it again; a later keeper,
//! and one that has lost its connection, therefore comes over a bridge: the guest's program is started once more, by the
//! engine, and hands its own input and output to the first process.

use crate::backend::ContainerBackend;
use crate::client::Client;
use crate::labels;
use crate::plan::{BRIDGE, Dialect};
use crate::stream::Attached;
use bollard::container::AttachContainerResults;
use bollard::errors::Error;
use bollard::exec::{CreateExecOptions, StartExecOptions, StartExecResults};
use bollard::query_parameters::AttachContainerOptionsBuilder;
use palisade_core::{BackendError, SandboxSpec, Stream};

/// No keys detach: the bytes mean nothing to the engine. Unsaid, Podman has some.
const NO_KEYS: &str = "";

impl ContainerBackend {
    pub(crate) async fn reach_guest(&self, spec: &SandboxSpec) -> Result<Stream, BackendError> {
        let client = self.client().await?;
        let name = labels::container(&spec.id);
        // Of what this process has started, until it was attached to once.
        let is_first = self.launched().get(&spec.id).is_some_and(|held| held.guest.is_none());
        let ends = if is_first || client.dialect == Dialect::Docker {
            attach(client, &name).await?
        } else {
            bridge(client, &name).await?
        };
        let (attached, guest) = Attached::new(ends);
        if let Some(held) = self.launched().get_mut(&spec.id) {
            held.guest = Some(guest);
        }
        Ok(Box::new(attached))
    }
}

async fn attach(client: &Client, name: &str) -> Result<AttachContainerResults, BackendError> {
    let options = AttachContainerOptionsBuilder::default()
        .stdin(true)
        .stdout(true)
        .stream(true)
        .detach_keys(NO_KEYS)
        .build();
    let attached = client.call("attach to the container", client.quick(), |docker| {
        let options = options.clone();
        async move { docker.attach_container(name, Some(options)).await }
    });
    Ok(attached.await?)
}

/// As the container's own user, and with no more rights.
async fn bridge(client: &Client, name: &str) -> Result<AttachContainerResults, BackendError> {
    let options = || CreateExecOptions::<String> {
        attach_stdin: Some(true),
        attach_stdout: Some(true),
        attach_stderr: Some(false),
        tty: Some(false),
        detach_keys: Some(NO_KEYS.to_owned()),
        cmd: Some(BRIDGE.map(str::to_owned).to_vec()),
        privileged: Some(false),
        working_dir: Some("/".into()),
        ..CreateExecOptions::default()
    };
    let what = "build a bridge to the guest";
    let made = client
        .call(what, client.quick(), |docker| async move { docker.create_exec(name, options()).await })
        .await?;
    let started = client.call(what, client.quick(), |docker| {
        let id = &made.id;
        async move {
            match docker.start_exec(id, None::<StartExecOptions>).await? {
                StartExecResults::Attached { output, input } => Ok(AttachContainerResults { output, input }),
                StartExecResults::Detached => Err(Error::IOError {
                    err: std::io::Error::other("the engine detached a bridge that was to stay"),
                }),
            }
        }
    });
    Ok(started.await?)
}
