//! Bringing a running sandbox up to date: its secrets alone, or everything.

use super::event::{Doing, Event, Surface};
use super::start::{tell_secrets, write_secrets};
use super::surroundings::{infra, turn};
use super::{Options, ProvisionError, Provisioner};
use crate::env_file;
use crate::slots::{Slot, Stage};
use crate::stack::Recreate;
use palisade_core::{HostPath, Secret, VariableName};
use palisade_workspace::Worktrees;
use std::collections::BTreeMap;

impl Provisioner {
    /// Resolves the secrets again, and recreates the services that get one which changed: their names.
    pub async fn refresh_secrets(
        &self,
        directory: &HostPath,
        surface: &mut dyn Surface,
    ) -> Result<Vec<String>, ProvisionError> {
        let mut slot = self.here(directory)?;
        let _turn = turn(&mut slot)?;
        if slot.record.stage != Stage::Started {
            return Err(ProvisionError::NothingRuns { worktree: slot.record.worktree });
        }
        let trees = Worktrees::of(&self.git, &slot.record.repository).await?;
        let infra = infra(trees.main())?;
        surface.tell(Event::Doing(Doing::ResolvingSecrets));
        let secrets = self.resolve(&infra).await;
        let secrets = secrets.map_err(|secrets| ProvisionError::Unmet { files: Vec::new(), secrets })?;
        tell_secrets(&secrets, surface);
        let before = self.written_secrets(&slot);
        let now = secrets.iter().map(|secret| (secret.declared.name.clone(), secret.value.clone()));
        if before == now.collect::<BTreeMap<VariableName, Secret>>() {
            return Ok(Vec::new());
        }
        write_secrets(&slot, &secrets)?;
        // Compose itself knows what it started a service with, and recreates those for which that is another now.
        self.bring_up(&mut slot, &infra, &secrets, Recreate::Changed, surface).await
    }

    /// Everything again: files, secrets, env files, and all services made anew.
    pub async fn refresh(
        &self,
        directory: &HostPath,
        options: Options,
        surface: &mut dyn Surface,
    ) -> Result<Slot, ProvisionError> {
        self.start_again(directory, options, Recreate::All, surface).await
    }

    /// The secrets that the slot's services were last started with.
    pub(super) fn written_secrets(&self, slot: &Slot) -> BTreeMap<VariableName, Secret> {
        let file = std::fs::read_to_string(slot.directory.join(env_file::SECRETS)).unwrap_or_default();
        env_file::read(&file).into_iter().collect()
    }
}
