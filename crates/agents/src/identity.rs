//! A repository is known by an id in its common git directory, so that it is found again when it was moved.

use crate::error::AgentError;
use crate::record::Record;
use crate::service::AgentSandbox;
use palisade_core::{HostPath, SandboxId};
use palisade_workspace::{Git, HostTree, NotUsable, Repository};
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

/// The id's file, in the common git directory.
const FILE: &str = "palisade/repository-id";

fn file(repository: &Repository) -> PathBuf {
    repository.common_directory().join(FILE)
}

fn read_file(file: &Path) -> Option<String> {
    let text = std::fs::read_to_string(file).ok()?;
    SandboxId::parse(text.trim()).ok().map(String::from)
}

/// The repository's id, if it has one.
pub(crate) fn read(repository: &Repository) -> Option<String> {
    read_file(&file(repository))
}

/// The repository's id, made when it has none. `random` is for a new one.
pub(crate) fn read_or_make(repository: &Repository) -> Result<String, AgentError> {
    let file = file(repository);
    if let Some(id) = read_file(&file) {
        return Ok(id);
    }
    let failed = || AgentError::io(format!("give the repository an id in {}", file.display()));
    let mut bytes = [0u8; 15];
    getrandom::fill(&mut bytes).map_err(|error| failed()(std::io::Error::other(error.to_string())))?;
    let id = String::from(SandboxId::from_random(bytes));
    if let Some(directory) = file.parent() {
        std::fs::create_dir_all(directory).map_err(failed())?;
    }
    // Whole or not at all, and the first one counts.
    let fresh = file.with_extension(format!("{}", std::process::id()));
    std::fs::write(&fresh, &id).map_err(failed())?;
    let linked = std::fs::hard_link(&fresh, &file);
    let _ = std::fs::remove_file(&fresh);
    match linked {
        Err(error) if error.kind() != ErrorKind::AlreadyExists => Err(failed()(error)),
        _ => read_file(&file).ok_or_else(|| failed()(ErrorKind::InvalidData.into())),
    }
}

/// Whether the repository of a record is still where it was, as far as files tell.
pub(crate) fn is_at(record: &Record) -> bool {
    let entry = record.repository.as_path().join(".git");
    match (&record.repository_id, entry.metadata()) {
        (_, Err(_)) => false,
        (None, Ok(_)) => true,
        // The file of a linked working tree does not hold the id itself.
        (Some(_), Ok(found)) if !found.is_dir() => true,
        (Some(id), Ok(_)) => read_file(&entry.join(FILE)).is_none_or(|found| found == *id),
    }
}

/// Whether the id in the git directory at the known place is the record's. What else is wrong there shows as soon as git
/// is asked anything.
fn has_same_id(record: &Record) -> bool {
    let found = read_file(&record.repository.as_path().join(".git").join(FILE));
    found.is_some() && found == record.repository_id
}

/// Where the repository of a sandbox is now. A sandbox follows a repository that was moved to where the user is; one
/// that was copied stays the original's.
pub(crate) async fn locate(
    git: &Git,
    sandbox: &AgentSandbox,
    here: Option<&HostPath>,
) -> Result<HostPath, AgentError> {
    let record = &sandbox.record;
    if has_same_id(record) {
        return Ok(record.repository.clone());
    }
    let known = match HostTree::find(git, &record.repository).await {
        Ok(tree) => {
            let is_same = match (&record.repository_id, read(&tree.repository)) {
                (Some(known), Some(found)) => *known == found,
                _ => true,
            };
            if is_same {
                return Ok(tree.root);
            }
            None
        }
        Err(error @ (NotUsable::Missing(_) | NotUsable::NoRepository(_))) => Some(error),
        Err(error) => return Err(error.into()),
    };
    if let (Some(id), Some(here)) = (&record.repository_id, here)
        && let Ok(tree) = HostTree::around(git, here).await
        && read(&tree.repository).as_ref() == Some(id)
    {
        let mut moved = sandbox.clone();
        moved.record.repository = tree.root.clone();
        moved.save()?;
        return Ok(tree.root);
    }
    tracing::debug!(?known, "the repository is not where it was");
    Err(AgentError::RepositoryGone { name: sandbox.row.name.clone(), was: record.repository.clone() })
}
