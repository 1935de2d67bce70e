//! What a sync leaves beside a working tree while it writes: the files that are about to be placed, and a note for the
//! run after one that was killed.

use crate::git::{GitError, Repository};
use crate::index_lock::remove_leftovers;
use crate::refs::ObjectId;
use palisade_core::SandboxId;
use palisade_host::beneath::{self, Missing};
use rustix::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// A note of what is being written into the working tree, for a run after one that was killed.
pub(crate) struct WritingNote;

impl WritingNote {
    fn file(repository: &Repository, sandbox: &SandboxId) -> PathBuf {
        repository.places().own.join(format!("palisade-writing-{sandbox}"))
    }

    /// Before these trees are written.
    pub(crate) fn write(
        repository: &Repository,
        sandbox: &SandboxId,
        trees: [&ObjectId; 2],
    ) -> Result<(), GitError> {
        let text = trees.map(|tree| format!("{tree}\n")).concat();
        std::fs::write(Self::file(repository, sandbox), text).map_err(place)
    }

    /// The trees of the note, if there is one.
    pub(crate) fn read(repository: &Repository, sandbox: &SandboxId) -> Vec<ObjectId> {
        let text = std::fs::read_to_string(Self::file(repository, sandbox)).unwrap_or_default();
        text.lines().filter_map(ObjectId::parse).collect()
    }

    /// Everything is written, and the refs say so.
    pub(crate) fn clear(repository: &Repository, sandbox: &SandboxId) {
        let _ = crate::index_lock::remove(&Self::file(repository, sandbox));
    }
}

/// A directory of our own on the working tree's file system, where new files are made and old ones are kept.
#[derive(Debug)]
pub(crate) struct Stage {
    directory: PathBuf,
}

impl Stage {
    const NAME: &str = "palisade-stage";

    /// In the git directory, or in the working tree where that is on another file system.
    fn at(repository: &Repository) -> PathBuf {
        let (own, root) = (&repository.places().own, repository.directory().as_path());
        let device = |path: &Path| std::fs::metadata(path).map(|found| found.dev());
        let near = match (device(own), device(root)) {
            (Ok(own), Ok(root)) => own == root,
            _ => true,
        };
        if near { own.join(Self::NAME) } else { root.join(format!(".{}", Self::NAME)) }
    }

    pub(crate) fn make(repository: &Repository) -> Result<Self, GitError> {
        let stage = Self { directory: Self::at(repository) };
        for directory in [stage.committed(), stage.uncommitted(), stage.parked()] {
            std::fs::create_dir_all(directory).map_err(place)?;
        }
        Ok(stage)
    }

    pub(crate) fn committed(&self) -> PathBuf {
        self.directory.join("committed")
    }

    pub(crate) fn uncommitted(&self) -> PathBuf {
        self.directory.join("uncommitted")
    }

    pub(crate) fn parked(&self) -> PathBuf {
        self.directory.join("parked")
    }

    pub(crate) fn index(&self) -> PathBuf {
        self.directory.join("index")
    }
}

impl Drop for Stage {
    fn drop(&mut self) {
        // The next one removes what stays.
        let _ = palisade_host::tree::remove(&self.directory);
    }
}

impl Repository {
    /// Removes what a run that was killed has left: its lock, and files that it was about to place. The caller holds the
    /// repository's lock.
    pub(crate) async fn clear_leftovers(&self) -> Result<(), GitError> {
        remove_leftovers(self)?;
        let stage = Stage::at(self);
        if stage.is_dir() {
            self.rescue(&stage).await?;
            palisade_host::tree::remove(&stage).map_err(place)?;
        }
        Ok(())
    }

    /// A run that was killed may have left a file of the user's that it had just taken out. What git does not know of is
    /// put beside the user's own files; the rest is in git.
    async fn rescue(&self, stage: &Path) -> Result<(), GitError> {
        let mut files = Vec::new();
        for part in ["committed", "uncommitted", "parked"] {
            let mut pending = vec![stage.join(part)];
            while let Some(directory) = pending.pop() {
                for entry in std::fs::read_dir(directory).into_iter().flatten().flatten() {
                    match entry.file_type() {
                        Ok(kind) if kind.is_dir() => pending.push(entry.path()),
                        Ok(kind) if kind.is_file() || kind.is_symlink() => files.push((part, entry.path())),
                        _ => {}
                    }
                }
            }
        }
        for (part, path) in files {
            let relative = path.strip_prefix(stage.join(part)).unwrap_or(&path);
            let relative = if part == "parked" { Path::new("removed-file") } else { relative };
            let Some(id) = self.unknown_id(&path, relative).await? else { continue };
            let saved = self.save(&path, relative, &id[..10.min(id.len())]).map_err(place)?;
            tracing::warn!(file = %saved.display(), "an interrupted sync had taken out this file");
        }
        Ok(())
    }

    /// The id of a file or link that git does not have, neither as it is nor as it would be recorded at a path.
    async fn unknown_id(&self, file: &Path, recorded_at: &Path) -> Result<Option<String>, GitError> {
        let mut at = std::ffi::OsString::from("--path=");
        at.push(recorded_at);
        let hashes = match std::fs::read_link(file) {
            Ok(target) => vec![self.git(["hash-object", "--stdin"]).input(target.as_os_str().as_bytes())],
            Err(_) => [at, "--no-filters".into()]
                .map(|how| self.git(["hash-object".into(), how, "--".into(), file.as_os_str().to_owned()]))
                .into(),
        };
        let mut id = None;
        for hash in hashes {
            let found = hash.text().await?;
            if self.git(["cat-file", "-e", &found]).succeeds().await? {
                return Ok(None);
            }
            id = Some(found);
        }
        Ok(id)
    }

    /// Puts a file of the user's beside the place that it was taken from, or at the top where a link leads elsewhere by
    /// now.
    fn save(&self, file: &Path, relative: &Path, suffix: &str) -> std::io::Result<PathBuf> {
        let root = beneath::root(self.directory().as_path())?;
        let above = relative.parent().unwrap_or(Path::new(""));
        let (above, parent) = match beneath::enter(root.as_fd(), above, Missing::Make) {
            Ok(parent) => (above, parent),
            Err(_) => (Path::new(""), root),
        };
        let mut name = relative.file_name().unwrap_or_default().to_owned();
        name.push(format!(".palisade-saved-{suffix}"));
        rustix::fs::renameat(rustix::fs::CWD, file, &parent, &name)?;
        Ok(above.join(name))
    }
}

fn place(source: std::io::Error) -> GitError {
    GitError::Io { what: "write the files".into(), source }
}
