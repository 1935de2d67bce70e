//! Changes of refs that git makes together or not at all.

use crate::git::{GitError, Repository};
use crate::refs::ObjectId;
use std::fmt::Write;

/// What a ref must be at for a change of it to be made.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Expected<'a> {
    /// Whatever it is at.
    Anything,
    /// It must not exist.
    Absent,
    At(&'a ObjectId),
}

/// Changes of refs, for `git update-ref --stdin -z`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(crate) struct RefTransaction {
    changes: String,
}

impl RefTransaction {
    pub(crate) fn set(&mut self, reference: &str, to: &ObjectId, expected: Expected<'_>) {
        let old = match expected {
            Expected::Anything => String::new(),
            Expected::Absent => "0".repeat(to.as_str().len()),
            Expected::At(id) => id.as_str().to_owned(),
        };
        // Writing to a string cannot fail.
        let _ = write!(self.changes, "update {reference}\0{to}\0{old}\0");
    }

    pub(crate) fn delete(&mut self, reference: &str, expected: Expected<'_>) {
        let old = match expected {
            Expected::At(id) => id.as_str(),
            Expected::Anything | Expected::Absent => "",
        };
        let _ = write!(self.changes, "delete {reference}\0{old}\0");
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.changes.is_empty()
    }

    /// Makes the changes. `reason` goes into the reflogs of branches.
    pub(crate) async fn commit(self, repository: &Repository, reason: &str) -> Result<(), GitError> {
        if self.is_empty() {
            return Ok(());
        }
        let update = repository.git(["update-ref", "-m", reason, "--stdin", "-z"]);
        update.input(format!("start\0{}prepare\0commit\0", self.changes)).bytes().await.map(drop)
    }
}
