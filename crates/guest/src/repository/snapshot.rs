//! Records what is not committed in a working tree, without touching its index or its files.
//!
//! A snapshot has the shape of a stash entry, so that git's own commands read it: its tree holds the tracked files,
//! its parents are the commit, the index, the untracked files and, where the index is unmerged, all its versions. The
//! same work always gives the same ids, so that it is nothing new when it is asked for again.

use super::git::{Git, GitFailure};
use super::status::{Status, Unmerged};
use super::working_tree::WorkingTree;
use std::collections::HashSet;
use std::ffi::OsString;
use std::hash::{DefaultHasher, Hash, Hasher};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};
use std::{fs, io};

/// A file that changed this shortly before could change again without any of its times.
const CLOCK_STEP: Duration = Duration::from_millis(100);

#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Snapshot {
    /// The commit in the shape of a stash entry.
    pub(crate) commit: String,
    /// The tree of all files, tracked and untracked.
    pub(crate) files: String,
}

/// A file that is in no snapshot, and why.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct LeftOut {
    pub(crate) path: PathBuf,
    pub(crate) why: String,
}

/// Records a working tree that has changes. `None` when they come to nothing.
pub(crate) fn record(
    tree: &WorkingTree,
    git: &Git,
    status: &Status,
) -> Result<(Option<Snapshot>, Vec<LeftOut>), GitFailure> {
    let scratch = tree.scratch().map_err(|error| broken("make a place for the snapshot", &error))?;
    // Two that look at the same working tree at once would write each other's index.
    let _turn = take_turn(&scratch).map_err(|error| broken("wait for another look", &error))?;
    let fingerprint = Fingerprint::take(tree, status);
    if let Some(known) = fingerprint.remembered(&scratch)
        && git.run(&["cat-file", "-e", &known.commit]).is_ok()
        && git.run(&["cat-file", "-e", &known.files]).is_ok()
    {
        return Ok((Some(known), Vec::new()));
    }
    let mut recorder = Recorder { git, status, scratch: &scratch, own: &tree.own, left_out: Vec::new() };
    let snapshot = recorder.record()?;
    let left_out = recorder.left_out;
    match &snapshot {
        Some(snapshot) if left_out.is_empty() => fingerprint.remember(&scratch, snapshot),
        _ => {}
    }
    Ok((snapshot, left_out))
}

/// Waits until no other process works in the scratch directory. The kernel gives it back when the process ends.
fn take_turn(scratch: &Path) -> io::Result<fs::File> {
    let file = fs::File::options().create(true).truncate(false).write(true).open(scratch.join("turn"))?;
    file.lock()?;
    Ok(file)
}

fn broken(what: &str, error: &io::Error) -> GitFailure {
    GitFailure::new(what, error.to_string())
}

struct Recorder<'a> {
    git: &'a Git,
    status: &'a Status,
    scratch: &'a Path,
    own: &'a Path,
    left_out: Vec<LeftOut>,
}

impl Recorder<'_> {
    fn record(&mut self) -> Result<Option<Snapshot>, GitFailure> {
        let status = self.status;
        let head = match &status.head {
            Some(head) => head.clone(),
            None => {
                let empty = self.git.feed(&["hash-object", "-w", "-t", "tree", "--stdin"], b"")?;
                self.commit(String::from_utf8_lossy(&empty.output).trim(), &[], "No commit yet")?
            }
        };
        let head_tree = self.git.line(&["rev-parse", &format!("{head}^{{tree}}")])?;

        let tracked = self.copy_index("index-tracked")?;
        let index_tree = if status.unmerged.is_empty() && !status.staged {
            head_tree.clone()
        } else {
            self.resolve(&tracked, &status.unmerged)?;
            self.write_tree(&tracked)?
        };
        let mut changed = status.modified.clone();
        changed.extend(status.unmerged.iter().map(|unmerged| unmerged.path.clone()));
        let tracked_tree = if changed.is_empty() {
            index_tree.clone()
        } else {
            self.add(&tracked, &changed)?;
            self.write_tree(&tracked)?
        };
        let untracked = self.untracked()?;
        let files = match &untracked {
            None => tracked_tree.clone(),
            Some((_, entries)) => {
                // On top of the tracked files, whose index is not needed any more.
                self.git
                    .with_index(&tracked)
                    .feed(&["update-index", "-z", "--replace", "--index-info"], entries)?;
                self.write_tree(&tracked)?
            }
        };
        if files == head_tree && index_tree == head_tree && status.unmerged.is_empty() {
            return Ok(None);
        }

        let index = self.commit(&index_tree, &[&head], "The index")?;
        let untracked_tree = untracked.map(|(tree, _)| tree);
        let versions = self.versions()?;
        let mut parents = vec![head, index];
        if untracked_tree.is_some() || versions.is_some() {
            let tree = match untracked_tree {
                Some(tree) => tree,
                None => self.git.line(&["hash-object", "-t", "tree", "/dev/null"])?,
            };
            parents.push(self.commit(&tree, &[], "Untracked files")?);
        }
        if let Some(versions) = versions {
            parents.push(self.commit(&versions, &[], "The unmerged index")?);
        }
        let parents: Vec<&str> = parents.iter().map(String::as_str).collect();
        let commit = self.commit(&tracked_tree, &parents, "Uncommitted work")?;
        Ok(Some(Snapshot { commit, files }))
    }

    /// A copy of the index, with its time: git compares that with the files' times to know which may have changed within
    /// the same second.
    fn copy_index(&self, name: &str) -> Result<PathBuf, GitFailure> {
        let (from, to) = (self.own.join("index"), self.scratch.join(name));
        let copy = || -> io::Result<()> {
            remove(&to)?;
            remove(&to.with_extension("lock"))?;
            match fs::metadata(&from) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
                Err(error) => Err(error),
                Ok(metadata) => {
                    fs::copy(&from, &to)?;
                    fs::File::options().write(true).open(&to)?.set_modified(metadata.modified()?)
                }
            }
        };
        copy().map_err(|error| broken("copy the index", &error))?;
        Ok(to)
    }

    /// Leaves one version of each unmerged path: ours, else theirs, else the ancestor's.
    fn resolve(&self, index: &Path, unmerged: &[Unmerged]) -> Result<(), GitFailure> {
        if unmerged.is_empty() {
            return Ok(());
        }
        let mut entries = Vec::new();
        for Unmerged { path, stages: [ancestor, ours, theirs] } in unmerged {
            let width =
                [ancestor, ours, theirs].into_iter().flatten().next().map_or(40, |stage| stage.id.len());
            entry(&mut entries, "0", &"0".repeat(width), path);
            if let Some(stage) = ours.as_ref().or(theirs.as_ref()).or(ancestor.as_ref()) {
                entry(&mut entries, &stage.mode, &stage.id, path);
            }
        }
        self.git.with_index(index).feed(&["update-index", "-z", "--index-info"], &entries).map(drop)
    }

    /// All versions of the unmerged paths, below `1/`, `2/` and `3/`, as a tree.
    fn versions(&self) -> Result<Option<String>, GitFailure> {
        if self.status.unmerged.is_empty() {
            return Ok(None);
        }
        let mut entries = Vec::new();
        for Unmerged { path, stages } in &self.status.unmerged {
            for (number, stage) in stages.iter().enumerate() {
                if let Some(stage) = stage {
                    let number = (number + 1).to_string();
                    entry(&mut entries, &stage.mode, &stage.id, &Path::new(&number).join(path));
                }
            }
        }
        let index = self.scratch.join("index-versions");
        remove(&index).map_err(|error| broken("make an index", &error))?;
        self.git.with_index(&index).feed(&["update-index", "-z", "--index-info"], &entries)?;
        self.write_tree(&index).map(Some)
    }

    /// The untracked files as a tree, and as entries for an index. Their index is kept, so that a file that has not
    /// changed is not read again.
    fn untracked(&mut self) -> Result<Option<(String, Vec<u8>)>, GitFailure> {
        let index = self.scratch.join("index-untracked");
        if self.status.untracked.is_empty() {
            let _ = remove(&index);
            return Ok(None);
        }
        let _ = remove(&index.with_extension("lock"));
        let list = |recorder: &Self| {
            recorder.git.with_index(&index).run(&["ls-files", "-z", "--stage"]).map(|answer| answer.output)
        };
        if index.exists() {
            let current: HashSet<&Path> = self.status.untracked.iter().map(PathBuf::as_path).collect();
            // An index that cannot be read is begun again.
            let known = list(self).unwrap_or_else(|_| {
                let _ = remove(&index);
                Vec::new()
            });
            let gone = paths_of_entries(&known).into_iter().filter(|path| !current.contains(path.as_path()));
            let gone: Vec<PathBuf> = gone.collect();
            if !gone.is_empty() {
                let arguments = ["update-index", "-z", "--force-remove", "--stdin"];
                self.git.with_index(&index).feed(&arguments, &listed(&gone))?;
            }
        }
        let untracked = self.status.untracked.clone();
        self.add(&index, &untracked)?;
        let entries = list(self)?;
        self.note_ignored_names(&paths_of_entries(&entries));
        if entries.is_empty() {
            return Ok(None);
        }
        Ok(Some((self.write_tree(&index)?, entries)))
    }

    /// Takes files into an index as they are now. What git cannot take is left out and noted.
    fn add(&mut self, index: &Path, paths: &[PathBuf]) -> Result<(), GitFailure> {
        const ADD: [&str; 6] = ["update-index", "-z", "--add", "--remove", "--replace", "--stdin"];
        let git = self.git.with_index(index);
        let mut pending = vec![paths.to_vec()];
        while let Some(paths) = pending.pop() {
            let Err(failure) = git.feed(&ADD, &listed(&paths)) else { continue };
            match <[PathBuf; 1]>::try_from(paths) {
                Ok([path]) => self.left_out.push(LeftOut { why: reason(&failure.message), path }),
                Err(mut paths) => {
                    // One bad path keeps git from taking any: they are tried in halves.
                    let rest = paths.split_off(paths.len() / 2);
                    pending.extend([rest, paths].into_iter().filter(|half| !half.is_empty()));
                }
            }
        }
        Ok(())
    }

    /// Git passes over names that some file system would take for `.git`, and reports success.
    fn note_ignored_names(&mut self, taken: &[PathBuf]) {
        let mut known: HashSet<&Path> = taken.iter().map(PathBuf::as_path).collect();
        let noted: Vec<PathBuf> = self.left_out.iter().map(|left_out| left_out.path.clone()).collect();
        known.extend(noted.iter().map(PathBuf::as_path));
        let ignored = self.status.untracked.iter().filter(|path| !known.contains(path.as_path()));
        let ignored = ignored.map(|path| LeftOut { path: path.clone(), why: "git refuses its name".into() });
        self.left_out.extend(ignored);
    }

    fn write_tree(&self, index: &Path) -> Result<String, GitFailure> {
        self.git.with_index(index).line(&["write-tree"])
    }

    fn commit(&self, tree: &str, parents: &[&str], message: &str) -> Result<String, GitFailure> {
        let mut arguments = vec!["commit-tree", tree, "-m", message];
        parents.iter().for_each(|parent| arguments.extend(["-p", parent]));
        let mut command = self.git.command(&arguments);
        for role in ["AUTHOR", "COMMITTER"] {
            command.env(format!("GIT_{role}_NAME"), "palisade");
            command.env(format!("GIT_{role}_EMAIL"), "palisade@localhost");
            command.env(format!("GIT_{role}_DATE"), "1000000000 +0000");
        }
        let answer = self.git.feed_command(command, &arguments, &[])?;
        Ok(String::from_utf8_lossy(&answer.output).trim_end().to_owned())
    }
}

/// `mode id TAB path NUL`.
fn entry(entries: &mut Vec<u8>, mode: &str, id: &str, path: &Path) {
    entries.extend(format!("{mode} {id}\t").into_bytes());
    entries.extend_from_slice(path.as_os_str().as_bytes());
    entries.push(0);
}

/// Paths for git's input.
fn listed(paths: &[PathBuf]) -> Vec<u8> {
    paths.iter().flat_map(|path| path.as_os_str().as_bytes().iter().copied().chain([0])).collect()
}

/// The paths of `mode id stage TAB path NUL`, again and again.
fn paths_of_entries(entries: &[u8]) -> Vec<PathBuf> {
    let entries = entries.split(|byte| *byte == 0);
    let paths = entries.filter_map(|entry| entry.splitn(2, |byte| *byte == b'\t').nth(1));
    paths.map(|path| PathBuf::from(OsString::from_vec(path.to_vec()))).collect()
}

/// The first line of what git says about a file that it cannot take.
fn reason(message: &str) -> String {
    let line = message.lines().find(|line| !line.trim().is_empty()).unwrap_or("git cannot take it");
    line.trim_start_matches("error: ").trim_start_matches("fatal: ").to_owned()
}

fn remove(path: &Path) -> io::Result<()> {
    match fs::remove_file(path) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

/// What tells whether a working tree has changed since its last snapshot.
struct Fingerprint {
    /// `None` when something changed so recently that it could change again unnoticed.
    value: Option<u64>,
}

impl Fingerprint {
    fn take(tree: &WorkingTree, status: &Status) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
        let settled = now.saturating_sub(CLOCK_STEP).as_nanos();
        let mut hasher = DefaultHasher::new();
        let mut recent = false;
        let mut look = |path: &Path| {
            let Ok(found) = fs::symlink_metadata(path) else { return false.hash(&mut hasher) };
            let changed = (i128::from(found.ctime()) * 1_000_000_000) + i128::from(found.ctime_nsec());
            recent |= u128::try_from(changed).is_ok_and(|changed| changed >= settled);
            (found.ino(), found.size(), found.mode(), found.mtime(), found.mtime_nsec(), changed)
                .hash(&mut hasher);
        };
        look(&tree.own.join("index"));
        let unmerged = status.unmerged.iter().map(|unmerged| &unmerged.path);
        for path in status.modified.iter().chain(&status.untracked).chain(unmerged) {
            look(&tree.path.join(path));
        }
        status.raw.hash(&mut hasher);
        env!("CARGO_PKG_VERSION").hash(&mut hasher);
        Self { value: (!recent).then(|| hasher.finish()) }
    }

    fn remembered(&self, scratch: &Path) -> Option<Snapshot> {
        let text = fs::read_to_string(scratch.join("snapshot")).ok()?;
        let mut words = text.split_ascii_whitespace();
        let value = words.next()?.parse().ok()?;
        let (commit, files) = (words.next()?.to_owned(), words.next()?.to_owned());
        (self.value == Some(value)).then_some(Snapshot { commit, files })
    }

    fn remember(&self, scratch: &Path, snapshot: &Snapshot) {
        let file = scratch.join("snapshot");
        // It only saves time.
        let _ = match self.value {
            Some(value) => fs::write(file, format!("{value} {} {}\n", snapshot.commit, snapshot.files)),
            None => remove(&file),
        };
    }
}
