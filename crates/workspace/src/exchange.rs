//! The exchange between a host repository and a sandbox: what goes in at a start, and what comes back.
//!
//! Every step holds the repository's lock, looks at both sides, archives what the sandbox has and the host has not, and
//! only then moves something.

use crate::archive::{Archive, ArchiveOutcome, ArchiveReason, ArchiveSubject, EntryKind, Refused};
use crate::git::{Git, GitError};
use crate::host_changes::HostChanges;
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::large_files::LargeFilesReport;
use crate::lock::RepositoryLock;
use crate::nested::NestedArchive;
use crate::pack::ReceiveError;
use crate::place::NotUsable;
use crate::progress::Progress;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::sandbox::{SandboxError, SandboxRepository};
use crate::send::{SendError, SendReport, SendRequest, Sent, TreeTarget};
use crate::shared_objects::SharedObjects;
use crate::status::Change;
use crate::submodules::Submodule;
use crate::survey::{LeftOut, NestedSurvey, Survey};
use crate::sync::{BranchSelection, Execution, MergeMode, SyncOptions, SyncRun, TagMode};
use crate::sync_report::{CommitsOutcome, FilesOutcome, SyncReport};
use crate::transaction::{Expected, RefTransaction};
use palisade_core::{HostPath, ProjectPath, RefScope};
use palisade_host::fault::{self, Step};
use std::collections::BTreeSet;
use std::time::{SystemTime, UNIX_EPOCH};

/// How often it is looked again when something changes inside between a look and an act.
const MAX_LOOKS: usize = 4;

#[derive(Debug, thiserror::Error)]
pub enum ExchangeError {
    #[error(transparent)]
    Host(NotUsable),
    #[error(transparent)]
    Git(#[from] GitError),
    #[error(transparent)]
    Sandbox(#[from] SandboxError),
    #[error(transparent)]
    Receive(ReceiveError),
    #[error(transparent)]
    Send(SendError),
    /// The host has changes of its own that are not committed.
    #[error("there are changes that are not committed")]
    Uncommitted { root: HostPath, changes: Vec<Change> },
    #[error("there is no git repository in the sandbox's workspace")]
    NoRepositoryInside,
    #[error("no working tree of the sandbox has the branch '{0}'")]
    NoWorktree(BranchName),
    #[error("the sandbox's files keep changing while they are looked at")]
    Restless,
}

impl From<NotUsable> for ExchangeError {
    /// A git that cannot be used is not the repository's fault.
    fn from(error: NotUsable) -> Self {
        match error {
            NotUsable::Git(git) => Self::Git(git),
            other => Self::Host(other),
        }
    }
}

impl From<ReceiveError> for ExchangeError {
    fn from(error: ReceiveError) -> Self {
        match error {
            ReceiveError::Git(error) => Self::Git(error),
            ReceiveError::Sandbox(error) => Self::Sandbox(error),
            other @ ReceiveError::Objects(_) => Self::Receive(other),
        }
    }
}

impl From<SendError> for ExchangeError {
    fn from(error: SendError) -> Self {
        match error {
            SendError::Git(error) => Self::Git(error),
            SendError::Sandbox(error) => Self::Sandbox(error),
            other @ SendError::PartialClone => Self::Send(other),
        }
    }
}

/// What was archived of everything in a sandbox.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ArchiveReport {
    pub main: ArchiveOutcome,
    /// Nested repositories with work of their own.
    pub nested: Vec<NestedArchive>,
    /// Nested repositories that hold nothing that their remotes do not have.
    pub plain_clones: Vec<ProjectPath>,
    /// What could not be archived.
    pub left_out: Vec<LeftOut>,
}

impl ArchiveReport {
    /// Whether everything that the sandbox holds is on the host now.
    pub fn is_complete(&self) -> bool {
        self.left_out.is_empty()
            && self.main.refused.is_empty()
            && self.nested.iter().all(|nested| nested.outcome.refused.is_empty())
    }

    pub fn archive(&self) -> Option<&Archive> {
        self.main.archive.as_ref()
    }
}

/// What a sync did, or would do.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ExchangeReport {
    pub archived: ArchiveReport,
    pub sync: SyncReport,
    /// The host's branch, unless there is none.
    pub host_branch: Option<BranchName>,
}

/// What to do when the sandbox has work that is not in the user's branches and working trees.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUnapplied {
    /// Its working tree stays as it is.
    Continue,
    /// It is archived, and the working tree follows the host.
    FollowHost,
}

/// What to do with changes on the host that are not committed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum OnUncommitted {
    Refuse,
    /// They stay on the host.
    LeaveBehind,
    /// They go into the sandbox as they are.
    Include,
}

#[derive(Debug, Clone)]
pub struct StartOptions {
    pub scope: RefScope,
    pub on_uncommitted: OnUncommitted,
    pub on_unapplied: OnUnapplied,
    /// Whether something works in the sandbox's working tree, which must not move then.
    pub is_busy: bool,
    /// Files that go in by another way, by their paths from the top.
    pub sent_apart: Vec<String>,
    /// What the sandbox sees of the host's commits without a transfer.
    pub shared: Option<SharedObjects>,
}

/// What became of the sandbox's working tree at a start.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Arrival {
    /// The sandbox had no repository; now it has the host's.
    Cloned,
    /// It is at the host's branch and commit.
    Followed { moved: bool },
    /// It stays as it is.
    Stayed(WhyStayed),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum WhyStayed {
    /// There is work that is not in the user's branches and working trees.
    UnappliedWork,
    /// Some of it cannot be archived.
    NotArchived(Vec<LeftOut>),
    /// A session works in it.
    Busy,
    /// Another working tree of the sandbox has the host's branch.
    InWorktree,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StartReport {
    pub arrival: Arrival,
    pub branch: BranchName,
    pub commit: ObjectId,
    /// Changes of the user's that stayed on the host.
    pub left_behind: usize,
    pub archived: ArchiveReport,
    /// How many branches and tags of the host's the sandbox sees.
    pub branches: usize,
    pub tags: usize,
    pub large_files: LargeFilesReport,
}

impl HostChanges {
    fn leave_out(&mut self, names: &[String]) {
        self.own.retain(|change| !names.iter().any(|name| change.path == std::path::Path::new(name)));
    }

    fn require_none(&self, host: &HostTree) -> Result<(), ExchangeError> {
        match self.own.is_empty() {
            true => Ok(()),
            false => {
                let (root, changes) = (host.root.clone(), self.own.clone());
                Err(ExchangeError::Uncommitted { root, changes })
            }
        }
    }
}

impl HostTree {
    /// Refuses changes of the user's that are not committed, before there is a sandbox that they could go into.
    /// `sent_apart` are files that go in by another way.
    pub async fn require_committed(&self, sent_apart: &[String]) -> Result<(), ExchangeError> {
        let known = self.repository.refs_alone().await?;
        let mut changes = self.uncommitted(&known).await?;
        changes.leave_out(sent_apart);
        changes.require_none(self)
    }
}

/// Both sides of the exchange.
#[derive(Debug)]
pub struct Exchange<'a> {
    pub git: &'a Git,
    /// The top of the host's working tree.
    pub root: &'a HostPath,
    pub refs: &'a SandboxRefs,
    pub sandbox: SandboxRepository<'a>,
    /// The agent's name, for archives.
    pub agent: &'a str,
}

/// The host's side while its lock is held.
struct HostSide {
    _lock: RepositoryLock,
    tree: HostTree,
    known: HostRefs,
}

impl Exchange<'_> {
    async fn host_side(&self) -> Result<(HostSide, bool), ExchangeError> {
        let tree = HostTree::find_again(self.git, self.root).await?;
        let lock = tree.repository.lock().await?;
        let known = tree.repository.host_refs(self.refs).await?;
        let at_once = lock.was_free();
        Ok((HostSide { _lock: lock, tree, known }, at_once))
    }

    /// Both sides, looked at at the same time. What was seen inside before the lock was ours is good enough when nothing
    /// else had it.
    async fn look(&self) -> Result<(HostSide, Option<Survey>), ExchangeError> {
        let (survey, host) = tokio::join!(self.sandbox.survey(), self.host_side());
        let (host, at_once) = host?;
        match survey {
            Ok(survey) if at_once => Ok((host, survey)),
            Err(error) if error.is_timeout() => Err(error.into()),
            _ => Ok((host, self.sandbox.survey().await?)),
        }
    }

    /// Archives everything, and changes nothing else.
    pub async fn archive(&self, reason: ArchiveReason) -> Result<ArchiveReport, ExchangeError> {
        let (mut host, survey) = self.look().await?;
        let survey = survey.ok_or(ExchangeError::NoRepositoryInside)?;
        self.archive_survey(&mut host, &survey, reason).await
    }

    /// The archives of this sandbox in the host's repository.
    pub async fn archive_references(&self) -> Result<Vec<String>, ExchangeError> {
        let tree = HostTree::find(self.git, self.root).await?;
        let known = tree.repository.host_refs(self.refs).await?;
        Ok(known.below(&self.refs.archives()).map(|(name, _)| name.to_owned()).collect())
    }

    async fn archive_survey(
        &self,
        host: &mut HostSide,
        survey: &Survey,
        reason: ArchiveReason,
    ) -> Result<ArchiveReport, ExchangeError> {
        let time = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs());
        let subject = ArchiveSubject {
            refs: self.refs,
            agent: self.agent,
            reason,
            time: i64::try_from(time).unwrap_or(i64::MAX),
            left_out: &survey.left_out,
        };
        let repository = &host.tree.repository;
        let mut report = ArchiveReport {
            main: repository.archive(&self.sandbox, &survey.main, &mut host.known, subject).await?,
            plain_clones: Vec::new(),
            left_out: survey.left_out.clone(),
            nested: Vec::new(),
        };
        if let Err(error) = repository.receive_large_files(&self.sandbox, &survey.main.large).await {
            let reason = format!("files of Git LFS could not be brought: {error}");
            report.left_out.push(LeftOut { path: ".git/lfs".into(), reason });
        }
        for NestedSurvey { path, has_own_work, repository: nested } in &survey.nested {
            if !has_own_work {
                // The user's own submodule is not worth a line.
                if !host.tree.root.join(path.as_str()).join(".git").as_path().exists() {
                    report.plain_clones.push(path.clone());
                }
                continue;
            }
            match repository.archive_nested(&self.sandbox, path, nested, subject).await {
                Ok(archive) => report.nested.push(archive),
                // The rest is archived all the same.
                Err(error) => {
                    let reason = format!("the nested repository could not be archived: {error}");
                    report.left_out.push(LeftOut { path: path.to_string(), reason });
                }
            }
        }
        fault::at(Step::SyncArchived).map_err(|source| GitError::Io { what: "carry on".into(), source })?;
        Ok(report)
    }

    /// Archives everything, then brings what can be brought.
    pub async fn sync(&self, options: &SyncOptions) -> Result<ExchangeReport, ExchangeError> {
        self.run(options, Execution::Apply, ArchiveReason::Sync).await
    }

    /// Archives everything, and says what a sync of all of it would do.
    pub async fn unapplied(&self, reason: ArchiveReason) -> Result<ExchangeReport, ExchangeError> {
        self.run(&everything(), Execution::Plan, reason).await
    }

    async fn run(
        &self,
        options: &SyncOptions,
        mode: Execution,
        reason: ArchiveReason,
    ) -> Result<ExchangeReport, ExchangeError> {
        let (mut host, survey) = self.look().await?;
        let survey = survey.ok_or(ExchangeError::NoRepositoryInside)?;
        if let BranchSelection::Worktree(branch) = &options.selection
            && !survey.main.trees.iter().any(|tree| tree.branch.as_ref() == Some(branch))
        {
            return Err(ExchangeError::NoWorktree(branch.clone()));
        }
        let archived = self.archive_survey(&mut host, &survey, reason).await?;
        if mode == Execution::Apply
            && host.tree.repository.rename_earlier_waiting(self.refs, &host.known).await?
        {
            host.known = host.tree.repository.host_refs(self.refs).await?;
        }
        let HostSide { tree, known, .. } = &host;
        let (git, refs) = (self.git, self.refs);
        let survey = &without_refused(survey, &archived);
        let sync = SyncRun { git, host: tree, refs, survey, known, options, mode }.run().await?;
        Ok(ExchangeReport { archived, sync, host_branch: host.tree.branch })
    }

    /// Sends the host's state into the sandbox. Its working tree becomes the host's branch and commit, unless it has work
    /// that must not be moved.
    pub async fn start(
        &self,
        options: &StartOptions,
        mut progress: impl FnMut(Progress) + Send,
    ) -> Result<StartReport, ExchangeError> {
        let (mut host, mut survey) = self.look().await?;
        let (branch, commit) = host.tree.require_branch()?;
        let (branch, commit) = (branch.clone(), commit.clone());
        let mut changes = host.tree.uncommitted(&host.known).await?;
        changes.leave_out(&options.sent_apart);
        if options.on_uncommitted == OnUncommitted::Refuse {
            changes.require_none(&host.tree)?;
        }
        let include = options.on_uncommitted == OnUncommitted::Include;
        let files = host.tree.files_to_send(&changes, include).await?;
        let left_behind = if include { 0 } else { changes.own.len() };
        let mut archived = ArchiveReport::default();
        for _ in 0..MAX_LOOKS {
            let stay = match &survey {
                None => None,
                Some(survey) => {
                    archived = self.archive_survey(&mut host, survey, ArchiveReason::Start).await?;
                    self.why_stay(&host, survey, &archived, options).await?
                }
            };
            if let Some(survey) = &survey {
                self.remember_deleted(&host, survey).await?;
            }
            let target = match stay {
                Some(_) => TreeTarget::Stay,
                None => TreeTarget::Host { files: files.clone() },
            };
            let request = SendRequest {
                scope: options.scope,
                branch: Some(&branch),
                commit: &commit,
                target,
                exclude: self.exclude_lines(&host.tree)?,
                shared: options.shared.as_ref(),
            };
            let HostSide { tree, known, .. } = &host;
            let there = survey.as_ref().map(|survey| &survey.main);
            let SendReport { tree: sent, followed, large_files } =
                tree.send(&self.sandbox, known, Some(self.refs), there, &request, &mut progress).await?;
            let arrival = match (sent, stay) {
                (Sent::Changed, _) => {
                    survey = self.sandbox.survey().await?;
                    continue;
                }
                (Sent::InWorktree, _) => {
                    self.remember_start(&host, survey.as_ref(), &followed, None).await?;
                    Arrival::Stayed(WhyStayed::InWorktree)
                }
                (Sent::Done, Some(why)) => {
                    self.remember_start(&host, survey.as_ref(), &followed, None).await?;
                    Arrival::Stayed(why)
                }
                (Sent::Done, None) => {
                    self.send_submodules(tree, survey.as_ref(), options).await?;
                    let moved = MovedTree { branch: &branch, commit: &commit, files: files.as_ref() };
                    self.remember_start(&host, survey.as_ref(), &followed, Some(moved)).await?;
                    arrival_of(survey.as_ref(), &branch, &commit, files.as_ref())
                }
            };
            let count = |directory: &str| match options.scope {
                RefScope::All => {
                    let names = host.known.below(directory).map(|(name, _)| name);
                    names.filter(|name| !name.starts_with("refs/heads/palisade/")).count()
                }
                RefScope::Branch => 0,
            };
            let (branches, tags) = (count("refs/heads/").max(1), count("refs/tags/"));
            return Ok(StartReport {
                arrival,
                branch,
                commit,
                left_behind,
                archived,
                branches,
                tags,
                large_files,
            });
        }
        Err(ExchangeError::Restless)
    }

    /// Sends the submodules whose files are here. One in which the agent has work of its own stays as it is.
    async fn send_submodules(
        &self,
        host: &HostTree,
        survey: Option<&Survey>,
        options: &StartOptions,
    ) -> Result<(), ExchangeError> {
        for Submodule { path, tree } in host.submodules(self.git).await? {
            let Some(commit) = &tree.head else { continue };
            let nested = survey.into_iter().flat_map(|survey| &survey.nested);
            let there = nested.into_iter().find(|nested| nested.path == path);
            if there.is_some_and(|there| there.has_own_work) {
                continue;
            }
            let known = tree.repository.host_refs(self.refs).await?;
            let request = SendRequest {
                scope: options.scope,
                branch: None,
                commit,
                target: TreeTarget::Host { files: None },
                exclude: Vec::new(),
                shared: None,
            };
            let to = self.sandbox.at(format!("{}/{path}", self.sandbox.directory()));
            let there = there.map(|there| &there.repository);
            tree.send(&to, &known, None, there, &request, |_| {}).await?;
        }
        Ok(())
    }

    /// Why the sandbox's working tree must not move; `None` when it may.
    async fn why_stay(
        &self,
        host: &HostSide,
        survey: &Survey,
        archived: &ArchiveReport,
        options: &StartOptions,
    ) -> Result<Option<WhyStayed>, ExchangeError> {
        if options.is_busy {
            return Ok(Some(WhyStayed::Busy));
        }
        let refused = archived.main.refused.iter();
        let refused = refused
            .map(|Refused { what, reason, .. }| LeftOut { path: what.describe(), reason: reason.clone() });
        let not_archived: Vec<LeftOut> = archived.left_out.iter().cloned().chain(refused).collect();
        if !not_archived.is_empty() {
            return Ok(Some(WhyStayed::NotArchived(not_archived)));
        }
        if options.on_unapplied == OnUnapplied::FollowHost {
            return Ok(None);
        }
        let HostSide { tree, known, .. } = host;
        let (git, refs, options) = (self.git, self.refs, &everything());
        let sync = SyncRun { git, host: tree, refs, survey, known, options, mode: Execution::Plan };
        let report = sync.run().await?;
        Ok(has_unapplied_main(survey, &report).then_some(WhyStayed::UnappliedWork))
    }

    /// What git is to ignore inside: what it ignores on the host by a rule of this repository alone, and our own.
    fn exclude_lines(&self, host: &HostTree) -> Result<Vec<String>, ExchangeError> {
        let file = host.repository.places().common.join("info/exclude");
        let text = std::fs::read_to_string(file).unwrap_or_default();
        let rules = text.lines().filter(|line| !line.trim().is_empty() && !line.starts_with('#'));
        Ok(rules.map(str::to_owned).chain(["/.worktrees/".to_owned()]).collect())
    }

    /// Branches that went in and that the user has deleted since: what went in is about to be forgotten inside, and they
    /// must not be taken for new ones then.
    async fn remember_deleted(&self, host: &HostSide, survey: &Survey) -> Result<(), ExchangeError> {
        let mut transaction = RefTransaction::default();
        for (branch, _) in survey.main.branches() {
            let references = [self.refs.base_host(&branch), self.refs.base_sandbox(&branch)];
            if host.known.has(&branch.full()) || references.iter().all(|name| host.known.has(name)) {
                continue;
            }
            let Some(sent) = survey.main.sent(&branch) else { continue };
            if host.tree.repository.has_commit(sent).await? {
                references.iter().for_each(|name| transaction.set(name, sent, Expected::Anything));
            }
        }
        Ok(transaction.commit(&host.tree.repository, "palisade: start").await?)
    }

    /// Remembers what both sides have in common from now on: the files and the branch that the working tree has moved to,
    /// and the branches that have followed the host. The sandbox only says which: where the host has them is known here.
    /// A branch that was never exchanged is not remembered; what the sandbox was sent says enough.
    async fn remember_start(
        &self,
        host: &HostSide,
        survey: Option<&Survey>,
        followed: &BTreeSet<String>,
        moved: Option<MovedTree<'_>>,
    ) -> Result<(), ExchangeError> {
        let (repository, known) = (&host.tree.repository, &host.known);
        let mut transaction = RefTransaction::default();
        if let Some(MovedTree { branch, commit, files }) = moved {
            let files = match files {
                Some(files) => files.clone(),
                None => repository.trees_of(&[commit]).await?.remove(0),
            };
            set_if_new(&mut transaction, known, &self.refs.base_files("main"), &files);
            self.set_common(&mut transaction, known, branch, commit);
        }
        for (other, _) in survey.into_iter().flat_map(|survey| survey.main.branches()) {
            if moved.is_none_or(|moved| *moved.branch != other)
                && followed.contains(other.as_str())
                && known.has(&self.refs.base_sandbox(&other))
                && let Some(now) = known.branch(&other)
            {
                self.set_common(&mut transaction, known, &other, now);
            }
        }
        Ok(transaction.commit(repository, "palisade: start").await?)
    }

    /// Both sides have the host's commit of a branch now, and what was on it before is the user's to decide about.
    fn set_common(
        &self,
        transaction: &mut RefTransaction,
        known: &HostRefs,
        branch: &BranchName,
        id: &ObjectId,
    ) {
        let refs = self.refs;
        for reference in [refs.base_host(branch), refs.base_sandbox(branch), refs.base_sent(branch)] {
            set_if_new(transaction, known, &reference, id);
        }
    }
}

/// The host's state that the sandbox's working tree has moved to.
#[derive(Debug, Clone, Copy)]
struct MovedTree<'a> {
    branch: &'a BranchName,
    commit: &'a ObjectId,
    /// The tree of its files, where they are not the commit's own.
    files: Option<&'a ObjectId>,
}

fn set_if_new(transaction: &mut RefTransaction, known: &HostRefs, reference: &str, id: &ObjectId) {
    if known.get(reference) != Some(id) {
        transaction.set(reference, id, Expected::Anything);
    }
}

/// All branches and working trees.
fn everything() -> SyncOptions {
    SyncOptions {
        selection: BranchSelection::All,
        merge: MergeMode::Wait,
        tags: TagMode::List,
        only: Vec::new(),
        max_bytes: u64::MAX,
    }
}

fn arrival_of(
    survey: Option<&Survey>,
    branch: &BranchName,
    commit: &ObjectId,
    files: Option<&ObjectId>,
) -> Arrival {
    let Some(tree) = survey.and_then(Survey::main_tree) else { return Arrival::Cloned };
    let is_there = tree.branch.as_ref() == Some(branch) && tree.head.as_ref() == Some(commit);
    let same_files = tree.snapshot.as_ref().map(|snapshot| &snapshot.files) == files;
    Arrival::Followed { moved: !(is_there && same_files) }
}

/// Whether the main working tree, or the branch that it is at, has work that is not on the host.
fn has_unapplied_main(survey: &Survey, report: &SyncReport) -> bool {
    let Some(main) = survey.main_tree() else { return false };
    let files = report.trees.iter().any(|tree| {
        tree.path == main.path
            && match &tree.files {
                FilesOutcome::Waiting(_) => true,
                FilesOutcome::Applied { report, .. } => {
                    !(report.written.is_empty() && report.conflicts.is_empty() && report.waiting.is_empty())
                }
            }
    });
    let commits = report.branches.iter().any(|branch| {
        main.branch.as_ref() == Some(&branch.name) && branch.commits != CommitsOutcome::Nothing
    });
    let detached = report.detached.iter().any(|(path, _)| *path == main.path);
    files || commits || detached || !main.operations.is_empty()
}

/// A survey without what git did not take: nothing of it can be brought.
fn without_refused(mut survey: Survey, archived: &ArchiveReport) -> Survey {
    for Refused { what, id, .. } in &archived.main.refused {
        let is_snapshot = matches!(what, EntryKind::Snapshot { .. });
        for tree in &mut survey.main.trees {
            if tree.snapshot.as_ref().is_some_and(|snapshot| snapshot.commit == *id) {
                // It is not known what is not committed there, which is not the same as nothing: its files stay out of
                // it, also those that were brought before.
                (tree.branch, tree.head, tree.snapshot) = (None, None, None);
            }
            if !is_snapshot && tree.head.as_ref() == Some(id) {
                tree.head = None;
            }
        }
        if !is_snapshot {
            survey.main.refs.retain(|_, object| object != id);
            survey.main.stashes.retain(|entry| entry.id != *id);
        }
    }
    survey
}
