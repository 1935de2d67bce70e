//! Makes branches, tags and stash entries of what an archive holds. No file of the user's is touched.

use super::list::ListedArchive;
use super::manifest::{EntryKind, ManifestEntry};
use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::refs::{BranchName, ObjectId};
use crate::transaction::{Expected, RefTransaction};

/// What an entry of an archive became.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct RestoredRef {
    pub what: EntryKind,
    pub restored: Restored,
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Restored {
    /// A new branch, by its short name.
    Branch(String),
    Tag(String),
    /// An entry of the user's stash.
    Stash,
    /// The host has a branch or tag of that name at that commit already.
    Already(String),
    /// Files, which git shows below this name.
    Shown(String),
}

impl Repository {
    /// Restores the entries of an archive that lies in this repository. What has no free name of its own gets one below
    /// `palisade/<name>/`. A bare repository has no stash: there, stash entries become branches.
    pub async fn restore_archive(
        &self,
        archive: &ListedArchive,
        known: &HostRefs,
    ) -> Result<Vec<RestoredRef>, GitError> {
        let Some(manifest) = &archive.manifest else { return Ok(Vec::new()) };
        let prefix = format!("palisade/{}/restored-{}", manifest.name, archive.number);
        let mut transaction = RefTransaction::default();
        let mut restored = Vec::new();
        let mut stashes = Vec::new();
        for (number, ManifestEntry { kind, id }) in manifest.entries.iter().enumerate() {
            let other = format!("{prefix}/{number}");
            let became = match kind {
                EntryKind::Stash { .. } | EntryKind::Snapshot { .. } if archive.nested.is_some() => {
                    restore_branch(None, id, known, &other, &mut transaction)
                }
                EntryKind::Stash { message, .. } => {
                    stashes.push((id, message.clone()));
                    Restored::Stash
                }
                EntryKind::Snapshot { path, branch, .. } => {
                    let place = branch.as_deref().unwrap_or(path);
                    stashes.push((id, format!("palisade: uncommitted work of {} on {place}", manifest.name)));
                    Restored::Stash
                }
                EntryKind::Replaced { files } => Restored::Shown(format!("{}:{files}", archive.reference)),
                EntryKind::Ref { name } if name.starts_with("refs/tags/") => {
                    self.restore_tag(archive, name, id, known, &prefix, &mut transaction).await?
                }
                EntryKind::Ref { .. } | EntryKind::Tip { .. } => {
                    self.make_archived_tag(archive.commit.as_str(), id).await?;
                    match (self.commit_if_any(id.as_str()).await?, kind) {
                        (Some(commit), EntryKind::Ref { name }) => {
                            let branch = name.strip_prefix("refs/heads/");
                            restore_branch(branch, &commit, known, &other, &mut transaction)
                        }
                        (Some(commit), _) => restore_branch(None, &commit, known, &other, &mut transaction),
                        // Only a tag can be at something else than a commit.
                        (None, _) => {
                            transaction.set(&format!("refs/tags/{other}"), id, Expected::Anything);
                            Restored::Tag(other)
                        }
                    }
                }
            };
            restored.push(RestoredRef { what: kind.clone(), restored: became });
        }
        transaction.commit(self, "palisade: restored from an archive").await?;
        // The oldest first, so that they stand in the user's stash as they stood inside.
        for (id, message) in stashes.into_iter().rev() {
            let store = ["stash", "store", "--quiet", "--message", &message, id.as_str()];
            self.git(store).bytes().await?;
        }
        Ok(restored)
    }

    async fn restore_tag(
        &self,
        archive: &ListedArchive,
        name: &str,
        id: &ObjectId,
        known: &HostRefs,
        prefix: &str,
        transaction: &mut RefTransaction,
    ) -> Result<Restored, GitError> {
        let short = name.trim_start_matches("refs/tags/");
        // The tag object itself may be gone: only its content is held.
        self.make_archived_tag(archive.commit.as_str(), id).await?;
        match known.get(name) {
            Some(there) if there == id => Ok(Restored::Already(short.to_owned())),
            None if !known.is_shadowed(short) && known.fits(name) => {
                transaction.set(name, id, Expected::Absent);
                Ok(Restored::Tag(short.to_owned()))
            }
            _ => {
                let other = format!("{prefix}/{short}");
                let full = format!("refs/tags/{other}");
                if known.get(&full) == Some(id) {
                    return Ok(Restored::Already(other));
                }
                transaction.set(&full, id, Expected::Absent);
                Ok(Restored::Tag(other))
            }
        }
    }
}

fn restore_branch(
    name: Option<&str>,
    id: &ObjectId,
    known: &HostRefs,
    other: &str,
    transaction: &mut RefTransaction,
) -> Restored {
    let own = name.and_then(|name| BranchName::new(name).ok());
    let own = match own {
        Some(branch) if known.branch(&branch) == Some(id) => return Restored::Already(branch.to_string()),
        Some(branch) if known.is_free(&branch) => branch.to_string(),
        _ if known.get(&format!("refs/heads/{other}")) == Some(id) => {
            return Restored::Already(other.to_owned());
        }
        _ => other.to_owned(),
    };
    transaction.set(&format!("refs/heads/{own}"), id, Expected::Absent);
    Restored::Branch(own)
}
