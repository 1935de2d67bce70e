//! What the actions work with: git, slots, the user's environment, and the project that a directory belongs to.

use super::ProvisionError;
use crate::secrets::OnePassword;
use crate::slots::{Slot, SlotTurn, Slots};
use palisade_config::infra::{self, Infra};
use palisade_core::{HostPath, VariableName};
use palisade_host::fault::{self, Step};
use palisade_workspace::{Git, Worktrees};
use std::collections::BTreeMap;
use std::ffi::OsString;

/// Does everything that is done with sandboxes of services.
#[derive(Debug, Clone)]
pub struct Provisioner {
    pub git: Git,
    pub slots: Slots,
    pub one_password: OnePassword,
    /// The user's own, in which secrets are looked up and with which Compose runs.
    pub environment: Vec<(OsString, OsString)>,
}

impl Provisioner {
    pub(super) fn variable(&self, name: &VariableName) -> Option<OsString> {
        let found = self.environment.iter().find(|(known, _)| known == name.as_str());
        found.map(|(_, value)| value.clone())
    }

    /// The repository that a directory belongs to. A worktree of ours belongs to the one that its slot names: what the
    /// worktree itself says, a service may have written.
    pub(super) async fn repository(&self, directory: &HostPath) -> Result<Worktrees, ProvisionError> {
        let slot = self.slots.of_worktree(directory.as_path())?;
        let directory = slot.map_or_else(|| directory.clone(), |slot| slot.record.repository);
        Ok(Worktrees::of(&self.git, &directory).await?)
    }

    /// The sandbox whose worktree this directory is in.
    pub fn here(&self, directory: &HostPath) -> Result<Slot, ProvisionError> {
        let slot = self.slots.of_worktree(directory.as_path())?;
        slot.ok_or_else(|| ProvisionError::NoSandboxHere { directory: directory.clone() })
    }
}

/// Where a worktree is that is not at the path its slot has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum WorktreeSearch {
    /// Git lists it at that path all the same.
    There,
    /// Git lists a worktree of the same branch at this path, and it is there.
    Moved(HostPath),
    /// Git does not list it.
    Gone,
}

impl Provisioner {
    /// Asks git for the worktree of a slot.
    pub(super) async fn find_worktree(
        &self,
        trees: &Worktrees,
        slot: &Slot,
    ) -> Result<WorktreeSearch, ProvisionError> {
        let all = trees.all().await?;
        if all.iter().any(|tree| tree.path == slot.record.worktree) {
            return Ok(WorktreeSearch::There);
        }
        let branch = slot.record.feature.branch();
        let moved = all.into_iter().find(|tree| tree.branch.as_ref() == Some(branch));
        Ok(match moved.filter(|tree| tree.path.as_path().exists()) {
            Some(tree) => WorktreeSearch::Moved(tree.path),
            None => WorktreeSearch::Gone,
        })
    }

    /// Has a slot whose worktree was moved say where it is now.
    pub(super) async fn follow_worktree(
        &self,
        trees: &Worktrees,
        slot: &mut Slot,
    ) -> Result<(), ProvisionError> {
        if slot.record.worktree.as_path().exists() {
            return Ok(());
        }
        if let WorktreeSearch::Moved(worktree) = self.find_worktree(trees, slot).await? {
            slot.follow(worktree)?;
        }
        Ok(())
    }
}

/// What the project declares.
pub(super) fn infra(main: &HostPath) -> Result<Infra, ProvisionError> {
    infra::read_file(main.as_path())?.ok_or_else(|| ProvisionError::NotOnboarded { root: main.clone() })
}

/// The variables of ports with the project's own ports.
pub(super) fn bases(infra: &Infra) -> BTreeMap<String, u16> {
    infra.sandbox.ports.iter().map(|(name, port)| (name.to_string(), *port)).collect()
}

/// The turn to change a sandbox, or who is in the way.
pub(super) fn turn(slot: &mut Slot) -> Result<SlotTurn, ProvisionError> {
    slot.turn()?.ok_or_else(|| ProvisionError::Busy { slot: slot.record.name() })
}

/// A place at which a test may end this program.
pub(super) fn passed(step: Step) -> Result<(), ProvisionError> {
    fault::at(step).map_err(ProvisionError::io("a step"))
}
