//! Repositories inside the sandbox's working trees: each with work of its own gets a bare repository below
//! `.git/palisade/` on the host, with archives of the same form.

use crate::archive::{ArchiveOutcome, ArchiveSubject};
use crate::git::{GitError, Repository};
use crate::host_tree::HostTree;
use crate::pack::ReceiveError;
use crate::refs::{SandboxRefs, component};
use crate::sandbox::SandboxRepository;
use crate::survey::RepositorySurvey;
use palisade_core::{HostPath, ProjectPath};

/// The archive of a nested repository.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedArchive {
    /// Where it lies in the workspace.
    pub path: ProjectPath,
    /// The bare repository on the host.
    pub place: HostPath,
    pub outcome: ArchiveOutcome,
    /// Whether the user's own working tree has a repository there with all of it.
    pub is_on_host: bool,
}

impl Repository {
    /// The directory of all bare repositories that hold work of one sandbox's nested ones.
    fn nested_directory(&self, refs: &SandboxRefs) -> Result<HostPath, GitError> {
        let path = self.places().common.join("palisade/nested").join(refs.id().as_str());
        HostPath::new(path).map_err(|error| GitError::Io {
            what: "nested repositories".into(),
            source: std::io::Error::other(error),
        })
    }

    /// Where the work of a nested repository is archived.
    pub fn nested_place(&self, refs: &SandboxRefs, path: &ProjectPath) -> Result<HostPath, GitError> {
        Ok(self.nested_directory(refs)?.join(format!("{}.git", component(path.as_str()))))
    }

    /// Archives a nested repository.
    pub(crate) async fn archive_nested(
        &self,
        from: &SandboxRepository<'_>,
        path: &ProjectPath,
        survey: &RepositorySurvey,
        subject: ArchiveSubject<'_>,
    ) -> Result<NestedArchive, ReceiveError> {
        let place = self.nested_place(subject.refs, path)?;
        let format = survey.refs.values().chain(survey.trees.iter().filter_map(|tree| tree.head.as_ref()));
        let is_long = format.map(|id| id.as_str().len()).next() == Some(64);
        let bare = self.bare(&place);
        if !place.as_path().join("HEAD").exists() {
            let io = |source| GitError::Io { what: "make a repository for nested work".into(), source };
            std::fs::create_dir_all(&place).map_err(io)?;
            let format = if is_long { "--object-format=sha256" } else { "--object-format=sha1" };
            bare.git(["init", "--bare", "--quiet", "--template=", format]).bytes().await?;
        }
        let mut known = bare.host_refs(subject.refs).await?;
        let from = from.at(format!("{}/{}", from.directory(), path));
        let outcome = bare.archive(&from, survey, &mut known, subject).await?;
        let is_on_host = self.has_nested(path, survey, subject.refs).await;
        Ok(NestedArchive { path: path.clone(), place, outcome, is_on_host })
    }

    /// Whether the user has a repository in the same place that holds everything.
    async fn has_nested(&self, path: &ProjectPath, survey: &RepositorySurvey, refs: &SandboxRefs) -> bool {
        // No sandbox's work can hold a `.git`, but it can hold the files of a repository without one: what has one is the
        // user's.
        if !self.directory().join(path.as_str()).join(".git").as_path().exists() {
            return false;
        }
        let look = async {
            let tree = HostTree::find(&self.program(), &self.directory().join(path.as_str())).await.ok()?;
            let known = tree.repository.host_refs(refs).await.ok()?;
            tree.repository.has_all(survey, &known).await.ok()
        };
        look.await == Some(true)
    }
}
