//! Lays one change in the user's directory, in one step, and only where what stands there is what was copied.
//!
//! Everything is reached by descriptors and no link is followed. A new file is exchanged with the old one; if what came out is
//! not what was copied, the user has changed it in that moment, and it goes back. What the user has made the same way
//! already counts as laid.

use super::compare::{Change, ChangeKind};
use super::entry::{EntryKind, Stamp};
use super::fill::set_modified;
use super::walk::{open_directory, open_parent, stamp_at};
use palisade_host::beneath::{Fresh, Standing};
use rustix::fd::{AsFd, BorrowedFd};
use rustix::fs::{AtFlags, Mode, OFlags, RenameFlags};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io::{self, Read};
use std::path::Path;

/// What became of a change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Laid {
    /// It is on the host; what stands there now.
    Done(Option<Stamp>),
    /// A directory was made; its permissions come when everything in it is there.
    Made(Stamp),
    /// The user has changed something there; what.
    Conflict(&'static str),
}

const CHANGED: Laid = Laid::Conflict("you have changed it");
const NEW: Laid = Laid::Conflict("you have made something there");
const GONE: Laid = Laid::Conflict("you have removed it");
const NO_DIRECTORY: Laid = Laid::Conflict("its directory is not there any more");
const LINK: Laid = Laid::Conflict("a symbolic link or a file stands where its directory was");

/// Both sides.
pub(super) struct Laying<'a> {
    pub(super) host: BorrowedFd<'a>,
    pub(super) tree: BorrowedFd<'a>,
}

impl Laying<'_> {
    pub(super) fn lay(&self, change: &Change) -> io::Result<Laid> {
        let (parent, name) = match open_parent(self.host, &change.path) {
            Ok(found) => found,
            Err(Errno::NOENT) if change.kind == ChangeKind::Deleted => return Ok(Laid::Done(None)),
            Err(Errno::NOENT) => return Ok(NO_DIRECTORY),
            Err(Errno::LOOP | Errno::NOTDIR) => return Ok(LINK),
            Err(error) => return Err(error.into()),
        };
        let place = Place { host: parent.as_fd(), name, tree: self.tree, path: &change.path };
        let now = match stamp_at(parent.as_fd(), name) {
            Err(Errno::NODEV) => return Ok(CHANGED),
            now => now?,
        };
        match (&change.host, &change.copy) {
            (Some(was), None) if was.kind == EntryKind::Directory => place.remove_directory(now.as_ref()),
            (Some(was), None) => place.remove(was, now.as_ref()),
            (None, Some(copy)) if copy.kind == EntryKind::Directory => {
                place.make_directory(copy, now.as_ref())
            }
            (None, Some(copy)) => place.add(copy, now.as_ref()),
            (Some(was), Some(copy)) if copy.kind == EntryKind::Directory => {
                place.set_mode(was, copy, now.as_ref())
            }
            (Some(was), Some(copy)) => place.replace(was, copy, now.as_ref()),
            (None, None) => Ok(Laid::Done(None)),
        }
    }

    /// Gives a directory that was made the permissions it has in the copy, now that everything in it is there.
    pub(super) fn finish_directory(&self, path: &Path, copy: &Stamp) -> io::Result<()> {
        let directory = open_directory(self.host, path)?;
        Ok(rustix::fs::fchmod(&directory, Mode::from_raw_mode(copy.permissions()))?)
    }
}

/// Where one change goes.
struct Place<'a> {
    /// The directory on the host.
    host: BorrowedFd<'a>,
    name: &'a OsStr,
    tree: BorrowedFd<'a>,
    /// From the top of either side.
    path: &'a Path,
}

impl Place<'_> {
    fn remove_directory(&self, now: Option<&Stamp>) -> io::Result<Laid> {
        match now.map(|now| now.kind) {
            None => return Ok(Laid::Done(None)),
            Some(EntryKind::Directory) => {}
            Some(_) => return Ok(CHANGED),
        }
        match rustix::fs::unlinkat(self.host, self.name, AtFlags::REMOVEDIR) {
            Ok(()) | Err(Errno::NOENT) => Ok(Laid::Done(None)),
            Err(Errno::NOTEMPTY | Errno::EXIST) => {
                Ok(Laid::Conflict("it was deleted in the copy, and is not empty here"))
            }
            Err(Errno::NOTDIR) => Ok(CHANGED),
            Err(error) => Err(error.into()),
        }
    }

    fn remove(&self, was: &Stamp, now: Option<&Stamp>) -> io::Result<Laid> {
        let Some(now) = now else { return Ok(Laid::Done(None)) };
        if !was.is_same(now) {
            return Ok(CHANGED);
        }
        let Some(aside) = self.move_aside(was)? else { return Ok(CHANGED) };
        rustix::fs::unlinkat(self.host, &aside, AtFlags::empty())?;
        Ok(Laid::Done(None))
    }

    /// Gives what stands there another name, and looks at it once more. `None` when it is not what was copied: then it has
    /// its name again.
    fn move_aside(&self, was: &Stamp) -> io::Result<Option<OsString>> {
        let aside = self.passing_name("old");
        match rustix::fs::renameat_with(self.host, self.name, self.host, &aside, RenameFlags::NOREPLACE) {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(None),
            Err(error) => return Err(error.into()),
        }
        let moved = stamp_at(self.host, &aside);
        if matches!(&moved, Ok(Some(moved)) if was.is_same_but_renamed(moved)) {
            return Ok(Some(aside));
        }
        self.put_back(&aside)?;
        Ok(None)
    }

    /// Gives a file its name again. If another one has it by now, both are the user's, and the older one stays beside it.
    fn put_back(&self, aside: &OsStr) -> io::Result<()> {
        match rustix::fs::renameat_with(self.host, aside, self.host, self.name, RenameFlags::NOREPLACE) {
            Err(Errno::EXIST) => {
                let mut saved = self.name.to_owned();
                saved.push(".palisade-saved");
                Ok(rustix::fs::renameat_with(self.host, aside, self.host, &saved, RenameFlags::NOREPLACE)?)
            }
            renamed => Ok(renamed?),
        }
    }

    fn make_directory(&self, copy: &Stamp, now: Option<&Stamp>) -> io::Result<Laid> {
        match now.map(|now| now.kind) {
            // Both sides have made it. What is in it is decided one by one.
            Some(EntryKind::Directory) => return Ok(Laid::Done(now.cloned())),
            Some(_) => return Ok(NEW),
            None => {}
        }
        let mode = Mode::from_raw_mode(copy.permissions() | 0o700);
        match rustix::fs::mkdirat(self.host, self.name, mode) {
            Ok(()) => Ok(Laid::Made(copy.clone())),
            Err(Errno::EXIST) => Ok(NEW),
            Err(error) => Err(error.into()),
        }
    }

    fn set_mode(&self, was: &Stamp, copy: &Stamp, now: Option<&Stamp>) -> io::Result<Laid> {
        let Some(now) = now else { return Ok(GONE) };
        if now.kind == copy.kind && now.permissions() == copy.permissions() {
            return Ok(Laid::Done(Some(now.clone())));
        }
        if !was.is_same(now) {
            return Ok(CHANGED);
        }
        let directory = open_directory(self.host, Path::new(self.name))?;
        rustix::fs::fchmod(&directory, Mode::from_raw_mode(copy.permissions()))?;
        self.done()
    }

    fn add(&self, copy: &Stamp, now: Option<&Stamp>) -> io::Result<Laid> {
        if let Some(now) = now {
            return self.unless_equal(copy, now, NEW);
        }
        match self.write(copy, self.name) {
            Ok(()) => self.done(),
            Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(NEW),
            Err(error) => Err(error),
        }
    }

    fn replace(&self, was: &Stamp, copy: &Stamp, now: Option<&Stamp>) -> io::Result<Laid> {
        let Some(now) = now else { return Ok(GONE) };
        if !was.is_same(now) {
            return self.unless_equal(copy, now, CHANGED);
        }
        let new = self.passing_name("new");
        // Left by a process that was killed, with the same number.
        let _ = rustix::fs::unlinkat(self.host, &new, AtFlags::empty());
        self.write(copy, &new)?;
        let laid = self.exchange(was, &new);
        if !matches!(laid, Ok(Laid::Done(_))) {
            let _ = rustix::fs::unlinkat(self.host, &new, AtFlags::empty());
        }
        laid
    }

    fn exchange(&self, was: &Stamp, new: &OsStr) -> io::Result<Laid> {
        let exchange =
            || rustix::fs::renameat_with(self.host, new, self.host, self.name, RenameFlags::EXCHANGE);
        match exchange() {
            Ok(()) => {}
            Err(Errno::NOENT) => return Ok(GONE),
            // This file system cannot exchange: the old one is moved aside first.
            Err(Errno::INVAL | Errno::NOSYS | Errno::OPNOTSUPP) => return self.move_and_place(was, new),
            Err(error) => return Err(error.into()),
        }
        let came_out = stamp_at(self.host, new);
        if !matches!(&came_out, Ok(Some(old)) if was.is_same_but_renamed(old)) {
            exchange()?;
            return Ok(CHANGED);
        }
        rustix::fs::unlinkat(self.host, new, AtFlags::empty())?;
        self.done()
    }

    fn move_and_place(&self, was: &Stamp, new: &OsStr) -> io::Result<Laid> {
        let Some(aside) = self.move_aside(was)? else { return Ok(CHANGED) };
        match rustix::fs::renameat_with(self.host, new, self.host, self.name, RenameFlags::NOREPLACE) {
            Ok(()) => {
                rustix::fs::unlinkat(self.host, &aside, AtFlags::empty())?;
                self.done()
            }
            Err(error) => {
                self.put_back(&aside)?;
                if error == Errno::EXIST { Ok(CHANGED) } else { Err(error.into()) }
            }
        }
    }

    /// Writes what is in the copy under a name that must be free.
    fn write(&self, copy: &Stamp, name: &OsStr) -> io::Result<()> {
        if let Some(target) = &copy.target {
            return Ok(rustix::fs::symlinkat(OsString::from(target.clone()), self.host, name)?);
        }
        let (source, size) = self.open_copy()?;
        let mut fresh = Fresh::make(self.host)?;
        if rustix::fs::ioctl_ficlone(fresh.file(), &source).is_err() {
            io::copy(&mut source.take(size), fresh.file())?;
        }
        set_modified(fresh.file(), copy.modified)?;
        Ok(fresh.place(name, copy.permissions(), Standing::Refused)?)
    }

    /// The file in the copy, and how large it is.
    fn open_copy(&self) -> io::Result<(File, u64)> {
        let (parent, name) = open_parent(self.tree, self.path)?;
        open_file(parent.as_fd(), name)
    }

    /// The user's side counts as laid when it says the same.
    fn unless_equal(&self, copy: &Stamp, now: &Stamp, otherwise: Laid) -> io::Result<Laid> {
        let is_equal = match (copy.kind, now.kind) {
            (EntryKind::Link, EntryKind::Link) => copy.target == now.target,
            (EntryKind::File, EntryKind::File) => {
                copy.permissions() == now.permissions()
                    && copy.size == now.size
                    && open_file(self.host, self.name).is_ok_and(|(mine, _)| {
                        self.open_copy().is_ok_and(|(copy, _)| has_same_content(mine, copy))
                    })
            }
            _ => false,
        };
        Ok(if is_equal { Laid::Done(Some(now.clone())) } else { otherwise })
    }

    fn done(&self) -> io::Result<Laid> {
        Ok(Laid::Done(stamp_at(self.host, self.name)?))
    }

    fn passing_name(&self, what: &str) -> OsString {
        format!(".palisade-{what}-{}", std::process::id()).into()
    }
}

fn open_file(parent: BorrowedFd<'_>, name: &OsStr) -> io::Result<(File, u64)> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = File::from(rustix::fs::openat(parent, name, flags, Mode::empty())?);
    let meta = file.metadata()?;
    match meta.is_file() {
        true => Ok((file, meta.len())),
        false => Err(io::Error::other("it is not a file any more")),
    }
}

/// Whether two files of one size hold the same.
fn has_same_content(mut one: File, mut other: File) -> bool {
    let (mut left, mut right) = (vec![0; 1 << 16], vec![0; 1 << 16]);
    loop {
        let Ok(count) = one.read(&mut left) else { return false };
        if count == 0 {
            return matches!(other.read(&mut right), Ok(0));
        }
        if other.read_exact(&mut right[..count]).is_err() || left[..count] != right[..count] {
            return false;
        }
    }
}
