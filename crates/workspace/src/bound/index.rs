//! The host's index follows its HEAD from one commit to another, while no file is looked at.

use crate::git::{GitError, Repository};
use crate::index_lock::LockedIndex;
use crate::refs::ObjectId;

/// Whether the index can follow.
#[derive(Debug)]
pub(super) enum Followed<'a> {
    /// The new index, not in its place yet. The user's is locked.
    Ready(LockedIndex<'a>),
    /// What the user has staged is in the way.
    InTheWay(String),
}

impl Repository {
    /// Brings the index from one commit to another. What the user has staged stays; where the commits change the same
    /// path, nothing is done. Files are not read: git would run the user's filters on what a sandbox wrote.
    pub(super) async fn index_follows(
        &self,
        from: Option<&ObjectId>,
        to: &ObjectId,
    ) -> Result<Followed<'_>, GitError> {
        let empty;
        let from = match from {
            Some(from) => from,
            None => {
                empty = self.write_object("tree", Vec::new()).await?;
                &empty
            }
        };
        let locked = LockedIndex::take(self).await?;
        let read = ["read-tree", "-i", "-m", from.as_str(), to.as_str()];
        match locked.git(read).bytes().await {
            Ok(_) => Ok(Followed::Ready(locked)),
            Err(GitError::Failed { said, .. }) => Ok(Followed::InTheWay(said)),
            Err(error) => Err(error),
        }
    }
}
