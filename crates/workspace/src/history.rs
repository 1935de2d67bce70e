//! How branches stand to each other, and to where they were.

use crate::commits::{BranchFacts, BranchMemory, Movement, Relation, Since};
use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use palisade_core::printable;

/// What is known of a branch before git is asked.
#[derive(Debug, Clone, Copy)]
pub(crate) struct BranchTips<'a> {
    pub(crate) host: Option<&'a ObjectId>,
    pub(crate) sandbox: &'a ObjectId,
    pub(crate) memory: Option<&'a BranchMemory>,
    /// The host's commit that was sent in last, when this repository remembers it.
    pub(crate) sent: Option<&'a ObjectId>,
}

/// So many commits are followed by hand, which takes less than to ask git for the distance.
const MAX_STEPS: u32 = 8;

impl Repository {
    /// Asks git for all that a decision about a branch needs.
    pub(crate) async fn branch_facts(&self, tips: BranchTips<'_>) -> Result<BranchFacts, GitError> {
        let BranchTips { host, sandbox, memory, sent } = tips;
        let relation = match host {
            None => None,
            Some(host) => Some(match self.apart(host, sandbox).await? {
                (0, 0) => Relation::Same,
                (_, 0) => Relation::HostHasAll,
                (0, _) => Relation::SandboxHasAll,
                (_, _) => Relation::Diverged,
            }),
        };
        let Some(memory) = memory else { return Ok(BranchFacts { relation, since: None }) };
        let sandbox_moved = self.movement(sandbox, &memory.sandbox).await?;
        let host_moved = match host {
            None => Movement::Rewritten,
            Some(host) => self.movement(host, &memory.host).await?,
        };
        let mut since =
            Since { host: host_moved, sandbox: sandbox_moved, holds_dropped: false, may_rewind: false };
        if let (Some(host), Movement::Rewritten) = (host, host_moved) {
            let dropped = self.count(&[&memory.host], &[host], &[]).await?;
            since.holds_dropped = self.count(&[&memory.host], &[host, sandbox], &[]).await? < dropped;
        }
        if let (Some(host), Movement::Same, Movement::Rewritten, Some(sent)) =
            (host, host_moved, sandbox_moved, sent)
            && memory.host == memory.sandbox
        {
            let leaving = self.count(&[host], &[sandbox], &[]).await?;
            let own = self.count(&[host], &[sandbox, sent], &["--remotes"]).await?;
            since.may_rewind = own == leaving;
        }
        Ok(BranchFacts { relation, since: Some(since) })
    }

    async fn movement(&self, now: &ObjectId, then: &ObjectId) -> Result<Movement, GitError> {
        Ok(match self.apart(now, then).await? {
            (0, 0) => Movement::Same,
            (_, 0) => Movement::Ahead,
            (_, _) => Movement::Rewritten,
        })
    }

    /// Commits that are only in the first, and only in the second.
    pub(crate) async fn apart(&self, first: &ObjectId, second: &ObjectId) -> Result<(u32, u32), GitError> {
        if first == second {
            return Ok((0, 0));
        }
        if let Some(known) = self.answers().apart(first, second) {
            return Ok(known);
        }
        for (from, to, left) in [(second, first, false), (first, second, true)] {
            if let Some(steps) = self.steps(from, to).await? {
                let counts = if left { (steps, 0) } else { (0, steps) };
                self.answers().remember_apart(first, second, counts);
                return Ok(counts);
            }
        }
        let question = ["rev-list", "--left-right", "--count", &format!("{first}...{second}"), "--"];
        let text = self.git(question).text().await?;
        let mut counts = text.split_ascii_whitespace().map(str::parse);
        match (counts.next(), counts.next()) {
            (Some(Ok(left)), Some(Ok(right))) => {
                self.answers().remember_apart(first, second, (left, right));
                Ok((left, right))
            }
            _ => Err(GitError::Answer { what: "rev-list".into(), answer: printable(&text) }),
        }
    }

    /// How many commits lead from one down to another, when none of them is a merge and they are few.
    async fn steps(&self, from: &ObjectId, to: &ObjectId) -> Result<Option<u32>, GitError> {
        let mut commit = from.clone();
        for steps in 0..=MAX_STEPS {
            if commit == *to {
                return Ok(Some(steps));
            }
            let Some(links) = self.commit_links(&commit).await? else { return Ok(None) };
            self.answers().remember_tree(&commit, links.tree);
            match <[ObjectId; 1]>::try_from(links.parents) {
                Ok([parent]) => commit = parent,
                Err(_) => return Ok(None),
            }
        }
        Ok(None)
    }

    /// Commits that lead from some, and from none of the others.
    pub(crate) async fn count(
        &self,
        of: &[&ObjectId],
        without: &[&ObjectId],
        and_without: &[&str],
    ) -> Result<u32, GitError> {
        let of = of.iter().map(|id| id.as_str());
        let without = without.iter().map(|id| id.as_str()).chain(and_without.iter().copied());
        let words =
            ["rev-list", "--count"].into_iter().chain(of).chain(["--not"]).chain(without).chain(["--"]);
        let text = self.git(words).text().await?;
        text.parse().map_err(|_| GitError::Answer { what: "rev-list".into(), answer: printable(&text) })
    }

    /// The commit where two histories parted, if they have one in common.
    pub(crate) async fn merge_base(
        &self,
        first: &ObjectId,
        second: &ObjectId,
    ) -> Result<Option<ObjectId>, GitError> {
        match self.git(["merge-base", first.as_str(), second.as_str()]).text().await {
            Ok(text) => Ok(ObjectId::parse(&text)),
            Err(GitError::Failed { status, .. }) if status.code() == Some(1) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The commit that a ref or a tag leads to, if there is one.
    pub async fn commit_if_any(&self, name: &str) -> Result<Option<ObjectId>, GitError> {
        let question =
            ["rev-parse", "--verify", "--quiet", "--end-of-options", &format!("{name}^{{commit}}")];
        match self.git(question).text().await {
            Ok(id) => Ok(ObjectId::parse(&id)),
            Err(GitError::Failed { status, .. }) if matches!(status.code(), Some(1 | 128)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether a commit is there.
    pub(crate) async fn has_commit(&self, id: &ObjectId) -> Result<bool, GitError> {
        Ok(self.objects([format!("{id}^{{commit}}")]).await?.iter().any(Option::is_some))
    }
}
