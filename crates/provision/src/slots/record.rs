//! What is known of a slot, on disk in its directory.

use super::{SlotError, SlotNumber};
use crate::copying::Digests;
use crate::feature::Feature;
use palisade_core::HostPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fmt;
use std::fs::{self, File, TryLockError};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

const FILE: &str = "slot.json";
const TURN: &str = "turn.lock";
/// A record is a few hundred bytes; what is much larger is none of ours.
const MOST_BYTES: u64 = 1 << 20;

/// A slot in use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Slot {
    pub directory: HostPath,
    pub record: SlotRecord,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SlotRecord {
    pub project: String,
    pub number: SlotNumber,
    pub feature: Feature,
    /// The compose project. No two slots share it, also not those of other users of the same engine.
    pub compose_project: String,
    /// The main working tree, where files are copied from.
    pub repository: HostPath,
    pub worktree: HostPath,
    /// The variables with the ports of this slot.
    pub ports: BTreeMap<String, u16>,
    pub stage: Stage,
    /// What was copied into the worktree.
    #[serde(default)]
    pub files: Digests,
}

/// How far a sandbox came, as written down before each step that makes or removes something.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "lowercase")]
pub enum Stage {
    /// The slot is taken, and the worktree is being made.
    Claimed,
    /// The worktree is there. Nothing was ever started.
    Prepared,
    /// Services were started, and may run.
    Started,
    Stopped,
    /// The services are gone; the worktree is being removed.
    Removing,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Claimed => "claimed",
            Self::Prepared => "prepared",
            Self::Started => "started",
            Self::Stopped => "stopped",
            Self::Removing => "removing",
        })
    }
}

/// The right to change a sandbox, until dropped; given up by a process that is killed, too.
#[derive(Debug)]
pub struct SlotTurn(#[allow(dead_code, reason = "the lock lives as long as the open file")] File);

impl SlotRecord {
    /// `shop-3`: the name of the slot and of its directory.
    pub fn name(&self) -> String {
        format!("{}-{}", self.project, self.number)
    }

    pub(super) fn order(&self) -> (&str, SlotNumber) {
        (&self.project, self.number)
    }
}

impl Slot {
    /// `None` for a directory that holds no record of ours, or another slot's.
    pub(super) fn read(directory: HostPath) -> Option<Self> {
        let mut bytes = Vec::new();
        let file = File::open(directory.join(FILE)).ok()?;
        file.take(MOST_BYTES).read_to_end(&mut bytes).ok()?;
        let record: SlotRecord = serde_json::from_slice(&bytes).ok()?;
        let named = directory.as_path().file_name()? == record.name().as_str();
        named.then_some(Self { directory, record })
    }

    /// Takes the turn to change this sandbox, and reads its record again: another may have had the turn before.
    /// `None` when somebody has it now.
    pub fn turn(&mut self) -> Result<Option<SlotTurn>, SlotError> {
        let path = self.directory.join(TURN);
        let opened = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = match opened {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Err(self.gone()),
            opened => opened.map_err(SlotError::io(format!("open {path}")))?,
        };
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Ok(None),
            Err(TryLockError::Error(error)) => return Err(SlotError::io(format!("lock {path}"))(error)),
        }
        self.record = Self::read(self.directory.clone()).ok_or_else(|| self.gone())?.record;
        Ok(Some(SlotTurn(file)))
    }

    fn gone(&self) -> SlotError {
        SlotError::Gone { slot: self.record.name() }
    }

    /// The worktree is at another path now.
    pub fn follow(&mut self, worktree: HostPath) -> Result<(), SlotError> {
        self.record.worktree = worktree;
        self.write()
    }

    pub fn set_stage(&mut self, stage: Stage) -> Result<(), SlotError> {
        if self.record.stage == stage {
            return Ok(());
        }
        self.record.stage = stage;
        self.write()
    }

    /// In one step: a reader sees the old record or the new one.
    pub fn write(&self) -> Result<(), SlotError> {
        let bytes = serde_json::to_vec_pretty(&self.record).map_err(io::Error::from);
        let written = bytes.and_then(|bytes| self.replace(FILE, &bytes));
        written.map_err(SlotError::io(format!("write {}", self.directory.join(FILE))))
    }

    /// Writes a file of the slot, readable by its owner alone, in one step.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    }

    /// Removes a file of the slot, whether it is there or not, and what a writer of it may have left.
    pub fn remove(&self, name: &str) -> io::Result<()> {
        for name in [name.to_owned(), format!("{name}.new")] {
            match fs::remove_file(self.directory.join(name)) {
                Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
                _ => {}
            }
        }
        Ok(())
    }
}
