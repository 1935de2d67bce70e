//! Gives a sandbox what the user has done on the host meanwhile: commits, branches, tags, and another branch checked out.
//!
//! Only where the sandbox has nothing of its own: its refs and HEAD are what both sides had in common, and nothing is staged
//! but what the host has committed. Git inside looks and moves, since its git directory is the sandbox's; the objects are
//! there already, as alternates. The files are the same files.

use super::contents::{self, REF_FORMAT, parse_refs, read_head};
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
    /// What both sides have in common now. `None` when the host is where it was, or the sandbox cannot follow.
    pub async fn run(&self) -> Result<Option<Base>, ExchangeError> {
        let host = HostTree::find_again(self.git, self.tree).await?;
        let _lock = host.repository.lock().await?;
        if host.operation.is_some() {
            return Ok(None);
        }
        let listing = host.repository.git(["for-each-ref", REF_FORMAT]).bytes().await?;
        let listed = parse_refs(&listing);
        let own = host.repository.places().own.clone();
        let head = read_head(&host.repository, &own).await.map_err(|error| match error {
            super::BoundError::NotUsable(error) => ExchangeError::Host(error),
            _ => ExchangeError::Host(NotUsable::NoRepository(self.tree.clone())),
        })?;
        let plain = listed.iter().filter(|it| it.symbolic.is_none());
        let mut now = Base {
            head,
            refs: plain.map(|it| it.pair()).filter(|(name, _)| name != STASH).collect(),
            stashes: self.base.stashes.clone(),
        };
        let mut was = self.base.clone();
        let stash = was.refs.remove(STASH);
        if (&now.head, &now.refs) == (&was.head, &was.refs) {
            return Ok(None);
        }
        let mut commits: Vec<ObjectId> = listed.iter().filter_map(|it| it.commit.clone()).collect();
        commits.extend(host.head.clone());
        let known = host.repository.refs_alone().await?;
        // The sandbox's reflogs lead to what it started from.
        commits.extend(known.get(&self.refs.start()).cloned());
        commits.sort_unstable();
        commits.dedup();
        contents::pin(&host.repository, self.refs, &commits).await?;
        let request = request(&was, &now, host.head.as_ref());
        let answer = self
            .sandbox
            .ask("taking over the host's state", &["advance", self.sandbox.directory()], &request)
            .await?;
        tracing::debug!(answer = %String::from_utf8_lossy(&answer), "the sandbox was asked to follow the host");
        if answer != b"done\0" {
            return Ok(None);
        }
        now.refs.extend(stash.map(|id| (STASH.to_owned(), id)));
        Ok(Some(now))
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
