//! What is not needed any more: slots whose worktree is gone, removals that were cut off, secrets of sandboxes that never
//! started.
//!
//! Invariants:
//! - A worktree is gone when its path is and git lists it no longer. One that git lists elsewhere was moved, and is
//!   followed; one that git still lists at its place may be on a disk that is not mounted.
//! - Data of services is never removed here: a slot whose services have volumes keeps them, its number and its record,
//!   until `done` is asked for.

use super::event::{Answer, Event, Question, Surface};
use super::surroundings::WorktreeSearch;
use super::{ProvisionError, Provisioner};
use crate::env_file;
use crate::slots::{Slot, Stage};
use crate::stack::{Progress, Volumes};
use palisade_core::{HostPath, printable};
use palisade_workspace::Worktrees;

/// Something that was put in order, or would be, or that stays as it is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Collected {
    pub slot: String,
    /// `NAME/MILESTONE`.
    pub feature: String,
    pub what: Collection,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Collection {
    /// The worktree is gone, so services and slot went, too.
    Abandoned,
    /// A removal that was interrupted is finished.
    Finished,
    /// Secrets of services that were never started are removed.
    Secrets,
    /// The worktree was moved, and the slot says so now.
    Followed { worktree: HostPath },
    /// The worktree is gone, and the services are stopped; their data is in these volumes.
    Data { volumes: Vec<String> },
    /// The worktree is not there, and nothing says that it is gone.
    Uncertain { why: String },
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
            if reason(&slot).is_none() {
                continue;
            }
            let (name, feature) = (slot.record.name(), slot.record.feature.to_string());
            match self.collect_one(slot, mode).await {
                Ok(Some(what)) => collected.push(Collected { slot: name, feature, what }),
                Ok(None) => {}
                Err(error) => failures.push(error),
            }
        }
        Ok((collected, failures))
    }

    /// `None` when there is nothing to do after all, or another command is at work on it.
    async fn collect_one(
        &self,
        mut slot: Slot,
        mode: Collecting,
    ) -> Result<Option<Collection>, ProvisionError> {
        let Some(_turn) = slot.turn()? else { return Ok(None) };
        // Another command may have changed everything before.
        let Some(reason) = reason(&slot) else { return Ok(None) };
        Ok(Some(match reason {
            CollectReason::Secrets => {
                if mode == Collecting::Do {
                    self.remove_secrets(&slot)?;
                }
                Collection::Secrets
            }
            CollectReason::Removal => {
                if mode == Collecting::Do {
                    let trees = Worktrees::of(&self.git, &slot.record.repository).await.ok();
                    self.discard(&mut slot, trees.as_ref(), Volumes::Remove, &mut Silent).await?;
                }
                Collection::Finished
            }
            CollectReason::WorktreeMissing => self.collect_missing(&mut slot, mode).await?,
        }))
    }

    async fn collect_missing(&self, slot: &mut Slot, mode: Collecting) -> Result<Collection, ProvisionError> {
        let repository = &slot.record.repository;
        let trees = match Worktrees::of(&self.git, repository).await {
            Ok(trees) => trees,
            Err(error) => {
                let why = format!("git cannot be asked in {repository}: {error}");
                return Ok(Collection::Uncertain { why });
            }
        };
        match self.find_worktree(&trees, slot).await? {
            WorktreeSearch::There => Ok(Collection::Uncertain {
                why: format!("git still lists it at {}; a disk may not be mounted", slot.record.worktree),
            }),
            WorktreeSearch::Moved(worktree) => {
                if mode == Collecting::Do {
                    slot.follow(worktree.clone())?;
                }
                Ok(Collection::Followed { worktree })
            }
            WorktreeSearch::Gone => self.collect_gone(slot, &trees, mode).await,
        }
    }

    async fn collect_gone(
        &self,
        slot: &mut Slot,
        trees: &Worktrees,
        mode: Collecting,
    ) -> Result<Collection, ProvisionError> {
        let volumes = self.data_volumes(slot).await?;
        if volumes.is_empty() {
            if mode == Collecting::Do {
                self.discard(slot, Some(trees), Volumes::Keep, &mut Silent).await?;
            }
            return Ok(Collection::Abandoned);
        }
        if mode == Collecting::Do {
            self.stop_services(slot, &mut Silent).await?;
            self.remove_secrets(slot)?;
        }
        Ok(Collection::Data { volumes: volumes.iter().map(|name| printable(name)).collect() })
    }

    fn remove_secrets(&self, slot: &Slot) -> Result<(), ProvisionError> {
        let removed = slot.remove(env_file::SECRETS);
        removed.map_err(ProvisionError::io(format!("remove the secrets of {}", slot.directory)))
    }

    /// The volumes that hold data of a slot's services. What was never started has none.
    async fn data_volumes(&self, slot: &Slot) -> Result<Vec<String>, ProvisionError> {
        match slot.record.stage {
            Stage::Claimed | Stage::Prepared | Stage::Removing => Ok(Vec::new()),
            Stage::Started | Stage::Stopped => {
                self.known(slot).data_volumes().await.map_err(ProvisionError::NotDown)
            }
        }
    }

    /// Stops the services, if they may run.
    pub(super) async fn stop_services(
        &self,
        slot: &mut Slot,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        if slot.record.stage == Stage::Started {
            let told = |progress: Progress| surface.tell(Event::Compose(progress.to_string()));
            self.known(slot).stop(told).await.map_err(ProvisionError::NotDown)?;
            slot.set_stage(Stage::Stopped)?;
        }
        Ok(())
    }
}

/// Why a slot is looked at.
enum CollectReason {
    Removal,
    WorktreeMissing,
    Secrets,
}

fn reason(slot: &Slot) -> Option<CollectReason> {
    let record = &slot.record;
    let has_secrets = || slot.directory.join(env_file::SECRETS).as_path().exists();
    match record.stage {
        Stage::Removing => Some(CollectReason::Removal),
        _ if !record.worktree.as_path().exists() => Some(CollectReason::WorktreeMissing),
        Stage::Claimed | Stage::Prepared if has_secrets() => Some(CollectReason::Secrets),
        _ => None,
    }
}

/// Events are shown to no one, and questions have no answer.
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
