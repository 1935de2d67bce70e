//! Brings the work of a sandbox into the user's branches and working trees, after it was archived.
//!
//! Every branch of the sandbox is decided for itself (`commits`), every working tree path by path (`files`). The refs of
//! a working tree move right after its files, together: the branch, and the memory of what both sides have in common.
//! All others move at the end.

mod waiting;

use crate::archive::files_name;
use crate::commits::{BranchMemory, CommitDecision, decide};
use crate::git::{Git, GitError, Repository};
use crate::history::BranchTips;
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::place::NotUsable;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::staging::WritingNote;
use crate::survey::{Survey, TreeSurvey};
use crate::sync_report::{
    BranchReport, CommitsOutcome, FilesOutcome, SyncReport, TagReport, TreeOutcome, WhyFilesWait, WhyWaiting,
};
use crate::transaction::{Expected, RefTransaction};
use crate::tree_apply::{Applied, TreeReport, TreeWork};
use crate::waiting::WaitingBranch;
use palisade_host::fault::{self, Step};
use std::path::PathBuf;

/// The memory's name for the files of the main working tree.
const MAIN: &str = "main";

/// Which work is brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum BranchSelection {
    /// The commits of all branches, and the files of the main working tree.
    Main,
    /// The commits and the files of one worktree's branch.
    Worktree(BranchName),
    /// The commits of all branches, and the files of all working trees.
    All,
}

/// What to do where both sides have changed something.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum MergeMode {
    /// It waits for the user.
    Wait,
    Merge,
}

/// What to do with tags that the host does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TagMode {
    List,
    Create,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SyncOptions {
    pub selection: BranchSelection,
    pub merge: MergeMode,
    pub tags: TagMode,
    /// Only these paths, as files that are not committed; everything when it is empty.
    pub only: Vec<PathBuf>,
    /// Bytes of files that may be written into one working tree.
    pub max_bytes: u64,
}

/// Whether a sync is done, or only looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Execution {
    Apply,
    /// Nothing changes; the report says what would be done.
    Plan,
}

/// One sync, from the survey of the sandbox to the refs of the host. The caller holds the repository's lock.
#[derive(Debug)]
pub(crate) struct SyncRun<'a> {
    pub(crate) git: &'a Git,
    pub(crate) host: &'a HostTree,
    pub(crate) refs: &'a SandboxRefs,
    pub(crate) survey: &'a Survey,
    pub(crate) known: &'a HostRefs,
    pub(crate) options: &'a SyncOptions,
    pub(crate) mode: Execution,
}

/// Changes of refs so far, and what is to be said about them.
#[derive(Debug, Default)]
struct Progress {
    transaction: RefTransaction,
    report: SyncReport,
    /// The working trees that were written to.
    written: Vec<Repository>,
}

/// Where the commits of a branch are to go.
#[derive(Debug, Clone, PartialEq, Eq)]
struct BranchPlan {
    name: BranchName,
    sandbox: ObjectId,
    host: Option<ObjectId>,
    memory: Option<BranchMemory>,
    decision: CommitDecision,
    /// What the host's branch is to become, where it moves.
    new: Option<ObjectId>,
    outcome: CommitsOutcome,
    /// What the host's branch has become.
    became: Option<ObjectId>,
}

impl SyncRun<'_> {
    fn repository(&self) -> &Repository {
        &self.host.repository
    }

    pub(crate) async fn run(&self) -> Result<SyncReport, NotUsable> {
        let mut progress = Progress::default();
        if self.mode == Execution::Apply {
            self.repository().clear_leftovers().await?;
        }
        let mut plans = Vec::new();
        for (name, tip) in self.survey.main.branches() {
            let selected = match &self.options.selection {
                BranchSelection::Worktree(only) => *only == name,
                BranchSelection::Main | BranchSelection::All => true,
            };
            if selected && let Some(plan) = self.plan_branch(&name, tip, &mut progress).await? {
                plans.push(plan);
            }
        }
        self.apply_trees(&mut plans, &mut progress).await?;
        for plan in plans {
            self.finish_branch(plan, &mut progress).await?;
        }
        self.list_the_rest(&mut progress).await?;
        self.move_refs(&mut progress).await?;
        if self.mode == Execution::Apply {
            for written in &progress.written {
                WritingNote::clear(written, self.refs.id());
            }
            fault::at(Step::SyncMoved).map_err(|source| GitError::Io { what: "carry on".into(), source })?;
        }
        Ok(progress.report)
    }

    /// Makes the changes of refs so far.
    async fn move_refs(&self, progress: &mut Progress) -> Result<(), GitError> {
        if self.mode == Execution::Plan {
            return Ok(());
        }
        let reason = format!("palisade: work of {}", self.refs.name());
        std::mem::take(&mut progress.transaction).commit(self.repository(), &reason).await
    }

    /// What both sides had in common, as this repository remembers it, or else as the sandbox says.
    async fn memory(&self, name: &BranchName) -> Result<Option<BranchMemory>, GitError> {
        let known = self.known;
        let remembered = (known.get(&self.refs.base_host(name)), known.get(&self.refs.base_sandbox(name)));
        if let (Some(host), Some(sandbox)) = remembered {
            return Ok(Some(BranchMemory { host: host.clone(), sandbox: sandbox.clone() }));
        }
        match self.survey.main.sent(name) {
            Some(sent) if self.repository().has_commit(sent).await? => {
                Ok(Some(BranchMemory { host: sent.clone(), sandbox: sent.clone() }))
            }
            _ => Ok(None),
        }
    }

    /// `None` when the branch is where it was.
    async fn plan_branch(
        &self,
        name: &BranchName,
        tip: &ObjectId,
        progress: &mut Progress,
    ) -> Result<Option<BranchPlan>, GitError> {
        let host = self.known.branch(name).filter(|_| !self.is_reserved(name));
        let waiting = WaitingBranch::find(self.known, self.refs, name);
        let is_settled = match host == Some(tip) {
            true => self.remembers(name, tip),
            false => self.is_unmoved(name, tip),
        };
        if waiting.is_none() && is_settled {
            return Ok(None);
        }
        let memory = self.memory(name).await?;
        if let Some(waiting) = &waiting
            && waiting.stands_for(tip)
            && waiting.is_settled(self.repository(), host).await?
        {
            // The user has merged it, or has decided against it.
            self.clear_waiting(waiting, progress).await?;
            self.remember(progress, name, host, tip);
            return Ok(None);
        }
        if host.is_none()
            && memory.is_none()
            && waiting.as_ref().is_some_and(|it| it.stands_for(tip))
            && !self.can_create(name).await?
        {
            // It was made under the name of one that waits, because its own is not free.
            return Ok(None);
        }
        let sent = self.known.get(&self.refs.base_sent(name));
        let tips = BranchTips { host, sandbox: tip, memory: memory.as_ref(), sent };
        let facts = self.repository().branch_facts(tips).await?;
        let decision = decide(&facts);
        if decision == CommitDecision::Nothing {
            if host == Some(tip) || memory.as_ref().is_none_or(|memory| memory.sandbox != *tip) {
                self.remember(progress, name, host, tip);
            }
            if let Some(waiting) = &waiting {
                self.clear_waiting(waiting, progress).await?;
            }
        }
        Ok(Some(BranchPlan {
            name: name.clone(),
            sandbox: tip.clone(),
            host: host.cloned(),
            memory,
            new: match decision {
                CommitDecision::Move | CommitDecision::Create => Some(tip.clone()),
                CommitDecision::Nothing | CommitDecision::Wait(_) => None,
            },
            decision,
            outcome: CommitsOutcome::Nothing,
            became: None,
        }))
    }

    /// Whether a branch has a name that shows waiting work of this sandbox or another, and did not go in under it: what
    /// the host has there is nothing that a sandbox may move.
    fn is_reserved(&self, name: &BranchName) -> bool {
        name.is_ours() && self.known.get(&self.refs.base_sent(name)).is_none()
    }

    async fn clear_waiting(&self, waiting: &WaitingBranch, progress: &mut Progress) -> Result<(), GitError> {
        let checked_out = self.host.checked_out().await?;
        progress.report.removed_branches.extend(waiting.clear(&checked_out, &mut progress.transaction));
        Ok(())
    }

    /// Whether a branch of the sandbox is where the host put it, so that there is nothing to decide.
    fn is_unmoved(&self, name: &BranchName, tip: &ObjectId) -> bool {
        let remembered = self.known.get(&self.refs.base_sandbox(name));
        remembered.or_else(|| self.survey.main.sent(name)) == Some(tip)
    }

    /// Whether it is known already that both sides have a branch at this commit. What went in with a start is remembered
    /// inside: a repository may have thousands of branches that neither side touches.
    fn remembers(&self, name: &BranchName, tip: &ObjectId) -> bool {
        let known = self.known;
        match (known.get(&self.refs.base_host(name)), known.get(&self.refs.base_sandbox(name))) {
            (None, None) => self.survey.main.sent(name) == Some(tip),
            (host, sandbox) => host == Some(tip) && sandbox == Some(tip),
        }
    }

    /// From now on this is what both sides have in common of a branch.
    fn remember(
        &self,
        progress: &mut Progress,
        name: &BranchName,
        host: Option<&ObjectId>,
        sandbox: &ObjectId,
    ) {
        let mut set = |reference: &str, id: &ObjectId| {
            if self.known.get(reference) != Some(id) {
                progress.transaction.set(reference, id, Expected::Anything);
            }
        };
        if let Some(host) = host {
            set(&self.refs.base_host(name), host);
        }
        set(&self.refs.base_sandbox(name), sandbox);
    }

    /// The files of working trees, and the commits of branches that are checked out.
    async fn apply_trees(&self, plans: &mut [BranchPlan], progress: &mut Progress) -> Result<(), NotUsable> {
        let mut done = Vec::new();
        for (number, tree) in self.survey.main.trees.iter().enumerate() {
            let selected = match &self.options.selection {
                BranchSelection::Main => number == 0,
                BranchSelection::All => true,
                BranchSelection::Worktree(only) => tree.branch.as_ref() == Some(only),
            };
            let key = if number == 0 { MAIN } else { tree.path.as_str() };
            if !selected {
                if self.options.selection == BranchSelection::Main && self.has_files(tree, key) {
                    progress.report.not_asked.push((tree.path.clone(), tree.branch.clone()));
                }
                continue;
            }
            let plan = plans.iter_mut().find(|plan| tree.branch.as_ref() == Some(&plan.name));
            done.extend(tree.branch.clone());
            let files = self.apply_tree(tree, key, plan, progress).await?;
            // A working tree and its branch change together, whatever becomes of the others.
            self.move_refs(progress).await?;
            if let Some(files) = files {
                let (path, branch) = (tree.path.clone(), tree.branch.clone());
                let archive =
                    tree.snapshot.as_ref().and_then(|snapshot| self.known.archive_of(&snapshot.commit));
                let archive = archive.map(|archive| format!("{archive}:{}", files_name(number)));
                progress.report.trees.push(TreeOutcome { path, branch, files, archive });
            }
        }
        // Branches that are checked out on the host and in no selected working tree of the sandbox.
        let is_open =
            |plan: &&mut BranchPlan| plan.decision != CommitDecision::Nothing && !done.contains(&plan.name);
        let mut open: Vec<&mut BranchPlan> = plans.iter_mut().filter(is_open).collect();
        if !open.is_empty() {
            let checked_out = self.host.checked_out().await?;
            open.retain(|plan| checked_out.contains(&plan.name) || self.host.held.contains(&plan.name));
        }
        for plan in open {
            if let Some(host) = self.host_tree(&plan.name).await? {
                self.apply_commits(&host, plan, progress).await?;
                self.move_refs(progress).await?;
            }
        }
        Ok(())
    }

    /// The working tree of the user's that has a branch checked out.
    async fn host_tree(&self, branch: &BranchName) -> Result<Option<HostTree>, NotUsable> {
        if self.is_reserved(branch) {
            return Ok(None);
        }
        if self.host.branch.as_ref() == Some(branch) || self.host.held.contains(branch) {
            return Ok(Some(self.host.clone()));
        }
        if !self.known.has(&branch.full()) {
            return Ok(None);
        }
        self.host.other_with(self.git, branch).await
    }

    /// Whether a working tree has uncommitted files that were not brought yet.
    fn has_files(&self, tree: &TreeSurvey, key: &str) -> bool {
        let base = self.known.get(&self.refs.base_files(key));
        tree.snapshot.as_ref().is_some_and(|snapshot| Some(&snapshot.files) != base)
    }

    async fn apply_tree(
        &self,
        tree: &TreeSurvey,
        key: &str,
        plan: Option<&mut BranchPlan>,
        progress: &mut Progress,
    ) -> Result<Option<FilesOutcome>, NotUsable> {
        let has_work = self.has_files(tree, key);
        let waiting = |why| Ok(has_work.then_some(FilesOutcome::Waiting(why)));
        let Some(branch) = &tree.branch else {
            return waiting(match tree.operations.first() {
                Some(operation) => WhyFilesWait::SandboxBusy(operation.clone()),
                None => WhyFilesWait::Detached,
            });
        };
        let Some(host) = self.host_tree(branch).await? else {
            return waiting(WhyFilesWait::OtherBranch(self.host.branch.clone()));
        };
        if let Some(operation) = host.operation {
            if let Some(plan) = plan
                && plan.decision != CommitDecision::Nothing
            {
                self.wait(plan, WhyWaiting::HostBusy(operation), progress).await?;
            }
            return waiting(WhyFilesWait::HostBusy(operation));
        }
        let (Some(sandbox_commit), Some(host_commit)) = (&tree.head, &host.head) else {
            if let Some(plan) = plan {
                self.apply_commits(&host, plan, progress).await?;
            }
            return waiting(WhyFilesWait::NoCommit);
        };
        if let Some(operation) = tree.operations.first() {
            // What it is in the middle of is not finished work; commits come all the same.
            if let Some(plan) = plan {
                self.apply_commits(&host, plan, progress).await?;
            }
            return waiting(WhyFilesWait::SandboxBusy(operation.clone()));
        }
        let repository = &host.repository;
        let mut trees = repository.trees_of(&[sandbox_commit, host_commit]).await?.into_iter();
        let (Some(sandbox_head), Some(host_head)) = (trees.next(), trees.next()) else {
            return waiting(WhyFilesWait::NoCommit);
        };
        let sandbox = tree.snapshot.as_ref().map_or_else(|| sandbox_head.clone(), |it| it.files.clone());
        let base = self.base_files(repository, key, branch, sandbox_commit, host_commit).await?;
        let work = TreeWork {
            base,
            sandbox,
            sandbox_head,
            host_commit: host_commit.clone(),
            new_commit: host_commit.clone(),
            new_head: host_head.clone(),
            host_head,
            waiting: None,
            only: self.options.only.clone(),
            merge: self.options.merge,
            conflicted: None,
            sandbox_id: self.refs.id().clone(),
        };
        // Before anything has changed: git may find too much to look at.
        let mut autorun = repository.autorun(&work.base, &work.sandbox).await?;
        let mut report = self.move_tree(&host, work, plan, progress).await?;
        autorun.retain(|file| report.written.binary_search(&file.path).is_ok());
        report.autorun = autorun;
        if let Some(base) = &report.base
            && self.known.get(&self.refs.base_files(key)) != Some(base)
        {
            progress.transaction.set(&self.refs.base_files(key), base, Expected::Anything);
        }
        Ok(Some(FilesOutcome::Applied { place: host.root, report }))
    }

    /// The files that both sides had in common last.
    async fn base_files(
        &self,
        repository: &Repository,
        key: &str,
        branch: &BranchName,
        sandbox: &ObjectId,
        host: &ObjectId,
    ) -> Result<ObjectId, GitError> {
        if let Some(base) = self.known.get(&self.refs.base_files(key)) {
            return Ok(base.clone());
        }
        if let Some(before) = self.known.get(&self.refs.applied_before()).filter(|_| key == MAIN) {
            return Ok(repository.trees_of(&[before]).await?.remove(0));
        }
        let commit = match self.memory(branch).await? {
            Some(memory) => memory.sandbox,
            None => repository.merge_base(host, sandbox).await?.unwrap_or_else(|| sandbox.clone()),
        };
        Ok(repository.trees_of(&[&commit]).await?.remove(0))
    }

    /// Moves the commits of a branch that is checked out on the host, with the files that they change.
    async fn apply_commits(
        &self,
        host: &HostTree,
        plan: &mut BranchPlan,
        progress: &mut Progress,
    ) -> Result<(), NotUsable> {
        if plan.decision == CommitDecision::Nothing {
            return Ok(());
        }
        if let Some(operation) = host.operation {
            return Ok(self.wait(plan, WhyWaiting::HostBusy(operation), progress).await?);
        }
        let Some(host_commit) = &host.head else { return Ok(()) };
        let host_head = &host.repository.trees_of(&[host_commit]).await?.remove(0);
        // No working tree of the sandbox has the branch: nothing is brought but what its commits change.
        let work = TreeWork {
            base: host_head.clone(),
            sandbox: host_head.clone(),
            sandbox_head: host_head.clone(),
            host_commit: host_commit.clone(),
            new_commit: host_commit.clone(),
            new_head: host_head.clone(),
            host_head: host_head.clone(),
            waiting: None,
            only: Vec::new(),
            merge: MergeMode::Wait,
            conflicted: None,
            sandbox_id: self.refs.id().clone(),
        };
        self.move_tree(host, work, Some(plan), progress).await?;
        Ok(())
    }

    /// Brings files, and commits if the plan has some that may move. What cannot move waits, and the rest is brought.
    async fn move_tree(
        &self,
        host: &HostTree,
        mut work: TreeWork,
        plan: Option<&mut BranchPlan>,
        progress: &mut Progress,
    ) -> Result<TreeReport, NotUsable> {
        let repository = &host.repository;
        progress.written.push(repository.clone());
        let mut plan = plan.filter(|plan| plan.decision != CommitDecision::Nothing);
        if let Some(plan) = &mut plan {
            if self.options.only.is_empty() {
                self.choose_commits(Some((repository, &work)), plan, progress).await?;
            } else {
                self.wait(plan, WhyWaiting::NotAsked, progress).await?;
            }
            if let Some(new) = &plan.new {
                let new_head = repository.trees_of(&[new]).await?.remove(0);
                let moving = TreeWork { new_commit: new.clone(), new_head, ..work.clone() };
                match self.apply_work(repository, moving).await? {
                    Applied::Done(report) => {
                        self.moved(plan, progress).await?;
                        return Ok(report);
                    }
                    Applied::Blocked(paths) => {
                        self.wait(plan, WhyWaiting::HostChanges(paths), progress).await?;
                    }
                }
            }
            if self.options.only.is_empty() {
                work.waiting = self.waiting_changes(repository, plan).await?;
            }
        }
        match self.apply_work(repository, work).await? {
            Applied::Done(report) => Ok(report),
            Applied::Blocked(_) => Ok(TreeReport::default()),
        }
    }

    async fn apply_work(&self, repository: &Repository, work: TreeWork) -> Result<Applied, GitError> {
        let plan = repository.plan_tree(work).await?;
        match self.mode {
            Execution::Apply => {
                let replaced = plan.replaced_files();
                if !replaced.is_empty() {
                    repository.archive_replaced(self.refs, self.known.next_archive(), &replaced).await?;
                }
                plan.apply(repository, self.options.max_bytes).await
            }
            Execution::Plan if !plan.blocking.is_empty() && plan.moves_commits() => {
                Ok(Applied::Blocked(plan.blocking))
            }
            Execution::Plan => Ok(Applied::Done(plan.report())),
        }
    }

    /// Between which trees the commits that wait have changed something.
    async fn waiting_changes(
        &self,
        repository: &Repository,
        plan: &BranchPlan,
    ) -> Result<Option<(ObjectId, ObjectId)>, GitError> {
        let from = match (&plan.memory, &plan.host) {
            (Some(memory), _) => Some(memory.sandbox.clone()),
            (None, Some(host)) => repository.merge_base(host, &plan.sandbox).await?,
            (None, None) => None,
        };
        let Some(from) = from else { return Ok(None) };
        let trees = repository.trees_of(&[&from, &plan.sandbox]).await?;
        Ok(<[ObjectId; 2]>::try_from(trees).ok().map(|[from, to]| (from, to)))
    }

    /// The host's branch moves, with the memory of it.
    async fn moved(&self, plan: &mut BranchPlan, progress: &mut Progress) -> Result<(), GitError> {
        let Some(new) = plan.new.clone() else { return Ok(()) };
        if plan.outcome == CommitsOutcome::Nothing
            && let Some(host) = &plan.host
        {
            let (count, dropped) = self.repository().apart(&new, host).await?;
            plan.outcome = CommitsOutcome::Moved { count, dropped };
        }
        let expected = plan.host.as_ref().map_or(Expected::Absent, Expected::At);
        progress.transaction.set(&plan.name.full(), &new, expected);
        self.remember(progress, &plan.name, Some(&new), &plan.sandbox);
        if let Some(waiting) = WaitingBranch::find(self.known, self.refs, &plan.name) {
            self.clear_waiting(&waiting, progress).await?;
        }
        // So that nothing moves it again.
        plan.new = None;
        plan.became = Some(new);
        Ok(())
    }

    /// Moves or makes a branch that is checked out nowhere, and reports.
    async fn finish_branch(&self, mut plan: BranchPlan, progress: &mut Progress) -> Result<(), NotUsable> {
        if plan.outcome == CommitsOutcome::Nothing {
            match plan.decision {
                CommitDecision::Nothing => return Ok(()),
                _ if !self.options.only.is_empty() => {
                    self.wait(&mut plan, WhyWaiting::NotAsked, progress).await?;
                }
                CommitDecision::Move | CommitDecision::Create
                    if let Some(operation) = self.host.operation =>
                {
                    self.wait(&mut plan, WhyWaiting::HostBusy(operation), progress).await?;
                }
                CommitDecision::Create => self.create_branch(&mut plan, progress).await?,
                CommitDecision::Wait(_) => self.choose_commits(None, &mut plan, progress).await?,
                CommitDecision::Move => {}
            }
        }
        if plan.new.is_some() {
            self.moved(&mut plan, progress).await?;
        }
        let BranchPlan { name, sandbox, host, memory, outcome, became, .. } = plan;
        let (old, to) = (host.clone(), became);
        let from = host.or(memory.map(|memory| memory.sandbox)).or_else(|| self.host.head.clone());
        let autorun = match from {
            Some(from) if outcome != CommitsOutcome::Nothing => {
                let base = match self.repository().apart(&from, &sandbox).await? {
                    (0, _) => from,
                    _ => self.repository().merge_base(&from, &sandbox).await?.unwrap_or(from),
                };
                // As trees, whose difference is known by now.
                let trees = self.repository().trees_of(&[&base, &sandbox]).await?;
                let [base, sandbox] = trees.as_slice() else { return Ok(()) };
                self.repository().autorun(base, sandbox).await?
            }
            _ => Vec::new(),
        };
        let from = old.filter(|_| to.is_some());
        progress.report.branches.push(BranchReport { name, commits: outcome, from, to, autorun });
        Ok(())
    }

    /// Whether a branch can be made under its own name, without hiding another ref or an abbreviated id.
    async fn can_create(&self, name: &BranchName) -> Result<bool, GitError> {
        Ok(self.known.is_free(name) && !self.repository().is_abbreviated_id(name.as_str()).await?)
    }

    /// How many commits of a branch the user has nowhere.
    async fn count_new(&self, tip: &ObjectId) -> Result<u32, GitError> {
        self.repository().count(&[tip], &[], &["--branches", "--remotes", "--tags"]).await
    }

    /// Makes a branch that the host lacks, under its own name unless that would hide another ref.
    async fn create_branch(&self, plan: &mut BranchPlan, progress: &mut Progress) -> Result<(), GitError> {
        let count = self.count_new(&plan.sandbox).await?;
        if self.can_create(&plan.name).await? {
            let name = plan.name.to_string();
            progress.transaction.set(&plan.name.full(), &plan.sandbox, Expected::Absent);
            self.remember(progress, &plan.name, Some(&plan.sandbox), &plan.sandbox);
            if let Some(waiting) = WaitingBranch::find(self.known, self.refs, &plan.name) {
                self.clear_waiting(&waiting, progress).await?;
            }
            plan.outcome = CommitsOutcome::Created { count, name };
        } else {
            let checked_out = self.host.checked_out().await?;
            let shown = (&plan.sandbox, &plan.sandbox);
            let name = WaitingBranch::show(
                self.known,
                self.refs,
                &plan.name,
                shown,
                &checked_out,
                &mut progress.transaction,
            );
            plan.outcome = CommitsOutcome::Created { count, name };
        }
        plan.became = Some(plan.sandbox.clone());
        plan.new = None;
        Ok(())
    }

    /// Tags, stash entries, and commits that no branch has.
    async fn list_the_rest(&self, progress: &mut Progress) -> Result<(), GitError> {
        if matches!(self.options.selection, BranchSelection::Worktree(_)) {
            return Ok(());
        }
        for (name, id) in self.survey.main.tags() {
            let full = format!("refs/tags/{name}");
            if self.known.get(&full) == Some(id) {
                continue;
            }
            let made = self.options.tags == TagMode::Create
                && !self.known.has(&full)
                && !self.known.is_shadowed(name)
                && self.known.fits(&full)
                // A name that is none for a branch can be misread as an option, or is too long for a file.
                && BranchName::new(name).is_ok_and(|name| !name.is_ours())
                && !self.repository().is_abbreviated_id(name).await?;
            if made {
                if let (Execution::Apply, Some(archive)) = (self.mode, self.known.archive_of(id)) {
                    self.repository().make_archived_tag(archive, id).await?;
                }
                progress.transaction.set(&full, id, Expected::Absent);
            }
            progress.report.tags.push(TagReport { name: name.to_owned(), id: id.clone(), made });
        }
        progress.report.stashes.clone_from(&self.survey.main.stashes);
        for push in &self.survey.main.pushes {
            let tracking = push.target.strip_prefix("refs/heads/");
            let tracking = tracking.map(|branch| format!("refs/remotes/{}/{branch}", push.remote));
            let there = tracking.and_then(|tracking| self.known.get(&tracking));
            if there != push.commit.as_ref() {
                progress.report.pushes.push(push.clone());
            }
        }
        for tree in self.survey.main.trees.iter().filter(|tree| tree.branch.is_none()) {
            let Some(head) = &tree.head else { continue };
            let own = ["--branches", "--remotes", "--tags"];
            if self.repository().count(&[head], &[], &own).await? > 0 {
                progress.report.detached.push((tree.path.clone(), head.clone()));
            }
        }
        Ok(())
    }
}
