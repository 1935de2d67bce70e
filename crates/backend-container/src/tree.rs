//! A directory of this host's as an archive that is unpacked into a volume, for an engine that cannot see it.
//!
//! Invariants: the same tree makes the same bytes, so their digest names it; no link is followed, and what is neither
//! file, directory nor link stays here; what arrives can be read by everybody inside and changed by nobody; nothing is
//! carried that a sandbox of this caller's could not read here. It is written piece by piece and never held whole.

use palisade_core::HostPath;
use palisade_host::beneath::{self, Found, Missing};
use palisade_host::bound_path::open_without_links;
use palisade_host::digest::{Digest, Digester};
use palisade_host::exact_read::ExactReader;
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{Dir, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Write};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::MetadataExt;
use std::path::{Component, Path, PathBuf};
use tar::{Builder, EntryType, Header};

/// Deeper than any installation, and far from what recursion can bear.
const DEEPEST: usize = 128;

/// A directory, by its path without links, and where it stands inside.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Tree {
    pub(crate) root: HostPath,
    pub(crate) guest: String,
}

/// Whose right to read decides. Root reads everything, but what it starts does not run as root: only what is
/// everybody's is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Reader {
    Root,
    Ordinary,
}

impl Tree {
    /// Writes the archive and tells its digest.
    pub(crate) fn write(&self, out: impl Write) -> io::Result<Digest> {
        let reader = if rustix::process::geteuid().is_root() { Reader::Root } else { Reader::Ordinary };
        self.write_for(reader, out)
    }

    fn write_for(&self, reader: Reader, out: impl Write) -> io::Result<Digest> {
        let root = open_without_links(&self.root).map_err(io::Error::other)?;
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let root = rustix::fs::openat(&root, ".", flags, Mode::empty())?;
        let archive = Builder::new(Both { digester: Digester::default(), out });
        let mut walk = Walk { archive, guest: Path::new(&self.guest), reader, left_out: 0 };
        walk.directory(root.as_fd(), Path::new(""), 0)?;
        let Walk { archive, left_out, .. } = walk;
        let mut written = archive.into_inner()?;
        written.flush()?;
        if left_out > 0 {
            tracing::warn!(tree = %self.root, left_out, "what cannot be read, or is no file, is not carried along");
        }
        Ok(written.digester.digest())
    }
}

/// Passes everything on and digests it.
struct Both<W> {
    digester: Digester,
    out: W,
}

impl<W: Write> Write for Both<W> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let count = self.out.write(bytes)?;
        self.digester.write_all(&bytes[..count])?;
        Ok(count)
    }

    fn flush(&mut self) -> io::Result<()> {
        self.out.flush()
    }
}

struct Walk<'a, W: Write> {
    archive: Builder<W>,
    guest: &'a Path,
    reader: Reader,
    left_out: u64,
}

impl<W: Write> Walk<'_, W> {
    fn directory(&mut self, here: BorrowedFd<'_>, place: &Path, depth: usize) -> io::Result<()> {
        if depth > DEEPEST {
            return Err(io::Error::other(format!("it is deeper than {DEEPEST} directories")));
        }
        for name in names(here)? {
            let place = place.join(&name);
            match beneath::look(here, &name) {
                Ok(Found::File(file)) => self.file(&place, file)?,
                Ok(Found::Link(target)) => self.link(&place, &target)?,
                Ok(Found::Other) => self.other(here, &name, &place, depth)?,
                // Gone meanwhile; whoever compares digests sees it.
                Ok(Found::Nothing) => {}
                Err(Errno::ACCESS | Errno::PERM) => self.left_out += 1,
                Err(error) => return Err(error.into()),
            }
        }
        Ok(())
    }

    fn other(&mut self, above: BorrowedFd<'_>, name: &OsStr, place: &Path, depth: usize) -> io::Result<()> {
        let below = match beneath::enter(above, [name], Missing::Fail) {
            Ok(below) => File::from(below),
            Err(Errno::NOTDIR | Errno::LOOP | Errno::NOENT | Errno::ACCESS) => {
                self.left_out += 1;
                return Ok(());
            }
            Err(error) => return Err(error.into()),
        };
        let meta = below.metadata()?;
        if self.reader == Reader::Root && meta.mode() & 0o005 != 0o005 {
            self.left_out += 1;
            return Ok(());
        }
        let mut header = header(EntryType::Directory, 0o555, 0, meta.mtime());
        // A name that ends in a slash is a directory's in every version of the format.
        let mut named = place.as_os_str().to_owned();
        named.push("/");
        self.archive.append_data(&mut header, named, io::empty())?;
        self.directory(below.as_fd(), place, depth + 1)
    }

    fn file(&mut self, place: &Path, file: File) -> io::Result<()> {
        let meta = file.metadata()?;
        if self.reader == Reader::Root && meta.mode() & 0o004 == 0 {
            self.left_out += 1;
            return Ok(());
        }
        let mode = if meta.mode() & 0o111 == 0 { 0o444 } else { 0o555 };
        let mut header = header(EntryType::Regular, mode, meta.len(), meta.mtime());
        self.archive.append_data(&mut header, place, ExactReader::new(file, meta.len()))
    }

    fn link(&mut self, place: &Path, target: &OsStr) -> io::Result<()> {
        let mut header = header(EntryType::Symlink, 0o777, 0, 0);
        self.archive.append_link(&mut header, place, carried_target(self.guest, place, Path::new(target)))
    }
}

/// Sorted, so that they come in the same order each time.
fn names(directory: BorrowedFd<'_>) -> io::Result<Vec<OsString>> {
    let mut names = Vec::new();
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = OsStr::from_bytes(entry.file_name().to_bytes());
        if name != "." && name != ".." {
            names.push(name.to_owned());
        }
    }
    names.sort();
    Ok(names)
}

fn header(kind: EntryType, mode: u32, size: u64, written: i64) -> Header {
    let mut header = Header::new_gnu();
    header.set_entry_type(kind);
    header.set_mode(mode);
    header.set_uid(0);
    header.set_gid(0);
    header.set_size(size);
    // Kept: some interpreters compare what they have compiled with the time of its source.
    header.set_mtime(u64::try_from(written).unwrap_or_default());
    header
}

/// Where a link leads, said so that an engine takes it: one that leads out of the tree by going up would be refused,
/// and is said from the top instead.
fn carried_target(guest: &Path, place: &Path, target: &Path) -> PathBuf {
    let above = place.parent().unwrap_or(Path::new(""));
    let mut depth = above.components().count();
    let mut leads_out = false;
    for part in target.components() {
        match part {
            Component::ParentDir if depth == 0 => leads_out = true,
            Component::ParentDir => depth -= 1,
            Component::Normal(_) => depth += 1,
            Component::CurDir | Component::RootDir | Component::Prefix(_) => {}
        }
    }
    if target.is_absolute() || !leads_out {
        return target.to_owned();
    }
    let mut from_the_top = guest.join(above);
    for part in target.components() {
        match part {
            Component::ParentDir => drop(from_the_top.pop()),
            other => from_the_top.push(other),
        }
    }
    from_the_top
}

#[cfg(test)]
mod tests;
