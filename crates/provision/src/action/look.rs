//! What there is: slots, and the sandbox in one of them.

use super::services::gate;
use super::surroundings::infra;
use super::{ProvisionError, Provisioner};
use crate::feature::Feature;
use crate::slots::{Slot, SlotNumber, Stage};
use crate::stack::{ContainerState, ServiceState};
use palisade_core::HostPath;
use serde::Serialize;
use std::collections::BTreeMap;
use std::fmt;

/// A slot, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SlotSummary {
    /// The project it is a sandbox of.
    pub project: String,
    /// The number that is added to every port.
    pub slot: SlotNumber,
    /// `NAME/MILESTONE`.
    pub feature: Feature,
    /// How far it came.
    pub stage: Stage,
    pub branch: String,
    pub worktree: HostPath,
    /// Where its env files and secrets are.
    pub directory: HostPath,
    /// By which Compose knows its services.
    pub compose_project: String,
    /// The ports by their variables.
    pub ports: BTreeMap<String, u16>,
}

/// A sandbox, as it is told.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct SandboxStatus {
    #[serde(flatten)]
    pub slot: SlotSummary,
    pub state: SandboxState,
    /// Every container, by service.
    pub services: Vec<ServiceState>,
    /// What the project's health check answers; `null` when it has none, or nothing runs.
    pub health: Option<HealthStatus>,
    /// The ports of the slot, as addresses.
    pub urls: BTreeMap<String, String>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum SandboxState {
    /// Every container runs, or has ended as it should.
    Running,
    /// Some run, and some do not.
    Partial,
    Stopped,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct HealthStatus {
    pub url: String,
    pub state: HealthState,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum HealthState {
    Healthy,
    Unhealthy,
}

impl SandboxState {
    fn of(services: &[ServiceState]) -> Self {
        let good = |service: &&ServiceState| {
            service.state == ContainerState::Running
                || (service.state == ContainerState::Exited && service.exit_code == Some(0))
        };
        let running = services.iter().any(|service| service.state == ContainerState::Running);
        match (running, services.iter().filter(good).count() == services.len()) {
            (true, true) => Self::Running,
            (true, false) => Self::Partial,
            (false, _) => Self::Stopped,
        }
    }
}

impl fmt::Display for SandboxState {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Running => "running",
            Self::Partial => "partly running",
            Self::Stopped => "stopped",
        })
    }
}

impl Provisioner {
    /// Every slot, by project and number.
    pub fn list(&self) -> Result<Vec<SlotSummary>, ProvisionError> {
        Ok(self.slots.all()?.into_iter().map(SlotSummary::from).collect())
    }

    /// The sandbox whose worktree this directory is in, as its containers and its health check are now.
    pub async fn status(&self, directory: &HostPath) -> Result<SandboxStatus, ProvisionError> {
        let slot = self.here(directory)?;
        let services = self.states(&slot).await?;
        let state = SandboxState::of(&services);
        let address = |port: &u16| format!("http://localhost:{port}");
        let urls = slot.record.ports.iter().map(|(name, port)| (name.clone(), address(port))).collect();
        let health = match state {
            SandboxState::Stopped => None,
            SandboxState::Running | SandboxState::Partial => self.health(&slot).await?,
        };
        Ok(SandboxStatus { slot: slot.into(), state, services, health, urls })
    }

    async fn health(&self, slot: &Slot) -> Result<Option<HealthStatus>, ProvisionError> {
        // What cannot be asked for is not told; the services are, whatever became of the project's file.
        let Ok(infra) = infra(&slot.record.repository) else { return Ok(None) };
        let Some(gate) = gate(slot, &infra) else { return Ok(None) };
        let state = match gate.ask().await.is_success() {
            true => HealthState::Healthy,
            false => HealthState::Unhealthy,
        };
        Ok(Some(HealthStatus { url: gate.url(), state }))
    }
}

impl From<Slot> for SlotSummary {
    fn from(Slot { directory, record }: Slot) -> Self {
        Self {
            project: record.project,
            slot: record.number,
            branch: record.feature.branch().to_string(),
            feature: record.feature,
            stage: record.stage,
            worktree: record.worktree,
            directory,
            compose_project: record.compose_project,
            ports: record.ports,
        }
    }
}
