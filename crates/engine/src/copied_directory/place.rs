//! Where copies are kept in the state directory, and what is written down of each.
//!
//! `copies/<run>/` is made with `record.json` first, so that a copy that was never finished is recognised. The manifest comes
//! when the copy is whole, before the first command runs. `lock` is held by the run, and by whatever applies or discards the
//! copy.

use super::entry::Manifest;
use super::error::CopyError;
use crate::engine::now;
use crate::error::EngineError;
use crate::whole_file;
use crate::wrapper::Word;
use palisade_core::{HostPath, Method, PathIdentity, ProcessIdentity, SandboxId};
use palisade_host::{process, tree};
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::fs::{DirBuilder, File, OpenOptions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, OpenOptionsExt};

const ALL: &str = "copies";
const RECORD: &str = "record.json";
const MANIFEST: &str = "manifest.json";
const LOCK: &str = "lock";
const TREE: &str = "tree";

/// What is written down of a copy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct CopyRecord {
    pub(super) run: SandboxId,
    /// The user's own directory, and what distinguishes it from every other.
    pub(super) directory: Word,
    pub(super) identity: PathIdentity,
    pub(super) method: Method,
    /// Unix milliseconds.
    pub(super) created_at: i64,
    /// The process that the run belongs to.
    pub(super) process: ProcessIdentity,
    /// When the run ended in order, in Unix milliseconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) ended_at: Option<i64>,
    /// Where git data is mounted in the copy.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) git: Vec<Word>,
    /// Changes that the user has dropped.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(super) dropped: Vec<Word>,
}

impl CopyRecord {
    pub(super) fn directory(&self) -> Option<HostPath> {
        HostPath::new(OsString::from(self.directory.clone())).ok()
    }

    /// Whether its run may still be at work.
    pub(super) fn is_running(&self) -> bool {
        self.ended_at.is_none() && process::is_alive(&self.process)
    }
}

/// One copy.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct CopyPlace {
    run: SandboxId,
    root: HostPath,
}

/// Held by the only process that works with a copy.
#[derive(Debug)]
pub(super) struct CopyLock {
    _file: File,
}

impl CopyPlace {
    /// The state directory without links, so that what is mounted from it has none.
    pub(super) fn of(state: &HostPath, run: &SandboxId) -> Self {
        let real = std::fs::canonicalize(state).ok().and_then(|real| HostPath::new(real).ok());
        let root = real.as_ref().unwrap_or(state).join(ALL).join(run.as_str());
        Self { run: run.clone(), root }
    }

    pub(super) fn all(state: &HostPath) -> Vec<Self> {
        let entries = std::fs::read_dir(state.join(ALL)).into_iter().flatten().flatten();
        let run = |entry: std::fs::DirEntry| SandboxId::parse(entry.file_name().to_str()?).ok();
        entries.filter_map(run).map(|run| Self::of(state, &run)).collect()
    }

    pub(super) fn run(&self) -> &SandboxId {
        &self.run
    }

    pub(super) fn path(&self) -> &HostPath {
        &self.root
    }

    pub(super) fn tree(&self) -> HostPath {
        self.root.join(TREE)
    }

    /// Makes the directory with its record, locked.
    pub(super) fn make(&self, record: &CopyRecord) -> Result<CopyLock, EngineError> {
        let failed = || EngineError::io(format!("make {}", self.root));
        if let Some(all) = self.root.as_path().parent() {
            DirBuilder::new().recursive(true).mode(0o700).create(all).map_err(failed())?;
        }
        DirBuilder::new().mode(0o700).create(&self.root).map_err(failed())?;
        let lock = self.lock()?.ok_or_else(|| self.in_use())?;
        self.write_record(record)?;
        DirBuilder::new().mode(0o700).create(self.tree()).map_err(failed())?;
        Ok(lock)
    }

    /// `None` when another process has it.
    pub(super) fn lock(&self) -> Result<Option<CopyLock>, EngineError> {
        let path = self.root.join(LOCK);
        let failed = || EngineError::io(format!("lock {path}"));
        let mut options = OpenOptions::new();
        let file = options.write(true).create(true).truncate(false).mode(0o600).open(&path);
        let file = file.map_err(failed())?;
        match rustix::fs::flock(&file, rustix::fs::FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => Ok(Some(CopyLock { _file: file })),
            Err(rustix::io::Errno::WOULDBLOCK) => Ok(None),
            Err(error) => Err(failed()(error.into())),
        }
    }

    pub(super) fn in_use(&self) -> EngineError {
        CopyError::InUse { run: self.run.clone(), reason: "another command works with it".into() }.into()
    }

    pub(super) fn has_record(&self) -> bool {
        self.root.join(RECORD).as_path().exists()
    }

    pub(super) fn read_record(&self) -> Result<CopyRecord, CopyError> {
        let unreadable = |reason: String| CopyError::Unreadable { path: self.root.to_string(), reason };
        let bytes = std::fs::read(self.root.join(RECORD)).map_err(|error| unreadable(error.to_string()))?;
        serde_json::from_slice(&bytes).map_err(|error| unreadable(error.to_string()))
    }

    pub(super) fn write_record(&self, record: &CopyRecord) -> Result<(), EngineError> {
        let bytes = serde_json::to_vec(record).map_err(io::Error::other);
        let written = bytes.and_then(|bytes| whole_file::write(&self.root, RECORD, &bytes));
        written.map_err(EngineError::io(format!("write the record in {}", self.root)))
    }

    /// `None` for a copy that was never finished, in which nothing has run.
    pub(super) fn read_manifest(&self) -> Result<Option<Manifest>, CopyError> {
        let unreadable = |reason: String| CopyError::Unreadable { path: self.root.to_string(), reason };
        match std::fs::read(self.root.join(MANIFEST)) {
            Ok(bytes) => {
                Manifest::from_bytes(&bytes).map(Some).map_err(|error| unreadable(error.to_string()))
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(unreadable(error.to_string())),
        }
    }

    pub(super) fn write_manifest(&self, manifest: &Manifest) -> Result<(), EngineError> {
        let bytes = manifest.to_bytes().map_err(io::Error::other);
        let written = bytes.and_then(|bytes| whole_file::write(&self.root, MANIFEST, &bytes));
        written.map_err(EngineError::io(format!("write the manifest in {}", self.root)))
    }

    /// Removes all of it. The record goes last, so that what a crash leaves is recognised.
    pub(super) fn remove(&self) -> io::Result<()> {
        tree::remove(self.tree().as_path())?;
        tree::remove(self.root.as_path())
    }

    pub(super) fn record(&self, directory: &HostPath, identity: PathIdentity, method: Method) -> CopyRecord {
        CopyRecord {
            run: self.run.clone(),
            directory: Word::from(directory.as_path().as_os_str()),
            identity,
            method,
            created_at: now(),
            process: process::this_process(),
            ended_at: None,
            git: Vec::new(),
            dropped: Vec::new(),
        }
    }
}
