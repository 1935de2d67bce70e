//! Which changes a sandbox has made in its copy: the manifest and what is there now, compared. Pure.

use super::entry::{EntryKind, Manifest, Stamp};
use super::walk::Listing;
use std::collections::HashSet;
use std::path::{Path, PathBuf};

/// How an entry of the copy differs from what was copied.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum ChangeKind {
    Deleted,
    Added,
    Changed,
    /// Only its permissions, as far as its times tell.
    Mode,
}

/// One change that a sandbox has made in its copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Change {
    pub(super) path: PathBuf,
    pub(super) kind: ChangeKind,
    /// What it was on the host when it was copied; `None` for what was added.
    pub(super) host: Option<Stamp>,
    /// What is in the copy now; `None` for what was deleted.
    pub(super) copy: Option<Stamp>,
}

impl Change {
    /// Whether it is about a directory itself.
    pub(super) fn is_of_directory(&self) -> bool {
        self.copy.as_ref().or(self.host.as_ref()).is_some_and(|stamp| stamp.kind == EntryKind::Directory)
    }
}

/// Compares. Nothing is concluded about what lies below a directory that could not be listed, nor about a path that has a
/// device, pipe or socket now.
pub(super) fn compare(manifest: &Manifest, found: &Listing) -> Vec<Change> {
    let mut changes = Vec::new();
    let unread = found.unread.iter().map(|(path, _)| path).chain(&found.special);
    let unread: HashSet<&Path> = unread.map(PathBuf::as_path).collect();
    let is_unread = |path: &Path| path.ancestors().any(|above| unread.contains(above));
    for (path, known) in &manifest.entries {
        let deleted = || Change {
            path: path.clone(),
            kind: ChangeKind::Deleted,
            host: Some(known.host.clone()),
            copy: None,
        };
        let Some(now) = found.entries.get(path) else {
            if !is_unread(path) {
                changes.push(deleted());
            }
            continue;
        };
        let is_directory = |stamp: &Stamp| stamp.kind == EntryKind::Directory;
        // A directory cannot be exchanged with a file: one goes, the other comes.
        if is_directory(now) != is_directory(&known.copy) {
            changes.push(deleted());
            changes.push(added(path, now));
            continue;
        }
        if let Some(kind) = difference(&known.copy, now) {
            let (host, copy) = (Some(known.host.clone()), Some(now.clone()));
            changes.push(Change { path: path.clone(), kind, host, copy });
        }
    }
    let is_new = |(path, _): &(&PathBuf, &Stamp)| !manifest.entries.contains_key(*path);
    changes.extend(found.entries.iter().filter(is_new).map(|(path, now)| added(path, now)));
    changes.sort_by(|a, b| (&a.path, a.kind as u8).cmp(&(&b.path, b.kind as u8)));
    changes
}

fn added(path: &Path, now: &Stamp) -> Change {
    Change { path: path.to_owned(), kind: ChangeKind::Added, host: None, copy: Some(now.clone()) }
}

/// How two states of an entry differ, both of a directory or neither.
fn difference(before: &Stamp, now: &Stamp) -> Option<ChangeKind> {
    if before.is_same(now) {
        return None;
    }
    match now.kind {
        EntryKind::Directory => Some(ChangeKind::Mode),
        EntryKind::Link => {
            (before.kind != now.kind || before.target != now.target).then_some(ChangeKind::Changed)
        }
        EntryKind::File => {
            // For people only: a program may have set the time of its write back, so the content is laid as well.
            let content = |stamp: &Stamp| (stamp.kind, stamp.size, stamp.modified, stamp.inode);
            let is_mode = content(before) == content(now) && before.mode != now.mode;
            Some(if is_mode { ChangeKind::Mode } else { ChangeKind::Changed })
        }
    }
}

#[cfg(test)]
mod tests;
