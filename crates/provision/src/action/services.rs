//! The services of a sandbox, from its slot: rendered, overridden, started, waited for, stopped, removed.

use super::event::{Doing, Event, Surface};
use super::surroundings::{passed, turn};
use super::{ProvisionError, Provisioner};
use crate::env_file;
use crate::health::HealthGate;
use crate::secrets::ResolvedSecret;
use crate::slots::{Slot, Stage};
use crate::stack::{
    ComposeEnvironment, ContainerState, LogRange, Progress, Recreate, Redactor, ServiceState, Stack,
    StackPatience, Volumes,
};
use palisade_config::infra::Infra;
use palisade_core::{HostPath, Secret, VariableName};
use palisade_host::fault::Step;
use std::collections::BTreeSet;

/// What the project asks for its health; on its first port when it names none.
pub(super) fn gate(slot: &Slot, infra: &Infra) -> Option<HealthGate> {
    let health = infra.sandbox.health.as_ref()?;
    let variable = health.port_var.as_ref().map(|variable| &variable.value);
    let variable = variable.or_else(|| infra.sandbox.ports.first().map(|(name, _)| name))?;
    let port = *slot.record.ports.get(variable.as_str())?;
    Some(HealthGate { port, endpoint: health.endpoint.clone(), timeout: health.timeout })
}

impl Provisioner {
    /// Steps six to eight. Gives the services whose containers were made anew.
    pub(super) async fn bring_up(
        &self,
        slot: &mut Slot,
        infra: &Infra,
        secrets: &[ResolvedSecret],
        recreate: Recreate,
        surface: &mut dyn Surface,
    ) -> Result<Vec<String>, ProvisionError> {
        let stack = self.agreed_stack(slot, infra, secrets, surface).await?;
        passed(Step::ProvisionOverride)?;
        surface.tell(Event::Doing(Doing::StartingServices));
        slot.set_stage(Stage::Started)?;
        let mut recreated = Vec::new();
        let told = |progress: Progress| {
            if let Progress::Step { what, state } = &progress
                && state == "Recreated"
            {
                recreated.extend(what.strip_prefix("Container ").map(str::to_owned));
            }
            surface.tell(Event::Compose(progress.to_string()));
        };
        if let Err(error) = stack.up_with(recreate, told).await {
            // The next start resolves them again, and what failed needs them no more.
            let _ = slot.remove(env_file::SECRETS);
            return Err(error.into());
        }
        passed(Step::ProvisionUp)?;
        let ports = infra.sandbox.ports.iter();
        let ports =
            ports.filter_map(|(name, _)| Some((name.clone(), *slot.record.ports.get(name.as_str())?)));
        surface.tell(Event::Sandbox { slot: slot.record.number, ports: ports.collect() });
        if let Some(gate) = gate(slot, infra) {
            surface.tell(Event::Doing(Doing::WaitingForHealth));
            let told = |progress| surface.tell(Event::Health(progress));
            gate.wait(&stack, told).await?;
            surface.tell(Event::Healthy { url: gate.url() });
        }
        passed(Step::ProvisionHealthy)?;
        if recreated.is_empty() {
            return Ok(Vec::new());
        }
        let states = self.states(slot).await?;
        let of = |state: ServiceState| recreated.contains(&state.container).then_some(state.service);
        Ok(states.into_iter().filter_map(of).collect())
    }

    /// Stops the services of the worktree here.
    pub async fn stop(&self, directory: &HostPath, surface: &mut dyn Surface) -> Result<(), ProvisionError> {
        let mut slot = self.here(directory)?;
        let _turn = turn(&mut slot)?;
        if slot.record.stage == Stage::Started {
            surface.tell(Event::Doing(Doing::StoppingServices));
        }
        self.stop_services(&mut slot, surface).await?;
        surface.tell(Event::Stopped);
        Ok(())
    }

    /// Log lines of the services here, of all or of one, without the secrets that they were started with.
    pub async fn logs(
        &self,
        directory: &HostPath,
        services: &[String],
        range: LogRange,
        line: impl FnMut(String),
    ) -> Result<(), ProvisionError> {
        let slot = self.here(directory)?;
        if !services.is_empty() {
            self.know(&slot, services).await?;
        }
        Ok(self.known(&slot).logs(services, range, line).await?)
    }

    /// Refuses a service that there is not, of which Compose would only say nothing.
    async fn know(&self, slot: &Slot, services: &[String]) -> Result<(), ProvisionError> {
        let states = self.states(slot).await?;
        let known: BTreeSet<String> = states.into_iter().map(|state| state.service).collect();
        match services.iter().find(|service| !known.contains(*service)) {
            None => Ok(()),
            Some(service) => Err(ProvisionError::UnknownService {
                service: service.clone(),
                known: known.into_iter().collect(),
            }),
        }
    }

    pub(super) async fn is_running(&self, slot: &Slot) -> Result<bool, ProvisionError> {
        let states = self.states(slot).await?;
        Ok(states.iter().any(|state| state.state == ContainerState::Running))
    }

    /// How the containers are. What was never started needs no engine to know.
    pub(super) async fn states(&self, slot: &Slot) -> Result<Vec<ServiceState>, ProvisionError> {
        match slot.record.stage {
            Stage::Claimed | Stage::Prepared | Stage::Removing => Ok(Vec::new()),
            Stage::Started | Stage::Stopped => Ok(self.known(slot).states().await?),
        }
    }

    pub(super) async fn take_down(
        &self,
        slot: &Slot,
        volumes: Volumes,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let told = |progress: Progress| surface.tell(Event::Compose(progress.to_string()));
        self.known(slot).down(volumes, told).await.map_err(ProvisionError::NotDown)
    }

    /// The stack with everything that Compose needs to render it, and the variables that its env files declare.
    pub(super) fn stack(
        &self,
        slot: &Slot,
        infra: &Infra,
        secrets: &[ResolvedSecret],
    ) -> Result<(Stack, Vec<VariableName>), ProvisionError> {
        let (worktree, file) = (&slot.record.worktree, &infra.sandbox.compose_file);
        let compose_file = worktree.join(file.as_str());
        if !compose_file.as_path().is_file() {
            return Err(ProvisionError::NoComposeFile { worktree: worktree.clone(), file: file.clone() });
        }
        let sandbox = &infra.sandbox;
        let declared =
            sandbox.ports.iter().map(|(name, _)| name).chain(sandbox.env.iter().map(|(name, _)| name));
        let declared: Vec<VariableName> =
            declared.chain(sandbox.secrets.iter().map(|secret| &secret.name)).cloned().collect();
        let env_files = [env_file::SANDBOX, env_file::SECRETS].map(|name| slot.directory.join(name)).into();
        let environment = ComposeEnvironment::of(self.environment.clone(), &declared, &[]);
        let redactor = Redactor::new(secrets.iter().map(|secret| &secret.value));
        Ok((Stack { compose_file, env_files, environment, redactor, ..self.known(slot) }, declared))
    }

    /// The stack by its name alone: enough to look at it, stop it and remove it, whatever became of its files.
    pub(super) fn known(&self, slot: &Slot) -> Stack {
        let secrets: Vec<Secret> = self.written_secrets(slot).into_values().collect();
        Stack {
            docker: "docker".into(),
            project: slot.record.compose_project.clone(),
            compose_file: slot.record.worktree.clone(),
            rendered: None,
            override_file: None,
            env_files: Vec::new(),
            worktree: slot.record.worktree.clone(),
            environment: ComposeEnvironment::of(self.environment.clone(), &[], &[]),
            redactor: Redactor::new(&secrets),
            patience: StackPatience::default(),
        }
    }
}
