//! Archives of agents' work, also of sandboxes that are gone.

use crate::error::AgentError;
use crate::service::AgentService;
use palisade_core::{HostPath, printable};
use palisade_workspace::{HostTree, ListedArchive, RestoredRef, SandboxRefs};

/// Which archives are meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ArchiveSelection {
    All,
    /// By the name or the id of a sandbox.
    Sandbox(String),
}

impl ArchiveSelection {
    fn selects(&self, archive: &ListedArchive) -> bool {
        match self {
            Self::All => true,
            Self::Sandbox(text) => {
                archive.sandbox.as_str() == text
                    || archive.manifest.as_ref().is_some_and(|manifest| manifest.name.as_str() == text)
            }
        }
    }
}

impl AgentService<'_> {
    /// The archives in the repository of a directory, those of nested repositories among them, the oldest first.
    pub async fn history(
        &self,
        directory: &HostPath,
        selection: &ArchiveSelection,
    ) -> Result<Vec<ListedArchive>, AgentError> {
        let tree = HostTree::around(&self.git, directory).await?;
        let mut archives = tree.repository.archives().await?;
        archives.retain(|archive| selection.selects(archive));
        Ok(archives)
    }

    /// Makes branches, tags and stash entries of what an archive holds, in the repository that it lies in.
    pub async fn restore(
        &self,
        directory: &HostPath,
        reference: &str,
    ) -> Result<(ListedArchive, Vec<RestoredRef>), AgentError> {
        let tree = HostTree::around(&self.git, directory).await?;
        let _lock = tree.repository.lock().await?;
        let archives = tree.repository.archives().await?;
        let is_meant = |archive: &ListedArchive| archive.is_named(reference);
        let mut meant: Vec<ListedArchive> = archives.into_iter().filter(is_meant).collect();
        let archive = match (meant.pop(), meant.is_empty()) {
            (Some(archive), true) => archive,
            (None, _) => return Err(AgentError::NoArchive { reference: printable(reference) }),
            (Some(last), false) => {
                meant.push(last);
                let references = meant.into_iter().map(|archive| archive.reference).collect();
                return Err(AgentError::SeveralArchives { reference: printable(reference), references });
            }
        };
        let refs = SandboxRefs::new(archive.sandbox.clone(), name_of(&archive)?);
        let repository = tree.repository.of_archive(&archive);
        let known = repository.host_refs(&refs).await?;
        let restored = repository.restore_archive(&archive, &known).await?;
        Ok((archive, restored))
    }

    /// Removes the archives that were made at a time or before, in Unix seconds.
    pub async fn prune(
        &self,
        directory: &HostPath,
        selection: &ArchiveSelection,
        before: i64,
    ) -> Result<Vec<ListedArchive>, AgentError> {
        let tree = HostTree::around(&self.git, directory).await?;
        let _lock = tree.repository.lock().await?;
        let mut archives = tree.repository.archives().await?;
        archives.retain(|archive| selection.selects(archive) && archive.time <= before);
        tree.repository.remove_archives(&archives).await?;
        Ok(archives)
    }
}

fn name_of(archive: &ListedArchive) -> Result<palisade_core::SandboxName, AgentError> {
    let unreadable = || AgentError::NoArchive { reference: archive.reference.clone() };
    archive.manifest.as_ref().map(|manifest| manifest.name.clone()).ok_or_else(unreadable)
}
