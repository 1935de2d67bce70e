//! A copy from the start of a run to its end: the directory is looked at, copied, and compared when the run has ended.

use super::compare::compare;
use super::entry::EntryKind;
use super::error::CopyError;
use super::fill::{FillError, Filling, make_mount_points, mount_points};
use super::place::{CopyLock, CopyPlace, CopyRecord};
use super::walk::{self, Listing, WalkError, WalkLimits};
use crate::bound_repositories::LeftBehind;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::wrapper::Word;
use palisade_core::policy::WORKSPACE;
use palisade_core::{
    BackendError, CopiedDirectory, HostIdentity, HostPath, Method, PathIdentity, PrivateGit, SandboxId,
    printable,
};
use palisade_host::bound_path::{OpenedPath, open_without_links};
use palisade_host::{as_owner, beneath};
use rustix::fd::AsFd;
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// The top's own git data never goes into a copy: it may hold credentials.
const GIT: &str = ".git";

/// A directory that is about to be copied, and what is in it.
#[derive(Debug, Clone)]
pub struct CopySurvey {
    source: Arc<OpenedPath>,
    identity: PathIdentity,
    listing: Arc<Listing>,
}

impl CopySurvey {
    pub fn directory(&self) -> &HostPath {
        &self.source.real
    }

    fn files(&self) -> impl Iterator<Item = u64> {
        let files = self.listing.entries.values().filter(|stamp| stamp.kind == EntryKind::File);
        files.map(|stamp| stamp.size)
    }

    pub fn file_count(&self) -> usize {
        self.files().count()
    }

    pub fn bytes(&self) -> u64 {
        self.files().sum()
    }

    /// The user that the directory belongs to, where that is not the one who runs this.
    fn owner(&self) -> std::io::Result<Option<HostIdentity>> {
        other_owner(&self.source)
    }
}

/// The user to work as in a directory; `None` when that is this process's own.
pub(super) fn other_owner(directory: &OpenedPath) -> std::io::Result<Option<HostIdentity>> {
    let stat = rustix::fs::fstat(directory)?;
    let is_other = rustix::process::geteuid().is_root() && stat.st_uid != 0;
    Ok(is_other.then_some(HostIdentity { uid: stat.st_uid, gid: stat.st_gid }))
}

/// What became of a copy when its run had ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct CopyOutcome {
    pub run: SandboxId,
    pub directory: HostPath,
    pub changes: usize,
}

/// The copy of a run. Until the run is up it is removed when this is dropped.
#[derive(Debug)]
pub(crate) struct RunCopy {
    place: CopyPlace,
    record: CopyRecord,
    source: Arc<OpenedPath>,
    is_kept: bool,
    _lock: CopyLock,
}

impl RunCopy {
    pub(crate) fn copied(&self) -> CopiedDirectory {
        CopiedDirectory { source: self.source.real.clone(), tree: self.place.tree() }
    }

    /// From now on commands may have changed it.
    pub(crate) fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for RunCopy {
    fn drop(&mut self) {
        if !self.is_kept
            && let Err(error) = self.place.remove()
        {
            tracing::warn!(%error, path = %self.place.path(), "a copy that is not needed was not removed");
        }
    }
}

impl Engine {
    /// Looks at a directory that is to be copied. Nothing is written yet.
    pub async fn survey_copy(&self, directory: &HostPath) -> Result<CopySurvey, EngineError> {
        let path = printable(&directory.to_string());
        let refuse = |reason: String| BackendError::HostDirectory {
            path: path.clone(),
            reason,
            fix: "give a directory that exists and that you may read".into(),
        };
        let state = &self.config.state;
        let state = std::fs::canonicalize(state).unwrap_or_else(|_| state.as_path().to_owned());
        if state.starts_with(directory) || directory.as_path().starts_with(&state) {
            let reason = format!("Palisade's own state in {} would be copied", state.display());
            let fix = "copy the project's directory itself, not one above it".into();
            return Err(BackendError::HostDirectory { path, reason, fix }.into());
        }
        let source = open_without_links(directory).map_err(|error| refuse(error.to_string()))?;
        let identity = source.identity().map_err(|error| refuse(error.to_string()))?;
        let source = Arc::new(source);
        let owner = other_owner(&source).map_err(|error| refuse(error.to_string()))?;
        let opened = Arc::clone(&source);
        let list = move || async move {
            walk::list(opened.as_fd(), |path| path == Path::new(GIT), WalkLimits::default())
        };
        let listing = as_owner::run_as(owner, list).await.map_err(|error| refuse(error.to_string()))?;
        let listing = listing.map_err(|error| match error {
            WalkError::TooMany => EngineError::from(CopyError::TooManyFiles { path: path.clone() }),
            WalkError::Io(error) => refuse(std::io::Error::from(error).to_string()).into(),
        })?;
        Ok(CopySurvey { source, identity, listing: Arc::new(listing) })
    }

    /// Makes the place of a copy, empty, for the user that the directory belongs to. What is root's becomes that of the
    /// user whom the sandbox runs as.
    pub(crate) fn begin_copy(
        &self,
        run: &SandboxId,
        method: Method,
        identity: HostIdentity,
        survey: &CopySurvey,
    ) -> Result<RunCopy, EngineError> {
        let place = CopyPlace::of(&self.config.state, run);
        let record = place.record(survey.directory(), survey.identity.clone(), method);
        let lock = place.make(&record)?;
        let copy = RunCopy { place, record, source: Arc::clone(&survey.source), is_kept: false, _lock: lock };
        let tree = copy.place.tree();
        let failed = || EngineError::io(format!("make {tree}"));
        let stat = rustix::fs::fstat(&survey.source).map_err(|error| failed()(error.into()))?;
        let (mode, root) = (rustix::fs::Mode::from_raw_mode(stat.st_mode & 0o777 | 0o700), &tree);
        rustix::fs::chmod(root.as_path(), mode).map_err(|error| failed()(error.into()))?;
        if rustix::process::geteuid().is_root() {
            let owner = survey.owner().map_err(failed())?.unwrap_or(identity);
            std::os::unix::fs::lchown(&tree, Some(owner.uid), Some(owner.gid)).map_err(failed())?;
        }
        Ok(copy)
    }

    /// Copies everything but git data that the sandbox has of its own. What was left out, in lines.
    pub(crate) async fn fill_copy(
        &self,
        copy: &mut RunCopy,
        survey: &CopySurvey,
        identity: HostIdentity,
        git: Option<&PrivateGit>,
    ) -> Result<Vec<String>, EngineError> {
        let directory = printable(&survey.directory().to_string());
        let failed = || EngineError::io(format!("copy {directory}"));
        let tree =
            Arc::new(beneath::root(copy.place.tree().as_path()).map_err(|error| failed()(error.into()))?);
        let user = survey.owner().map_err(failed())?;
        let is_roots = rustix::process::geteuid().is_root() && user.is_none();
        let owner = is_roots.then_some((identity.uid, identity.gid));
        let points = git.map(mount_points).unwrap_or_default();
        let hidden: Vec<PathBuf> = points.iter().map(|point| point.path.clone()).collect();
        let listing = without(&survey.listing, &hidden);
        let (source, bytes) = (Arc::clone(&survey.source), survey.bytes());
        let fill = move || async move {
            let (source, tree) = (source.as_fd(), tree.as_fd());
            Filling { source, tree, owner, bytes, has_reflinks: true, mount_points: &points }.run(&listing)
        };
        let filled = as_owner::run_as(user, fill).await.map_err(failed())?;
        let filled = filled.map_err(|error| match error {
            FillError::NoRoom { bytes, room } => {
                EngineError::CopyNoRoom { path: directory.clone(), bytes, room }
            }
            FillError::Io { path, error } => {
                EngineError::io(format!("copy {} of {directory}", printable(&path.to_string_lossy())))(error)
            }
        })?;
        copy.record.git = hidden.iter().map(|path| Word::from(path.as_os_str())).collect();
        copy.place.write_record(&copy.record)?;
        copy.place.write_manifest(&filled.manifest)?;
        // More than the clock of any file system that counts in nanoseconds takes for one step: what is written from now on
        // has a later time than the copy.
        tokio::time::sleep(Duration::from_millis(10)).await;
        Ok(left_out(&directory, &filled.left_out))
    }

    /// Compares the copy of a run that has ended. Without changes it is removed.
    pub(crate) fn finish_copy(&self, mut copy: RunCopy) -> Result<Option<CopyOutcome>, EngineError> {
        let (changes, found) = find_changes(&copy.place, &copy.record)?;
        if changes == 0 && found.unread.is_empty() && found.special.is_empty() {
            copy.is_kept = false;
            return Ok(None);
        }
        copy.record.ended_at = Some(now());
        copy.place.write_record(&copy.record)?;
        let (run, directory) = (copy.place.run().clone(), copy.source.real.clone());
        Ok(Some(CopyOutcome { run, directory, changes }))
    }
}

impl Engine {
    /// The copy of a run that was killed, to ask its git data for commits. If the user has dropped the copy, an empty one
    /// stands in its place.
    pub(crate) fn copy_left_behind(&self, left: &LeftBehind) -> Result<Option<CopiedDirectory>, EngineError> {
        let source = left.directories.iter().find(|(_, guest)| guest == WORKSPACE).map(|(host, _)| host);
        let (Some(tree), Some(source)) = (&left.copy, source) else { return Ok(None) };
        if !tree.as_path().exists() {
            let failed = || EngineError::io(format!("make {tree}"));
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(tree).map_err(failed())?;
            if rustix::process::geteuid().is_root() {
                let meta = std::fs::metadata(source).map_err(failed())?;
                let owner = match meta.uid() {
                    0 => self.identity(),
                    uid => HostIdentity { uid, gid: meta.gid() },
                };
                std::os::unix::fs::lchown(tree, Some(owner.uid), Some(owner.gid)).map_err(failed())?;
            }
        }
        Ok(Some(CopiedDirectory { source: source.clone(), tree: tree.clone() }))
    }

    /// Makes what git data is mounted on in a copy.
    pub(crate) fn make_mount_points(&self, git: &PrivateGit) -> Result<(), EngineError> {
        let failed = || EngineError::io(format!("make {}", git.directory));
        let tree = beneath::root(git.directory.as_path()).map_err(|error| failed()(error.into()))?;
        make_mount_points(tree.as_fd(), &mount_points(git)).map_err(failed())
    }

    /// Removes what stood in the place of a copy that the user had dropped.
    pub(crate) fn remove_copy_without_record(&self, run: &SandboxId) {
        let place = CopyPlace::of(&self.config.state, run);
        if place.path().as_path().exists()
            && !place.has_record()
            && let Err(error) = place.remove()
        {
            tracing::warn!(%error, path = %place.path(), "an empty copy was not removed");
        }
    }
}

fn find_changes(place: &CopyPlace, record: &CopyRecord) -> Result<(usize, Listing), EngineError> {
    let manifest = place.read_manifest()?.unwrap_or_default();
    let found = list_copy(place, record)?;
    Ok((compare(&manifest, &found).len(), found))
}

/// What is in a copy now, without git data that was mounted there.
pub(super) fn list_copy(place: &CopyPlace, record: &CopyRecord) -> Result<Listing, EngineError> {
    let path = place.tree();
    let failed = |error: rustix::io::Errno| EngineError::io(format!("look at {path}"))(error.into());
    let tree = beneath::root(path.as_path()).map_err(failed)?;
    let hidden: Vec<PathBuf> = record.git.iter().cloned().map(PathBuf::from).collect();
    walk::list(tree.as_fd(), |path| hidden.iter().any(|hidden| hidden == path), WalkLimits::default())
        .map_err(|error| match error {
            WalkError::TooMany => CopyError::TooManyFiles { path: path.to_string() }.into(),
            WalkError::Io(error) => failed(error),
        })
}

fn without(listing: &Listing, hidden: &[PathBuf]) -> Listing {
    let is_shown = |path: &PathBuf| !hidden.iter().any(|hidden| path.starts_with(hidden));
    let mut listing = listing.clone();
    listing.entries.retain(|path, _| is_shown(path));
    listing.special.retain(is_shown);
    listing.unread.retain(|(path, _)| is_shown(path));
    listing
}

/// For the user: the first of what is not in the copy.
fn left_out(directory: &str, paths: &[(PathBuf, String)]) -> Vec<String> {
    const MOST_SHOWN: usize = 10;
    if paths.is_empty() {
        return Vec::new();
    }
    let shown = paths.iter().take(MOST_SHOWN);
    let shown = shown.map(|(path, reason)| format!("{} ({reason})", printable(&path.to_string_lossy())));
    let mut text = shown.collect::<Vec<_>>().join(", ");
    if paths.len() > MOST_SHOWN {
        text.push_str(&format!(", and {} more", paths.len() - MOST_SHOWN));
    }
    vec![format!("not in the copy of {directory}: {text}")]
}
