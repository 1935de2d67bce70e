//! The end of a sandbox: its services, its slot with every secret, and its worktree go; its branch stays.
//!
//! Nothing of a person's is lost unasked: work that nobody else has keeps everything as it is. Interrupted at whatever
//! point, the same command goes on from there.

use super::event::{Doing, Event, Surface};
use super::surroundings::{infra, passed, turn};
use super::{ProvisionError, Provisioner};
use crate::copying::{self, Digests};
use crate::env_file;
use crate::feature::Feature;
use crate::slots::{Slot, Stage};
use crate::stack::Volumes;
use palisade_core::{HostPath, ProjectPath};
use palisade_host::fault::Step;
use palisade_host::tree;
use palisade_workspace::{Checkout, Unfinished, Worktree, Worktrees};

/// Whether work that nobody else has keeps a sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Force {
    KeepWork,
    GiveUpWork,
}

impl Provisioner {
    /// Ends the sandbox of a feature, or without one the sandbox whose worktree `directory` is in.
    pub async fn finish(
        &self,
        directory: &HostPath,
        feature: Option<&Feature>,
        force: Force,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let slot = match feature {
            None => Some(self.here(directory)?),
            Some(feature) => self.slot_of(directory, feature).await?,
        };
        match (slot, feature) {
            (Some(slot), _) => self.finish_slot(slot, force, surface).await,
            (None, Some(feature)) => self.finish_worktree(directory, feature, force, surface).await,
            (None, None) => Err(ProvisionError::NoSandboxHere { directory: directory.clone() }),
        }
    }

    /// In this repository; outside of any, wherever it is the only one.
    async fn slot_of(&self, directory: &HostPath, feature: &Feature) -> Result<Option<Slot>, ProvisionError> {
        let mut found: Vec<Slot> =
            self.slots.all()?.into_iter().filter(|slot| slot.record.feature == *feature).collect();
        if let Ok(trees) = self.repository(directory).await {
            return Ok(found.into_iter().find(|slot| slot.record.repository == *trees.main()));
        }
        if found.len() > 1 {
            let projects = found.into_iter().map(|slot| slot.record.project).collect();
            return Err(ProvisionError::Ambiguous { feature: feature.clone(), projects });
        }
        Ok(found.pop())
    }

    async fn finish_slot(
        &self,
        mut slot: Slot,
        force: Force,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let _turn = turn(&mut slot)?;
        // Without the repository there is no asking what is unfinished, and nothing to tell git.
        let trees = match Worktrees::of(&self.git, &slot.record.repository).await {
            Ok(trees) => Some(trees),
            Err(_) if force == Force::GiveUpWork || !slot.record.worktree.as_path().exists() => None,
            Err(error) => return Err(error.into()),
        };
        if let Some(trees) = &trees {
            self.follow_worktree(trees, &mut slot).await?;
        }
        if let Some(trees) = &trees
            && force == Force::KeepWork
            && slot.record.stage != Stage::Removing
        {
            self.refuse_strange(trees, &slot).await?;
            self.refuse_unfinished(trees, &slot.record.worktree, &slot.record.feature, &slot.record.files)
                .await?;
        }
        self.discard(&mut slot, trees.as_ref(), Volumes::Remove, surface).await
    }

    /// Removes all there is of a sandbox; the data of its services only when that was asked for.
    pub(super) async fn discard(
        &self,
        slot: &mut Slot,
        trees: Option<&Worktrees>,
        volumes: Volumes,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        if matches!(slot.record.stage, Stage::Started | Stage::Stopped) {
            surface.tell(Event::Doing(Doing::RemovingServices));
            self.take_down(slot, volumes, surface).await?;
            passed(Step::FinishDown)?;
            surface.tell(Event::Down { compose_project: slot.record.compose_project.clone() });
        }
        slot.remove(env_file::SECRETS)
            .map_err(ProvisionError::io(format!("remove the secrets of {}", slot.directory)))?;
        passed(Step::FinishSecrets)?;
        let was_there = std::fs::symlink_metadata(&slot.record.worktree).is_ok();
        slot.set_stage(Stage::Removing)?;
        self.remove_worktree(&slot.record.worktree, trees, surface).await?;
        passed(Step::FinishWorktree)?;
        self.slots.release(slot)?;
        surface.tell(Event::SlotReleased { slot: slot.record.name() });
        if was_there {
            let (path, branch) = (slot.record.worktree.clone(), slot.record.feature.branch().clone());
            surface.tell(Event::WorktreeRemoved { path, branch });
        }
        Ok(())
    }

    /// A worktree whose slot is gone already.
    async fn finish_worktree(
        &self,
        directory: &HostPath,
        feature: &Feature,
        force: Force,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let trees = self.repository(directory).await?;
        let path = feature.worktree(&infra(trees.main())?.project.name, trees.main());
        let known = trees.at(&path).await?;
        if known.is_none_or(|tree| tree.branch.as_ref() != Some(feature.branch())) {
            return Err(ProvisionError::UnknownFeature { feature: feature.clone() });
        }
        if force == Force::KeepWork {
            self.refuse_unfinished(&trees, &path, feature, &Digests::new()).await?;
        }
        self.remove_worktree(&path, Some(&trees), surface).await?;
        surface.tell(Event::WorktreeRemoved { path, branch: feature.branch().clone() });
        Ok(())
    }

    /// What lies where the worktree was, and is none that git knows of, may be anything of anybody's.
    async fn refuse_strange(&self, trees: &Worktrees, slot: &Slot) -> Result<(), ProvisionError> {
        let path = &slot.record.worktree;
        // Nothing was there when the slot was taken: a beginning that was cut off.
        let ours = slot.record.stage == Stage::Claimed || std::fs::symlink_metadata(path).is_err();
        if ours || trees.at(path).await?.is_some() {
            return Ok(());
        }
        let (feature, path) = (slot.record.feature.clone(), path.clone());
        Err(ProvisionError::NotAWorktree { feature, path })
    }

    async fn refuse_unfinished(
        &self,
        trees: &Worktrees,
        path: &HostPath,
        feature: &Feature,
        provisioned: &Digests,
    ) -> Result<(), ProvisionError> {
        let Some(tree) = trees.at(path).await? else { return Ok(()) };
        // What was never whole holds no work of anybody's.
        if tree.checkout == Checkout::Partial || !path.as_path().is_dir() {
            return Ok(());
        }
        let work = without_provisioned(trees.unfinished(&tree).await?, &tree, provisioned);
        if work.is_empty() {
            return Ok(());
        }
        let (feature, worktree) = (feature.clone(), path.clone());
        Err(ProvisionError::UnfinishedWork { feature, worktree, work: Box::new(work) })
    }

    async fn remove_worktree(
        &self,
        path: &HostPath,
        trees: Option<&Worktrees>,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        surface.tell(Event::Doing(Doing::RemovingWorktree));
        let (removing, shown) = (path.clone(), path.clone());
        let removed = tokio::task::spawn_blocking(move || tree::remove(removing.as_path())).await;
        removed
            .unwrap_or_else(|error| Err(std::io::Error::other(error)))
            .map_err(|source| ProvisionError::NotRemoved { worktree: shown, source })?;
        if let Some(trees) = trees {
            trees.forget(path).await?;
        }
        Ok(())
    }
}

/// What we laid there ourselves, and nobody changed, is no work.
fn without_provisioned(mut work: Unfinished, tree: &Worktree, provisioned: &Digests) -> Unfinished {
    work.changes.retain(|change| {
        let path = change.path.to_str().and_then(|path| ProjectPath::new(path).ok());
        let laid = path.and_then(|path| provisioned.get(&path).map(|digest| (path, digest)));
        let same = |(path, digest): (ProjectPath, &String)| {
            copying::digest_of(&tree.path, &path).is_some_and(|there| there == *digest)
        };
        !(change.untracked() && laid.is_some_and(same))
    });
    work
}
