//! Commits that cannot simply move the host's branch: they are merged where that is asked for, or wait for the user.

use super::{BranchPlan, Execution, MergeMode, Progress, SyncRun};
use crate::commits::{CommitDecision, WaitReason};
use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use crate::staging::WritingNote;
use crate::sync_report::{CommitsOutcome, WaitingCommits, WhyWaiting};
use crate::tree_apply::{Applied, TreeWork};
use crate::waiting::WaitingBranch;

impl SyncRun<'_> {
    /// What the host's branch is to become: the sandbox's commit, a merge, or nothing because it waits. `tree` is where the
    /// branch is checked out, with what is brought there.
    pub(super) async fn choose_commits(
        &self,
        tree: Option<(&Repository, &TreeWork)>,
        plan: &mut BranchPlan,
        progress: &mut Progress,
    ) -> Result<(), GitError> {
        let CommitDecision::Wait(reason) = plan.decision else { return Ok(()) };
        let repository = self.repository();
        let shown = self.shown_commits(plan, reason).await?;
        let why = match reason {
            WaitReason::Diverged => {
                let hosts = match &plan.host {
                    Some(host) => repository.apart(host, &plan.sandbox).await?.0,
                    None => 0,
                };
                WhyWaiting::Diverged { hosts }
            }
            WaitReason::HostRewrote => WhyWaiting::HostRewrote,
            WaitReason::HostDeleted => WhyWaiting::HostDeleted,
            WaitReason::SandboxRewrote => WhyWaiting::SandboxRewrote,
        };
        let (MergeMode::Merge, Some(own)) = (self.options.merge, plan.host.clone()) else {
            return self.wait_with(plan, shown, why, progress).await;
        };
        if repository.merge_base(&own, &shown).await?.is_none() {
            // Git merges histories with nothing in common only when that is asked for.
            return self.wait_with(plan, shown, why, progress).await;
        }
        match repository.merge_trees(&own, &shown).await? {
            Ok(tree) => {
                let message = self.merge_message(plan);
                let count = repository.apart(&shown, &own).await?.0;
                let merged = repository.commit_merge(&tree, [&own, &shown], &message).await?;
                plan.new = Some(merged);
                plan.outcome = CommitsOutcome::Merged { count };
                Ok(())
            }
            Err(paths) => {
                self.wait_with(plan, shown.clone(), WhyWaiting::WouldConflict(paths), progress).await?;
                match tree {
                    Some((repository, work)) if self.mode == Execution::Apply => {
                        self.leave_conflicts(repository, work, plan, &shown).await
                    }
                    _ => Ok(()),
                }
            }
        }
    }

    /// Leaves the conflicts of a merge in the user's working tree, to be resolved there. The commits wait in any case.
    async fn leave_conflicts(
        &self,
        repository: &Repository,
        work: &TreeWork,
        plan: &mut BranchPlan,
        theirs: &ObjectId,
    ) -> Result<(), GitError> {
        let message = self.merge_message(plan);
        let Some(merge) = repository.merge_into_head(&work.host_commit, theirs, &message).await? else {
            return Ok(());
        };
        // Only what the merge changes; files that are not committed in the sandbox come afterwards.
        let merging = TreeWork {
            sandbox: work.base.clone(),
            sandbox_head: work.base.clone(),
            new_commit: merge.tree.clone(),
            new_head: merge.tree.clone(),
            merge: MergeMode::Wait,
            conflicted: Some(merge.clone()),
            ..work.clone()
        };
        let why = match self.apply_work(repository, merging).await? {
            Applied::Done(_) => {
                // It is complete; what is staged now is for the user.
                WritingNote::clear(repository, self.refs.id());
                WhyWaiting::Conflicts(merge.paths())
            }
            Applied::Blocked(paths) => WhyWaiting::HostChanges(paths),
        };
        if let CommitsOutcome::Waiting(waiting) = &mut plan.outcome {
            waiting.why = why;
        }
        Ok(())
    }

    fn merge_message(&self, plan: &BranchPlan) -> String {
        format!("Merge the work of {} on {}", self.refs.name(), plan.name)
    }

    /// The commits that are shown while they wait: replayed where the user has rewritten the branch.
    async fn shown_commits(&self, plan: &BranchPlan, reason: WaitReason) -> Result<ObjectId, GitError> {
        if let (WaitReason::HostRewrote, Some(memory), Some(host)) = (reason, &plan.memory, &plan.host)
            && let Some(replayed) = self.repository().replay(&memory.sandbox, &plan.sandbox, host).await?
        {
            return Ok(replayed);
        }
        Ok(plan.sandbox.clone())
    }

    pub(super) async fn wait(
        &self,
        plan: &mut BranchPlan,
        why: WhyWaiting,
        progress: &mut Progress,
    ) -> Result<(), GitError> {
        self.wait_with(plan, plan.sandbox.clone(), why, progress).await
    }

    pub(super) async fn wait_with(
        &self,
        plan: &mut BranchPlan,
        shown: ObjectId,
        why: WhyWaiting,
        progress: &mut Progress,
    ) -> Result<(), GitError> {
        plan.new = None;
        let repository = self.repository();
        let count = match (&plan.host, &plan.memory) {
            (Some(host), _) => repository.apart(&shown, host).await?.0,
            (None, Some(memory)) => repository.apart(&shown, &memory.sandbox).await?.0,
            (None, None) => self.count_new(&shown).await?,
        };
        let checked_out = match self.mode {
            Execution::Apply => self.host.checked_out().await?,
            Execution::Plan => Vec::new(),
        };
        let branch = WaitingBranch::show(
            self.known,
            self.refs,
            &plan.name,
            (&shown, &plan.sandbox),
            &checked_out,
            &mut progress.transaction,
        );
        let replayed = shown != plan.sandbox;
        plan.outcome = CommitsOutcome::Waiting(WaitingCommits { count, why, branch, replayed });
        Ok(())
    }
}
