//! What is not committed on the host when a sandbox starts: what an earlier sync has written there, and the user's own.

use crate::files::{Content, HostFile};
use crate::git::{GitError, Repository};
use crate::host_refs::HostRefs;
use crate::host_tree::HostTree;
use crate::refs::ObjectId;
use crate::status::{Change, Status};
use crate::tree_diff::{EntryMode, TreeEntry};
use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// So many memories of other sandboxes are looked at.
const MAX_BASES: usize = 64;

/// What is not committed in the host's working tree.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct HostChanges {
    /// What a sandbox and this working tree had in common after an exchange: a sync has written it, or a start has sent
    /// it in.
    known: BTreeMap<PathBuf, Content>,
    /// The user's own changes.
    pub own: Vec<Change>,
}

impl HostTree {
    /// Looks at what is not committed.
    pub async fn uncommitted(&self, known: &HostRefs) -> Result<HostChanges, GitError> {
        let changes = Status::look(&self.repository).await?.changes;
        let Some(head) = self.head.as_ref().filter(|_| !changes.is_empty()) else {
            return Ok(HostChanges { own: changes, ..HostChanges::default() });
        };
        let exchanged = self.exchanged(known, head).await?;
        let paths: BTreeSet<PathBuf> = changes
            .iter()
            .map(|change| change.path.clone())
            .filter(|path| exchanged.contains_key(path.as_path()))
            .collect();
        let found = self.repository.look_at_files(&paths).await?;
        let mut uncommitted = HostChanges::default();
        for change in changes {
            if self.is_unchanged_large_file(head, &change.path).await? {
                continue;
            }
            let host = found.get(&change.path).map(|found| &found.file);
            match (host, exchanged.get(&change.path)) {
                (Some(HostFile::Content(content)), Some(exchanged)) if exchanged.contains(content) => {
                    uncommitted.known.insert(change.path, content.clone());
                }
                _ => uncommitted.own.push(change),
            }
        }
        Ok(uncommitted)
    }

    /// Whether a file that git takes for changed is the content of its pointer, which Git LFS would know.
    async fn is_unchanged_large_file(&self, head: &ObjectId, path: &Path) -> Result<bool, GitError> {
        if !self.repository.common_directory().join("lfs").exists() {
            return Ok(false);
        }
        let paths = BTreeSet::from([path.to_owned()]);
        let Some(found) = self.repository.look_at_files(&paths).await?.remove(path) else { return Ok(false) };
        let committed = self.repository.entry_at(head, path).await?;
        let recognised = self.repository.recognise_large_file(path, &found.file, &[&committed]).await?;
        Ok(recognised.is_some())
    }

    /// What this repository and any sandbox had in common after an exchange, by path, where the commit has something else.
    async fn exchanged(
        &self,
        known: &HostRefs,
        head: &ObjectId,
    ) -> Result<HashMap<PathBuf, HashSet<Content>>, GitError> {
        let bases = known.below("refs/palisade/base/").filter(|(name, _)| name.contains("/files/"));
        let bases: BTreeSet<&ObjectId> = bases.map(|(_, id)| id).take(MAX_BASES).collect();
        let mut exchanged: HashMap<PathBuf, HashSet<Content>> = HashMap::new();
        for base in bases {
            for change in self.repository.tree_diff(head, base).await?.iter() {
                exchanged.entry(change.path.clone()).or_default().insert(change.after.clone());
            }
        }
        Ok(exchanged)
    }

    /// The files that a sandbox starts from, as a tree: the commit's, with what was exchanged and is not committed yet, and
    /// with the user's own changes if they are to be included. `None` when they are the commit's own.
    pub(crate) async fn files_to_send(
        &self,
        changes: &HostChanges,
        include_own: bool,
    ) -> Result<Option<ObjectId>, GitError> {
        let mut files = changes.known.clone();
        if include_own {
            let paths: BTreeSet<PathBuf> = changes.own.iter().map(|change| change.path.clone()).collect();
            files.extend(self.repository.write_files(&paths).await?);
        }
        self.with_files(&files).await
    }

    /// The commit's files with these in their places; `None` without any.
    async fn with_files(&self, files: &BTreeMap<PathBuf, Content>) -> Result<Option<ObjectId>, GitError> {
        let Some(head) = self.head.as_ref().filter(|_| !files.is_empty()) else { return Ok(None) };
        let files = files.iter().map(|(path, content)| (path.as_path(), content));
        self.repository.tree_with(head, files).await.map(Some)
    }
}

impl Repository {
    /// Writes files of the working tree into the repository's objects. What git does not record is left out.
    async fn write_files(&self, paths: &BTreeSet<PathBuf>) -> Result<BTreeMap<PathBuf, Content>, GitError> {
        let found = self.look_at_files(paths).await?;
        let mut written = BTreeMap::new();
        for (path, found) in found {
            let HostFile::Content(content) = found.file else { continue };
            if let Some(TreeEntry { mode, .. }) = &content {
                self.write_file(&path, *mode).await?;
            }
            written.insert(path, content);
        }
        Ok(written)
    }

    pub(crate) async fn write_file(&self, path: &Path, mode: EntryMode) -> Result<(), GitError> {
        let place = self.directory().as_path().join(path);
        if mode == EntryMode::Link {
            let target = std::fs::read_link(&place);
            let target = target.map_err(|source| GitError::Io { what: "read a link".into(), source })?;
            return self.write_object("blob", target.as_os_str().as_bytes().to_vec()).await.map(drop);
        }
        let words = ["hash-object".into(), "-w".into(), "--".into(), path.as_os_str().to_owned()];
        self.git(words).bytes().await.map(drop)
    }
}
