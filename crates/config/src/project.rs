//! Finding a project's file: in a directory or above it, and from a git worktree also in the main repository.

use crate::error::{ConfigError, Problem};
use crate::file;
use crate::manifest::manifests_in;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

/// Where a project's file lies, relative to the project.
pub const PROJECT_FILE: &str = ".palisade/config.toml";

/// Where a project's environments lie, relative to the project.
pub const PROJECT_ENVIRONMENTS: &str = ".palisade/environments";

/// The nearest project file from `start` (an absolute directory) up. When there is none and `start` lies in a
/// linked git worktree, that of the main repository: worktrees often lie elsewhere, and a policy that is lost
/// there would be lost silently. Whether the file can be read is not asked here.
pub fn find_project(start: &Path) -> Option<PathBuf> {
    find(start, PROJECT_FILE)
}

/// The nearest directory with a project's environments, found as its file is.
pub fn find_project_environments(start: &Path) -> Option<PathBuf> {
    find(start, PROJECT_ENVIRONMENTS)
}

fn find(start: &Path, relative: &str) -> Option<PathBuf> {
    let inside = |directory: &Path| {
        let path = directory.join(relative);
        // Without following: a link is found here, so that it is refused and not passed over.
        path.symlink_metadata().is_ok().then_some(path)
    };
    let above = start.ancestors().find_map(inside);
    above.or_else(|| start.ancestors().find_map(main_repository).as_deref().and_then(inside))
}

/// Every file of a project that can be trusted: its settings, and its environments.
pub fn project_files(start: &Path) -> Result<Vec<PathBuf>, ConfigError> {
    let mut files: Vec<PathBuf> = find_project(start).into_iter().collect();
    if let Some(directory) = find_project_environments(start) {
        files.extend(manifests_in(&directory)?);
    }
    Ok(files)
}

/// The digest of a project's file as it is now, for `palisade trust`.
pub fn project_digest(path: &Path) -> Result<String, ConfigError> {
    match file::read_foreign(path)? {
        Some(bytes) => Ok(file::digest(&bytes)),
        None => {
            Err(Problem::Unreadable { file: file::shown(path), reason: "there is no such file".into() }
                .into())
        }
    }
}

/// The root of the main repository, if `directory` is the root of a linked worktree of it. No git is run, and
/// the main repository must name the worktree in turn: anybody can write a `.git` file that points at somebody
/// else's repository, whose project file the user may have trusted.
fn main_repository(directory: &Path) -> Option<PathBuf> {
    let directory = directory.canonicalize().ok()?;
    let pointer = directory.join(".git");
    let git_directory = directory.join(read_path(&pointer, b"gitdir:")?);
    let common = git_directory.join(read_path(&git_directory.join("commondir"), b"")?).canonicalize().ok()?;
    let back = git_directory.join(read_path(&git_directory.join("gitdir"), b"")?);
    if back.canonicalize().ok()? != pointer.canonicalize().ok()? {
        return None;
    }
    if !git_directory.canonicalize().ok()?.starts_with(common.join("worktrees")) {
        return None;
    }
    // A bare repository has no files of its own, and so no project file.
    (common.file_name() == Some(OsStr::new(".git"))).then(|| common.parent().map(Path::to_owned)).flatten()
}

/// The path in a small file of git's, after `prefix`.
fn read_path(path: &Path, prefix: &[u8]) -> Option<PathBuf> {
    let bytes = file::read_foreign(path).ok().flatten()?;
    let path = bytes.strip_prefix(prefix)?.trim_ascii();
    (!path.is_empty() && !path.contains(&0)).then(|| PathBuf::from(OsStr::from_bytes(path)))
}
