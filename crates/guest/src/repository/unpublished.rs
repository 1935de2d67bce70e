//! Repositories with commits that none of their remotes had, anywhere below a directory.

use super::git::{Git, GitFailure};
use super::records::Records;
use super::survey::{has_own_commits, refs};
use std::collections::VecDeque;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// How deep below the directory repositories are looked for.
const MAX_DEPTH: usize = 4;
/// How many directories are looked into at most.
const MAX_DIRECTORIES: usize = 20_000;

/// The paths of those repositories, each ended by a NUL.
pub(crate) fn unpublished(directory: &Path) -> Result<Vec<u8>, GitFailure> {
    let mut records = Records::default();
    for repository in repositories(directory) {
        let git = Git::at(&repository);
        if refs(&git).is_ok_and(|refs| has_own_commits(&git, &refs)) {
            records.add(&[repository.as_os_str().as_bytes()]);
        }
    }
    Ok(records.into_bytes())
}

/// Directories with a `.git`, those nearest to the top first.
fn repositories(directory: &Path) -> Vec<PathBuf> {
    let mut found = Vec::new();
    let mut pending = VecDeque::from([(directory.to_owned(), 0)]);
    let mut looked = 0;
    while let Some((directory, depth)) = pending.pop_front() {
        looked += 1;
        if directory.join(".git").exists() {
            found.push(directory.clone());
        }
        if depth == MAX_DEPTH || looked + pending.len() >= MAX_DIRECTORIES {
            continue;
        }
        let entries = std::fs::read_dir(&directory).into_iter().flatten().flatten();
        let below = entries
            .filter(|entry| entry.file_name() != ".git" && entry.file_type().is_ok_and(|kind| kind.is_dir()));
        pending.extend(below.map(|entry| (entry.path(), depth + 1)));
    }
    found
}
