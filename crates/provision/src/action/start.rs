//! The steps between a worktree and running services: files, secrets, env files, and then the stack itself.

use super::event::{Content, Counts, Doing, Event, ReportedSecret, Surface};
use super::surroundings::{bases, infra, passed, turn};
use super::{Options, ProvisionError, Provisioner, files};
use crate::env_file;
use crate::foreign;
use crate::secrets::{self, DeclaredSecret, ResolvedSecret, SecretFailure};
use crate::slots::{Slot, Stage};
use crate::stack::Recreate;
use palisade_config::infra::{INFRA_FILE, Infra};
use palisade_core::{HostPath, ProjectPath, VariableName};
use palisade_host::fault::Step;
use palisade_workspace::Worktrees;

/// By which Compose knows the stack.
const PROJECT_NAME: &str = "COMPOSE_PROJECT_NAME";

impl Provisioner {
    /// Provisions the sandbox whose worktree `directory` is in, anew or again, and starts its services.
    pub async fn start(
        &self,
        directory: &HostPath,
        options: Options,
        surface: &mut dyn Surface,
    ) -> Result<Slot, ProvisionError> {
        self.start_again(directory, options, Recreate::Changed, surface).await
    }

    pub(super) async fn start_again(
        &self,
        directory: &HostPath,
        options: Options,
        recreate: Recreate,
        surface: &mut dyn Surface,
    ) -> Result<Slot, ProvisionError> {
        let mut slot = self.here(directory)?;
        let _turn = turn(&mut slot)?;
        if slot.record.stage == Stage::Removing {
            return Err(ProvisionError::BeingRemoved { feature: slot.record.feature });
        }
        let trees = Worktrees::of(&self.git, &slot.record.repository).await?;
        let infra = infra(trees.main())?;
        if slot.record.stage == Stage::Claimed {
            self.make_whole(&mut slot, &trees, surface).await?;
        }
        self.provision(&mut slot, &trees, &infra, options, recreate, surface).await?;
        Ok(slot)
    }

    /// Steps two to eight. What is missing is told all at once, and then nothing is started.
    pub(super) async fn provision(
        &self,
        slot: &mut Slot,
        trees: &Worktrees,
        infra: &Infra,
        options: Options,
        recreate: Recreate,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        self.slots.renew(slot, &bases(infra))?;
        tell_differences(slot, trees.main(), infra, surface);
        surface.tell(Event::Doing(Doing::CopyingFiles));
        let files = files::provision(slot, trees, infra, options, surface).await?;
        if let Ok(files) = &files
            && !files.is_empty()
        {
            surface.tell(Event::FilesProvisioned(files.clone()));
        }
        passed(Step::ProvisionFiles)?;
        surface.tell(Event::Doing(Doing::ResolvingSecrets));
        let (files, secrets) = (files, self.resolve(infra).await);
        let secrets = match (files, secrets) {
            (Ok(_), Ok(secrets)) => secrets,
            (files, secrets) => {
                let (files, secrets) = (files.err().unwrap_or_default(), secrets.err().unwrap_or_default());
                return Err(ProvisionError::Unmet { files, secrets });
            }
        };
        tell_secrets(&secrets, surface);
        passed(Step::ProvisionSecrets)?;
        write_environment(slot, infra)?;
        passed(Step::ProvisionEnvironment)?;
        write_secrets(slot, &secrets)?;
        passed(Step::ProvisionSecretsWritten)?;
        self.bring_up(slot, infra, &secrets, recreate, surface).await?;
        Ok(())
    }

    pub(super) async fn resolve(&self, infra: &Infra) -> Result<Vec<ResolvedSecret>, Vec<SecretFailure>> {
        let declared = infra.sandbox.secrets.iter().map(|secret| DeclaredSecret {
            name: secret.name.clone(),
            reference: secret.reference.clone(),
            services: secret.services.clone(),
        });
        secrets::resolve(declared.collect(), |name| self.variable(name), &self.one_password).await
    }
}

pub(super) fn tell_secrets(secrets: &[ResolvedSecret], surface: &mut dyn Surface) {
    if !secrets.is_empty() {
        surface.tell(Event::SecretsResolved(secrets.iter().map(reported).collect()));
    }
}

fn reported(secret: &ResolvedSecret) -> ReportedSecret {
    let content = if secret.value.expose().is_empty() { Content::Empty } else { Content::Something };
    ReportedSecret {
        name: secret.declared.name.clone(),
        reference: secret.declared.reference.to_string(),
        content,
    }
}

/// `.env.sandbox`: ports, the project's variables, and the name of the compose project.
fn write_environment(slot: &Slot, infra: &Infra) -> Result<(), ProvisionError> {
    let mut text = String::new();
    let mut line = |name: &VariableName, value: &str| env_file::write(&mut text, name, value);
    let project = VariableName::new(PROJECT_NAME)
        .map_err(|error| ProvisionError::io("name the compose project")(std::io::Error::other(error)))?;
    line(&project, &slot.record.compose_project)?;
    for (name, _) in &infra.sandbox.ports {
        if let Some(port) = slot.record.ports.get(name.as_str()) {
            line(name, &port.to_string())?;
        }
    }
    for (name, value) in &infra.sandbox.env {
        line(name, value)?;
    }
    replace(slot, env_file::SANDBOX, &text)
}

/// `.env.secrets`: only ever in the slot's own directory, for its owner alone.
pub(super) fn write_secrets(slot: &Slot, secrets: &[ResolvedSecret]) -> Result<(), ProvisionError> {
    let mut text = String::new();
    for secret in secrets {
        env_file::write(&mut text, &secret.declared.name, secret.value.expose())?;
    }
    replace(slot, env_file::SECRETS, &text)
}

pub(super) fn replace(slot: &Slot, name: &str, text: &str) -> Result<(), ProvisionError> {
    let written = slot.replace(name, text.as_bytes());
    written.map_err(ProvisionError::io(format!("write {}", slot.directory.join(name))))
}

/// Says which file counts where the two working trees have different ones, since nobody would guess.
fn tell_differences(slot: &Slot, main: &HostPath, infra: &Infra, surface: &mut dyn Surface) {
    let mut compare = |file: &ProjectPath, counts: Counts| {
        let read = |root: &HostPath| foreign::read(root.join(file.as_str()).as_path()).ok();
        let (ours, theirs) = (read(main), read(&slot.record.worktree));
        if theirs.is_some() && ours != theirs {
            surface.tell(Event::Differs { file: file.clone(), counts });
        }
    };
    if let Ok(file) = ProjectPath::new(INFRA_FILE) {
        compare(&file, Counts::Main);
    }
    if slot.record.stage == Stage::Prepared {
        compare(&infra.sandbox.compose_file, Counts::Worktree);
    }
}
