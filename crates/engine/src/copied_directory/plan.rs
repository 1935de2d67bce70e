//! Which changes are laid, in which order, and what is never laid. Pure.

use super::compare::{Change, ChangeKind};
use super::entry::EntryKind;
use super::walk::Listing;
use palisade_core::dot_git::stands_for_git;
use palisade_core::self_running::{self, RunTrigger};
use palisade_host::beneath::link_stays;
use std::collections::BTreeSet;
use std::ffi::OsString;
use std::path::{Path, PathBuf};

/// The changes at or below some paths; all of them without paths. A new directory that one of them needs comes along. The
/// error is a path without a change.
pub(super) fn select(changes: &[Change], paths: &[PathBuf]) -> Result<Vec<Change>, PathBuf> {
    if paths.is_empty() {
        return Ok(changes.to_vec());
    }
    let matches = |change: &Change, path: &PathBuf| change.path.starts_with(path);
    if let Some(missing) = paths.iter().find(|path| !changes.iter().any(|change| matches(change, path))) {
        return Err(missing.clone());
    }
    let is_named = |change: &Change| paths.iter().any(|path| matches(change, path));
    let needed: BTreeSet<&Path> = changes
        .iter()
        .filter(|change| is_named(change) && change.kind != ChangeKind::Deleted)
        .flat_map(|change| change.path.ancestors().skip(1))
        .collect();
    // What became a directory: it goes as a file and comes as a directory.
    let new_directories: BTreeSet<&Path> = changes
        .iter()
        .filter(|change| change.kind == ChangeKind::Added && change.is_of_directory())
        .map(|change| change.path.as_path())
        .collect();
    let is_needed = |change: &Change| {
        needed.contains(change.path.as_path()) && new_directories.contains(change.path.as_path())
    };
    Ok(changes.iter().filter(|change| is_named(change) || is_needed(change)).cloned().collect())
}

/// Deletions first, then directories before what is in them; permissions of directories last.
pub(super) fn order(changes: &mut [Change]) {
    changes.sort_by_key(|change| {
        let depth = i64::try_from(change.path.components().count()).unwrap_or(i64::MAX);
        match (change.kind, change.is_of_directory()) {
            (ChangeKind::Deleted, false) => (0, 0),
            (ChangeKind::Deleted, true) => (1, -depth),
            (ChangeKind::Added, true) => (2, depth),
            (_, false) => (3, 0),
            (_, true) => (4, -depth),
        }
    });
}

/// What a change would make the host's own tools run or obey by themselves, as far as its path and a link's target tell.
pub(super) fn trigger(change: &Change) -> Option<RunTrigger> {
    let copy = change.copy.as_ref()?;
    if copy.kind == EntryKind::Directory {
        return None;
    }
    let leads_out = || {
        let target = OsString::from(copy.target.clone()?);
        (!link_stays(0, &change.path, Path::new(&target))).then_some(RunTrigger::LinkOutside)
    };
    self_running::by_path(&change.path).or_else(leads_out)
}

/// Whether a change belongs to a repository, whose settings and hooks git would run: these stay in the copy.
pub(super) fn is_of_repository(change: &Change, found: &Listing) -> bool {
    const OTHERS: [&[u8]; 3] = [b".hg", b".jj", b".svn"];
    let is_repository =
        |name: &[u8]| stands_for_git(name) || OTHERS.iter().any(|other| other.eq_ignore_ascii_case(name));
    let mut names = change.path.components().map(|part| part.as_os_str().as_encoded_bytes());
    names.any(is_repository) || (change.copy.is_some() && makes_repository(&change.path, found))
}

/// By git's own rule: a directory with a `HEAD`, and with `objects` and `refs`, is a repository. Without its `HEAD` it is not.
fn makes_repository(path: &Path, found: &Listing) -> bool {
    let name = path.file_name().map(|name| name.as_encoded_bytes().to_ascii_lowercase());
    let has = |name: &str| found.entries.contains_key(&path.with_file_name(name));
    name.is_some_and(|name| name == b"head") && has("objects") && has("refs")
}

#[cfg(test)]
mod tests;
