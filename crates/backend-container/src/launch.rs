//! From a specification to a running container, in as few questions to the engine as there can be: make it and start
//! it. Whatever could be asked before is found out from the engine's refusal instead, and mended then.

use crate::accounts::Accounts;
use crate::backend::ContainerBackend;
use crate::client::{Client, LONGEST};
use crate::environment::{self, Variables};
use crate::host_paths::{self, Held, Places};
use crate::limits::InForce;
use crate::plan::{self, Dialect, Loopback, Place, PlanInput, Role, User};
use crate::tools::{self, Carried};
use crate::trouble::Failure;
use crate::volumes::OwnVolumes;
use crate::{filling, guest, host_users, images, labels, volumes};
use bollard::models::ContainerCreateBody;
use bollard::query_parameters::StartContainerOptions;
use palisade_core::{BackendError, Network, SandboxSpec};
use std::path::Path;

/// What every try of one launch has in common.
struct Launch<'a> {
    client: &'a Client,
    spec: &'a SandboxSpec,
    role: Role,
    places: Places,
    /// Tools of this host's that the engine has in volumes, or will.
    tools: Vec<Carried>,
    accounts: Option<Accounts>,
}

impl ContainerBackend {
    /// Makes the container and starts it. What goes wrong leaves nothing behind.
    pub(crate) async fn launch(
        &self,
        client: &Client,
        spec: &SandboxSpec,
        role: Role,
    ) -> Result<(), BackendError> {
        let mut held = Held::default();
        match self.launch_holding(client, spec, role, &mut held).await {
            Ok(()) => {
                self.launched().insert(spec.id.clone(), held);
                Ok(())
            }
            Err(error) => {
                held.release();
                Err(error)
            }
        }
    }

    async fn launch_holding(
        &self,
        client: &Client,
        spec: &SandboxSpec,
        role: Role,
        held: &mut Held,
    ) -> Result<(), BackendError> {
        let mut places = host_paths::resolve(client, self.config(), spec)?;
        let recorded = require_volumes(client, spec, &places).await?;
        places.user = match &spec.dir {
            Some(_) => host_users::of_made(&places, recorded),
            None => host_users::of_new(client, self.config(), spec, &places).await?,
        };
        let volume = match guest::remembered(client, self.config()) {
            Some(volume) => volume,
            None => {
                guest::note_use(client, self.config());
                self.guest_volume(client, spec, None).await?
            }
        };
        let tools = tools::named(client, self.config(), &spec.owner, &places.trees).await?;
        if tools.iter().any(|tool| tool.is_new) {
            self.fill_tools(client, spec, &tools).await?;
        }
        host_paths::fence(self.config(), spec, &mut places, held)?;
        let accounts = Accounts::for_start(client, self.config(), &spec.id, places.user)?;
        let mut launch = Launch { client, spec, role, places, tools, accounts };
        let variables = match self.start_with_names(&mut launch, &volume).await? {
            Some(variables) => variables,
            None => {
                self.fill_tools(client, spec, &launch.tools).await?;
                let started = self.start_with_names(&mut launch, &volume).await?;
                started.ok_or_else(|| BackendError::EngineRefused {
                    engine: self.kind(),
                    what: "keep the volumes with tools".into(),
                    reason: "somebody removes them".into(),
                })?
            }
        };
        environment::keep(spec, &variables);
        held.image_environment = variables;
        Ok(())
    }

    /// Sends the tools that the engine does not have yet.
    pub(crate) async fn send_tools(&self, spec: &SandboxSpec) -> Result<(), BackendError> {
        let client = self.client().await?;
        let places = host_paths::resolve(client, self.config(), spec)?;
        let tools = tools::named(client, self.config(), &spec.owner, &places.trees).await?;
        self.fill_tools(client, spec, &tools).await
    }

    async fn fill_tools(
        &self,
        client: &Client,
        spec: &SandboxSpec,
        carried: &[Carried],
    ) -> Result<(), BackendError> {
        if carried.is_empty() {
            return Ok(());
        }
        let image = self.known_image(client, spec).await?;
        tools::fill(client, self.config(), &spec.owner, &image, carried).await
    }

    /// Starts without a name for the user inside where the engine cannot show the files that have it.
    async fn start_with_names(
        &self,
        launch: &mut Launch<'_>,
        volume: &str,
    ) -> Result<Option<Variables>, BackendError> {
        match (self.start_with_guest(launch, volume).await, &launch.accounts) {
            (Err(error), Some(accounts)) if accounts.are_amiss(&error) => {
                tracing::warn!(%error, "the user inside has no name");
                launch.accounts = None;
                self.start_with_guest(launch, volume).await
            }
            (other, _) => other,
        }
    }

    /// A guest that is not in its volume is put there.
    async fn start_with_guest(
        &self,
        launch: &Launch<'_>,
        volume: &str,
    ) -> Result<Option<Variables>, BackendError> {
        match self.start_with(launch, volume).await {
            Err(error) if guest::is_amiss(&error) => {
                tracing::warn!(%error, "the guest is not in its volume, which is filled again");
                let volume = self.guest_volume(launch.client, launch.spec, Some(volume)).await?;
                self.start_with(launch, &volume).await
            }
            other => other,
        }
    }

    async fn guest_volume(
        &self,
        client: &Client,
        spec: &SandboxSpec,
        empty: Option<&str>,
    ) -> Result<String, BackendError> {
        let image = self.known_image(client, spec).await?;
        let volume = filling::guest(client, &self.config().guest, &spec.owner, &image, empty).await?;
        guest::remember(client, self.config(), &volume);
        Ok(volume)
    }

    /// The variables that the image brings; nothing, and no container, when the tools are not in their volumes.
    async fn start_with(
        &self,
        launch: &Launch<'_>,
        guest_volume: &str,
    ) -> Result<Option<Variables>, BackendError> {
        let Launch { client, spec, .. } = launch;
        let name = labels::container(&spec.id);
        // Both at once: an engine tells about an image from memory, while it makes the container.
        let (warnings, image) = tokio::join!(
            self.create_from_image(launch, &name, guest_volume),
            images::inspect(client, self.image(spec)),
        );
        let warnings = warnings?;
        let started = async {
            let variables = image?.and_then(|(_, image)| image.config?.env).unwrap_or_default();
            InForce::after(&warnings).require(self.kind(), &spec.policy.resources)?;
            // Looked at only now, when the container holds them.
            if !tools::are_filled(client, &launch.tools).await? {
                return Ok(None);
            }
            start_made(client, spec, &name).await.map(|()| Some(environment::read(&variables)))
        };
        let started = started.await;
        if !matches!(started, Ok(Some(_)))
            && let Err(failure) = volumes::remove_container(client, &name).await.map_err(BackendError::from)
        {
            tracing::warn!(%failure, "a container that did not start was not removed");
        }
        started
    }

    /// Makes the container from its image, under whatever name the engine knows that; what could not be done of it.
    async fn create_from_image(
        &self,
        launch: &Launch<'_>,
        name: &str,
        guest_volume: &str,
    ) -> Result<Vec<String>, BackendError> {
        let Launch { client, spec, role, places, tools, accounts } = launch;
        for image in images::names(self.kind(), self.image(spec)) {
            let body = plan::container(&PlanInput {
                spec,
                dialect: client.dialect,
                image: &image,
                guest_volume,
                role: *role,
                user: places.user,
                home: places.home.clone(),
                workspace: places.workspace.clone(),
                tools: tools.iter().map(Carried::shown).collect(),
                binds: places.binds.clone(),
                accounts: accounts.as_ref().map(|accounts| accounts.directory.clone()),
                expected: places.expected_mounts(),
                loopback: loopback(client),
                mark: matches!(role, Role::Run | Role::Check).then(labels::of_this_process),
            });
            match create_anew(client, name, &body, spec, *role).await {
                Err(Failure::Missing(_)) => {}
                other => return Ok(other?),
            }
        }
        Err(self.missing_image(spec))
    }
}

/// Starts a container that was made, once it has what the engine would not give it.
async fn start_made(client: &Client, spec: &SandboxSpec, name: &str) -> Result<(), BackendError> {
    if client.dialect != Dialect::Docker && spec.policy.network != Network::None {
        volumes::tell_name_server(client, name).await?;
    }
    let started = client.call("start the container", LONGEST, |docker| async move {
        docker.start_container(name, None::<StartContainerOptions>).await
    });
    Ok(started.await?)
}

/// A kernel that was started without IPv6 has none of its settings, and refuses a container that would change them.
fn loopback(client: &Client) -> Loopback {
    const SETTINGS: &str = "/proc/sys/net/ipv6/conf/all";
    match client.endpoint.is_local() && Path::new(SETTINGS).exists() {
        true => Loopback::BothFamilies,
        false => Loopback::AsTheEngineHasIt,
    }
}

/// Refuses a sandbox whose own volumes are gone; whom they belong to, where they say it.
async fn require_volumes(
    client: &Client,
    spec: &SandboxSpec,
    places: &Places,
) -> Result<Option<User>, BackendError> {
    let volume = |place: &Place| match place {
        Place::Volume(name) => Some(name.clone()),
        Place::Host(..) | Place::Memory => None,
    };
    let names: Vec<String> = [&places.home, &places.workspace].into_iter().filter_map(volume).collect();
    let OwnVolumes { missing, user } = volumes::look_at_own(client, &names).await?;
    if missing.is_empty() {
        return Ok(user);
    }
    let sandbox = spec.name.as_ref().map_or(spec.id.as_str(), |name| name.as_str()).to_owned();
    Err(BackendError::FilesMissing { sandbox, missing })
}

/// Whether a container is the sandbox's: its labels say so, its name proves nothing. One that is not there is not.
pub(crate) async fn is_of(client: &Client, name: &str, spec: &SandboxSpec) -> Result<bool, Failure> {
    Ok(own_container(client, name, spec).await?.is_some())
}

/// The sandbox's own container of this name, and whether it runs.
async fn own_container(client: &Client, name: &str, spec: &SandboxSpec) -> Result<Option<bool>, Failure> {
    let found = match client.inspect(name).await {
        Err(Failure::Missing(_)) => return Ok(None),
        other => other?,
    };
    let labels = found.config.and_then(|config| config.labels).unwrap_or_default();
    let known = labels::read(&labels, &spec.owner);
    let is_its = known.is_some_and(|known| known.sandbox.as_ref() == Some(&spec.id));
    let runs = found.state.and_then(|state| state.running) == Some(true);
    Ok(is_its.then_some(runs))
}

/// A container of this name that a crash has left is replaced, when it is ours. One that runs and needs no keeper of its
/// own is not: the record is wrong, and its processes are at work.
async fn create_anew(
    client: &Client,
    name: &str,
    body: &ContainerCreateBody,
    spec: &SandboxSpec,
    role: Role,
) -> Result<Vec<String>, Failure> {
    match volumes::create_warned(client, name, body).await {
        Err(Failure::Conflict(taken)) => match own_container(client, name, spec).await? {
            None => Err(Failure::Conflict(taken)),
            Some(true) if role == Role::Sandbox => {
                Err(Failure::Trouble(BackendError::RunsAlready { engine: client.method }))
            }
            Some(_) => {
                volumes::remove_container(client, name).await?;
                volumes::create_warned(client, name, body).await
            }
        },
        other => other,
    }
}
