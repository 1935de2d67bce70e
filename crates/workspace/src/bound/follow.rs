//! Gives a sandbox what the user has done on the host meanwhile: commits, branches, tags, and another branch checked out.
//!
//! Only where the sandbox has nothing of its own: its refs and HEAD are what both sides had in common, and nothing is staged
//! but what the host has committed. Git inside looks and moves, since its git directory is the sandbox's; the objects are
//! there already, as alternates. The files are the same files.

use super::contents::{self, REF_FORMAT, Ref, parse_refs, read_head};
use super::head::{Base, Head};
use crate::exchange::ExchangeError;
use crate::git::Git;
use crate::host_tree::HostTree;
use crate::place::NotUsable;
use crate::refs::{ObjectId, SandboxRefs};
use crate::sandbox::SandboxRepository;
use palisade_core::HostPath;

/// Entries of the stash are not refs that can be moved by themselves.
const STASH: &str = "refs/stash";

/// How often the refs are listed while the user's git moves HEAD. A later sync finds what this one leaves.
const READS: usize = 3;

/// What became of an attempt.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FollowOutcome {
    /// The host is where it was.
    Unchanged,
    /// The sandbox has the host's state: what both sides have in common now.
    Followed(Base),
    /// The sandbox has work of its own, or an operation is in progress on the host.
    Refused,
    /// Git was at work, inside or on the host. It is to be tried again.
    Busy,
}

/// Both sides of one repository.
#[derive(Debug)]
pub struct FollowHost<'a> {
    pub git: &'a Git,
    /// The working tree on the host.
    pub tree: &'a HostPath,
    pub refs: &'a SandboxRefs,
    pub sandbox: SandboxRepository<'a>,
    /// What both sides had in common last.
    pub base: &'a Base,
}

impl FollowHost<'_> {
    pub async fn run(&self) -> Result<FollowOutcome, ExchangeError> {
        let host = HostTree::find_again(self.git, self.tree).await?;
        let _lock = host.repository.lock().await?;
        if host.operation.is_some() {
            return Ok(FollowOutcome::Refused);
        }
        let Some((head, listed)) = self.read_state(&host).await? else { return Ok(FollowOutcome::Busy) };
        // Not what HEAD led to when the repository was opened: a commit may have been made since.
        let commit = match &head {
            Head::Branch(name) => {
                let full = format!("refs/heads/{name}");
                listed.iter().find(|it| it.name == full).and_then(|it| it.commit.clone())
            }
            Head::Detached(id) => ObjectId::parse(id),
        };
        let plain = listed.iter().filter(|it| it.symbolic.is_none());
        let mut now = Base {
            head,
            refs: plain.map(|it| it.pair()).filter(|(name, _)| name != STASH).collect(),
            stashes: self.base.stashes.clone(),
        };
        let mut was = self.base.clone();
        let stash = was.refs.remove(STASH);
        if (&now.head, &now.refs) == (&was.head, &was.refs) {
            return Ok(FollowOutcome::Unchanged);
        }
        let mut commits: Vec<ObjectId> = listed.iter().filter_map(|it| it.commit.clone()).collect();
        commits.extend(commit.clone());
        let known = host.repository.refs_alone().await?;
        // The sandbox's reflogs lead to what it started from.
        commits.extend(known.get(&self.refs.start()).cloned());
        commits.sort_unstable();
        commits.dedup();
        contents::pin(&host.repository, self.refs, &commits).await?;
        let request = request(&was, &now, commit.as_ref());
        let answer = self
            .sandbox
            .ask("taking over the host's state", &["advance", self.sandbox.directory()], &request)
            .await?;
        tracing::debug!(answer = %String::from_utf8_lossy(&answer), "the sandbox was asked to follow the host");
        match answer.as_slice() {
            b"done\0" => {}
            b"busy\0" => return Ok(FollowOutcome::Busy),
            _ => return Ok(FollowOutcome::Refused),
        }
        now.refs.extend(stash.map(|id| (STASH.to_owned(), id)));
        Ok(FollowOutcome::Followed(now))
    }

    /// HEAD and the refs of the host, which belong together. The user's own git may be at work: it takes none of our locks.
    /// `None` when HEAD does not stand still.
    async fn read_state(&self, host: &HostTree) -> Result<Option<(Head, Vec<Ref>)>, ExchangeError> {
        let mut head = self.read_head(host).await?;
        for _ in 0..READS {
            let listing = host.repository.git(["for-each-ref", REF_FORMAT]).bytes().await?;
            let after = self.read_head(host).await?;
            if after == head {
                return Ok(Some((head, parse_refs(&listing))));
            }
            head = after;
        }
        Ok(None)
    }

    async fn read_head(&self, host: &HostTree) -> Result<Head, ExchangeError> {
        read_head(&host.repository, &host.repository.places().own).await.map_err(|error| match error {
            super::BoundError::NotUsable(error) => ExchangeError::Host(error),
            _ => ExchangeError::Host(NotUsable::NoRepository(self.tree.clone())),
        })
    }
}

/// As the guest reads it.
fn request(was: &Base, now: &Base, commit: Option<&ObjectId>) -> Vec<u8> {
    let mut words: Vec<String> = Vec::new();
    for (what, base) in [("was", was), ("now", now)] {
        for (name, id) in &base.refs {
            words.extend([what.to_owned(), name.clone(), id.clone()]);
        }
        let (kind, value) = match &base.head {
            Head::Branch(name) => ("branch", name),
            Head::Detached(id) => ("commit", id),
        };
        words.extend([format!("{what}-{kind}"), value.clone()]);
    }
    words.extend(["files".to_owned(), commit.map(ToString::to_string).unwrap_or_default()]);
    words.iter().flat_map(|word| word.bytes().chain([0])).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_request_says_what_was_and_what_is() {
        let base = |head: Head, id: &str| Base {
            head,
            refs: [("refs/heads/main".to_owned(), id.to_owned())].into(),
            stashes: Vec::new(),
        };
        let (was, now) = (base(Head::Branch("main".into()), "a1"), base(Head::Detached("b2".into()), "b2"));
        let text = String::from_utf8(request(&was, &now, None)).unwrap();
        let expected =
            "was\0refs/heads/main\0a1\0was-branch\0main\0now\0refs/heads/main\0b2\0now-commit\0b2\0files\0\0";
        assert_eq!(text, expected);
    }
}
