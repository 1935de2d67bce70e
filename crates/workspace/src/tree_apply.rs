//! Brings the files and commits of one working tree of the sandbox into one working tree of the host.
//!
//! First everything is looked at and decided, then new files are made beside the working tree, and only then they are
//! put into it, one by one and all of a commit's or none. What is decided twice over the same state is decided the same
//! way, so a run that was killed at any point is finished by the next.

use crate::autorun::Autorun;
use crate::conflicts::ConflictedMerge;
use crate::files::{Content, FileDecision, HostFile, PathFacts};
use crate::git::{GitError, Repository};
use crate::host_files::FoundFiles;
use crate::index_lock::LockedIndex;
use crate::placing::{Change, Placed, Placement};
use crate::refs::ObjectId;
use crate::staging::{Stage, WritingNote};
use crate::sync::MergeMode;
use crate::tree_diff::{EntryMode, TreeChange, TreeEntry};
use crate::written_files::WrittenFiles;
use palisade_core::SandboxId;
use palisade_host::beneath::{self, Missing};
use palisade_host::fault::{self, Step};
use rustix::fd::AsFd;
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Lets git write many files with as many processes as the machine has processors.
const PARALLEL_CHECKOUT: [&str; 4] =
    ["-c", "checkout.workers=0", "-c", "checkout.thresholdForParallelism=1000"];

/// What is to be brought, as trees and commits that the host has by now.
#[derive(Debug, Clone)]
pub(crate) struct TreeWork {
    /// The files that both sides had in common last.
    pub(crate) base: ObjectId,
    /// The files in the sandbox.
    pub(crate) sandbox: ObjectId,
    /// The tree of the sandbox's commit.
    pub(crate) sandbox_head: ObjectId,
    /// The host's commit, and its tree.
    pub(crate) host_commit: ObjectId,
    pub(crate) host_head: ObjectId,
    /// What the host's commit is to become, and its tree; the same where no commits move.
    pub(crate) new_commit: ObjectId,
    pub(crate) new_head: ObjectId,
    /// Between these trees, commits that wait have changed something.
    pub(crate) waiting: Option<(ObjectId, ObjectId)>,
    /// Only these paths, and what lies below them; all when it is empty.
    pub(crate) only: Vec<PathBuf>,
    /// Whether the contents of files are merged that both sides have changed.
    pub(crate) merge: MergeMode,
    /// A merge with conflicts, whose tree is in the place of the new commit: it is left in progress.
    pub(crate) conflicted: Option<ConflictedMerge>,
    /// The sandbox, for the notes of what is being written and what was.
    pub(crate) sandbox_id: SandboxId,
}

/// What was decided for every path of interest.
#[derive(Debug)]
pub(crate) struct TreePlan {
    work: TreeWork,
    facts: BTreeMap<PathBuf, PathFacts>,
    found: FoundFiles,
    decisions: BTreeMap<PathBuf, FileDecision>,
    /// What earlier syncs have written without a commit.
    written: WrittenFiles,
    /// Paths at which the user has something that commits would go past.
    pub(crate) blocking: Vec<PathBuf>,
    /// Files of the user's that a merge replaces, as they are now.
    replaced: BTreeMap<PathBuf, TreeEntry>,
}

/// What became of the files.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct TreeReport {
    /// Written, and not committed.
    pub written: Vec<PathBuf>,
    /// Merged with what the user has changed.
    pub merged: Vec<PathBuf>,
    /// Back to what the host's commit has.
    pub taken_back: Vec<PathBuf>,
    pub conflicts: Vec<PathBuf>,
    /// Waiting for commits that wait.
    pub waiting: Vec<PathBuf>,
    /// Files that run by themselves among those that were written.
    pub autorun: Vec<Autorun>,
    /// What both sides have in common from now on, if that has changed.
    pub(crate) base: Option<ObjectId>,
}

/// When it is noted what is written. A run that is killed in between may have written some of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum WritePhase {
    Begun,
    Done,
}

#[derive(Debug)]
pub(crate) enum Applied {
    Done(TreeReport),
    /// The user has changed something in the meantime that commits would go past: nothing was done.
    Blocked(Vec<PathBuf>),
}

impl Repository {
    /// Looks at everything that a decision needs, and decides.
    pub(crate) async fn plan_tree(&self, work: TreeWork) -> Result<TreePlan, GitError> {
        let TreeWork { base, sandbox, sandbox_head, host_head, new_head, .. } = &work;
        let none = Arc::default();
        let waiting = async {
            match &work.waiting {
                Some((from, to)) => self.tree_diff(from, to).await,
                None => Ok(none),
            }
        };
        let interrupted = self.interrupted_changes(&work).await?;
        // What is staged matters only where something else changes.
        let staged = async {
            match base == sandbox && host_head == new_head && interrupted.is_empty() {
                true => Ok(Vec::new()),
                false => self.staged(&work.host_commit).await,
            }
        };
        let (brought, uncommitted, moved, waiting, committed, staged) = tokio::try_join!(
            self.tree_diff(base, sandbox),
            self.tree_diff(sandbox_head, sandbox),
            self.tree_diff(host_head, new_head),
            waiting,
            self.tree_diff(base, host_head),
            staged,
        )?;
        let wanted =
            |path: &Path| work.only.is_empty() || work.only.iter().any(|only| path.starts_with(only));
        let paths: BTreeSet<PathBuf> = brought
            .iter()
            .chain(moved.iter())
            .map(|change| &change.path)
            .chain(interrupted.keys())
            .filter(|path| wanted(path))
            .cloned()
            .collect();
        let mut found = self.look_at_files(&paths).await?;
        let (brought, uncommitted, moved) = (by_path(&brought), by_path(&uncommitted), by_path(&moved));
        let committed = by_path(&committed);
        let written = WrittenFiles::read(self, &work.sandbox_id);
        let waiting: BTreeSet<&Path> = waiting.iter().map(|change| change.path.as_path()).collect();
        let staged: HashMap<&Path, &TreeChange> =
            staged.iter().map(|change| (change.path.as_path(), change)).collect();
        let mut facts = BTreeMap::new();
        for path in paths {
            let at = path.as_path();
            let host_head = || match (moved.get(at), committed.get(at)) {
                (Some(change), _) => change.before.clone(),
                (None, Some(change)) => change.after.clone(),
                (None, None) => brought.get(at).and_then(|change| change.before.clone()),
            };
            let host_head = host_head();
            let new_head = moved.get(at).map_or_else(|| host_head.clone(), |change| change.after.clone());
            let base = match (brought.get(at), committed.get(at)) {
                (Some(change), _) => change.before.clone(),
                (None, Some(change)) => change.before.clone(),
                (None, None) => host_head.clone(),
            };
            let sandbox = brought.get(at).map_or_else(|| base.clone(), |change| change.after.clone());
            let sandbox_head =
                uncommitted.get(at).map_or_else(|| sandbox.clone(), |change| change.before.clone());
            let entry = PathFacts {
                // Where only some paths are asked for, it does not matter what is committed.
                sandbox_head: if work.only.is_empty() { sandbox_head } else { base.clone() },
                base,
                sandbox,
                host_head,
                new_head,
                host: found.get(at).map_or(HostFile::Other, |found| found.file.clone()),
                staged: staged.get(at).map(|change| change.after.clone()),
                waits_with_commits: waiting.contains(at),
                written: written.at(at).to_vec(),
                interrupted: interrupted.get(at).cloned().unwrap_or_default(),
            };
            facts.insert(path, entry);
        }
        self.take_unwritten_for_unchanged(&mut facts, &mut found).await?;
        self.recognise_large_files(&mut facts).await?;
        let decisions = facts.iter().map(|(path, facts)| (path.clone(), facts.decide())).collect();
        let mut plan = TreePlan {
            work,
            facts,
            found,
            decisions,
            written,
            blocking: Vec::new(),
            replaced: BTreeMap::new(),
        };
        plan.pass_over_emptied_directories(self.directory().as_path());
        let blocking = plan.facts.iter().filter(|(_, facts)| !facts.lets_commits_move());
        plan.blocking = blocking.map(|(path, _)| path.clone()).collect();
        plan.refuse_obstacles();
        if plan.work.merge == MergeMode::Merge {
            plan.merge_files(self).await?;
        }
        Ok(plan)
    }

    /// What a run that was interrupted was about to write, by path.
    async fn interrupted_changes(&self, work: &TreeWork) -> Result<HashMap<PathBuf, Vec<Content>>, GitError> {
        let mut found: HashMap<PathBuf, Vec<Content>> = HashMap::new();
        for tree in WritingNote::read(self, &work.sandbox_id) {
            for change in self.tree_diff(&work.host_head, &tree).await?.iter() {
                found.entry(change.path.clone()).or_default().push(change.after.clone());
            }
        }
        Ok(found)
    }

    /// Files of Git LFS are in the working tree with their contents, and in git as pointers.
    async fn recognise_large_files(&self, facts: &mut BTreeMap<PathBuf, PathFacts>) -> Result<(), GitError> {
        for (path, facts) in facts.iter_mut() {
            let expected = [&facts.host_head, &facts.base, &facts.sandbox, &facts.new_head];
            if let Some(recognised) = self.recognise_large_file(path, &facts.host, &expected).await? {
                facts.host = recognised;
            }
        }
        Ok(())
    }

    /// Files that a sparse checkout leaves out are not missing: they are as the commit has them.
    async fn take_unwritten_for_unchanged(
        &self,
        facts: &mut BTreeMap<PathBuf, PathFacts>,
        found: &mut FoundFiles,
    ) -> Result<(), GitError> {
        let is_missing =
            |facts: &PathFacts| facts.host == HostFile::Content(None) && facts.host_head.is_some();
        if !facts.values().any(is_missing) {
            return Ok(());
        }
        let list = self.git(["ls-files", "-t", "-z"]).env("GIT_OPTIONAL_LOCKS", "0").bytes().await?;
        let skipped: BTreeSet<&[u8]> =
            list.split(|byte| *byte == 0).filter_map(|entry| entry.strip_prefix(b"S ")).collect();
        for (path, facts) in facts.iter_mut().filter(|(_, facts)| is_missing(facts)) {
            if skipped.contains(path.as_os_str().as_bytes()) {
                facts.host = HostFile::Content(facts.host_head.clone());
                if let Some(found) = found.get_mut(path) {
                    found.file = facts.host.clone();
                }
            }
        }
        Ok(())
    }
}

/// Directories that the working tree lacks and of which all staged files are to be written, the outermost ones. `writes`
/// are in the order of their paths.
fn new_directories<'c>(root: &Path, staged: &Path, writes: &'c [Change]) -> Vec<(&'c Path, Vec<&'c Change>)> {
    let mut is_there: HashMap<&Path, bool> = HashMap::new();
    let mut found: BTreeMap<&Path, Vec<&Change>> = BTreeMap::new();
    for change in writes {
        let mut above: Vec<&Path> = change.path.ancestors().skip(1).collect();
        // The last one is the top itself.
        above.pop();
        let missing = above.into_iter().rev().find(|directory| {
            let look = || root.join(directory).symlink_metadata().is_ok();
            !*is_there.entry(directory).or_insert_with(look)
        });
        if let Some(directory) = missing {
            found.entry(directory).or_default().push(change);
        }
    }
    let is_whole = |directory: &Path, files: &[&Change]| {
        let is_staged = |change: &&Change| change.new.as_ref() == Some(&staged.join(&change.path));
        files.iter().all(is_staged) && count_files(&staged.join(directory)) == Some(files.len())
    };
    found.into_iter().filter(|(directory, files)| is_whole(directory, files)).collect()
}

/// How many files and links a directory holds in all.
fn count_files(directory: &Path) -> Option<usize> {
    let mut count = 0;
    for entry in std::fs::read_dir(directory).ok()? {
        let entry = entry.ok()?;
        count += if entry.file_type().ok()?.is_dir() { count_files(&entry.path())? } else { 1 };
    }
    Some(count)
}

fn by_path(changes: &[TreeChange]) -> HashMap<&Path, &TreeChange> {
    changes.iter().map(|change| (change.path.as_path(), change)).collect()
}

impl TreePlan {
    /// What the path becomes, where it changes.
    fn target(&self, path: &Path) -> Option<&Content> {
        let facts = self.facts.get(path)?;
        match self.decisions.get(path)? {
            FileDecision::Write(content) | FileDecision::TakeBack(content) => Some(content),
            FileDecision::Conflict if facts.is_committed_change() => Some(&facts.new_head),
            _ => None,
        }
    }

    fn is_removed(&self, path: &Path) -> bool {
        matches!(self.target(path), Some(None))
    }

    /// A directory whose files all go is gone by the time a file takes its place.
    fn pass_over_emptied_directories(&mut self, root: &Path) {
        let is_directory = |path: &Path| {
            self.facts.get(path).is_some_and(|facts| facts.host == HostFile::Other)
                && self.will_be_empty(root, path)
        };
        let emptied: Vec<PathBuf> = self.facts.keys().filter(|path| is_directory(path)).cloned().collect();
        for path in emptied {
            if let Some(facts) = self.facts.get_mut(&path) {
                facts.host = HostFile::Content(None);
                self.decisions.insert(path.clone(), facts.decide());
            }
            if let Some(found) = self.found.get_mut(&path) {
                found.file = HostFile::Content(None);
                found.stamp = None;
            }
        }
    }

    /// A file cannot be made where a directory stays, nor below a file that stays.
    fn refuse_obstacles(&mut self) {
        let mut refused = Vec::new();
        for path in self.decisions.keys() {
            let Some(Some(_)) = self.target(path) else { continue };
            let Some(found) = self.found.get(path) else { continue };
            let below_file = found.obstacle.as_ref().is_some_and(|obstacle| !self.is_removed(obstacle));
            let is_directory = found.file == HostFile::Other && !self.is_gitlink(path);
            if below_file || is_directory {
                refused.push(path.clone());
            }
        }
        for path in refused {
            let is_committed = self.facts.get(&path).is_some_and(PathFacts::is_committed_change);
            if is_committed && !self.blocking.contains(&path) {
                self.blocking.push(path.clone());
            }
            self.decisions.insert(path, FileDecision::Conflict);
        }
    }

    /// Merges files that both sides have changed, where that has no conflict.
    async fn merge_files(&mut self, repository: &Repository) -> Result<(), GitError> {
        let conflicts: Vec<PathBuf> = self
            .decisions
            .iter()
            .filter(|(_, decision)| **decision == FileDecision::Conflict)
            .map(|(path, _)| path.clone())
            .collect();
        let is_file = |entry: &TreeEntry| matches!(entry.mode, EntryMode::File | EntryMode::Executable);
        for path in conflicts {
            let Some(facts) = self.facts.get(&path).filter(|facts| !facts.is_committed_change()) else {
                continue;
            };
            let (Some(base), HostFile::Content(Some(host)), Some(sandbox)) =
                (&facts.base, &facts.host, &facts.sandbox)
            else {
                continue;
            };
            if ![base, host, sandbox].into_iter().all(is_file) {
                continue;
            }
            // What the commit has is in git already, and may not be in a sparse working tree.
            if facts.host_head.as_ref() != Some(host) {
                repository.write_file(&path, host.mode).await?;
            }
            let Some(id) = repository.merge_contents(&base.id, &host.id, &sandbox.id).await? else {
                continue;
            };
            let mode = if sandbox.mode == base.mode { host.mode } else { sandbox.mode };
            self.replaced.insert(path.clone(), host.clone());
            self.decisions.insert(path, FileDecision::Write(Some(TreeEntry { mode, id })));
        }
        Ok(())
    }

    /// Files of the user's own that are about to be replaced, as they are now.
    pub(crate) fn replaced_files(&self) -> BTreeMap<PathBuf, TreeEntry> {
        let mut replaced = self.replaced.clone();
        if self.moves_commits() && !self.blocking.is_empty() {
            // Nothing will be done.
            return BTreeMap::new();
        }
        for (path, facts) in self.facts.iter().filter(|(_, facts)| facts.host_is_users()) {
            if let (Some(target), HostFile::Content(Some(host))) = (self.target(path), &facts.host)
                && target.as_ref() != Some(host)
            {
                replaced.insert(path.clone(), host.clone());
            }
        }
        replaced
    }

    fn is_gitlink(&self, path: &Path) -> bool {
        matches!(self.target(path), Some(Some(TreeEntry { mode: EntryMode::Gitlink, .. })))
    }

    /// Whether a directory holds nothing but files that go.
    fn will_be_empty(&self, root: &Path, directory: &Path) -> bool {
        let Ok(entries) = std::fs::read_dir(root.join(directory)) else { return false };
        let mut entries = entries.flatten().peekable();
        // An empty one stays: only a removal takes its directory along.
        entries.peek().is_some()
            && entries.all(|entry| {
                let path = directory.join(entry.file_name());
                match entry.file_type() {
                    Ok(kind) if kind.is_dir() => self.will_be_empty(root, &path),
                    _ => self.is_removed(&path),
                }
            })
    }

    pub(crate) fn moves_commits(&self) -> bool {
        self.work.host_commit != self.work.new_commit
    }

    /// What would be reported, without doing it.
    pub(crate) fn report(&self) -> TreeReport {
        let mut report = TreeReport::default();
        for (path, decision) in &self.decisions {
            let is_committed = self.facts.get(path).is_some_and(PathFacts::is_committed_change);
            match decision {
                FileDecision::Write(_) if self.replaced.contains_key(path) => {
                    report.merged.push(path.clone())
                }
                FileDecision::Write(content) => {
                    let only_committed = self.facts.get(path).is_some_and(|facts| facts.new_head == *content);
                    if !(is_committed && only_committed) {
                        report.written.push(path.clone());
                    }
                }
                FileDecision::TakeBack(_) => report.taken_back.push(path.clone()),
                FileDecision::Conflict => report.conflicts.push(path.clone()),
                FileDecision::Wait => report.waiting.push(path.clone()),
                FileDecision::Keep | FileDecision::Equal => {}
            }
        }
        report
    }

    fn has_interrupted_index(&self) -> bool {
        self.facts.values().any(PathFacts::has_interrupted_index)
    }

    /// Whether nothing is to be done to the working tree.
    fn is_idle(&self) -> bool {
        !self.moves_commits()
            && !self.has_interrupted_index()
            && !self.decisions.keys().any(|path| self.target(path).is_some())
    }

    /// Does it. The caller holds the repository's lock, and moves the refs afterwards.
    pub(crate) async fn apply(
        mut self,
        repository: &Repository,
        max_bytes: u64,
    ) -> Result<Applied, GitError> {
        repository.clear_leftovers().await?;
        if !self.blocking.is_empty() && self.moves_commits() {
            return Ok(Applied::Blocked(self.blocking));
        }
        if self.is_idle() {
            let mut report = self.report();
            report.base = self.new_base(repository).await?;
            return Ok(Applied::Done(report));
        }
        self.check_size(repository, max_bytes).await?;
        let index = LockedIndex::take(repository).await?;
        let stage = Stage::make(repository)?;
        let TreeWork { sandbox, new_head, sandbox_id, .. } = &self.work;
        WritingNote::write(repository, sandbox_id, [sandbox, new_head])?;
        self.remember_written(repository, WritePhase::Begun)?;
        fault::at(Step::SyncStaged).map_err(step)?;
        self.stage_files(repository, &index, &stage).await?;
        let root = repository.directory().as_path();
        let mut placement = Placement::begin(root, stage.parked()).map_err(place)?;
        // What commits change comes first: all of it, or nothing at all.
        let unexpected = self.place(root, &mut placement, &stage, true)?;
        if !unexpected.is_empty() {
            placement.undo().map_err(place)?;
            return Ok(Applied::Blocked(unexpected));
        }
        for path in self.place(root, &mut placement, &stage, false)? {
            self.decisions.insert(path, FileDecision::Conflict);
        }
        placement.finish();
        self.remember_written(repository, WritePhase::Done)?;
        self.make_gitlink_directories(repository.directory().as_path()).map_err(place)?;
        fault::at(Step::SyncPlaced).map_err(step)?;
        // What the user's configuration includes may lie in the working tree, where the sandbox's files are now.
        let repository = &repository.guarded_again().await?;
        if self.moves_commits() || self.has_interrupted_index() {
            // The files have new times, which the index is to know.
            let refresh = index.seen_by(repository).git(["update-index", "-q", "--refresh"]);
            refresh.succeeds().await?;
            if let Some(merge) = &self.work.conflicted {
                merge.mark_unmerged(&index.seen_by(repository)).await?;
            }
            index.install()?;
        }
        if let Some(merge) = &self.work.conflicted {
            merge.leave_in_progress(repository).map_err(place)?;
        }
        fault::at(Step::SyncIndexed).map_err(step)?;
        let mut report = self.report();
        report.base = self.new_base(repository).await?;
        Ok(Applied::Done(report))
    }

    /// Remembers what is not committed of the files that are written; when all are, what was there before is forgotten.
    fn remember_written(&self, repository: &Repository, phase: WritePhase) -> Result<(), GitError> {
        let mut written = self.written.clone();
        for (path, facts) in &self.facts {
            let target = self.target(path);
            let is_committed = target.is_some_and(|target| *target == facts.new_head);
            // A merge has something of the user's in it.
            let is_merged = self.replaced.contains_key(path);
            if phase == WritePhase::Done && (target.is_some() || written.at(path).contains(&facts.host_head))
            {
                written.forget(path);
            }
            if let Some(target) = target.filter(|_| !is_committed && !is_merged) {
                written.add(path, target);
            }
        }
        match phase == WritePhase::Begun && written == self.written {
            true => Ok(()),
            false => written.save(repository, &self.work.sandbox_id).map_err(place),
        }
    }

    /// Refuses what would fill the disk: a small pack can hold very large files.
    async fn check_size(&self, repository: &Repository, most: u64) -> Result<(), GitError> {
        let targets = self.decisions.keys().filter_map(|path| self.target(path)?.as_ref());
        let bytes = repository.weigh(targets).await?;
        if bytes > most {
            return Err(GitError::TooLarge { bytes, most });
        }
        let free = rustix::fs::statvfs(repository.directory().as_path())
            .map(|space| space.f_bavail.saturating_mul(space.f_frsize));
        match free {
            Ok(free) if bytes > free => Err(GitError::NoRoom { bytes, free }),
            _ => Ok(()),
        }
    }

    /// Makes the new files where nobody sees them yet, and the new index.
    async fn stage_files(
        &self,
        repository: &Repository,
        index: &LockedIndex<'_>,
        stage: &Stage,
    ) -> Result<(), GitError> {
        if self.has_interrupted_index() {
            self.restore_index(index).await?;
        }
        if self.moves_commits() {
            let (from, to) = (self.work.host_commit.as_str(), self.work.new_commit.as_str());
            // In an empty working tree of its own, git writes exactly what changes, and leaves out what a sparse
            // checkout leaves out.
            let words = PARALLEL_CHECKOUT.into_iter().chain(["read-tree", "-m", "-u", from, to]);
            let read = || index.git(words.clone()).at_tree(&stage.committed());
            if let Err(GitError::Failed { said, .. }) = read().bytes().await {
                tracing::debug!(
                    said,
                    "git does not merge the index; files that were only announced to it are taken out"
                );
                self.take_out_announced(index).await?;
                read().bytes().await?;
            }
        }
        let mut entries = Vec::new();
        for path in self.decisions.keys() {
            let Some(Some(entry)) = self.target(path) else { continue };
            if !self.is_staged_with_commits(stage, path, entry) && entry.mode != EntryMode::Gitlink {
                add_index_entry(&mut entries, path, &Some(entry.clone()), entry.id.as_str().len());
            }
        }
        if entries.is_empty() {
            return Ok(());
        }
        let list = stage.index();
        repository.git(["update-index", "-z", "--index-info"]).index(&list).input(entries).bytes().await?;
        let mut prefix = std::ffi::OsString::from("--prefix=");
        prefix.push(stage.uncommitted());
        prefix.push("/");
        let words = ["checkout-index".into(), "--all".into(), "--quiet".into(), prefix];
        repository.git(words).index(&list).bytes().await.map(drop)
    }

    /// Whether git has made the new file together with those of the commits.
    fn is_staged_with_commits(&self, stage: &Stage, path: &Path, entry: &TreeEntry) -> bool {
        let is_committed =
            |facts: &PathFacts| facts.is_committed_change() && facts.new_head.as_ref() == Some(entry);
        // A conflict is to be seen, also where a sparse checkout leaves the file out.
        let is_left_out = |merge: &ConflictedMerge| {
            merge.has(path) && stage.committed().join(path).symlink_metadata().is_err()
        };
        self.facts.get(path).is_some_and(is_committed)
            && !self.work.conflicted.as_ref().is_some_and(is_left_out)
    }

    /// Takes back what an interrupted run has left in the index.
    async fn restore_index(&self, index: &LockedIndex<'_>) -> Result<(), GitError> {
        let mut entries = Vec::new();
        for (path, facts) in self.facts.iter().filter(|(_, facts)| facts.has_interrupted_index()) {
            add_index_entry(&mut entries, path, &facts.host_head, self.work.host_commit.as_str().len());
        }
        let update = index.git(["update-index", "-z", "--replace", "--index-info"]);
        update.input(entries).bytes().await.map(drop)
    }

    /// Takes files out of the index that were announced to it without content (`git add --intent-to-add`), where commits
    /// bring them: git would not merge them.
    async fn take_out_announced(&self, index: &LockedIndex<'_>) -> Result<(), GitError> {
        let new =
            self.facts.iter().filter(|(_, facts)| facts.host_head.is_none() && facts.new_head.is_some());
        let list: Vec<u8> =
            new.flat_map(|(path, _)| path.as_os_str().as_bytes().iter().copied().chain([0])).collect();
        index.git(["update-index", "--force-remove", "-z", "--stdin"]).input(list).bytes().await.map(drop)
    }

    /// Puts files into the working tree: those that commits change, or the others. The paths at which something else
    /// stands than was seen.
    fn place(
        &self,
        root: &Path,
        placement: &mut Placement,
        stage: &Stage,
        committed: bool,
    ) -> Result<Vec<PathBuf>, GitError> {
        let mut unexpected = Vec::new();
        let changes = self.changes(stage, committed);
        // Files go before others are made in their place.
        let (removals, writes): (Vec<_>, Vec<_>) =
            changes.into_iter().partition(|change| change.new.is_none());
        let mut place_one = |placement: &mut Placement, change: &Change| -> Result<bool, GitError> {
            let placed = placement.place(change).map_err(place)?;
            if placed == Placed::Unexpected {
                unexpected.push(change.path.clone());
            }
            Ok(placed == Placed::Done || !committed)
        };
        for change in removals.iter().rev() {
            if !place_one(placement, change)? {
                return Ok(unexpected);
            }
        }
        let staged = if committed { stage.committed() } else { stage.uncommitted() };
        let mut whole = HashSet::new();
        for (directory, files) in new_directories(root, &staged, &writes) {
            let paths = files.iter().map(|change| change.path.as_path());
            if placement.place_directory(directory, &staged.join(directory), paths.clone()) == Placed::Done {
                whole.extend(paths);
            }
        }
        for change in writes.iter().filter(|change| !whole.contains(change.path.as_path())) {
            if !place_one(placement, change)? {
                return Ok(unexpected);
            }
        }
        Ok(unexpected)
    }

    fn changes(&self, stage: &Stage, committed: bool) -> Vec<Change> {
        let mut changes = Vec::new();
        for (path, facts) in &self.facts {
            let Some(target) = self.target(path) else { continue };
            let found = self.found.get(path);
            let stamp = found.and_then(|found| found.stamp.clone());
            if facts.is_committed_change() != committed || facts.host == HostFile::Content(target.clone()) {
                continue;
            }
            let new = match target {
                None => None,
                // Its directory is made once nothing else has its name.
                Some(entry) if entry.mode == EntryMode::Gitlink => None,
                Some(entry) if self.is_staged_with_commits(stage, path, entry) => {
                    Some(stage.committed().join(path))
                }
                Some(_) => Some(stage.uncommitted().join(path)),
            };
            // A sparse checkout does not have it, before and after.
            let unwritten = new.as_ref().is_some_and(|new| new.symlink_metadata().is_err());
            let nothing_to_remove = new.is_none() && (stamp.is_none() || facts.host == HostFile::Other);
            if !unwritten && !nothing_to_remove {
                changes.push(Change { path: path.clone(), expected: stamp, new });
            }
        }
        changes
    }

    /// As git does for a submodule whose files are not there.
    fn make_gitlink_directories(&self, root: &Path) -> std::io::Result<()> {
        let links =
            self.facts.iter().filter(|(path, facts)| facts.is_committed_change() && self.is_gitlink(path));
        for (path, _) in links {
            let root = beneath::root(root)?;
            beneath::enter(root.as_fd(), path, Missing::Make)?;
        }
        Ok(())
    }

    /// What both sides have in common from now on, unless that is what it was.
    async fn new_base(&self, repository: &Repository) -> Result<Option<ObjectId>, GitError> {
        let is_settled = |path: &Path| {
            let decision = self.decisions.get(path);
            matches!(decision, Some(FileDecision::Equal | FileDecision::Write(_) | FileDecision::TakeBack(_)))
        };
        let brought = repository.tree_diff(&self.work.base, &self.work.sandbox).await?;
        let (settled, open): (Vec<&TreeChange>, Vec<&TreeChange>) =
            brought.iter().partition(|change| is_settled(&change.path));
        if settled.is_empty() {
            return Ok(None);
        }
        if open.is_empty() {
            return Ok(Some(self.work.sandbox.clone()));
        }
        repository
            .tree_with(&self.work.base, settled.iter().map(|change| (change.path.as_path(), &change.after)))
            .await
            .map(Some)
    }
}

impl Repository {
    /// A tree with other contents at some paths.
    pub(crate) async fn tree_with<'c>(
        &self,
        tree: &ObjectId,
        changes: impl Iterator<Item = (&'c Path, &'c Content)>,
    ) -> Result<ObjectId, GitError> {
        let index = self.places().own.join("palisade-tree-index");
        let _ = crate::index_lock::remove(&index);
        let _ = crate::index_lock::remove(&index.with_extension("lock"));
        self.git(["read-tree", tree.as_str()]).index(&index).bytes().await?;
        let mut entries = Vec::new();
        for (path, content) in changes {
            add_index_entry(&mut entries, path, content, tree.as_str().len());
        }
        let update = self.git(["update-index", "-z", "--replace", "--index-info"]);
        update.index(&index).input(entries).bytes().await?;
        let written = self.git(["write-tree"]).index(&index).text().await?;
        let _ = crate::index_lock::remove(&index);
        crate::facts::object("write-tree", &written)
    }
}

/// `mode id TAB path NUL`, as git reads it; without content, the path is removed.
fn add_index_entry(entries: &mut Vec<u8>, path: &Path, content: &Content, id_length: usize) {
    let (mode, id) = match content {
        Some(entry) => (entry.mode.as_str(), entry.id.as_str().to_owned()),
        None => ("0", "0".repeat(id_length)),
    };
    entries.extend(format!("{mode} {id}\t").into_bytes());
    entries.extend_from_slice(path.as_os_str().as_bytes());
    entries.push(0);
}

fn place(source: std::io::Error) -> GitError {
    GitError::Io { what: "write the files".into(), source }
}

fn step(source: std::io::Error) -> GitError {
    GitError::Io { what: "carry on".into(), source }
}
