//! Brings commits of a sandbox home that shares its working tree with the host.
//!
//! Everything is archived first. A branch moves only if the host's is where the sandbox found it; otherwise its commits
//! wait on a branch of their own, and nothing of the user's moves. Where the host's HEAD moves, the index follows it
//! (`index`), and nothing is done to files: they are the same files. Commits of a sandbox that has a copy of the directory
//! always wait, since their files are not there.

use super::head::{Base, Head};
use super::index::Followed;
use crate::archive::{ArchiveOutcome, ArchiveReason, ArchiveSubject};
use crate::exchange::ExchangeError;
use crate::git::{Git, GitError, Repository};
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::sandbox::SandboxRepository;
use crate::survey::{RepositorySurvey, TreeSurvey};
use crate::transaction::{Expected, RefTransaction};
use crate::waiting::WaitingBranch;
use palisade_core::{HostPath, Sharing, printable};
use std::collections::HashSet;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// Both sides of one repository.
#[derive(Debug)]
pub struct BringBack<'a> {
    pub git: &'a Git,
    /// The working tree on the host.
    pub tree: &'a HostPath,
    /// The directory that the sandbox shares.
    pub directory: &'a HostPath,
    pub moves: Moves,
    pub refs: &'a SandboxRefs,
    pub sandbox: SandboxRepository<'a>,
    /// What both sides had in common last.
    pub base: &'a Base,
    pub sharing: Sharing,
}

/// What of the host's may move.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Moves {
    /// Branches, tags, stash entries, HEAD and the index.
    All,
    /// Nothing: all commits wait. They were made in a directory of the working tree, in a repository of its own.
    Nothing,
}

/// What was brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct BroughtBack {
    /// What both sides have in common now.
    pub base: Base,
    /// What the user should know, in lines.
    pub notes: Vec<String>,
    /// Whether commits wait on a branch of their own.
    pub has_waiting: bool,
    /// What could not be archived, in lines. It is in the sandbox's git data and nowhere else.
    pub not_archived: Vec<String>,
}

/// Why commits of a branch wait.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Why {
    /// The files of these commits are in a copy and not on the host.
    OwnCopy,
    HostMoved,
    OtherWorktree,
    Operation(&'static str),
    Staged,
    Repository(PathBuf),
    Below(HostPath),
}

impl std::fmt::Display for Why {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::OwnCopy => f.write_str("they were made in a copy of the directory"),
            Self::HostMoved => f.write_str("your branch has moved meanwhile"),
            Self::OtherWorktree => f.write_str("another worktree has the branch checked out"),
            Self::Operation(operation) => write!(f, "a {operation} is in progress"),
            Self::Staged => f.write_str("you have staged changes of the same files"),
            Self::Repository(path) => {
                let path = printable(&path.to_string_lossy());
                write!(f, "they record {path} as another repository, and the sandbox has made one there")
            }
            Self::Below(directory) => {
                write!(f, "they were made in {directory}, which is not a repository of its own")
            }
        }
    }
}

/// Where the sandbox's HEAD is to lead the host's.
#[derive(Debug, Clone, PartialEq, Eq)]
struct NewHead {
    head: Head,
    commit: ObjectId,
}

impl BringBack<'_> {
    pub async fn run(&self) -> Result<BroughtBack, ExchangeError> {
        let host = HostTree::find_again(self.git, self.tree).await?;
        let _lock = host.repository.lock().await?;
        host.repository.clear_leftovers().await?;
        let mut known = host.repository.host_refs(self.refs).await?;
        let survey = self.sandbox.commits().await?.ok_or(ExchangeError::NoRepositoryInside)?;
        let (inside, tree) = (&survey.main, survey.main.trees.first());
        let subject = ArchiveSubject {
            refs: self.refs,
            agent: "run",
            reason: ArchiveReason::Sync,
            time: SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |time| time.as_secs() as i64),
            left_out: &[],
        };
        let archived = host.repository.archive(&self.sandbox, inside, &mut known, subject).await?;
        let mut run = Run {
            base: self.base,
            sharing: self.sharing,
            refs: self.refs,
            host: &host,
            directory: self.directory,
            known: &known,
            current: current_branch(&host).await?,
            refused: archived.refused.iter().map(|refused| refused.id.clone()).collect(),
            checked_out: host.checked_out().await?,
            transaction: RefTransaction::default(),
            result: BroughtBack {
                base: self.base.clone(),
                notes: Vec::new(),
                has_waiting: false,
                not_archived: not_archived(&archived),
            },
        };
        match self.moves {
            Moves::All => {
                run.branches(inside, tree).await?;
                run.tags(inside);
                run.stashes(inside).await?;
            }
            Moves::Nothing => run.all_wait(inside).await?,
        }
        if let Some(operation) = tree.and_then(|tree| tree.operations.first()) {
            let operation = printable(operation);
            run.result
                .notes
                .push(format!("a {operation} was in progress in the sandbox, and is not continued"));
        }
        Ok(run.result)
    }
}

async fn current_branch(host: &HostTree) -> Result<Option<BranchName>, ExchangeError> {
    if host.branch.is_some() || host.head.is_some() {
        return Ok(host.branch.clone());
    }
    let name = host.repository.git(["symbolic-ref", "--quiet", "HEAD"]).answers().await?;
    let name = String::from_utf8_lossy(&name);
    Ok(name.trim_end().strip_prefix("refs/heads/").and_then(|name| BranchName::new(name).ok()))
}

fn not_archived(archived: &ArchiveOutcome) -> Vec<String> {
    let refused = archived.refused.iter();
    refused.map(|it| format!("{}: {}", it.what.describe(), printable(&it.reason))).collect()
}

/// One run, while the repository's lock is held.
struct Run<'a> {
    base: &'a Base,
    sharing: Sharing,
    refs: &'a SandboxRefs,
    host: &'a HostTree,
    directory: &'a HostPath,
    known: &'a HostRefs,
    refused: HashSet<ObjectId>,
    /// The host's branch, also one without a commit.
    current: Option<BranchName>,
    /// Branches that are checked out in any working tree of the host's.
    checked_out: Vec<BranchName>,
    transaction: RefTransaction,
    result: BroughtBack,
}

impl Run<'_> {
    fn repository(&self) -> &Repository {
        &self.host.repository
    }

    async fn branches(
        &mut self,
        inside: &RepositorySurvey,
        tree: Option<&TreeSurvey>,
    ) -> Result<(), ExchangeError> {
        let mut placed = Vec::new();
        for (name, tip) in inside.branches() {
            let (full, was) = (name.full(), self.base.get(&name.full()));
            if was.as_ref() == Some(tip) || self.refused.contains(tip) {
                continue;
            }
            if self.known.branch(&name) == Some(tip) {
                self.result.base.refs.insert(full, tip.to_string());
                continue;
            }
            match self.obstacle(&name, tip, was.as_ref()).await? {
                Some(why) => self.wait(&name, tip, &why).await?,
                None => placed.push((name, tip.clone(), was)),
            }
        }
        let new_head = self.new_head(tree, &placed);
        // The index first: should this be killed before the refs have moved, the next time does the same again.
        let repository = self.host.repository.clone();
        let mut locked = None;
        if let Some(new) = &new_head
            && self.host.head.as_ref() != Some(&new.commit)
        {
            match repository.index_follows(self.host.head.as_ref(), &new.commit).await? {
                Followed::Ready(index) => locked = Some(index),
                Followed::InTheWay(said) => {
                    tracing::debug!(said, "the index cannot follow");
                    let current = self.current.clone();
                    // The branch that is checked out stays with its index; all others move.
                    if let Some(at) = placed.iter().position(|(name, ..)| Some(name) == current.as_ref()) {
                        let (name, tip, _) = placed.remove(at);
                        self.wait(&name, &tip, &Why::Staged).await?;
                    }
                    return self.move_refs(&placed, None).await;
                }
            }
        }
        if let Some(index) = &locked {
            index.exchange()?;
        }
        match self.move_refs(&placed, new_head.as_ref()).await {
            Ok(()) => Ok(()),
            Err(error) => {
                if let Some(index) = &locked {
                    index.exchange()?;
                }
                Err(error)
            }
        }
    }

    /// Why a branch of the host's must not move to where the sandbox has it.
    async fn obstacle(
        &self,
        name: &BranchName,
        tip: &ObjectId,
        was: Option<&ObjectId>,
    ) -> Result<Option<Why>, GitError> {
        if self.sharing == Sharing::OwnCopy {
            return Ok(Some(Why::OwnCopy));
        }
        let now = self.known.branch(name);
        if now != was || (now.is_none() && !self.known.is_free(name)) {
            return Ok(Some(Why::HostMoved));
        }
        let is_current = self.current.as_ref() == Some(name);
        if let Some(operation) = self.host.operation.filter(|_| is_current || self.host.held.contains(name)) {
            return Ok(Some(Why::Operation(operation)));
        }
        if !is_current && self.checked_out.contains(name) {
            return Ok(Some(Why::OtherWorktree));
        }
        let planted = self.planted_repository(was.or(self.host.head.as_ref()), tip).await?;
        Ok(planted.map(Why::Repository))
    }

    /// A path that the commits record as another repository, where the working tree holds one that the host's commit does
    /// not know: git on the host would look into it.
    async fn planted_repository(
        &self,
        from: Option<&ObjectId>,
        to: &ObjectId,
    ) -> Result<Option<PathBuf>, GitError> {
        let words: Vec<&str> = match from {
            Some(from) => vec!["diff-tree", "-r", "-z", "--raw", "--no-renames", from.as_str(), to.as_str()],
            None => vec!["diff-tree", "-r", "-z", "--raw", "--no-renames", "--root", to.as_str()],
        };
        let listing = self.repository().git(words).modest().bytes().await?;
        let mut words = listing.split(|byte| *byte == 0);
        while let Some(word) = words.next() {
            let is_link = word.starts_with(b":") && word.get(8..14) == Some(b"160000");
            let was_link = word.get(1..7) == Some(b"160000");
            let Some(path) = word.starts_with(b":").then(|| words.next()).flatten() else { continue };
            let path = PathBuf::from(OsStr::from_bytes(path));
            if is_link && !was_link && has_repository(self.directory.join(&path).as_path()) {
                return Ok(Some(path));
            }
        }
        Ok(None)
    }

    /// What the host's HEAD is to be at. `None` when it stays, or when the user has moved it.
    fn new_head(
        &self,
        tree: Option<&TreeSurvey>,
        placed: &[(BranchName, ObjectId, Option<ObjectId>)],
    ) -> Option<NewHead> {
        // The files that belong to it are in the copy.
        let tree = tree.filter(|_| self.sharing == Sharing::WithHost)?;
        let commit = tree.head.clone().filter(|commit| !self.refused.contains(commit))?;
        let head = Head::of(tree.branch.as_ref(), Some(&commit))?;
        let is_unmoved = match &self.base.head {
            Head::Branch(name) => self.current.as_ref().is_some_and(|branch| branch.as_str() == name),
            Head::Detached(id) => {
                self.current.is_none() && self.host.head.as_ref().is_some_and(|head| head.as_str() == id)
            }
        };
        if !is_unmoved || self.host.operation.is_some() {
            return None;
        }
        let is_there = match &tree.branch {
            None => true,
            Some(branch) => {
                let is_placed = placed.iter().any(|(name, tip, _)| name == branch && *tip == commit);
                let is_current = self.current.as_ref() == Some(branch);
                (is_placed || self.known.branch(branch) == Some(&commit))
                    && (is_current || !self.checked_out.contains(branch))
            }
        };
        (is_there && (head != self.base.head || self.host.head.as_ref() != Some(&commit)))
            .then_some(NewHead { head, commit })
    }

    async fn move_refs(
        &mut self,
        placed: &[(BranchName, ObjectId, Option<ObjectId>)],
        head: Option<&NewHead>,
    ) -> Result<(), ExchangeError> {
        for (name, tip, was) in placed {
            let expected = was.as_ref().map_or(Expected::Absent, Expected::At);
            self.transaction.set(&name.full(), tip, expected);
        }
        let reason = format!("palisade: work of {}", self.refs.name());
        let repository = self.host.repository.clone();
        std::mem::take(&mut self.transaction).commit(&repository, &reason).await?;
        for (name, tip, _) in placed {
            self.result.base.refs.insert(name.full(), tip.to_string());
        }
        let Some(NewHead { head, commit }) = head else { return Ok(()) };
        if *head != self.base.head {
            match head {
                Head::Branch(name) => {
                    let full = format!("refs/heads/{name}");
                    repository.git(["symbolic-ref", "-m", &reason, "HEAD", &full]).bytes().await?;
                }
                Head::Detached(_) => {
                    let words = ["update-ref", "--no-deref", "-m", &reason, "HEAD", commit.as_str()];
                    repository.git(words).bytes().await?;
                }
            }
        }
        self.result.base.head = head.clone();
        Ok(())
    }

    /// Shows commits on a branch of their own.
    async fn wait(&mut self, name: &BranchName, tip: &ObjectId, why: &Why) -> Result<(), GitError> {
        let waiting = WaitingBranch::find(self.known, self.refs, name);
        if let Some(waiting) = &waiting
            && waiting.stands_for(tip)
            && waiting.is_settled(self.repository(), self.known.branch(name)).await?
        {
            return Ok(());
        }
        let shown = WaitingBranch::show(
            self.known,
            self.refs,
            name,
            (tip, tip),
            &self.checked_out,
            &mut self.transaction,
        );
        let next = match why {
            // They have no history in common with the host's.
            Why::Below(_) => format!("To look at them: git log -p {shown}"),
            _ => format!("To merge them: git merge {shown}"),
        };
        self.result.has_waiting = true;
        self.result.notes.push(format!("commits on {name} wait on {shown}: {why}. {next}"));
        Ok(())
    }

    /// Shows the commits of all branches, each on a branch of its own. Tags and stash entries are only archived.
    async fn all_wait(&mut self, inside: &RepositorySurvey) -> Result<(), ExchangeError> {
        let why = Why::Below(self.directory.clone());
        for (name, tip) in inside.branches() {
            if !self.refused.contains(tip) {
                self.wait(&name, tip, &why).await?;
            }
        }
        let reason = format!("palisade: work of {}", self.refs.name());
        Ok(std::mem::take(&mut self.transaction).commit(&self.host.repository, &reason).await?)
    }

    /// Tags that the host does not have.
    fn tags(&mut self, inside: &RepositorySurvey) {
        for (name, id) in &inside.refs {
            let Some(short) = name.strip_prefix("refs/tags/") else { continue };
            let was = self.base.get(name);
            if was.as_ref() == Some(id) || self.refused.contains(id) || self.known.get(name) == Some(id) {
                continue;
            }
            if self.known.has(name) || !self.known.fits(name) {
                self.result.notes.push(format!(
                    "the sandbox has another tag {}, which is only archived",
                    printable(short)
                ));
                continue;
            }
            self.transaction.set(name, id, Expected::Absent);
            self.result.base.refs.insert(name.clone(), id.to_string());
        }
    }

    /// Adds the sandbox's stash entries to the host's, the oldest first, and makes the last changes of refs.
    async fn stashes(&mut self, inside: &RepositorySurvey) -> Result<(), GitError> {
        let repository = self.host.repository.clone();
        let reason = format!("palisade: work of {}", self.refs.name());
        std::mem::take(&mut self.transaction).commit(&repository, &reason).await?;
        let log = std::fs::read(repository.places().common.join("logs/refs/stash")).unwrap_or_default();
        let there = super::contents::stash_ids(&log);
        for entry in inside.stashes.iter().rev() {
            let id = entry.id.to_string();
            if self.base.stashes.contains(&id) || there.contains(&id) || self.refused.contains(&entry.id) {
                continue;
            }
            let message = printable(&entry.message);
            let message = if message.is_empty() { "from a sandbox" } else { &message };
            repository.git(["stash", "store", "--message", message, &id]).bytes().await?;
            self.result.base.stashes.push(id);
        }
        Ok(())
    }
}

/// Whether git would find a repository here, by its own rule.
fn has_repository(path: &Path) -> bool {
    let is_there = |name: &str| std::fs::symlink_metadata(path.join(name)).is_ok();
    is_there(".git") || (is_there("HEAD") && is_there("objects") && is_there("refs"))
}
