//! What is known of a file, directory or link, and the manifest of a copy: every entry as it was on the host, and as it
//! was in the copy before the first command ran.

use crate::wrapper::Word;
use rustix::fs::{FileType, Stat};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::ffi::OsString;
use std::path::PathBuf;

/// Permissions; bits that let a program run as another user are never copied or laid.
pub(super) const PERMISSIONS: u32 = 0o777;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(super) enum EntryKind {
    File,
    Directory,
    Link,
}

impl EntryKind {
    /// `None` for devices, pipes and sockets.
    pub(super) fn of(stat: &Stat) -> Option<Self> {
        match FileType::from_raw_mode(stat.st_mode) {
            FileType::RegularFile => Some(Self::File),
            FileType::Directory => Some(Self::Directory),
            FileType::Symlink => Some(Self::Link),
            _ => None,
        }
    }
}

/// What distinguishes one state of an entry from another. A change time cannot be set by any program, so what has the same one is
/// as it was.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Stamp {
    pub(super) kind: EntryKind,
    pub(super) mode: u32,
    pub(super) size: u64,
    /// In nanoseconds since 1970.
    pub(super) modified: i64,
    pub(super) changed: i64,
    pub(super) inode: u64,
    /// Where a link leads.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) target: Option<Word>,
}

impl Stamp {
    /// `target` is where a link leads. `None` for devices, pipes and sockets.
    pub(super) fn of(stat: &Stat, target: Option<OsString>) -> Option<Self> {
        let nanoseconds =
            |seconds: i64, rest: u64| seconds.saturating_mul(1_000_000_000).saturating_add(rest as i64);
        Some(Self {
            kind: EntryKind::of(stat)?,
            mode: stat.st_mode & 0o7777,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: nanoseconds(stat.st_mtime, stat.st_mtime_nsec),
            changed: nanoseconds(stat.st_ctime, stat.st_ctime_nsec),
            inode: stat.st_ino,
            target: target.map(|target| Word::from(target.as_os_str())),
        })
    }

    pub(super) fn permissions(&self) -> u32 {
        self.mode & PERMISSIONS
    }

    /// Whether nothing has happened to it. A directory changes with everything that is made in it, so only its
    /// permissions count.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        match self.kind {
            EntryKind::Directory => other.kind == self.kind && other.mode == self.mode,
            EntryKind::File | EntryKind::Link => self == other,
        }
    }

    /// As [`Stamp::is_same`] for something that was renamed since, which is a change by itself.
    pub(super) fn is_same_but_renamed(&self, other: &Self) -> bool {
        self.is_same(&Self { changed: self.changed, ..other.clone() })
    }
}

/// An entry that was copied.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ManifestEntry {
    pub(super) host: Stamp,
    pub(super) copy: Stamp,
}

/// Everything that was copied, by its path in the directory.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Manifest {
    pub(super) entries: BTreeMap<PathBuf, ManifestEntry>,
}

/// A manifest as it is written down.
#[derive(Serialize, Deserialize)]
struct StoredManifest {
    entries: Vec<(Word, Stamp, Stamp)>,
}

impl Manifest {
    pub(super) fn to_bytes(&self) -> serde_json::Result<Vec<u8>> {
        let stored = |(path, entry): (&PathBuf, &ManifestEntry)| {
            (Word::from(path.as_os_str()), entry.host.clone(), entry.copy.clone())
        };
        serde_json::to_vec(&StoredManifest { entries: self.entries.iter().map(stored).collect() })
    }

    pub(super) fn from_bytes(bytes: &[u8]) -> serde_json::Result<Self> {
        let stored: StoredManifest = serde_json::from_slice(bytes)?;
        let entry = |(path, host, copy): (Word, Stamp, Stamp)| (path.into(), ManifestEntry { host, copy });
        Ok(Self { entries: stored.entries.into_iter().map(entry).collect() })
    }
}
