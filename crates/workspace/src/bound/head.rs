//! What a sandbox's git data started from, or has in common with the host since.

use crate::refs::{BranchName, ObjectId};
use palisade_core::HostPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What HEAD is at.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Head {
    /// A branch by its short name; it need not have a commit yet.
    Branch(String),
    Detached(String),
}

impl Head {
    pub(super) fn of(branch: Option<&BranchName>, commit: Option<&ObjectId>) -> Option<Self> {
        match (branch, commit) {
            (Some(branch), _) => Some(Self::Branch(branch.to_string())),
            (None, Some(commit)) => Some(Self::Detached(commit.to_string())),
            (None, None) => None,
        }
    }

    /// Reads git's own file.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let text = text.trim_end();
        match text.strip_prefix("ref: refs/heads/") {
            Some(name) => BranchName::new(name).ok().map(|name| Self::Branch(name.to_string())),
            None => ObjectId::parse(text).map(|id| Self::Detached(id.to_string())),
        }
    }

    /// As git's own file has it.
    pub(super) fn text(&self) -> String {
        match self {
            Self::Branch(name) => format!("ref: refs/heads/{name}\n"),
            Self::Detached(id) => format!("{id}\n"),
        }
    }
}

/// Where the commits of a sandbox's git data go on the host.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostSide {
    /// The repository that the git data was made from.
    #[default]
    Repository,
    /// The directory is in no repository: one is made there for the commits.
    Plain,
    /// The directory is in the working tree of another repository, whose top this is. There they wait.
    Below(HostPath),
}

/// Refs and HEAD that both sides had in common last. Both sides' changes are judged against it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Base {
    pub head: Head,
    /// By full name.
    pub refs: BTreeMap<String, String>,
    /// The ids of stash entries.
    pub stashes: Vec<String>,
}

impl Base {
    /// Where a ref was; an id that is none counts as nothing.
    pub(super) fn get(&self, reference: &str) -> Option<ObjectId> {
        self.refs.get(reference).and_then(|id| ObjectId::parse(id))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn head_is_read_and_written_as_git_does() {
        let id = "0123456789abcdef0123456789abcdef01234567";
        for text in ["ref: refs/heads/main\n", "ref: refs/heads/a/b\n", &format!("{id}\n")] {
            assert_eq!(Head::parse(text).unwrap().text(), text);
        }
        for bad in ["", "ref: refs/heads/\n", "ref: refs/heads/a..b\n", "ref: refs/remotes/x\n", "main\n"] {
            assert_eq!(Head::parse(bad), None, "{bad}");
        }
    }
}
