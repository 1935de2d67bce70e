//! Which directories of the host's sandboxes could write, and until when. Also of those that are gone: what they have
//! left there is not.
//!
//! While a sandbox runs, `writing/<id>` names its directories; when it has ended, `written/<digest>.json` says so of
//! each. A file that a killed process has left counts as of now, whenever it is looked at.

use crate::engine::now;
use crate::whole_file;
use crate::wrapper::Word;
use palisade_core::{Access, BoundPath, HostPath, Policy, ProcessIdentity, SandboxId, Workspace};
use palisade_host::digest::Digest;
use palisade_host::process;
use serde::{Deserialize, Serialize};
use std::ffi::OsString;
use std::io;
use std::os::unix::fs::DirBuilderExt;

/// In the state directory: those that have ended, and those that run.
const WRITTEN: &str = "written";
const WRITING: &str = "writing";

/// A directory that a sandbox could write.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Writer {
    pub(super) path: HostPath,
    /// Unix milliseconds; none while it may be going on.
    pub(super) until: Option<i64>,
}

/// What a sandbox that runs may write, as it is recorded.
#[derive(Debug, Serialize, Deserialize)]
struct RunningRecord {
    process: ProcessIdentity,
    paths: Vec<Word>,
}

/// What a sandbox that has ended could write, as it is recorded.
#[derive(Debug, Serialize, Deserialize)]
struct EndedRecord {
    path: Word,
    until: i64,
}

fn to_word(path: &HostPath) -> Word {
    Word::from(path.as_path().as_os_str())
}

fn to_path(word: Word) -> Option<HostPath> {
    HostPath::new(OsString::from(word)).ok()
}

#[derive(Debug, Clone)]
pub(super) struct Writers {
    ended: HostPath,
    running: HostPath,
}

/// Held while a sandbox may write directories of the host's.
#[derive(Debug)]
pub(crate) struct Writing {
    writers: Writers,
    id: SandboxId,
    paths: Vec<HostPath>,
}

impl Writers {
    pub(super) fn new(state: &HostPath) -> Self {
        Self { ended: state.join(WRITTEN), running: state.join(WRITING) }
    }

    pub(super) fn begin(&self, id: &SandboxId, paths: Vec<HostPath>) -> io::Result<Writing> {
        for directory in [&self.ended, &self.running] {
            std::fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
        }
        self.settle_dead();
        let words = paths.iter().map(to_word).collect();
        let record = RunningRecord { process: process::this_process(), paths: words };
        whole_file::write(&self.running, id.as_str(), &serde_json::to_vec(&record)?)?;
        Ok(Writing { writers: self.clone(), id: id.clone(), paths })
    }

    /// Every directory that a sandbox could write at some time. What cannot be read is left out: it was written by us
    /// alone, so nothing inside a sandbox can have damaged it.
    pub(super) fn list(&self) -> Vec<Writer> {
        self.settle_dead();
        let ended = files(&self.ended).filter_map(|file| read::<EndedRecord>(&file));
        let ended = ended
            .filter_map(|record| Some(Writer { path: to_path(record.path)?, until: Some(record.until) }));
        let running = files(&self.running).filter_map(|file| read::<RunningRecord>(&file));
        let running = running.flat_map(|record| record.paths).filter_map(to_path);
        ended.chain(running.map(|path| Writer { path, until: None })).collect()
    }

    /// Notes an end for what killed processes have left.
    pub(super) fn settle_dead(&self) {
        for file in files(&self.running) {
            let Some(record) = read::<RunningRecord>(&file) else { continue };
            if !process::is_alive(&record.process) {
                let paths: Vec<HostPath> = record.paths.into_iter().filter_map(to_path).collect();
                self.end(&file, &paths);
            }
        }
    }

    /// The end is noted before the entry of what runs is removed, so that there is always one of them.
    fn end(&self, running: &HostPath, paths: &[HostPath]) {
        let noted = paths.iter().try_for_each(|path| {
            let digest = Digest::of_bytes(path.as_path().as_os_str().as_encoded_bytes());
            let record = EndedRecord { path: to_word(path), until: now() };
            whole_file::write(
                &self.ended,
                &format!("{}.json", digest.prefix(32)),
                &serde_json::to_vec(&record)?,
            )
        });
        // Otherwise it counts as running, which only makes more be refused.
        if noted.is_ok() {
            let _ = std::fs::remove_file(running);
        }
    }
}

impl Drop for Writing {
    fn drop(&mut self) {
        self.writers.end(&self.writers.running.join(self.id.as_str()), &self.paths);
    }
}

/// The directories of the host's that a policy lets a sandbox write, without links.
pub(super) fn written(policy: &Policy, paths: &[BoundPath]) -> Vec<HostPath> {
    let workspace = match &policy.workspace {
        Workspace::Bound { host, access: Access::ReadWrite } => Some(host),
        _ => None,
    };
    let mounts =
        policy.mounts.iter().filter(|mount| mount.access == Access::ReadWrite).map(|mount| &mount.host);
    let real =
        |given: &HostPath| paths.iter().find(|path| path.given == *given).map(|path| path.real.clone());
    workspace.into_iter().chain(mounts).map(|given| real(given).unwrap_or_else(|| given.clone())).collect()
}

fn files(directory: &HostPath) -> impl Iterator<Item = HostPath> + use<> {
    let entries = std::fs::read_dir(directory).into_iter().flatten().flatten();
    // Those that begin with a dot are being written.
    let finished = entries.filter(|entry| !entry.file_name().as_encoded_bytes().starts_with(b"."));
    let directory = directory.clone();
    finished.map(move |entry| directory.join(entry.file_name()))
}

fn read<T: serde::de::DeserializeOwned>(file: &HostPath) -> Option<T> {
    serde_json::from_slice(&std::fs::read(file).ok()?).ok()
}
