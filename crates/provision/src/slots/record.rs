//! What is known of a slot, on disk in its directory.

use super::{SlotError, SlotNumber};
use palisade_core::HostPath;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{self, Read as _, Write as _};
use std::os::unix::fs::OpenOptionsExt as _;

const FILE: &str = "slot.json";
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
    /// The main working tree, where files are copied from.
    pub repository: HostPath,
    pub worktree: HostPath,
    pub branch: String,
    /// The variables with the ports of this slot.
    pub ports: BTreeMap<String, u16>,
}

impl SlotRecord {
    /// `shop-3`: the name of the slot and of its compose project.
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

    /// In one step: a reader sees the old record or the new one.
    pub(super) fn write(&self) -> Result<(), SlotError> {
        let path = self.directory.join(FILE);
        self.replace(FILE, &serde_json::to_vec_pretty(&self.record).unwrap_or_default())
            .map_err(SlotError::io(format!("write {path}")))
    }

    /// Writes a file of the slot, readable by its owner alone, in one step.
    pub fn replace(&self, name: &str, bytes: &[u8]) -> io::Result<()> {
        let (path, new) = (self.directory.join(name), self.directory.join(format!("{name}.new")));
        let mut file = File::options().create(true).truncate(true).write(true).mode(0o600).open(&new)?;
        file.write_all(bytes)?;
        file.sync_all()?;
        fs::rename(&new, &path)
    }
}
