//! Where a copy out of a sandbox comes down on the host: into which directory, how much of it, and what its receiver has
//! to say about each entry.

use super::{CopyReport, Skipped};
use crate::error::EngineError;
use palisade_core::{HostTrouble, printable};
use palisade_host::beneath::{self, Standing};
use rustix::fd::{BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

/// How many things left out are told one by one, and how many characters of each.
const MOST_SKIPPED: usize = 1000;
const MOST_SHOWN: usize = 1024;

/// What may still come out of a sandbox. A copy takes from it, so that several can share one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct CopyLimits {
    /// Bytes of files, as long as they are said to be: a sparse file counts with its holes.
    pub bytes: u64,
    /// Files, directories and whatever else has a name, also when it is left out.
    pub entries: u64,
}

impl CopyLimits {
    /// For what the user has brought in by hand, such as a fuzzer's input.
    pub const NONE: Self = Self { bytes: u64::MAX, entries: u64::MAX };
}

/// What the first name of every path in the stream becomes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Top {
    Keep,
    /// These names; none at all lets what lies in a directory go straight into the place.
    Names(Vec<OsString>),
}

impl Top {
    /// How many names the top of the tree has in the place that it goes to.
    pub fn names(&self) -> usize {
        match self {
            Self::Keep => 1,
            Self::Names(names) => names.len(),
        }
    }
}

/// How an entry is left out.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Refusal {
    /// Told with the reason.
    Told(String),
    /// The receiver keeps count itself.
    Counted,
}

impl Refusal {
    pub fn because(why: impl Into<String>) -> Self {
        Self::Told(why.into())
    }
}

/// Something whole that is to get its name.
#[derive(Debug)]
pub enum Arrived<'a> {
    /// Read it from the beginning.
    File(&'a mut File),
    /// Where the link leads.
    Link(&'a OsStr),
}

/// What becomes of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Fate {
    Placed(Standing),
    /// It is left out and reported, with the reason.
    LeftOut(String),
    /// It is thrown away, and the receiver knows why.
    Dropped,
}

/// Who receives a copy. By default everything is taken but links, and what has the same name gives way.
pub trait Reception: Send {
    /// Whether files and directories keep the times at which they were changed.
    fn keeps_times(&self) -> bool {
        false
    }

    /// Why an entry is left out, before anything of it is made.
    fn refuse(&mut self, _path: &Path) -> Option<Refusal> {
        None
    }

    /// Why a link is left out.
    fn refuse_link(&mut self, _path: &Path, _target: &Path) -> Option<Refusal> {
        Some(Refusal::because("a link"))
    }

    /// What becomes of an entry that is to be `name` in `parent`.
    fn settle(
        &mut self,
        _path: &Path,
        _arrived: Arrived<'_>,
        _parent: BorrowedFd<'_>,
        _name: &OsStr,
    ) -> io::Result<Fate> {
        Ok(Fate::Placed(Standing::Replaced))
    }
}

/// Takes everything that can do no harm: links only where they stay in the tree that is copied, whose top has so many
/// names. A file gives way to another; a link, a device, a pipe or a socket of the host's never does.
#[derive(Debug, Clone, Copy)]
pub struct Anything {
    pub top: usize,
}

impl Reception for Anything {
    fn keeps_times(&self) -> bool {
        true
    }

    fn refuse_link(&mut self, path: &Path, target: &Path) -> Option<Refusal> {
        (!beneath::link_stays(self.top, path, target))
            .then(|| Refusal::because("a link that leads out of the copy"))
    }

    fn settle(
        &mut self,
        _path: &Path,
        _arrived: Arrived<'_>,
        parent: BorrowedFd<'_>,
        name: &OsStr,
    ) -> io::Result<Fate> {
        let kind = match rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW) {
            Ok(stat) => FileType::from_raw_mode(stat.st_mode),
            Err(Errno::NOENT) => return Ok(Fate::Placed(Standing::Refused)),
            Err(error) => return Err(error.into()),
        };
        let there = match kind {
            // A directory does not give way by itself.
            FileType::RegularFile | FileType::Directory => return Ok(Fate::Placed(Standing::Replaced)),
            FileType::Symlink => "a link",
            FileType::Fifo => "a pipe",
            FileType::Socket => "a socket",
            _ => "a device",
        };
        Ok(Fate::LeftOut(format!("there is {there} of that name, which stays; remove it first")))
    }
}

/// How far a copy is, for whoever watches.
#[derive(Debug, Default)]
pub struct Tally {
    files: AtomicU64,
    bytes: AtomicU64,
}

impl Tally {
    pub fn files(&self) -> u64 {
        self.files.load(Ordering::Relaxed)
    }

    pub fn bytes(&self) -> u64 {
        self.bytes.load(Ordering::Relaxed)
    }

    pub(super) fn count(&self, files: u64, bytes: u64) {
        self.files.fetch_add(files, Ordering::Relaxed);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
    }
}

#[derive(Debug)]
pub struct Landing<R> {
    pub(super) place: OwnedFd,
    pub top: Top,
    pub limits: CopyLimits,
    pub reception: R,
    pub report: CopyReport,
    pub tally: Arc<Tally>,
    /// Directories that were made and whose entries are still coming: their names, and the time that they get then.
    pub(super) unfinished: Vec<(Vec<OsString>, u64)>,
}

impl<R: Reception> Landing<R> {
    /// `place` is an open directory.
    pub fn new(place: impl Into<OwnedFd>, top: Top, limits: CopyLimits, reception: R) -> Self {
        let (report, tally) = (CopyReport::default(), Arc::default());
        Self { place: place.into(), top, limits, reception, report, tally, unfinished: Vec::new() }
    }

    pub(super) fn skip(&mut self, path: &Path, why: &str) {
        self.report.left_out += 1;
        if self.report.skipped.len() < MOST_SKIPPED {
            let skipped = Skipped { path: shown(&path.to_string_lossy()), why: shown(why) };
            self.report.skipped.push(skipped);
        }
    }
}

/// The sender's text, printable, and only the beginning of a long one.
pub(super) fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => printable(&text[..end]) + "…",
        None => printable(text),
    }
}

/// Why a copy cannot go on. What came before stays, whole.
#[derive(Debug, thiserror::Error)]
pub enum CopyStop {
    #[error("{path} has {bytes} bytes, and {left} are left of what may come out of a sandbox at once")]
    TooLarge { path: String, bytes: u64, left: u64 },
    #[error("there are more files than may come out of a sandbox at once")]
    TooMany,
    #[error("{path} needs {bytes} bytes, and the disk has {room}")]
    NoRoom { path: String, bytes: u64, room: u64 },
    #[error("it is not a plain file")]
    NotAFile,
    #[error(transparent)]
    Io(#[from] io::Error),
}

impl CopyStop {
    /// What it means to the user. `what` names the copy.
    pub(super) fn told(self, what: &str) -> EngineError {
        match self {
            CopyStop::TooLarge { path, bytes, left } => EngineError::CopyTooLarge { path, bytes, left },
            CopyStop::TooMany => EngineError::CopyTooMany { path: what.to_owned() },
            CopyStop::NoRoom { path, bytes, room } => EngineError::CopyNoRoom { path, bytes, room },
            CopyStop::NotAFile => EngineError::Copy { path: what.to_owned(), reason: self.to_string() },
            CopyStop::Io(error) => match HostTrouble::of(&format!("write what comes of {what}"), &error) {
                Some(trouble) => EngineError::Host(trouble),
                None => EngineError::Copy { path: what.to_owned(), reason: error.to_string() },
            },
        }
    }
}
