//! From a repository's compose file to a stack that may be started: what it reaches is agreed to before Compose is let
//! near it, what two sandboxes cannot both have is settled, and the override is written.
//!
//! A repository's services are its authors' will, not the user's. Whatever the user has not agreed to, now or before,
//! ends here, and nothing was started.

use super::event::{Answer, Doing, Event, Question, Surface};
use super::start::replace;
use super::{ProvisionError, Provisioner};
use crate::compose::ComposeFile;
use crate::foreign;
use crate::overriding::{self, CollisionChoice, OverrideInput, ScopedSecret, SlotCollision, SlotPort};
use crate::reach::{self, HostRequests, HostVariables, NotAgreed, RemoteFiles, VariableValue};
use crate::secrets::ResolvedSecret;
use crate::slots::Slot;
use crate::stack::{ComposeEnvironment, Model, Stack, is_needed};
use palisade_config::infra::Infra;
use palisade_core::{HostPath, VariableName, printable};
use std::ffi::{OsStr, OsString};

/// The generated override of a slot.
const OVERRIDE: &str = "docker-compose.override.yml";
/// With which the user agrees to what services reach, and settles what is fixed.
const HOST_ACCESS_FLAG: &str = "--allow-host-access";
/// What an older Compose would misread.
const NEWER: [&str; 2] = ["!override", "!reset"];
const OVERRIDDEN: &str = "override";
const KEPT: &str = "keep";

impl Provisioner {
    /// Step six, with all that must be known before it.
    pub(super) async fn agreed_stack(
        &self,
        slot: &Slot,
        infra: &Infra,
        secrets: &[ResolvedSecret],
        surface: &mut dyn Surface,
    ) -> Result<Stack, ProvisionError> {
        let (mut stack, declared) = self.stack(slot, infra, secrets)?;
        surface.tell(Event::Doing(Doing::RenderingServices));
        let known = Known { slot, infra, declared: &declared, host: &self.environment };
        let scan = reach::scan_sources(&stack.compose_file, &stack.worktree, &known);
        if !scan.requests.is_empty() {
            agree(&scan.requests, &slot.record.repository, surface)?;
            let environment = ComposeEnvironment::of(self.environment.clone(), &declared, &scan.variables);
            stack.environment = match scan.remote {
                RemoteFiles::None => environment,
                RemoteFiles::Some => environment.with_remote_files(),
            };
        }
        let model = stack.render().await?;
        let scoped = scoped(infra);
        stack.check_scopes(&scoped).await?;
        let ports = slot_ports(slot, infra);
        let choice = settle(overriding::collisions(&model, &ports), &slot.record.repository, surface)?;
        let inactive = inactive(&stack, &model);
        let input = OverrideInput {
            model: &model,
            inactive: &inactive,
            worktree: &stack.worktree,
            mounts: &infra.sandbox.mounts,
            otel: infra.sandbox.otel.as_ref(),
            secrets: &scoped,
            ports: &ports,
            collisions: choice,
        };
        let text = overriding::plan(&input)?;
        agree(&reach::host_requests(&input, &stack.redactor), &slot.record.repository, surface)?;
        // Asked only where it matters: it takes as long as everything else here together.
        if NEWER.iter().any(|tag| text.contains(tag)) {
            stack.check_version().await?;
        }
        replace(slot, OVERRIDE, &text)?;
        stack.override_file = Some(slot.directory.join(OVERRIDE));
        // What was agreed to is what is started, whatever becomes of the files from here on.
        stack.rendered = Some(model.rendered().clone());
        Ok(stack)
    }
}

/// Goes on when the user agrees to all of it, or has done so before.
fn agree(
    requests: &HostRequests,
    repository: &HostPath,
    surface: &mut dyn Surface,
) -> Result<(), ProvisionError> {
    let requests = reach::not_agreed(requests, repository, |key| surface.remembered(key))
        .map_err(|reason| ProvisionError::Memory { reason })?;
    if requests.is_empty() {
        return Ok(());
    }
    match surface.ask(&Question::HostAccess { requests: requests.clone() }) {
        Answer::Yes => {
            for request in requests {
                let (key, digest) = request.trust(repository);
                surface.remember(&key, &digest).map_err(|reason| ProvisionError::Memory { reason })?;
            }
            Ok(())
        }
        Answer::No | Answer::NobodyToAsk => Err(NotAgreed { requests, flag: HOST_ACCESS_FLAG }.into()),
    }
}

/// What becomes of what two sandboxes cannot both have. An answer counts for every sandbox of the repository.
fn settle(
    collisions: Vec<SlotCollision>,
    repository: &HostPath,
    surface: &mut dyn Surface,
) -> Result<CollisionChoice, ProvisionError> {
    let (can, cannot): (Vec<_>, Vec<_>) = collisions.into_iter().partition(SlotCollision::can_be_undone);
    if !cannot.is_empty() {
        surface.tell(Event::Collides(cannot));
    }
    if can.is_empty() {
        return Ok(CollisionChoice::Leave);
    }
    let [_, settles] = reach::trust_prefixes(repository);
    let key = |collision: &SlotCollision| format!("{settles}{}", printable(&collision.to_string()));
    let memory = |reason| ProvisionError::Memory { reason };
    let mut answers = Vec::new();
    for collision in &can {
        answers.push(surface.remembered(&key(collision)).map_err(memory)?);
    }
    for (word, choice) in [(OVERRIDDEN, CollisionChoice::Override), (KEPT, CollisionChoice::Leave)] {
        if answers.iter().all(|answer| answer.as_deref() == Some(word)) {
            return Ok(choice);
        }
    }
    let (word, choice) = match surface.ask(&Question::Collisions { collisions: can.clone() }) {
        Answer::Yes => (OVERRIDDEN, CollisionChoice::Override),
        Answer::No => (KEPT, CollisionChoice::Leave),
        Answer::NobodyToAsk => return Err(ProvisionError::Fixed { collisions: can }),
    };
    for collision in &can {
        surface.remember(&key(collision), word).map_err(memory)?;
    }
    Ok(choice)
}

/// The secrets that only some services get.
fn scoped(infra: &Infra) -> Vec<ScopedSecret> {
    let secrets = infra.sandbox.secrets.iter();
    let scoped = |secret: &palisade_config::infra::InfraSecret| {
        Some(ScopedSecret { name: secret.name.clone(), services: secret.services.clone()? })
    };
    secrets.filter_map(scoped).collect()
}

fn slot_ports(slot: &Slot, infra: &Infra) -> Vec<SlotPort> {
    let ports = infra.sandbox.ports.iter();
    let of = |(name, base): &(VariableName, u16)| {
        Some(SlotPort { base: *base, port: *slot.record.ports.get(name.as_str())? })
    };
    ports.filter_map(of).collect()
}

/// Services that no profile asks for: there, and not rendered.
fn inactive(stack: &Stack, model: &Model) -> Vec<String> {
    let text = foreign::read_text(stack.compose_file.as_path()).unwrap_or_default();
    let services = ComposeFile::read(text).map(|file| file.services).unwrap_or_default();
    services
        .into_iter()
        .map(|service| service.name)
        .filter(|name| !model.services.contains_key(name))
        .collect()
}

/// What variables are, before Compose is asked.
struct Known<'a> {
    slot: &'a Slot,
    infra: &'a Infra,
    declared: &'a [VariableName],
    host: &'a [(OsString, OsString)],
}

impl Known<'_> {
    fn of_the_host(&self, name: &str) -> Option<&OsStr> {
        self.host.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_os_str())
    }
}

impl HostVariables for Known<'_> {
    fn value(&self, name: &str) -> VariableValue {
        let sandbox = &self.infra.sandbox;
        if name == "PWD" {
            return VariableValue::Known(self.slot.record.worktree.to_string());
        }
        if let Some(port) = self.slot.record.ports.get(name) {
            return VariableValue::Known(port.to_string());
        }
        if let Some((_, value)) = sandbox.env.iter().find(|(known, _)| known.as_str() == name) {
            return VariableValue::Known(value.clone());
        }
        if sandbox.secrets.iter().any(|secret| secret.name.as_str() == name) {
            return VariableValue::Hidden;
        }
        match self.of_the_host(name).filter(|_| is_needed(name.as_ref())).map(OsStr::to_str) {
            Some(Some(value)) => VariableValue::Known(value.to_owned()),
            Some(None) => VariableValue::Hidden,
            None => VariableValue::Unset,
        }
    }

    fn is_withheld(&self, name: &str) -> bool {
        let declared = self.declared.iter().any(|known| known.as_str() == name);
        !declared && !is_needed(name.as_ref()) && self.of_the_host(name).is_some()
    }
}
