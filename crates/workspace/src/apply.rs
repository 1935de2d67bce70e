//! Lays a sandbox's work into the host's branch and working tree, or says why it waits.
//!
//! Invariants:
//! - A change that is not ours is never overwritten. Ours is what equals the commit, what was applied last, or what
//!   was being applied when somebody ended us; everything else blocks.
//! - Refs change from old to new in one step. What is about to be laid into the tree is recorded first (`applying`), so
//!   that a run after a kill at any point knows its own half-done work.
//! - Content is written by git's own two-tree update, which goes through no link and over no untracked file.

use crate::autorun::Autorun;
use crate::exchange::{APART, Fetched, Known};
use crate::git::{GitError, Invocation, Repository};
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::seen::Marks;
use crate::status::{Ground, Status};
use crate::tree::{
    Entries, Last, WorkingTree, difference, difference_of_commits, questions_to_weigh, weight,
};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

/// What became of a sandbox's work.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Applied {
    pub commits: Commits,
    pub work: Work,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Commits {
    /// The host has them all.
    Same,
    /// The host's branch moved forward by so many.
    Forwarded(u32),
    /// A merge commit was made.
    Merged(u32),
    /// They are in `refs/palisade/…` and on the branch `palisade/<name>`.
    Waiting { count: u32, why: Waits },
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Work {
    None,
    /// It is in the working tree, not committed.
    Laid {
        paths: Vec<PathBuf>,
    },
    Waiting {
        why: Waits,
    },
}

/// Why something waits for the user.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Waits {
    /// Changes on the host that are not ours.
    HostChanges(Vec<PathBuf>),
    /// Both sides have commits.
    Diverged { hosts: u32 },
    /// A merge was asked for, and ended in conflicts that are in the working tree now.
    Conflicts(Vec<PathBuf>),
    /// The host's newer commits and the uncommitted work touch the same lines.
    Overlaps(Vec<PathBuf>),
    /// The host is on another branch.
    OtherBranch(BranchName),
    /// The branch is called as ours are, and only the user may move those.
    OurName,
    /// It is for the commits, and those wait.
    Commits,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Divergence {
    Wait,
    Merge,
}

/// The work's way into one repository.
#[derive(Debug)]
pub struct Application<'a> {
    repository: &'a Repository,
    refs: &'a SandboxRefs,
    /// The branch that is checked out on the host.
    checked_out: &'a BranchName,
    on_divergence: Divergence,
    /// Bytes of files that may be laid into the working tree at once.
    most: u64,
    known: Known,
    status: Status,
    /// What is to be marked as seen, with the first change of refs or at the end.
    marks: Mutex<Marks>,
}

/// Takes changes of refs that need not outlive a power failure.
const QUICK_REFS: [&str; 5] = ["-c", "core.fsync=none", "update-ref", "--stdin", "-z"];

/// Git that takes changes of refs, with a line for their logs.
fn change_refs<'r>(repository: &'r Repository, reason: &str) -> Invocation<'r> {
    repository.git(["update-ref", "-m", reason, "--stdin", "-z"])
}

/// For the log of a ref.
fn reason(refs: &SandboxRefs) -> String {
    format!("palisade: work of {}", refs.all())
}

impl<'a> Application<'a> {
    /// Has git wait for the questions that follow when work arrives, while it is on its way.
    pub async fn expect(repository: &Repository, refs: &SandboxRefs) {
        let reason = reason(refs);
        let [difference, sizes] = questions_to_weigh(repository);
        let apart = repository.git(APART);
        let (quick, changes) = (repository.git(QUICK_REFS), change_refs(repository, &reason));
        for question in [difference, sizes, apart, quick, changes] {
            question.ready();
            // A start keeps this thread a while, and the work comes through it.
            tokio::task::yield_now().await;
        }
    }

    /// Looks at what is there to be applied on the ground that was found. What the sandbox said to have, if it has said
    /// so, is only a guess at what git will have to answer.
    pub async fn look(
        repository: &'a Repository,
        refs: &'a SandboxRefs,
        checked_out: &'a BranchName,
        on_divergence: Divergence,
        ground: Ground,
        said: Option<&Fetched>,
    ) -> Result<Self, GitError> {
        let foresee = async {
            if let Some(said) = said {
                foresee(repository, ground.head(), said).await;
            }
            Ok(())
        };
        let (known, status, ()) =
            tokio::try_join!(repository.known(refs), ground.fresh(repository), foresee)?;
        let marks = Mutex::default();
        Ok(Self { repository, refs, checked_out, on_divergence, most: u64::MAX, known, status, marks })
    }

    /// With a bound on the files that it lays into the working tree.
    #[must_use]
    pub fn at_most(self, bytes: u64) -> Self {
        Self { most: bytes, ..self }
    }

    /// What of the work runs by itself, seen from where the host's branch left the sandbox's.
    pub async fn autorun(&self, branch: &BranchName) -> Result<Vec<Autorun>, GitError> {
        let fetched = self.known.fetched(self.refs, branch)?;
        let work = fetched.target();
        let own = if *branch == *self.checked_out {
            self.status.head.clone()
        } else {
            let own = self.repository.commit_if_any(&branch.full()).await?;
            own.unwrap_or_else(|| self.status.head.clone())
        };
        if own == *work {
            return Ok(Vec::new());
        }
        let (base, ()) = tokio::try_join!(self.parted(&fetched, &own), self.weigh(&own, work))?;
        self.repository.autorun(&base, work).await
    }

    /// Where the host's branch left the sandbox's.
    async fn parted(&self, fetched: &Fetched, own: &ObjectId) -> Result<ObjectId, GitError> {
        if self.repository.apart(&fetched.commits, own).await?.1 == 0 {
            return Ok(own.clone());
        }
        let base = self.repository.git(["merge-base", own.as_str(), fetched.target().as_str()]).text().await;
        Ok(base.ok().and_then(|id| ObjectId::parse(&id)).unwrap_or_else(|| own.clone()))
    }

    /// From here on the user counts as told of everything that is known: with the refs that move as work is laid, or
    /// when it is finished.
    pub fn mark_seen(&self) {
        *self.marks() = Marks::plan(self.refs, &self.known);
    }

    /// Marks what no change of refs has taken along.
    pub async fn finish(self) -> Result<(), GitError> {
        let marks = std::mem::take(&mut *self.marks());
        marks.set(self.repository).await
    }

    fn marks(&self) -> std::sync::MutexGuard<'_, Marks> {
        self.marks.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Asks beforehand, while git is at other questions, what laying the work will ask.
    async fn weigh(&self, own: &ObjectId, work: &ObjectId) -> Result<(), GitError> {
        weight(self.repository, &difference(self.repository, own, work).await?).await.map(drop)
    }

    /// What the host knows of the sandbox.
    pub fn known(&self) -> &Known {
        &self.known
    }

    pub async fn apply(&self, branch: &BranchName) -> Result<Applied, GitError> {
        let fetched = self.known.fetched(self.refs, branch)?;
        if fetched.branch == *self.checked_out {
            self.to_checked_out(&fetched).await
        } else {
            self.beside(&fetched).await
        }
    }

    /// The branch is not checked out: only its ref can move.
    async fn beside(&self, fetched: &Fetched) -> Result<Applied, GitError> {
        let full = fetched.branch.full();
        let own = self.repository.commit_if_any(&full).await?;
        let work = match fetched.work {
            None => Work::None,
            Some(_) => Work::Waiting { why: Waits::OtherBranch(self.checked_out.clone()) },
        };
        let commits = match &own {
            Some(own) if own == &fetched.commits => Commits::Same,
            _ if fetched.branch.is_ours() => {
                let count = self.count(&fetched.commits, "HEAD").await?;
                Commits::Waiting { count, why: Waits::OurName }
            }
            Some(own) => {
                let (theirs, hosts) = self.repository.apart(&fetched.commits, own).await?;
                match hosts {
                    _ if theirs == 0 => Commits::Same,
                    0 if !self.checked_out_elsewhere(&full).await? => {
                        self.move_ref(&full, &fetched.commits, Some(own)).await?;
                        Commits::Forwarded(theirs)
                    }
                    hosts => self.wait(fetched, theirs, Waits::Diverged { hosts }).await?,
                }
            }
            None => {
                self.move_ref(&full, &fetched.commits, None).await?;
                Commits::Forwarded(self.count(&fetched.commits, "HEAD").await?)
            }
        };
        Ok(Applied { commits, work })
    }

    async fn to_checked_out(&self, fetched: &Fetched) -> Result<Applied, GitError> {
        let head = &self.status.head;
        let target = fetched.target();
        let last = match self.known.below(&self.refs.applying()).next() {
            Some(_) => Last::Unfinished,
            None => Last::Finished,
        };
        if target == head && !self.known.has(&self.refs.applied()) && last == Last::Finished {
            return Ok(Applied { commits: Commits::Same, work: Work::None });
        }
        let look = async {
            let ours = self.ours(head).await?;
            WorkingTree::look(self.repository, &self.status, &ours, last, target).await
        };
        let (tree, (theirs, hosts)) = tokio::try_join!(look, self.repository.apart(&fetched.commits, head))?;
        if !tree.strange.is_empty() {
            return self.blocked(fetched, theirs, tree.strange).await;
        }
        match (theirs, hosts) {
            (1.., 1..) => match self.on_divergence {
                Divergence::Wait => {
                    let commits = self.wait(fetched, theirs, Waits::Diverged { hosts }).await?;
                    let work =
                        fetched.work.as_ref().map_or(Work::None, |_| Work::Waiting { why: Waits::Commits });
                    Ok(Applied { commits, work })
                }
                Divergence::Merge => self.merge(fetched, head, tree, theirs).await,
            },
            (theirs, 0) => {
                let work = self.lay(&tree, head, &fetched.commits, target, fetched.work.is_some()).await?;
                let commits = if theirs == 0 { Commits::Same } else { Commits::Forwarded(theirs) };
                Ok(Applied { commits, work })
            }
            (_, _) => {
                let work = self.lay_on_newer(&tree, head, fetched).await?;
                Ok(Applied { commits: Commits::Same, work })
            }
        }
    }

    async fn blocked(
        &self,
        fetched: &Fetched,
        theirs: u32,
        paths: Vec<PathBuf>,
    ) -> Result<Applied, GitError> {
        let why = Waits::HostChanges(paths);
        let work = fetched.work.as_ref().map_or(Work::None, |_| Work::Waiting { why: why.clone() });
        let commits = match theirs {
            0 => Commits::Same,
            count => self.wait(fetched, count, why).await?,
        };
        Ok(Applied { commits, work })
    }

    /// The host has commits that the sandbox lacks; uncommitted work is put on top of them where it fits.
    async fn lay_on_newer(
        &self,
        tree: &WorkingTree<'_>,
        head: &ObjectId,
        fetched: &Fetched,
    ) -> Result<Work, GitError> {
        let Some(work) = &fetched.work else {
            return self.lay(tree, head, head, head, false).await;
        };
        match self.combined(head, work).await? {
            Ok(combined) => self.lay(tree, head, head, &combined, true).await,
            Err(paths) => Ok(Work::Waiting { why: Waits::Overlaps(paths) }),
        }
    }

    /// A commit on `head` with the work's changes, or where they overlap.
    async fn combined(
        &self,
        head: &ObjectId,
        work: &ObjectId,
    ) -> Result<Result<ObjectId, Vec<PathBuf>>, GitError> {
        let merge = [
            "merge-tree",
            "--write-tree",
            "--name-only",
            "-z",
            "--no-messages",
            head.as_str(),
            work.as_str(),
        ];
        let (clean, words) = self.repository.git(merge).words().await?;
        let mut words = words.into_iter();
        let tree = words.next().unwrap_or_default();
        if !clean {
            let mut paths: Vec<PathBuf> = words.map(PathBuf::from).collect();
            paths.sort();
            paths.dedup();
            return Ok(Err(paths));
        }
        let tree = tree.to_string_lossy();
        let commit = self.repository.git([
            "commit-tree",
            tree.as_ref(),
            "-p",
            head.as_str(),
            "-m",
            "Uncommitted work",
        ]);
        let commit = commit
            .env("GIT_AUTHOR_NAME", "palisade")
            .env("GIT_AUTHOR_EMAIL", "palisade@localhost")
            .env("GIT_COMMITTER_NAME", "palisade")
            .env("GIT_COMMITTER_EMAIL", "palisade@localhost");
        Ok(Ok(crate::facts::object("commit-tree", &commit.text().await?)?))
    }

    async fn merge(
        &self,
        fetched: &Fetched,
        head: &ObjectId,
        tree: WorkingTree<'_>,
        theirs: u32,
    ) -> Result<Applied, GitError> {
        // Our own earlier changes would be in the way of a merge; they come back after it.
        self.lay(&tree, head, head, head, false).await?;
        let message = format!(
            "Merge the work of {}",
            self.refs.all().trim_end_matches('/').trim_start_matches("refs/")
        );
        let merge =
            ["merge", "--no-ff", "--no-edit", "--no-verify", "-m", &message, fetched.commits.as_str()];
        let merged = self.repository.git(merge).bytes().await;
        let conflicts =
            self.repository.git(["diff", "--name-only", "--diff-filter=U", "-z", "--no-ext-diff"]);
        let (_, conflicts) = conflicts.words().await?;
        if !conflicts.is_empty() {
            let why = Waits::Conflicts(conflicts.into_iter().map(PathBuf::from).collect());
            let work = fetched.work.as_ref().map_or(Work::None, |_| Work::Waiting { why: Waits::Commits });
            return Ok(Applied { commits: Commits::Waiting { count: theirs, why }, work });
        }
        merged?;
        let work = match &fetched.work {
            None => Work::None,
            Some(work) => {
                let repository = self.repository.guarded_again().await?;
                let status = Status::look(&repository).await?;
                let ours = Entries::default();
                let tree = WorkingTree::look(&repository, &status, &ours, Last::Finished, work).await?;
                self.lay_on_newer(&tree, &status.head, fetched).await?
            }
        };
        Ok(Applied { commits: Commits::Merged(theirs), work })
    }

    /// Moves the branch from `head` to `commit` and the working tree to `target`, whose difference is not committed.
    async fn lay(
        &self,
        tree: &WorkingTree<'_>,
        head: &ObjectId,
        commit: &ObjectId,
        target: &ObjectId,
        uncommitted: bool,
    ) -> Result<Work, GitError> {
        // For a run after a kill, and not after a power failure: there, what is half laid blocks as a user's change would.
        let applying = format!("{}/{target}", self.refs.applying());
        let record = format!("update {applying}\0{target}\0\0");
        self.repository.git(QUICK_REFS).input(record).bytes().await?;
        let paths = tree.become_tree(commit, target, self.most).await?;
        let marks = std::mem::take(&mut *self.marks());
        let mut transaction = String::from("start\0") + &marks.into_transaction(self.repository).await?;
        if commit != head {
            transaction += &format!("update HEAD\0{commit}\0{head}\0");
        }
        transaction += &if uncommitted {
            format!("update {}\0{target}\0\0", self.refs.applied())
        } else {
            format!("delete {}\0\0", self.refs.applied())
        };
        let directory = self.refs.applying();
        let unfinished = self.known.below(&directory).map(|(name, _)| name);
        for name in unfinished.filter(|name| **name != applying).chain([&applying]) {
            transaction += &format!("delete {name}\0\0");
        }
        transaction += "prepare\0commit\0";
        change_refs(self.repository, &reason(self.refs)).input(transaction).bytes().await?;
        // The user may have committed all of it.
        Ok(if uncommitted && !paths.is_empty() { Work::Laid { paths } } else { Work::None })
    }

    /// What we laid into the tree before, or were about to.
    async fn ours(&self, head: &ObjectId) -> Result<Entries, GitError> {
        let mut ours = Entries::default();
        let applied = self.known.get(&self.refs.applied());
        let applying = self.refs.applying();
        for commit in applied.into_iter().chain(self.known.below(&applying).map(|(_, commit)| commit)) {
            ours.add(self.repository, head, commit).await?;
        }
        Ok(ours)
    }

    async fn wait(&self, fetched: &Fetched, count: u32, why: Waits) -> Result<Commits, GitError> {
        let waiting = self.refs.waiting();
        // Somebody may be looking at it; then it is left where it is, and the ref below refs/palisade/ has it all.
        if !self.checked_out_elsewhere(&waiting).await? && self.checked_out.full() != waiting {
            self.move_ref(&waiting, &fetched.commits, None).await?;
        }
        Ok(Commits::Waiting { count, why })
    }

    async fn count(&self, of: &ObjectId, without: &str) -> Result<u32, GitError> {
        let text = self.repository.git(["rev-list", "--count", &format!("{without}..{of}")]).text().await?;
        text.parse().map_err(|_| GitError::Answer {
            what: "rev-list".into(),
            answer: palisade_core::printable(&text),
        })
    }

    async fn checked_out_elsewhere(&self, full: &str) -> Result<bool, GitError> {
        let list = self.repository.git(["worktree", "list", "--porcelain"]).bytes().await?;
        let line = format!("branch {full}");
        Ok(list.split(|byte| *byte == b'\n').any(|given| given == line.as_bytes()))
    }

    async fn move_ref(
        &self,
        reference: &str,
        to: &ObjectId,
        from: Option<&ObjectId>,
    ) -> Result<(), GitError> {
        let reason = reason(self.refs);
        let mut arguments = vec!["update-ref", "-m", &reason, reference, to.as_str()];
        arguments.extend(from.map(ObjectId::as_str));
        self.repository.git(arguments).bytes().await.map(drop)
    }
}

/// Has git answer, while it is at other questions, what will be asked if the sandbox has what it said. The answers are
/// about objects, whatever refs are at, so they are right for whoever asks, or never asked for.
async fn foresee(repository: &Repository, head: &ObjectId, said: &Fetched) {
    let weigh = async {
        let changed = difference_of_commits(repository, head, said.target()).await?;
        weight(repository, &changed).await
    };
    let foreseen = tokio::try_join!(repository.apart(&said.commits, head), weigh);
    if let Err(error) = foreseen {
        tracing::debug!(%error, "the sandbox has something else than it said");
    }
}
