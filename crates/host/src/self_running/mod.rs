//! What a sandbox has left in a bound directory that the host's own tools run or obey by themselves. A shared work tree
//! cannot keep a sandbox from writing such files, so the user hears of each of them, or of what was not looked at.
//!
//! Before a sandbox starts, a [`Baseline`] is taken: every such file with its inode and the time of its last change. When
//! it has ended, the tree is looked at again and the two are compared. Times alone would not do: what lies in a directory
//! that was moved keeps its own, and a file may be in a new place without having changed. A file's *change time* cannot be
//! set by anybody, so an inode that has the same one at the same path is as it was.
//!
//! Invariants:
//! - Links are not followed, and nothing that is found is run; only a changed `package.json` is read.
//! - What could not be listed is named. There is no limit on entries or finds.
//! - A baseline can be written down, so that the report can be made when the process that took it has died.

mod own_repository;
mod repository;
mod walk;

use crate::fence::nested;
use palisade_core::self_running::{MANIFEST, RunTrigger, lifecycle_scripts};
use palisade_core::{HostPath, printable};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::io::Read;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use walk::{Tree, Walked};

/// How many are shown of each kind; the whole list is in a file.
const MOST_SHOWN: usize = 20;

/// A larger manifest is reported without a look at what it says.
const LARGEST_MANIFEST: u64 = 4 << 20;

/// What tells one state of a file from another.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) enum Stamp {
    /// Its inode, and when that changed last, in nanoseconds.
    Inode(u64, i64),
    /// Of a repository: everything in it that names programs, as a digest.
    Repository(String),
}

/// A file, link or repository that something on the host runs or obeys by itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct SelfRunningEntry {
    trigger: RunTrigger,
    stamp: Stamp,
}

/// A directory that could not be listed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct UnreadDirectory {
    pub path: PathBuf,
    pub reason: String,
}

/// What there was in a directory before a sandbox could write it.
#[derive(Debug, Serialize, Deserialize)]
pub struct Baseline {
    directory: HostPath,
    #[serde(with = "paths")]
    entries: BTreeMap<PathBuf, SelfRunningEntry>,
    /// When it was taken, in nanoseconds since 1970.
    taken: i64,
    /// Every directory as it was, so that those which did not change need not be listed again. Not written down: after a
    /// death, all are listed.
    #[serde(skip)]
    tree: Tree,
}

/// A find, relative to the bound directory.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ChangedFile {
    pub path: PathBuf,
    pub trigger: RunTrigger,
}

/// What has changed in one directory since its baseline.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Report {
    pub directory: HostPath,
    pub changed: Vec<ChangedFile>,
    pub unread: Vec<UnreadDirectory>,
}

impl Baseline {
    /// Looks at a directory that no sandbox writes yet. A change that comes after this has a later time than anything that
    /// was seen: where a file was changed just now, the file system's clock is waited for.
    pub fn take(directory: &HostPath) -> Self {
        /// More than the clock of any file system that counts in nanoseconds takes for one step.
        const STEP: Duration = Duration::from_millis(10);
        let taken = now();
        let Walked { entries, tree, .. } = walk::whole(directory.as_path());
        let last = entries.values().filter_map(|entry| match entry.stamp {
            Stamp::Inode(_, changed) if changed <= now() => Some(changed),
            _ => None,
        });
        if let Some(last) = last.max()
            && let Some(left) = STEP.checked_sub(Duration::from_nanos((now() - last).unsigned_abs()))
        {
            std::thread::sleep(left);
        }
        Self { directory: directory.clone(), entries, taken, tree }
    }

    pub fn directory(&self) -> &HostPath {
        &self.directory
    }

    /// The `.git` of each repository below the directory, relative to it, so that it need not be walked for these again.
    pub fn repositories(&self) -> Vec<PathBuf> {
        let root = self.directory.as_path();
        let mut found = Vec::new();
        for (path, entry) in &self.entries {
            if entry.trigger != RunTrigger::Repository {
                continue;
            }
            let is_link = root.join(path).symlink_metadata().is_ok_and(|meta| meta.is_symlink());
            match path.file_name().map(|name| name.as_encoded_bytes()) {
                Some(b".git") if !is_link => found.push(path.clone()),
                // Data of other programs for version control is not walked.
                Some(name) if repository::is_closed(name) => {
                    found.extend(nested::below(root, path, nested::MOST));
                }
                _ => {}
            }
        }
        found
    }

    /// Looks again, now that the sandbox has ended.
    pub fn compare(&self) -> Report {
        let root = self.directory.as_path();
        let Walked { entries, unread, .. } = walk::again(root, &self.tree, self.taken);
        let is_new = |path: &Path, entry: &SelfRunningEntry| match (self.entries.get(path), &entry.stamp) {
            // A clock that counts in seconds cannot tell two changes within one.
            (Some(_), Stamp::Inode(_, changed)) if is_coarse(*changed, self.taken) => true,
            (Some(before), _) => before != entry,
            (None, _) => true,
        };
        let mut changed: Vec<ChangedFile> = entries
            .into_iter()
            .filter(|(path, entry)| is_new(path, entry) && counts(root, path))
            .map(|(path, entry)| ChangedFile { path, trigger: entry.trigger })
            .collect();
        changed.extend(own_repository::astray(root, self.taken));
        changed.sort_by(|a, b| (a.trigger, &a.path).cmp(&(b.trigger, &b.path)));
        Report { directory: self.directory.clone(), changed, unread }
    }
}

/// A manifest counts when it says something that runs at an installation, or cannot be read.
fn counts(root: &Path, path: &Path) -> bool {
    if path.file_name().is_none_or(|name| name != MANIFEST) {
        return true;
    }
    match read_plain(&root.join(path)) {
        Ok(Some(manifest)) => !lifecycle_scripts(&manifest).is_empty(),
        Ok(None) | Err(_) => true,
    }
}

/// What a file holds; nothing when it is not a plain one, or too large.
fn read_plain(path: &Path) -> std::io::Result<Option<Vec<u8>>> {
    use rustix::fs::{Mode, OFlags};
    // A pipe in its place must not keep us waiting.
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = std::fs::File::from(rustix::fs::open(path, flags, Mode::empty())?);
    let meta = file.metadata()?;
    if !meta.is_file() || meta.len() > LARGEST_MANIFEST {
        return Ok(None);
    }
    let mut content = Vec::new();
    file.take(LARGEST_MANIFEST).read_to_end(&mut content)?;
    Ok(Some(content))
}

impl Report {
    pub fn is_empty(&self) -> bool {
        self.changed.is_empty() && self.unread.is_empty()
    }

    /// For the user: the first of each, and the file with all of them; all of them where there is no file.
    pub fn warnings(&self, list: Option<&Path>) -> Vec<String> {
        let mut warnings = Vec::new();
        let directory = printable(&self.directory.to_string());
        let describe = |file: &ChangedFile| format!("{} ({})", shown(&file.path), file.trigger.description());
        if !self.changed.is_empty() {
            let found = first_of(self.changed.iter().map(describe), list);
            warnings.push(format!("new or changed in {directory}, and run by the host's own tools: {found}"));
        }
        if !self.unread.is_empty() {
            let describe = |unread: &UnreadDirectory| format!("{} ({})", shown(&unread.path), unread.reason);
            let unread = first_of(self.unread.iter().map(describe), list);
            warnings.push(format!("not looked at in {directory} for files that run by themselves: {unread}"));
        }
        warnings
    }

    /// All of it, a line each.
    pub fn render(&self) -> String {
        let directory = printable(&self.directory.to_string());
        let changed =
            self.changed.iter().map(|file| format!("{} {}\n", shown(&file.path), file.trigger.description()));
        let unread = self
            .unread
            .iter()
            .map(|unread| format!("{} was not looked at: {}\n", shown(&unread.path), unread.reason));
        let lines: String = changed.chain(unread).collect();
        format!("In {directory}, new or changed and run by the host's own tools:\n{lines}")
    }
}

fn first_of(all: impl ExactSizeIterator<Item = String>, list: Option<&Path>) -> String {
    let count = all.len();
    let Some(list) = list else { return all.collect::<Vec<_>>().join(", ") };
    let mut text = all.take(MOST_SHOWN).collect::<Vec<_>>().join(", ");
    if count > MOST_SHOWN {
        text += &format!(", and {} more", count - MOST_SHOWN);
    }
    text + &format!("; see {}", printable(&list.to_string_lossy()))
}

fn shown(path: &Path) -> String {
    match path.as_os_str().is_empty() {
        true => ".".into(),
        false => printable(&path.to_string_lossy()),
    }
}

fn now() -> i64 {
    let elapsed = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    i64::try_from(elapsed.as_nanos()).unwrap_or(i64::MAX)
}

/// Whether a time is a whole second, and so late that a change after `taken` might have the same.
fn is_coarse(changed: i64, taken: i64) -> bool {
    const SECOND: i64 = 1_000_000_000;
    changed % SECOND == 0 && changed >= taken - 2 * SECOND
}

/// Paths need not be text, and are written as bytes where they are not.
mod paths;

#[cfg(test)]
mod tests;
