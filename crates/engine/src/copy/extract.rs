//! Writing a hostile tar stream into a host directory.
//!
//! Every step is relative to an open directory and follows no link; a file appears under its name only when it is
//! whole; only plain files and directories are made, without set-id bits and writable by nobody but their owner, and
//! links only where the receiver wants them. Everything else is left out and reported. Memory is bounded whatever the
//! stream says: see [`Meter`] for what the reader keeps, and [`Landing`] for the report. So is what is written: see
//! [`CopyLimits`](super::CopyLimits); and nothing is begun for which the disk has no room.

use super::CopyReport;
use super::landing::{Arrived, CopyLimits, CopyStop, Fate, Landing, Reception, Refusal, Top, shown};
use super::meter::Meter;
use palisade_host::beneath::{self, Fresh, Missing};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::Mode;
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::io::{self, Read, Seek, Write};
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path, PathBuf};
use tar::EntryType;

/// What the kernel takes as one path. A tree beyond that could be made, but hardly be used or removed again.
const MOST_PATH: usize = 4096;
/// Deeper than any tree that people make, and far from what tools that recurse can bear.
const MOST_DEPTH: usize = 256;
/// How much is written before the disk is looked at again.
const STRIDE: u64 = 32 << 20;

/// Reads `stream` to its end and writes what it may. Public for the fuzzer, which feeds it what a hostile guest would.
pub fn extract<R: Reception>(stream: impl Read, landing: &mut Landing<R>) -> Result<(), CopyStop> {
    let meter = Meter::new(stream);
    let mut archive = tar::Archive::new(&meter);
    for entry in archive.entries()? {
        let mut entry = entry?;
        meter.allow(padded_size(&entry));
        landing.limits.entries = landing.limits.entries.checked_sub(1).ok_or(CopyStop::TooMany)?;
        let named = match entry.path() {
            Ok(path) => path.into_owned(),
            Err(error) => {
                landing.skip(Path::new("?"), &error.to_string());
                continue;
            }
        };
        let Some(names) = plain(&named, &landing.top) else {
            landing.skip(&known_as(&named, &landing.top), "not a plain relative path");
            continue;
        };
        let path: PathBuf = names.iter().collect();
        finish_directories(landing, &names);
        match one(&mut entry, landing, &path, &names) {
            Ok(()) => {}
            Err(Failure::Skip(why) | Failure::Refused(Refusal::Told(why))) => {
                landing.skip(&known_as(&named, &landing.top), &why);
            }
            Err(Failure::Refused(Refusal::Counted)) => {}
            Err(Failure::Stop(stop)) => return Err(stop),
        }
    }
    finish_directories(landing, &[]);
    Ok(())
}

/// Gives directories their times once nothing more is written into them: when an entry comes that is not below them.
fn finish_directories<R: Reception>(landing: &mut Landing<R>, next: &[OsString]) {
    while let Some((names, time)) = landing.unfinished.pop_if(|(names, _)| !next.starts_with(names)) {
        // It may have been swapped meanwhile; then it keeps the time that it has.
        if let Ok(directory) = beneath::enter(landing.place.as_fd(), &names, Missing::Fail) {
            let _ = beneath::set_time(directory, time);
        }
    }
}

/// Writes the content of the only entry of `stream`, which must be a plain file.
pub(super) fn read_file(
    stream: impl Read,
    mut sink: impl Write,
    limits: CopyLimits,
) -> Result<CopyReport, CopyStop> {
    let meter = Meter::new(stream);
    let mut archive = tar::Archive::new(&meter);
    let mut report = CopyReport::default();
    for entry in archive.entries()? {
        let mut entry = entry?;
        if report.files > 0
            || !matches!(entry.header().entry_type(), EntryType::Regular | EntryType::Continuous)
        {
            return Err(CopyStop::NotAFile);
        }
        let bytes = entry.size();
        if bytes > limits.bytes {
            let path = shown(&entry.path()?.to_string_lossy());
            return Err(CopyStop::TooLarge { path, bytes, left: limits.bytes });
        }
        meter.allow(padded_size(&entry));
        report.bytes = io::copy(&mut entry, &mut sink)?;
        if report.bytes != bytes {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        (report.entries, report.files) = (1, 1);
    }
    sink.flush()?;
    Ok(report)
}

enum Failure {
    /// This entry is left out.
    Skip(String),
    /// So is this one, and its receiver wanted it.
    Refused(Refusal),
    /// The copy cannot go on: the stream broke, the host cannot write, or it is too much.
    Stop(CopyStop),
}

impl From<Errno> for Failure {
    fn from(error: Errno) -> Self {
        match error {
            Errno::NOSPC | Errno::DQUOT | Errno::ROFS | Errno::MFILE | Errno::NFILE | Errno::IO => {
                Failure::Stop(CopyStop::Io(error.into()))
            }
            Errno::LOOP | Errno::NOTDIR => {
                Failure::Skip("its place is or lies behind something that is no directory".into())
            }
            Errno::ISDIR => Failure::Skip("a directory has its name".into()),
            other => Failure::Skip(io::Error::from(other).to_string()),
        }
    }
}

impl From<io::Error> for Failure {
    fn from(error: io::Error) -> Self {
        Failure::Stop(CopyStop::Io(error))
    }
}

fn one<R: Reception>(
    entry: &mut tar::Entry<'_, impl Read>,
    landing: &mut Landing<R>,
    path: &Path,
    names: &[OsString],
) -> Result<(), Failure> {
    if path.as_os_str().len() >= MOST_PATH {
        return Err(Failure::Skip("its path is longer than a program can open".into()));
    }
    if names.len() > MOST_DEPTH {
        return Err(Failure::Skip(format!("it lies more than {MOST_DEPTH} directories deep")));
    }
    if let Some(refusal) = landing.reception.refuse(path) {
        return Err(Failure::Refused(refusal));
    }
    match entry.header().entry_type() {
        EntryType::Directory => make_directory(entry, landing, names),
        EntryType::Regular | EntryType::Continuous => write_file(entry, landing, path, names),
        EntryType::Symlink => make_link(entry, landing, path, names),
        EntryType::Link => Err(Failure::Skip("a link".into())),
        _ => Err(Failure::Skip("neither a file nor a directory".into())),
    }
}

/// Makes a directory with its own permissions, but for what would let strangers write or keep the user out.
fn make_directory<R: Reception>(
    entry: &tar::Entry<'_, impl Read>,
    landing: &mut Landing<R>,
    names: &[OsString],
) -> Result<(), Failure> {
    if let Some((name, above)) = names.split_last() {
        let parent = beneath::enter(landing.place.as_fd(), above, Missing::Make)?;
        let is_new = match rustix::fs::mkdirat(&parent, name, Mode::from_raw_mode(0o700)) {
            Ok(()) => true,
            Err(Errno::EXIST) => false,
            Err(error) => return Err(error.into()),
        };
        let directory = beneath::enter(parent.as_fd(), [name], Missing::Fail)?;
        if is_new {
            let mode = entry.header().mode().unwrap_or(0o700) & 0o755 | 0o700;
            rustix::fs::fchmod(&directory, Mode::from_raw_mode(mode))?;
            if let (true, Ok(time)) = (landing.reception.keeps_times(), entry.header().mtime()) {
                landing.unfinished.push((names.to_vec(), time));
            }
        }
    }
    landing.report.entries += 1;
    Ok(())
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

/// The names of a path of plain components, the first replaced when the copy has a place of its own. Of the directory
/// itself, whose contents alone are wanted, none is left.
fn plain(path: &Path, top: &Top) -> Option<Vec<OsString>> {
    let mut names = Vec::new();
    for component in path.components() {
        match component {
            Component::Normal(name) => names.push(name.to_owned()),
            Component::CurDir => {}
            Component::RootDir | Component::ParentDir | Component::Prefix(_) => return None,
        }
    }
    if names.is_empty() {
        return match top {
            Top::Names(instead) if instead.is_empty() => Some(names),
            _ => None,
        };
    }
    if let Top::Names(instead) = top {
        names.splice(..1, instead.iter().cloned());
    }
    Some(names)
}

/// As the sandbox names it, below the directory that everything goes to.
fn known_as(named: &Path, top: &Top) -> PathBuf {
    let above = match top {
        Top::Names(names) => names.split_last().map(|(_, above)| above.iter().collect::<PathBuf>()),
        Top::Keep => None,
    };
    above.unwrap_or_default().join(named)
}

fn write_file<R: Reception>(
    entry: &mut tar::Entry<'_, impl Read>,
    landing: &mut Landing<R>,
    path: &Path,
    names: &[OsString],
) -> Result<(), Failure> {
    let Some((name, above)) = names.split_last() else { return Err(Failure::Skip("it has no name".into())) };
    let size = entry.size();
    let shown = || shown(&path.to_string_lossy());
    let left = landing.limits.bytes;
    landing.limits.bytes = left
        .checked_sub(size)
        .ok_or_else(|| Failure::Stop(CopyStop::TooLarge { path: shown(), bytes: size, left }))?;
    let mode = entry.header().mode().unwrap_or(0o600) & 0o755 | 0o200;
    let parent = beneath::enter(landing.place.as_fd(), above, Missing::Make)?;
    let mut fresh = Fresh::make(parent.as_fd())?;
    let mut missing = size;
    while missing > 0 {
        has_room(parent.as_fd(), missing, &shown)?;
        let written = io::copy(&mut entry.take(STRIDE), fresh.file())?;
        if written == 0 {
            return Err(io::Error::from(io::ErrorKind::UnexpectedEof).into());
        }
        missing = missing.saturating_sub(written);
        landing.tally.count(0, written);
    }
    fresh.file().flush()?;
    fresh.file().rewind()?;
    if let (true, Ok(time)) = (landing.reception.keeps_times(), entry.header().mtime()) {
        fresh.set_time(time)?;
    }
    match landing.reception.settle(path, Arrived::File(fresh.file()), parent.as_fd(), name)? {
        // A file of that name gives way; a directory stays and the entry is left out.
        Fate::Placed(standing) => fresh.place(name, mode, standing)?,
        Fate::LeftOut(why) => return Err(Failure::Skip(why)),
        Fate::Dropped => return Ok(()),
    }
    landing.report.entries += 1;
    landing.report.files += 1;
    landing.report.bytes += size;
    landing.tally.count(1, 0);
    Ok(())
}

fn has_room(parent: BorrowedFd<'_>, bytes: u64, path: &dyn Fn() -> String) -> Result<(), Failure> {
    match beneath::room(parent) {
        Ok(room) if room < bytes => Err(Failure::Stop(CopyStop::NoRoom { path: path(), bytes, room })),
        // A file system that does not tell says so when it is full.
        _ => Ok(()),
    }
}

fn make_link<R: Reception>(
    entry: &tar::Entry<'_, impl Read>,
    landing: &mut Landing<R>,
    path: &Path,
    names: &[OsString],
) -> Result<(), Failure> {
    let Some((name, above)) = names.split_last() else { return Err(Failure::Skip("it has no name".into())) };
    let target = entry.link_name_bytes().unwrap_or_default();
    let target = Path::new(OsStr::from_bytes(&target));
    if let Some(refusal) = landing.reception.refuse_link(path, target) {
        return Err(Failure::Refused(refusal));
    }
    let parent = beneath::enter(landing.place.as_fd(), above, Missing::Make)?;
    let arrived = Arrived::Link(target.as_os_str());
    match landing.reception.settle(path, arrived, parent.as_fd(), name)? {
        Fate::Placed(standing) => {
            beneath::place_link(parent.as_fd(), name, target.as_os_str(), standing)?;
            landing.report.entries += 1;
            landing.report.links += 1;
            Ok(())
        }
        Fate::LeftOut(why) => Err(Failure::Skip(why)),
        Fate::Dropped => Ok(()),
    }
}

#[cfg(test)]
mod tests;
