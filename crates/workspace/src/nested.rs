//! Repositories inside the sandbox's working trees: each with work of its own gets a bare repository below
//! `.git/palisade/` on the host, with archives of the same form.

use crate::archive::{ArchiveOutcome, ArchiveSubject, ListedArchive};
use crate::git::{GitError, Repository};
use crate::host_tree::HostTree;
use crate::pack::ReceiveError;
use crate::refs::{SandboxRefs, component, decode_component};
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

/// A bare repository on the host that holds archives of a nested one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NestedRepository {
    /// Where it lay in the workspace. A path that is too long for the name of a file is shortened.
    pub path: String,
    pub place: HostPath,
}

/// The end of the name of such a repository.
const BARE: &str = ".git";

impl Repository {
    /// The bare repositories with work of nested ones, of all sandboxes, in the order of their paths.
    pub(crate) fn nested_repositories(&self) -> Result<Vec<NestedRepository>, GitError> {
        let io = |source| GitError::Io { what: "list the archives of nested repositories".into(), source };
        let all = self.places().common.join("palisade/nested");
        let mut found = Vec::new();
        for sandbox in entries(&all).map_err(io)? {
            for place in entries(&sandbox).map_err(io)? {
                let name = place.file_name().and_then(|name| name.to_str());
                let Some(name) = name.and_then(|name| name.strip_suffix(BARE)) else { continue };
                if place.join("HEAD").is_file() {
                    let path = decode_component(name);
                    let place = HostPath::new(place).map_err(|error| io(std::io::Error::other(error)))?;
                    found.push(NestedRepository { path, place });
                }
            }
        }
        found.sort_by(|a, b| (&a.path, a.place.as_path()).cmp(&(&b.path, b.place.as_path())));
        Ok(found)
    }

    /// The repository that an archive lies in: this one, or the bare one of a nested repository.
    pub fn of_archive(&self, archive: &ListedArchive) -> Self {
        archive.nested.as_ref().map_or_else(|| self.clone(), |nested| self.bare(&nested.place))
    }

    /// Removes the bare repository of a nested one in which no ref is left, neither ours nor a branch of the user's.
    pub(crate) async fn remove_nested_if_empty(&self, nested: &NestedRepository) -> Result<(), GitError> {
        let refs = self.bare(&nested.place).git(["for-each-ref", "--count=1"]).bytes().await?;
        if !refs.is_empty() {
            return Ok(());
        }
        std::fs::remove_dir_all(&nested.place)
            .map_err(|source| GitError::Io { what: format!("remove {}", nested.place), source })
    }

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
        Ok(self.nested_directory(refs)?.join(format!("{}{BARE}", component(path.as_str()))))
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

/// What is in a directory; nothing when it is not there.
fn entries(directory: &std::path::Path) -> std::io::Result<Vec<std::path::PathBuf>> {
    let list = match std::fs::read_dir(directory) {
        Ok(list) => list,
        Err(error)
            if matches!(error.kind(), std::io::ErrorKind::NotFound | std::io::ErrorKind::NotADirectory) =>
        {
            return Ok(Vec::new());
        }
        Err(error) => return Err(error),
    };
    list.map(|entry| Ok(entry?.path())).collect()
}
