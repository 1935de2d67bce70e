//! Branches that show commits which wait for the user: `palisade/<name>/<branch>`.
//!
//! Such a branch moves only from where a sync has put it. One that the user has committed on, or has checked out, stays
//! as it is, and the next commits get a branch beside it.

use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::refs::{BranchName, ObjectId, SandboxRefs};
use crate::transaction::{Expected, RefTransaction};

/// More branches of the user's than anybody has in the way.
const MAX_ATTEMPTS: u32 = 1000;

impl Repository {
    /// The branch that earlier versions showed waiting commits on stands where a directory of them is needed: it becomes
    /// `palisade/<name>/before`. Whether refs have changed.
    pub(crate) async fn rename_earlier_waiting(
        &self,
        refs: &SandboxRefs,
        known: &HostRefs,
    ) -> Result<bool, GitError> {
        let (old, pin) = (refs.waiting_before(), format!("{}before", refs.base()));
        let new = format!("{old}/before");
        let reason = "palisade: make room for waiting branches";
        let mut done = RefTransaction::default();
        if let Some(id) = known.get(&old) {
            // A ref cannot become a directory at once: one that is killed meanwhile has not lost the commits.
            let mut keep = RefTransaction::default();
            keep.set(&pin, id, Expected::Anything);
            keep.commit(self, reason).await?;
            // It takes working trees along that have the branch checked out.
            let short = |name: &str| name.trim_start_matches("refs/heads/").to_owned();
            self.git(["branch", "-m", "--", &short(&old), &short(&new)]).bytes().await?;
        } else if let Some(id) = known.get(&pin) {
            if !known.has(&new) {
                done.set(&new, id, Expected::Absent);
            }
        } else {
            return Ok(false);
        }
        done.delete(&pin, Expected::Anything);
        done.commit(self, reason).await?;
        Ok(true)
    }
}

/// Commits of a branch that were shown on a branch of their own.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WaitingBranch {
    /// Its full name; `None` when it is gone.
    reference: Option<String>,
    /// What it is at now.
    now: Option<ObjectId>,
    /// What a sync has put there.
    shown: ObjectId,
    /// The commit of the sandbox's branch that this stands for.
    stands_for: ObjectId,
    memory: [String; 2],
}

impl WaitingBranch {
    /// What waits of a branch, if something does.
    pub(crate) fn find(known: &HostRefs, refs: &SandboxRefs, branch: &BranchName) -> Option<Self> {
        let memory = [refs.base_waiting(branch), refs.base_waiting_for(branch)];
        let (shown, stands_for) = (known.get(&memory[0])?.clone(), known.get(&memory[1])?.clone());
        let waiting = refs.all_waiting();
        // Another branch's may be at the same commit.
        let exact = known.below(&waiting).find(|(name, id)| {
            **id == shown && refs.is_waiting_of(branch, name.trim_start_matches(&waiting))
        });
        let found = match exact {
            Some((name, id)) => Some((name.to_owned(), id.clone())),
            // The user may have moved it.
            None => {
                let name = format!("refs/heads/{}", refs.waiting(branch, 0));
                known.get(&name).map(|id| (name, id.clone()))
            }
        };
        let (reference, now) = found.unzip();
        Some(Self { reference, now, shown, stands_for, memory })
    }

    pub(crate) fn stands_for(&self, tip: &ObjectId) -> bool {
        self.stands_for == *tip
    }

    /// Whether the user has dealt with it: it is in the host's branch, or its branch is gone.
    pub(crate) async fn is_settled(
        &self,
        repository: &Repository,
        host: Option<&ObjectId>,
    ) -> Result<bool, GitError> {
        match (&self.now, host) {
            (None, _) => Ok(true),
            (Some(_), None) => Ok(false),
            (Some(now), Some(host)) => Ok(repository.apart(now, host).await?.0 == 0),
        }
    }

    /// Forgets it. The branch goes if it is where a sync has put it, and checked out nowhere; its short name.
    pub(crate) fn clear(
        &self,
        checked_out: &[BranchName],
        transaction: &mut RefTransaction,
    ) -> Option<String> {
        for reference in &self.memory {
            transaction.delete(reference, Expected::Anything);
        }
        let (Some(reference), Some(now)) = (&self.reference, &self.now) else { return None };
        if *now != self.shown || checked_out.iter().any(|branch| branch.full() == *reference) {
            return None;
        }
        transaction.delete(reference, Expected::At(now));
        Some(reference.trim_start_matches("refs/heads/").to_owned())
    }

    /// Shows commits on a branch of their own; its short name. `commits` are what is shown, and the commit of the
    /// sandbox's branch that it stands for.
    pub(crate) fn show(
        known: &HostRefs,
        refs: &SandboxRefs,
        branch: &BranchName,
        commits: (&ObjectId, &ObjectId),
        checked_out: &[BranchName],
        transaction: &mut RefTransaction,
    ) -> String {
        let (shown, stands_for) = commits;
        let earlier = known.get(&refs.base_waiting(branch));
        let is_free = |name: &str| {
            let full = format!("refs/heads/{name}");
            match known.get(&full) {
                Some(now) if now == shown => true,
                // Only from where a sync has put it, and under nobody's feet.
                Some(now) => {
                    Some(now) == earlier && !checked_out.iter().any(|branch| branch.as_str() == name)
                }
                None => known.fits(&full),
            }
        };
        let mut names = (0..MAX_ATTEMPTS).map(|attempt| refs.waiting(branch, attempt));
        let name = names.find(|name| is_free(name)).unwrap_or_else(|| refs.waiting(branch, MAX_ATTEMPTS));
        let full = format!("refs/heads/{name}");
        match known.get(&full) {
            Some(now) if now == shown => {}
            Some(now) => transaction.set(&full, shown, Expected::At(now)),
            None => transaction.set(&full, shown, Expected::Absent),
        }
        for (reference, id) in
            [(refs.base_waiting(branch), shown), (refs.base_waiting_for(branch), stands_for)]
        {
            if known.get(&reference) != Some(id) {
                transaction.set(&reference, id, Expected::Anything);
            }
        }
        name
    }
}
