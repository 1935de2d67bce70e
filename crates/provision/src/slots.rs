//! Slots: which sandbox of a project has which number, and so which ports.
//!
//! A slot is a directory `<project>-<N>` with a record in it. Slot N has every port of the project plus N. Numbers are
//! handed out one at a time, under a lock, and never while a port is in use or another slot, of whatever project,
//! has claimed it: the claim is on disk before the lock is given back, so of twenty callers each gets its own.

mod choice;
mod record;

use choice::Taken;
pub use choice::{MOST_SLOTS, SlotNumber};
pub use record::{Slot, SlotRecord, SlotTurn, Stage};

use crate::feature::Feature;
use palisade_core::HostPath;
use std::collections::BTreeMap;
use std::fs::{self, DirBuilder, File};
use std::io;
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _};
use std::path::Path;

const LOCK: &str = ".lock";
/// Where a slot is made before it gets its name. There is only one, since one at a time is made.
const NEW: &str = ".new";

/// The directory of all slots of a user.
#[derive(Debug, Clone)]
pub struct Slots {
    root: HostPath,
}

/// What a sandbox of a project needs of a slot.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claim {
    /// The project's name, which begins the name of the slot.
    pub project: String,
    pub repository: HostPath,
    pub worktree: HostPath,
    pub feature: Feature,
    /// The variables of ports with the project's own ports.
    pub bases: BTreeMap<String, u16>,
}

#[derive(Debug, thiserror::Error)]
pub enum SlotError {
    #[error("{what}: {source}")]
    Io {
        what: String,
        #[source]
        source: io::Error,
    },
    #[error("no slot is free for {project}: {}", .reasons.join("; "))]
    NoneFree { project: String, reasons: Vec<String> },
    #[error("{worktree} belongs to slot {slot} already")]
    Taken { worktree: HostPath, slot: String },
    #[error("slot {slot} was given back by another command")]
    Gone { slot: String },
}

impl SlotError {
    fn io(what: impl Into<String>) -> impl FnOnce(io::Error) -> Self {
        let what = what.into();
        move |source| Self::Io { what, source }
    }
}

impl Slots {
    pub fn at(root: HostPath) -> Self {
        Self { root }
    }

    /// Takes the first slot whose ports are all free.
    pub fn take(&self, claim: &Claim) -> Result<Slot, SlotError> {
        private_directory(self.root.as_path()).map_err(SlotError::io(format!("make {}", self.root)))?;
        let _turn = self.lock()?;
        let known = self.all()?;
        let same = |slot: &&Slot| slot.record.worktree == claim.worktree;
        if let Some(slot) = known.iter().find(same) {
            return Err(SlotError::Taken { worktree: claim.worktree.clone(), slot: slot.record.name() });
        }
        let mut taken = Taken::default();
        for slot in &known {
            taken.claim(&slot.record);
        }
        let exists = |number| fs::symlink_metadata(self.directory(&claim.project, number)).is_ok();
        let chosen = choice::choose(&claim.bases, &taken, exists, is_free);
        let (number, ports) =
            chosen.map_err(|reasons| SlotError::NoneFree { project: claim.project.clone(), reasons })?;
        let record = SlotRecord {
            project: claim.project.clone(),
            number,
            repository: claim.repository.clone(),
            worktree: claim.worktree.clone(),
            feature: claim.feature.clone(),
            compose_project: compose_project(&claim.project, number)?,
            ports,
            stage: Stage::Claimed,
            files: BTreeMap::new(),
        };
        self.make(record)
    }

    /// Gives a slot the ports that its project has by now. Those it has are its own, and stay where they are.
    pub fn renew(&self, slot: &mut Slot, bases: &BTreeMap<String, u16>) -> Result<(), SlotError> {
        let _turn = self.lock()?;
        let mut taken = Taken::default();
        for other in self.all()?.iter().filter(|other| other.directory != slot.directory) {
            taken.claim(&other.record);
        }
        let own: Vec<u16> = slot.record.ports.values().copied().collect();
        let free = |port| own.contains(&port) || is_free(port);
        let ports = choice::ports(bases, slot.record.number, &taken, free).map_err(|reason| {
            let reasons = vec![format!("slot {}: {reason}", slot.record.number)];
            SlotError::NoneFree { project: slot.record.project.clone(), reasons }
        })?;
        if ports != slot.record.ports {
            slot.record.ports = ports;
            slot.write()?;
        }
        Ok(())
    }

    /// The directory appears with its record in it, or, for a caller that dies, not at all.
    fn make(&self, record: SlotRecord) -> Result<Slot, SlotError> {
        let directory = self.directory(&record.project, record.number);
        let making = || SlotError::io(format!("make {directory}"));
        let new = self.root.join(NEW);
        remove(&new).and_then(|()| private_directory(new.as_path())).map_err(making())?;
        Slot { directory: new.clone(), record: record.clone() }.write()?;
        fs::rename(&new, &directory).map_err(making())?;
        Ok(Slot { directory, record })
    }

    /// Every slot. A directory without a record is somebody else's.
    pub fn all(&self) -> Result<Vec<Slot>, SlotError> {
        let failed = || SlotError::io(format!("read {}", self.root));
        let entries = match fs::read_dir(self.root.as_path()) {
            Ok(entries) => entries,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(failed()(error)),
        };
        let mut found = Vec::new();
        for entry in entries {
            let directory = self.root.join(entry.map_err(failed())?.file_name());
            found.extend(Slot::read(directory));
        }
        found.sort_by(|one, other| one.record.order().cmp(&other.record.order()));
        Ok(found)
    }

    /// The slot of the sandbox whose worktree is, or holds, this directory.
    pub fn of_worktree(&self, directory: &Path) -> Result<Option<Slot>, SlotError> {
        Ok(self.all()?.into_iter().find(|slot| directory.starts_with(slot.record.worktree.as_path())))
    }

    /// Gives a slot back: its directory, and every secret in it, is gone afterwards.
    pub fn release(&self, slot: &Slot) -> Result<(), SlotError> {
        let _turn = self.lock()?;
        remove(&slot.directory).map_err(SlotError::io(format!("remove {}", slot.directory)))
    }

    fn directory(&self, project: &str, number: SlotNumber) -> HostPath {
        self.root.join(format!("{project}-{number}"))
    }

    /// Held until the file is dropped, also by a process that is killed.
    fn lock(&self) -> Result<File, SlotError> {
        let path = self.root.join(LOCK);
        let options = File::options().create(true).truncate(false).write(true).mode(0o600).open(&path);
        let file = options.map_err(SlotError::io(format!("open {path}")))?;
        file.lock().map_err(SlotError::io(format!("lock {path}")))?;
        Ok(file)
    }
}

/// In the form that Compose asks for. The slot's number is unique to its owner, and engines have many.
fn compose_project(project: &str, number: SlotNumber) -> Result<String, SlotError> {
    let mut mark = [0; 3];
    getrandom::fill(&mut mark)
        .map_err(|error| SlotError::io("draw a random number")(io::Error::other(error.to_string())))?;
    let project = project.to_ascii_lowercase().replace('.', "-");
    Ok(format!("{project}-{number}-{:02x}{:02x}{:02x}", mark[0], mark[1], mark[2]))
}

/// Removes a directory that may be gone already.
fn remove(path: &HostPath) -> io::Result<()> {
    match fs::remove_dir_all(path.as_path()) {
        Err(error) if error.kind() != io::ErrorKind::NotFound => Err(error),
        _ => Ok(()),
    }
}

fn private_directory(path: &Path) -> io::Result<()> {
    DirBuilder::new().recursive(true).mode(0o700).create(path)
}

/// Whether nobody listens on the port, on any address of either family.
fn is_free(port: u16) -> bool {
    let taken = |error: &io::Error| error.kind() == io::ErrorKind::AddrInUse;
    let v4 =
        [Ipv4Addr::UNSPECIFIED, Ipv4Addr::LOCALHOST].map(|address| TcpListener::bind((address, port)).err());
    let v6 =
        [Ipv6Addr::UNSPECIFIED, Ipv6Addr::LOCALHOST].map(|address| TcpListener::bind((address, port)).err());
    // A host without IPv6 refuses for other reasons, and has no listener there either.
    !v4.iter().chain(&v6).flatten().any(taken)
}

#[cfg(test)]
mod tests;
