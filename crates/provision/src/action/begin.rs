//! From a feature's name to a running stack: `impl`.

use super::event::{Answer, Doing, Event, Question, Surface};
use super::surroundings::{bases, infra, passed, turn};
use super::{Options, ProvisionError, Provisioner};
use crate::feature::Feature;
use crate::slots::{Claim, Slot, SlotTurn, Stage};
use crate::stack::Recreate;
use palisade_config::infra::Infra;
use palisade_core::HostPath;
use palisade_host::{fault::Step, tree};
use palisade_workspace::{Checkout, Start, Worktree, Worktrees};

impl Provisioner {
    /// Makes the feature's worktree, or takes the one that is there, and starts its services.
    pub async fn begin(
        &self,
        directory: &HostPath,
        feature: &Feature,
        options: Options,
        surface: &mut dyn Surface,
    ) -> Result<Slot, ProvisionError> {
        let trees = self.repository(directory).await?;
        let infra = infra(trees.main())?;
        let path = feature.worktree(&infra.project.name, trees.main());
        let known = self.slots.all()?.into_iter().find(|slot| slot.record.worktree == path);
        let (mut slot, turn) = match known {
            Some(mut slot) => {
                let turn = turn(&mut slot)?;
                self.resume(&mut slot, &trees, surface).await?;
                (slot, turn)
            }
            None => self.claim(&trees, &infra, feature, path, surface).await?,
        };
        self.provision(&mut slot, &trees, &infra, options, Recreate::Changed, surface).await?;
        drop(turn);
        Ok(slot)
    }

    /// Takes a slot, then makes the worktree.
    async fn claim(
        &self,
        trees: &Worktrees,
        infra: &Infra,
        feature: &Feature,
        path: HostPath,
        surface: &mut dyn Surface,
    ) -> Result<(Slot, SlotTurn), ProvisionError> {
        let there = match self.look(trees, feature, &path).await {
            Ok(there) => there,
            // What another command is making just now looks like anything but a worktree.
            Err(error) => return Err(self.busy_with(&path)?.unwrap_or(error)),
        };
        if let There::Worktree(tree) = &there {
            offer(tree, surface)?;
        }
        let claim = Claim {
            project: infra.project.name.clone(),
            repository: trees.main().clone(),
            worktree: path,
            feature: feature.clone(),
            bases: bases(infra),
        };
        let mut slot = self.slots.take(&claim)?;
        let turn = turn(&mut slot)?;
        passed(Step::ProvisionClaimed)?;
        match there {
            There::Worktree(tree) => {
                slot.set_stage(Stage::Prepared)?;
                surface.tell(Event::WorktreeKept { path: tree.path, branch: tree.branch });
            }
            There::Nothing(start) => {
                if let Err(error) = self.make_worktree(&mut slot, trees, start, surface).await {
                    // Git has taken back what it began, so there is nothing that the slot would stand for.
                    if !slot.record.worktree.as_path().exists() {
                        self.slots.release(&slot)?;
                    }
                    return Err(error);
                }
            }
        }
        Ok((slot, turn))
    }

    /// Somebody has taken a slot for this worktree since it was looked for.
    fn busy_with(&self, path: &HostPath) -> Result<Option<ProvisionError>, ProvisionError> {
        let slot = self.slots.all()?.into_iter().find(|slot| slot.record.worktree == *path);
        Ok(slot.map(|slot| ProvisionError::Busy { slot: slot.record.name() }))
    }

    async fn make_worktree(
        &self,
        slot: &mut Slot,
        trees: &Worktrees,
        start: Start,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let (path, branch) = (slot.record.worktree.clone(), slot.record.feature.branch().clone());
        surface.tell(Event::Doing(Doing::MakingWorktree));
        trees.add(&path, &branch, start).await?;
        passed(Step::ProvisionWorktree)?;
        slot.set_stage(Stage::Prepared)?;
        surface.tell(Event::WorktreeCreated { path, branch, start });
        Ok(())
    }

    /// Goes on from where an earlier command came to, or was killed.
    async fn resume(
        &self,
        slot: &mut Slot,
        trees: &Worktrees,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let feature = &slot.record.feature;
        if slot.record.stage == Stage::Removing {
            return Err(ProvisionError::BeingRemoved { feature: feature.clone() });
        }
        let path = slot.record.worktree.clone();
        if slot.record.stage == Stage::Claimed {
            return self.make_whole(slot, trees, surface).await;
        }
        match trees.at(&path).await? {
            Some(tree) if path.as_path().is_dir() => {
                if self.is_running(slot).await? {
                    return Err(ProvisionError::Running { feature: feature.clone(), worktree: path });
                }
                offer(&tree, surface)?;
                surface.tell(Event::WorktreeKept { path: tree.path, branch: tree.branch });
                Ok(())
            }
            // Somebody removed it by hand.
            _ => self.make_whole(slot, trees, surface).await,
        }
    }

    /// Brings a worktree to be there whole, when whoever was making it was killed, or somebody removed it.
    pub(super) async fn make_whole(
        &self,
        slot: &mut Slot,
        trees: &Worktrees,
        surface: &mut dyn Surface,
    ) -> Result<(), ProvisionError> {
        let path = slot.record.worktree.clone();
        let known = trees.at(&path).await?;
        let (created, start) = match known {
            Some(tree) if tree.checkout == Checkout::Partial => {
                trees.complete(&tree).await?;
                (tree.branch, Start::Head)
            }
            Some(tree) if path.as_path().is_dir() => (tree.branch, Start::Head),
            _ => {
                trees.forget(&path).await?;
                // It was not there when the slot was taken, and git does not know it: a beginning that was cut off.
                if slot.record.stage == Stage::Claimed {
                    tree::remove(path.as_path()).map_err(ProvisionError::io(format!("remove {path}")))?;
                }
                let branch = slot.record.feature.branch();
                let start = if trees.has_branch(branch).await? { Start::Existing } else { Start::Head };
                return self.make_worktree(slot, trees, start, surface).await;
            }
        };
        slot.set_stage(Stage::Prepared)?;
        let branch = created.unwrap_or_else(|| slot.record.feature.branch().clone());
        surface.tell(Event::WorktreeCreated { path, branch, start });
        Ok(())
    }

    /// What is where the worktree goes, and what of its branch.
    async fn look(
        &self,
        trees: &Worktrees,
        feature: &Feature,
        path: &HostPath,
    ) -> Result<There, ProvisionError> {
        let branch = feature.branch();
        let ((main, all), exists) = tokio::try_join!(trees.with_main(), trees.has_branch(branch))?;
        if let Some(tree) = all.iter().find(|tree| tree.path == *path) {
            if path.as_path().is_dir() {
                return match &tree.branch {
                    Some(other) if other == branch => Ok(There::Worktree(tree.clone())),
                    other => Err(ProvisionError::OnAnotherBranch {
                        worktree: path.clone(),
                        wanted: branch.clone(),
                        found: other.clone(),
                    }),
                };
            }
            // Removed by hand, and git was not told.
            trees.forget(path).await?;
        } else if std::fs::symlink_metadata(path).is_ok() {
            return Err(ProvisionError::InTheWay { path: path.clone() });
        }
        let uses = |tree: &&Worktree| tree.branch.as_ref() == Some(branch) && tree.path != *path;
        let user = all.iter().find(uses).map(|tree| tree.path.clone());
        let user = user.or_else(|| (main.as_ref() == Some(branch)).then(|| trees.main().clone()));
        if let Some(at) = user {
            return Err(ProvisionError::BranchInUse { branch: branch.clone(), at });
        }
        Ok(There::Nothing(if exists { Start::Existing } else { Start::Head }))
    }
}

enum There {
    Worktree(Worktree),
    Nothing(Start),
}

fn offer(tree: &Worktree, surface: &mut dyn Surface) -> Result<(), ProvisionError> {
    let worktree = tree.path.clone();
    match surface.ask(&Question::StartExisting { worktree: worktree.clone() }) {
        Answer::Yes => Ok(()),
        Answer::No | Answer::NobodyToAsk => Err(ProvisionError::NotStarted { worktree }),
    }
}
