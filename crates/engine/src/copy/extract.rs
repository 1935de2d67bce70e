//! Writing a hostile tar stream into a host directory.
//!
//! Every step is relative to an open directory and follows no link; a file appears under its name only when it is
//! whole; only plain files and directories are made, without set-id bits. Everything else is left out and reported.
//! Memory is bounded whatever the stream says: see [`Meter`] for what the reader keeps, and [`skip`] for the report.

use super::CopyReport;
use super::meter::Meter;
use palisade_core::printable;
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Mode, OFlags};
use rustix::io::Errno;
use serde::Serialize;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read};
use std::path::{Component, Path};
use tar::EntryType;

/// Something that was not copied.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Skipped {
    /// As the sandbox named it, made printable.
    pub path: String,
    pub why: String,
}

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What becomes of the first name of every path in the stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Top {
    Keep,
    Rename(OsString),
    /// It is left away: what lies in the directory goes straight into the place.
    Contents,
}

/// How many things left out are told one by one, and how many characters of each.
const MOST_SKIPPED: usize = 1000;
const MOST_SHOWN: usize = 1024;
/// What the kernel takes as one path. A tree beyond that could be made, but hardly be used or removed again.
const MOST_PATH: usize = 4096;

/// Reads `stream` to its end and writes what it may into `place`, an open directory. Public for the fuzzer, which feeds
/// it what a hostile guest would.
pub fn extract(stream: impl Read, place: std::fs::File, top: &Top) -> io::Result<CopyReport> {
    let place = OwnedFd::from(place);
    let mut report = CopyReport::default();
    let meter = Meter::new(stream);
    let mut archive = tar::Archive::new(&meter);
    for entry in archive.entries()? {
        let mut entry = entry?;
        meter.allow(padded_size(&entry));
        let path = match entry.path() {
            Ok(path) => path.into_owned(),
            Err(error) => {
                skip(&mut report, Path::new("?"), &error.to_string());
                continue;
            }
        };
        let Some(names) = plain(&path, top) else {
            skip(&mut report, &path, "not a plain relative path");
            continue;
        };
        if path.as_os_str().len() >= MOST_PATH {
            skip(&mut report, &path, "its path is longer than a program can open");
            continue;
        }
        let outcome = match entry.header().entry_type() {
            EntryType::Directory => make_directory(place.as_fd(), &names),
            EntryType::Regular | EntryType::Continuous => {
                let mode = entry.header().mode().unwrap_or(0o600) & 0o777;
                let size = entry.size();
                write_file(place.as_fd(), &names, mode, size, &mut entry).map(|bytes| {
                    report.files += 1;
                    report.bytes += bytes;
                })
            }
            EntryType::Symlink | EntryType::Link => Err(Failure::Skip("a link".into())),
            _ => Err(Failure::Skip("neither a file nor a directory".into())),
        };
        match outcome {
            Ok(()) => report.entries += 1,
            Err(Failure::Skip(why)) => skip(&mut report, &path, &why),
            Err(Failure::Stop(error)) => return Err(error),
        }
    }
    Ok(report)
}

enum Failure {
    /// This entry is left out.
    Skip(String),
    /// The copy cannot go on: the stream broke, or the host cannot write.
    Stop(io::Error),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::MFILE | Errno::NFILE | Errno::IO => {
                Failure::Stop(error.into())
            }
            Errno::LOOP | Errno::NOTDIR => {
                Failure::Skip("its place is or lies behind something that is no directory".into())
            }
            other => Failure::Skip(io::Error::from(other).to_string()),
        }
    }
}

fn skip(report: &mut CopyReport, path: &Path, why: &str) {
    if report.skipped.len() < MOST_SKIPPED {
        report.skipped.push(Skipped { path: shown(&path.to_string_lossy()), why: shown(why) });
    }
}

/// The sender's text, printable, and only the beginning of a long one.
fn shown(text: &str) -> String {
    match text.char_indices().nth(MOST_SHOWN) {
        Some((end, _)) => printable(&text[..end]) + "…",
        None => printable(text),
    }
}

/// How much of the stream belongs to the entry's content. The size of a sparse file is not that of its data.
fn padded_size(entry: &tar::Entry<'_, impl Read>) -> u64 {
    const BLOCK: u64 = 512;
    let size = match entry.header().entry_type() {
        EntryType::GNUSparse => entry.header().entry_size().unwrap_or(0),
        _ => entry.size(),
    };
    size.saturating_add(BLOCK - 1) / BLOCK * BLOCK
}

/// The names of a path of plain components, the first replaced when the copy has a new name.
fn plain(path: &Path, top: &Top) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    match top {
        Top::Keep => {}
        Top::Rename(name) => {
            if let Some(first) = names.first_mut() {
                first.clone_from(name);
            }
        }
        Top::Contents => {
            names.drain(..names.len().min(1));
            if names.is_empty() {
                return Some(names);
            }
        }
    }
    (!names.is_empty()).then_some(names)
}

/// Opens the directory that holds the last name, making what is missing on the way.
fn parent(place: BorrowedFd<'_>, names: &[OsString]) -> Result<OwnedFd, Failure> {
    let mut here = rustix::io::fcntl_dupfd_cloexec(place, 3)?;
    for name in names {
        match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
            Ok(()) | Err(Errno::EXIST) => {}
            Err(error) => return Err(error.into()),
        }
        here = rustix::fs::openat(&here, name, DIRECTORY, Mode::empty())?;
    }
    Ok(here)
}

fn make_directory(place: BorrowedFd<'_>, names: &[OsString]) -> Result<(), Failure> {
    parent(place, names).map(drop)
}

fn write_file(
    place: BorrowedFd<'_>,
    names: &[OsString],
    mode: u32,
    size: u64,
    content: &mut impl Read,
) -> Result<u64, Failure> {
    let Some((name, above)) = names.split_last() else { return Err(Failure::Skip("it has no name".into())) };
    let parent = parent(place, above)?;
    let fresh = format!(".palisade-copy-{}", std::process::id());
    // A leftover of an earlier, interrupted copy by a process of the same number.
    let _ = rustix::fs::unlinkat(&parent, fresh.as_str(), AtFlags::empty());
    let nameless = open_nameless(parent.as_fd());
    let named = nameless.is_none();
    let file = match nameless {
        Some(file) => file,
        None => {
            let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
            rustix::fs::openat(&parent, fresh.as_str(), flags, Mode::from_raw_mode(0o600))?
        }
    };
    let mut file = std::fs::File::from(file);
    let written = io::copy(content, &mut file).map_err(Failure::Stop).and_then(|bytes| {
        if bytes < size {
            return Err(Failure::Stop(io::ErrorKind::UnexpectedEof.into()));
        }
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode | 0o200))?;
        if !named && !give_name(file.as_fd(), parent.as_fd(), name, &fresh)? {
            return Ok(bytes);
        }
        // Replaces a file or a link of that name; a directory of that name stays and the entry is left out.
        rustix::fs::renameat(&parent, fresh.as_str(), &parent, name)?;
        Ok(bytes)
    });
    if written.is_err() {
        let _ = rustix::fs::unlinkat(&parent, fresh.as_str(), AtFlags::empty());
    }
    written
}

/// A file that has no name until it is whole, so that a `kill -9` leaves nothing of it. Not every file system has
/// such files.
#[cfg(target_os = "linux")]
fn open_nameless(parent: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = OFlags::WRONLY | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::openat(parent, ".", flags, Mode::from_raw_mode(0o600)).ok()
}

#[cfg(not(target_os = "linux"))]
fn open_nameless(_parent: BorrowedFd<'_>) -> Option<OwnedFd> {
    None
}

/// Gives a nameless file its own name, or the name `fresh` where something has its own; says whether it was that.
fn give_name(
    file: BorrowedFd<'_>,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    fresh: &str,
) -> rustix::io::Result<bool> {
    use rustix::fd::AsRawFd;
    let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
    let link = |name: &OsStr| {
        rustix::fs::linkat(rustix::fs::CWD, handle.as_str(), parent, name, AtFlags::SYMLINK_FOLLOW)
    };
    match link(name) {
        Ok(()) => Ok(false),
        Err(Errno::EXIST) => link(OsStr::new(fresh)).map(|()| true),
        Err(error) => Err(error),
    }
}

#[cfg(test)]
mod tests;
