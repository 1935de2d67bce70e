//! Writes a tree as a tar stream. Links are never followed, also when something swaps a directory for a link
//! while we walk: every step is taken from an open directory. What a tar stream should not carry is skipped and
//! told.

use super::complain;
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Stat};
use rustix::process::{Resource, Rlimit};
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, BufWriter, Read, Write};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// In the child: the tree at `path` on standard output, complaints on standard error. The exit code.
pub(super) fn run(path: &Path) -> u8 {
    // A directory is open per level, and a tree may be deeper than the usual limit of descriptors.
    let most = rustix::process::getrlimit(Resource::Nofile).maximum;
    let _ = rustix::process::setrlimit(Resource::Nofile, Rlimit { current: most, maximum: most });
    match write_tree(path) {
        Ok(Outcome::Complete) => 0,
        Ok(Outcome::Incomplete) => 1,
        Err(error) => {
            complain(path, &error);
            1
        }
    }
}

enum Outcome {
    Complete,
    /// Something could not be read; the rest is there.
    Incomplete,
}

/// A directory on the way down, and what of it is still to do.
struct Level {
    directory: OwnedFd,
    names: Vec<OsString>,
    archived: PathBuf,
}

fn write_tree(path: &Path) -> io::Result<Outcome> {
    let output = File::from(io::stdout().as_fd().try_clone_to_owned()?);
    let mut builder = Builder::new(BufWriter::with_capacity(64 * 1024, output));
    let (parent, name) = split(path)?;
    let parent =
        rustix::fs::open(&parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())?;
    let archived = if name == "." { PathBuf::new() } else { PathBuf::from(&name) };
    let mut levels = Vec::new();
    let mut complete = true;
    let mut next = Some((name, archived));
    loop {
        if let Some((name, archived)) = next.take() {
            let directory = levels.last().map_or(parent.as_fd(), |level: &Level| level.directory.as_fd());
            match add(&mut builder, directory, &name, &archived) {
                Ok(Some(level)) => levels.push(level),
                Ok(None) => {}
                Err(Failure::Reading(error)) => {
                    complete = false;
                    complain(&archived, &error);
                }
                Err(Failure::Writing(error)) => return Err(error),
            }
        }
        let Some(level) = levels.last_mut() else { break };
        match level.names.pop() {
            Some(name) => next = Some((name.clone(), level.archived.join(name))),
            None => drop(levels.pop()),
        }
    }
    builder.into_inner()?.flush()?;
    Ok(if complete { Outcome::Complete } else { Outcome::Incomplete })
}

/// The directory to start from and the name in it; the root of everything is `.` in itself.
fn split(path: &Path) -> io::Result<(PathBuf, OsString)> {
    if let (Some(parent), Some(name)) = (path.parent(), path.file_name()) {
        let parent = if parent.as_os_str().is_empty() { Path::new(".") } else { parent };
        return Ok((parent.to_owned(), name.to_owned()));
    }
    let real = path.canonicalize()?;
    match (real.parent(), real.file_name()) {
        (Some(parent), Some(name)) => Ok((parent.to_owned(), name.to_owned())),
        _ => Ok((real, OsString::from("."))),
    }
}

enum Failure {
    /// Of one entry.
    Reading(io::Error),
    /// Of the stream, which ends everything.
    Writing(io::Error),
}

fn reading<E: Into<io::Error>>(error: E) -> Failure {
    Failure::Reading(error.into())
}

/// Appends one entry; for a directory, what is to follow.
fn add(
    builder: &mut Builder<impl Write>,
    parent: BorrowedFd<'_>,
    name: &OsStr,
    archived: &Path,
) -> Result<Option<Level>, Failure> {
    let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW).map_err(reading)?;
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => {
            // Without waiting: a pipe may have taken its place since we looked.
            let file =
                rustix::fs::openat(parent, name, flags | OFlags::NONBLOCK, Mode::empty()).map_err(reading)?;
            add_file(builder, File::from(file), archived)?;
            Ok(None)
        }
        FileType::Directory => {
            let directory = rustix::fs::openat(parent, name, flags | OFlags::DIRECTORY, Mode::empty())
                .map_err(reading)?;
            let names = names(&directory).map_err(reading)?;
            if !archived.as_os_str().is_empty() {
                let mut header = header(EntryType::Directory, &stat, 0);
                builder.append_data(&mut header, archived, io::empty()).map_err(Failure::Writing)?;
            }
            Ok(Some(Level { directory, names, archived: archived.to_owned() }))
        }
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(parent, name, Vec::new()).map_err(reading)?;
            let mut header = header(EntryType::Symlink, &stat, 0);
            // The literal form keeps the target byte for byte, but is only for short ones.
            let appended = if header.set_link_name_literal(target.as_bytes()).is_ok() {
                builder.append_data(&mut header, archived, io::empty())
            } else {
                builder.append_link(&mut header, archived, Path::new(OsStr::from_bytes(target.as_bytes())))
            };
            appended.map_err(Failure::Writing)?;
            Ok(None)
        }
        _ => {
            let what = io::Error::other("skipped: neither a file nor a directory nor a link");
            complain(archived, &what);
            Ok(None)
        }
    }
}

/// Exactly as many bytes as announced, whatever happens to the file meanwhile.
fn add_file(builder: &mut Builder<impl Write>, file: File, archived: &Path) -> Result<(), Failure> {
    let stat = rustix::fs::fstat(&file).map_err(reading)?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(reading(io::Error::other("was replaced while it was read")));
    }
    let size = u64::try_from(stat.st_size).unwrap_or(0);
    let mut source = Source { file, failed: None, short: false };
    let mut header = header(EntryType::Regular, &stat, size);
    builder.append_data(&mut header, archived, (&mut source).take(size)).map_err(Failure::Writing)?;
    match source {
        Source { failed: Some(error), .. } => Err(Failure::Reading(error)),
        Source { short: true, .. } => Err(reading(io::Error::other("shrank while it was read"))),
        _ => Ok(()),
    }
}

/// A file that never ends early: what cannot be read is filled with zeroes, and remembered.
struct Source {
    file: File,
    failed: Option<io::Error>,
    short: bool,
}

impl Read for Source {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        if self.failed.is_none() && !self.short {
            match self.file.read(buffer) {
                Ok(0) => self.short = true,
                Ok(read) => return Ok(read),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => return Err(error),
                Err(error) => self.failed = Some(error),
            }
        }
        buffer.fill(0);
        Ok(buffer.len())
    }
}

/// In order, last first.
fn names(directory: &OwnedFd) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in rustix::fs::Dir::read_from(directory)? {
        let name = entry?.file_name().to_bytes().to_vec();
        if name != b"." && name != b".." {
            names.push(OsString::from_vec(name));
        }
    }
    names.sort_unstable_by(|a, b| b.cmp(a));
    Ok(names)
}

fn header(kind: EntryType, stat: &Stat, size: u64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(stat.st_mode & 0o777);
    header.set_mtime(u64::try_from(stat.st_mtime).unwrap_or(0));
    header.set_size(size);
    header
}
