//! What there is: slots, and the sandbox in one of them.

use super::{ProvisionError, Provisioner};
use crate::feature::Feature;
use crate::slots::{Slot, SlotNumber, Stage};
use palisade_core::HostPath;
use serde::Serialize;
use std::collections::BTreeMap;

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

impl Provisioner {
    /// Every slot, by project and number.
    pub fn list(&self) -> Result<Vec<SlotSummary>, ProvisionError> {
        Ok(self.slots.all()?.into_iter().map(SlotSummary::from).collect())
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
