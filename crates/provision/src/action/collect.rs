//! What nobody needs any more: slots whose worktree is gone, removals that were cut off, secrets of sandboxes that never
//! started. Work is never removed here.

use super::event::{Answer, Event, Question, Surface};
use super::{ProvisionError, Provisioner};
use crate::env_file;
use crate::slots::{Slot, Stage};
use palisade_workspace::Worktrees;

/// Something that was put in order, or would be.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    pub slot: String,
    pub what: Collection,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collection {
    /// The worktree is gone, so services and slot went, too.
    Abandoned,
    /// A removal that was interrupted is finished.
    Finished,
    /// Secrets of services that were never started are removed.
    Secrets,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Collecting {
    Do,
    OnlyTell,
}

impl Provisioner {
    /// Puts in order what can be; the failures of the others are told beside it.
    pub async fn collect(
        &self,
        mode: Collecting,
    ) -> Result<(Vec<Collected>, Vec<ProvisionError>), ProvisionError> {
        let (mut collected, mut failures) = (Vec::new(), Vec::new());
        for slot in self.slots.all()? {
            let Some(what) = needed(&slot) else { continue };
            let name = slot.record.name();
            match self.collect_one(slot, mode).await {
                Ok(Done::Yes) => collected.push(Collected { slot: name, what }),
                Ok(Done::SomebodyWorksOnIt) => {}
                Err(error) => failures.push(error),
            }
        }
        Ok((collected, failures))
    }

    async fn collect_one(&self, mut slot: Slot, mode: Collecting) -> Result<Done, ProvisionError> {
        let Some(_turn) = slot.turn()? else { return Ok(Done::SomebodyWorksOnIt) };
        // Whoever had the turn before may have changed everything.
        let Some(what) = needed(&slot) else { return Ok(Done::SomebodyWorksOnIt) };
        if mode == Collecting::OnlyTell {
            return Ok(Done::Yes);
        }
        match what {
            Collection::Secrets => {
                let removed = slot.remove(env_file::SECRETS);
                removed.map_err(ProvisionError::io(format!("remove the secrets of {}", slot.directory)))?;
            }
            Collection::Abandoned | Collection::Finished => {
                let trees = Worktrees::of(&self.git, &slot.record.repository).await.ok();
                self.discard(&mut slot, trees.as_ref(), &mut Silent).await?;
            }
        }
        Ok(Done::Yes)
    }
}

enum Done {
    Yes,
    SomebodyWorksOnIt,
}

fn needed(slot: &Slot) -> Option<Collection> {
    let record = &slot.record;
    let gone = !record.worktree.as_path().exists();
    // Where even the place beside the repository is missing, a disk may not be mounted.
    let place = record.worktree.parent().is_some_and(|parent| parent.as_path().is_dir());
    match record.stage {
        Stage::Removing => Some(Collection::Finished),
        _ if gone && place => Some(Collection::Abandoned),
        Stage::Claimed | Stage::Prepared if slot.directory.join(env_file::SECRETS).as_path().exists() => {
            Some(Collection::Secrets)
        }
        _ => None,
    }
}

/// Nobody watches.
struct Silent;

impl Surface for Silent {
    fn tell(&mut self, _event: Event) {}

    fn ask(&mut self, _question: &Question) -> Answer {
        Answer::NobodyToAsk
    }

    fn remembered(&self, _key: &str) -> Result<Option<String>, String> {
        Ok(None)
    }

    fn remember(&mut self, _key: &str, _answer: &str) -> Result<(), String> {
        Ok(())
    }
}
