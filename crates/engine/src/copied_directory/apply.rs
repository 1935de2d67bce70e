//! What is done with the changes of a copy when its run has ended: they are listed, laid in the user's directory, or dropped.

use super::compare::{Change, ChangeKind, compare};
use super::entry::{EntryKind, Manifest, ManifestEntry};
use super::error::CopyError;
use super::lay::{Laid, Laying};
use super::making::{list_copy, other_owner};
use super::place::{CopyLock, CopyPlace, CopyRecord};
use super::plan::{is_of_repository, order, select, trigger};
use super::walk::{Listing, open_parent};
use crate::engine::Engine;
use crate::error::EngineError;
use crate::wrapper::Word;
use palisade_core::self_running::{INSTALLED_PACKAGES, MANIFEST, RunTrigger, lifecycle_scripts};
use palisade_core::{HostPath, IdentityMatch, Method, SandboxId, printable};
use palisade_host::bound_path::{OpenedPath, open_without_links};
use palisade_host::{as_owner, beneath, marked};
use rustix::fd::AsFd;
use rustix::fs::{Mode, OFlags};
use std::collections::BTreeSet;
use std::io::Read;
use std::path::{Path, PathBuf};

/// Which copy is meant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CopySelection {
    /// The id of a run, or its beginning.
    Run(String),
    /// The only one of the directory that this path is in.
    Containing(HostPath),
}

/// A change, for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PlannedChange {
    pub path: PathBuf,
    pub kind: ChangeKind,
}

/// What is about to be laid.
#[derive(Debug, Clone)]
pub struct ApplyPlan {
    changes: Vec<Change>,
    /// Files that the host's own tools run or obey by themselves, and when.
    pub self_running: Vec<(PathBuf, RunTrigger)>,
    /// Changes in repositories, which stay in the copy.
    pub repositories: Vec<PathBuf>,
    /// What the copy holds that cannot be laid, and why.
    pub left_out: Vec<(PathBuf, String)>,
}

impl ApplyPlan {
    pub fn changes(&self) -> Vec<PlannedChange> {
        let planned = |change: &Change| PlannedChange { path: change.path.clone(), kind: change.kind };
        self.changes.iter().map(planned).collect()
    }
}

/// What was laid.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApplyReport {
    pub laid: usize,
    /// Changes that are still in the copy; with none it was removed.
    pub remaining: usize,
    /// Where the user has changed something, and what.
    pub conflicts: Vec<(PathBuf, &'static str)>,
    /// What could not be laid, and why.
    pub failed: Vec<(PathBuf, String)>,
}

/// A copy whose run is over, for this process alone.
#[derive(Debug)]
pub struct OpenCopy {
    place: CopyPlace,
    record: CopyRecord,
    manifest: Manifest,
    found: Listing,
    directory: HostPath,
    _lock: CopyLock,
}

impl Engine {
    /// Opens a copy to lay or drop its changes. One that a run may still write is refused.
    pub async fn open_copy(&self, selection: &CopySelection) -> Result<OpenCopy, EngineError> {
        let place = self.find_copy(selection)?;
        let lock = match place.lock()? {
            Some(lock) => lock,
            None if place.read_record()?.is_running() => return Err(in_use(&place, "its run has not ended")),
            None => return Err(place.in_use()),
        };
        let record = place.read_record()?;
        if record.is_running() {
            return Err(in_use(&place, "its run has not ended"));
        }
        if record.ended_at.is_none() {
            self.require_end(&place, &record).await?;
        }
        let directory = record.directory().ok_or_else(|| CopyError::Unreadable {
            path: place.path().to_string(),
            reason: "its record names no directory".into(),
        })?;
        let manifest = place.read_manifest()?.ok_or_else(|| CopyError::Unreadable {
            path: place.path().to_string(),
            reason: "its run was killed before it was whole, so there are no changes in it".into(),
        })?;
        let found = list_copy(&place, &record)?;
        Ok(OpenCopy { place, record, manifest, found, directory, _lock: lock })
    }

    fn find_copy(&self, selection: &CopySelection) -> Result<CopyPlace, EngineError> {
        let all = CopyPlace::all(&self.config.state);
        let mut found: Vec<CopyPlace> = match selection {
            CopySelection::Run(id) => {
                let id = id.strip_prefix("run-").unwrap_or(id);
                let is_it = |place: &CopyPlace| !id.is_empty() && place.run().as_str().starts_with(id);
                all.into_iter().filter(is_it).collect()
            }
            CopySelection::Containing(path) => {
                let is_of = |place: &CopyPlace| {
                    let directory = place.read_record().ok().and_then(|record| record.directory());
                    directory.is_some_and(|directory| path.as_path().starts_with(&directory))
                };
                all.into_iter().filter(is_of).collect()
            }
        };
        match (found.pop(), selection) {
            (Some(place), _) if found.is_empty() => Ok(place),
            (Some(place), _) => {
                let mut runs: Vec<String> =
                    found.iter().chain([&place]).map(|place| place.run().to_string()).collect();
                runs.sort();
                Err(CopyError::Ambiguous(runs).into())
            }
            (None, CopySelection::Run(id)) => Err(CopyError::NotFound(printable(id)).into()),
            (None, CopySelection::Containing(path)) => {
                Err(CopyError::NoneHere(printable(&path.to_string())).into())
            }
        }
    }

    /// For a run that was killed: nothing that it has started may still write the copy.
    async fn require_end(&self, place: &CopyPlace, record: &CopyRecord) -> Result<(), EngineError> {
        if !marked::end_launcher(&record.process) {
            return Err(in_use(place, "what its run has started is still at work"));
        }
        if record.method == Method::Noop {
            return Ok(());
        }
        let backend = self.backend(record.method)?;
        let left = self.leftovers_of(&backend).await?;
        let is_its = |(id, _): &(SandboxId, _)| id == place.run();
        match left.iter().any(|leftover| leftover.sandbox.as_ref().is_some_and(is_its)) {
            true => Err(in_use(place, "its run was killed, and its sandbox is still there")),
            false => Ok(()),
        }
    }
}

fn in_use(place: &CopyPlace, reason: &str) -> EngineError {
    CopyError::InUse { run: place.run().clone(), reason: reason.into() }.into()
}

/// The changes that the user has not dropped.
pub(super) fn remaining(manifest: &Manifest, found: &Listing, record: &CopyRecord) -> Vec<Change> {
    let dropped: BTreeSet<PathBuf> = record.dropped.iter().cloned().map(PathBuf::from).collect();
    let mut changes = compare(manifest, found);
    changes.retain(|change| !dropped.contains(&change.path));
    changes
}

impl OpenCopy {
    pub fn run(&self) -> &SandboxId {
        self.place.run()
    }

    pub fn directory(&self) -> &HostPath {
        &self.directory
    }

    /// Where the copy is.
    pub fn tree(&self) -> HostPath {
        self.place.tree()
    }

    fn remaining(&self) -> Vec<Change> {
        remaining(&self.manifest, &self.found, &self.record)
    }

    fn selected(&self, paths: &[PathBuf]) -> Result<Vec<Change>, EngineError> {
        select(&self.remaining(), paths)
            .map_err(|path| CopyError::NoSuchChange(printable(&path.to_string_lossy())).into())
    }

    /// What would be laid of these paths, relative to the directory; everything without paths.
    pub fn plan(&self, paths: &[PathBuf]) -> Result<ApplyPlan, EngineError> {
        let selected = self.selected(paths)?;
        let (kept, mut changes): (Vec<Change>, Vec<Change>) =
            selected.into_iter().partition(|change| is_of_repository(change, &self.found));
        order(&mut changes);
        let named = |change: &Change| Some((change.path.clone(), self.trigger(change)?));
        let special = self.found.special.iter();
        let special = special.map(|path| (path.clone(), "it is a device, a pipe or a socket".to_owned()));
        Ok(ApplyPlan {
            self_running: changes.iter().filter_map(named).collect(),
            repositories: kept.into_iter().map(|change| change.path).collect(),
            left_out: special.chain(self.found.unread.iter().cloned()).collect(),
            changes,
        })
    }

    /// A manifest of packages counts when it says something that runs at an installation, or cannot be read.
    fn trigger(&self, change: &Change) -> Option<RunTrigger> {
        let is_installed = || change.path.components().any(|part| part.as_os_str() == INSTALLED_PACKAGES);
        let is_file = change.copy.as_ref().is_some_and(|copy| copy.kind == EntryKind::File);
        if change.path.file_name().is_none_or(|name| name != MANIFEST) || !is_file || is_installed() {
            return trigger(change);
        }
        let runs = self.read_small(&change.path).is_none_or(|text| !lifecycle_scripts(&text).is_empty());
        runs.then_some(RunTrigger::Installing)
    }

    fn read_small(&self, path: &Path) -> Option<Vec<u8>> {
        const LARGEST: u64 = 4 << 20;
        let tree = beneath::root(self.place.tree().as_path()).ok()?;
        let (parent, name) = open_parent(tree.as_fd(), path).ok()?;
        let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file = std::fs::File::from(rustix::fs::openat(&parent, name, flags, Mode::empty()).ok()?);
        let is_small = file.metadata().is_ok_and(|meta| meta.is_file() && meta.len() <= LARGEST);
        let mut text = Vec::new();
        (is_small && file.take(LARGEST).read_to_end(&mut text).is_ok()).then_some(text)
    }

    /// The directory that was copied, open, when it is still the same.
    fn open_directory(&self) -> Result<OpenedPath, EngineError> {
        let changed = |reason: String| CopyError::DirectoryChanged {
            path: printable(&self.directory.to_string()),
            reason,
        };
        let opened = open_without_links(&self.directory).map_err(|error| changed(error.to_string()))?;
        let identity = opened.identity().map_err(EngineError::io(format!("look at {}", self.directory)))?;
        match identity.compare(&self.record.identity) {
            IdentityMatch::Same => Ok(opened),
            IdentityMatch::Different => Err(changed("another directory has taken its place".into()).into()),
            IdentityMatch::Unknown => Err(changed(
                "its file system has no lasting file handles, and the machine was restarted".into(),
            )
            .into()),
        }
    }

    /// Lays what was planned, as the user that the directory belongs to. What was laid is not a change any more.
    pub async fn apply(self, plan: ApplyPlan) -> Result<ApplyReport, EngineError> {
        let host = self.open_directory()?;
        let path = self.place.tree();
        let tree = beneath::root(path.as_path());
        let tree = tree.map_err(|error| EngineError::io(format!("open {path}"))(error.into()))?;
        let user = other_owner(&host).map_err(EngineError::io(format!("look at {}", self.directory)))?;
        let changes = plan.changes;
        let lay = move || async move {
            let laying = Laying { host: host.as_fd(), tree: tree.as_fd() };
            let outcomes: Vec<(Change, std::io::Result<Laid>)> = changes
                .into_iter()
                .map(|change| {
                    let laid = laying.lay(&change);
                    (change, laid)
                })
                .collect();
            let finish = |(change, laid): (Change, std::io::Result<Laid>)| match laid {
                Ok(Laid::Made(stamp)) => {
                    let finished = laying.finish_directory(&change.path, &stamp);
                    (change, finished.map(|()| Laid::Made(stamp)))
                }
                laid => (change, laid),
            };
            // Inner ones first, now that everything in them is there.
            outcomes.into_iter().rev().map(finish).collect::<Vec<_>>().into_iter().rev().collect::<Vec<_>>()
        };
        let laid = as_owner::run_as(user, lay).await;
        let laid = laid.map_err(EngineError::io(format!("write in {}", self.directory)))?;
        self.settle(laid)
    }

    /// Notes what was laid, and removes a copy without further changes.
    fn settle(mut self, outcomes: Vec<(Change, std::io::Result<Laid>)>) -> Result<ApplyReport, EngineError> {
        let (mut laid, mut conflicts, mut failed) = (0, Vec::new(), Vec::new());
        for (change, outcome) in outcomes {
            let host = match outcome {
                Ok(Laid::Done(host)) => host,
                Ok(Laid::Made(stamp)) => Some(stamp),
                Ok(Laid::Conflict(reason)) => {
                    conflicts.push((change.path, reason));
                    continue;
                }
                Err(error) => {
                    failed.push((change.path, error.to_string()));
                    continue;
                }
            };
            laid += 1;
            match (host, change.copy) {
                (Some(host), Some(copy)) => {
                    self.manifest.entries.insert(change.path, ManifestEntry { host, copy });
                }
                _ => drop(self.manifest.entries.remove(&change.path)),
            }
        }
        self.place.write_manifest(&self.manifest)?;
        let remaining = self.remove_if_done()?;
        Ok(ApplyReport { laid, remaining, conflicts, failed })
    }

    /// Drops changes; all of them, with the copy, without paths. How many are left.
    pub fn discard(mut self, paths: &[PathBuf]) -> Result<usize, EngineError> {
        if paths.is_empty() {
            self.remove()?;
            return Ok(0);
        }
        let dropped = self.selected(paths)?.into_iter().map(|change| Word::from(change.path.as_os_str()));
        self.record.dropped.extend(dropped);
        self.place.write_record(&self.record)?;
        self.remove_if_done()
    }

    fn remove_if_done(&self) -> Result<usize, EngineError> {
        let left = self.remaining().len();
        if left == 0 && self.found.unread.is_empty() && self.found.special.is_empty() {
            self.remove()?;
        }
        Ok(left)
    }

    fn remove(&self) -> Result<(), EngineError> {
        self.place.remove().map_err(EngineError::io(format!("remove {}", self.place.path())))
    }
}
