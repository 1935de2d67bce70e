//! Reading and writing below a directory whose contents somebody else may have written, and may be changing.
//!
//! Every step is taken from an open directory and follows no link, so nothing outside is reached, however the tree is
//! prepared or swapped meanwhile. A file appears under its name only when it is whole.

use rustix::fd::{AsFd, AsRawFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use rustix::io::Errno;
use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::io;
use std::os::unix::ffi::OsStringExt;
use std::path::Path;

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// What to do about a directory on the way that is not there.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Missing {
    Make,
    Fail,
}

/// What to do about something that has the name of what is to be placed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// A file or a link gives way, in one step. A directory does not.
    Replaced,
    /// Nothing may be there.
    Refused,
}

/// What stands under a name.
#[derive(Debug)]
pub enum Found {
    Nothing,
    File(File),
    /// Where it leads.
    Link(OsString),
    /// A directory, or something that is neither.
    Other,
}

/// Whether a link stays in a tree: its target is relative, and climbs only at its beginning and no higher than the
/// tree's top, which has the first `top` names of the link's own path. Then it leads to something of the tree, also by way
/// of other links that stay.
pub fn link_stays(top: usize, link: &Path, target: &Path) -> bool {
    use std::path::Component;
    let depth = link.components().count();
    let Some(mut climb) = depth.checked_sub(top + 1) else { return false };
    let mut named = false;
    for component in target.components() {
        match component {
            Component::Normal(_) => named = true,
            Component::CurDir => {}
            // Behind a name it would climb from wherever that leads.
            Component::ParentDir if named || climb == 0 => return false,
            Component::ParentDir => climb -= 1,
            Component::RootDir | Component::Prefix(_) => return false,
        }
    }
    !target.as_os_str().is_empty()
}

/// The directory at the top, whose own path is trusted.
pub fn root(path: &Path) -> rustix::io::Result<OwnedFd> {
    rustix::fs::open(path, OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty())
}

/// Goes down by plain names. A link on the way is [`Errno::LOOP`], a file [`Errno::NOTDIR`].
pub fn enter<N: AsRef<OsStr>>(
    root: BorrowedFd<'_>,
    names: impl IntoIterator<Item = N>,
    missing: Missing,
) -> rustix::io::Result<OwnedFd> {
    let mut here = rustix::io::fcntl_dupfd_cloexec(root, 3)?;
    for name in names {
        let name = name.as_ref();
        if missing == Missing::Make {
            match rustix::fs::mkdirat(&here, name, Mode::from_raw_mode(0o755)) {
                Ok(()) | Err(Errno::EXIST) => {}
                Err(error) => return Err(error),
            }
        }
        let below = rustix::fs::openat(&here, name, DIRECTORY, Mode::empty());
        here = below.map_err(|error| match error {
            // Linux says so of links, too.
            Errno::NOTDIR if is_link(here.as_fd(), name) => Errno::LOOP,
            other => other,
        })?;
    }
    Ok(here)
}

fn is_link(parent: BorrowedFd<'_>, name: &OsStr) -> bool {
    rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::Symlink)
}

/// Opens what a relative path leads to, without waiting for anybody at the other end of a pipe.
pub fn open(root: BorrowedFd<'_>, path: &Path, flags: OFlags) -> rustix::io::Result<OwnedFd> {
    use std::path::Component;
    let mut names = Vec::new();
    for part in path.components() {
        match part {
            Component::Normal(name) => names.push(name),
            Component::CurDir => {}
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return Err(Errno::XDEV),
        }
    }
    let Some((last, above)) = names.split_last() else { return Err(Errno::ISDIR) };
    let parent = enter(root, above, Missing::Fail)?;
    let flags = flags | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    rustix::fs::openat(parent, *last, flags, Mode::empty())
}

/// Looks at a name in a directory.
pub fn look(parent: BorrowedFd<'_>, name: &OsStr) -> rustix::io::Result<Found> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = match rustix::fs::openat(parent, name, flags, Mode::empty()) {
        Ok(file) => File::from(file),
        Err(Errno::NOENT) => return Ok(Found::Nothing),
        Err(Errno::LOOP) => {
            let target = rustix::fs::readlinkat(parent, name, Vec::new())?;
            return Ok(Found::Link(OsString::from_vec(target.into_bytes())));
        }
        // A socket, or a device without a driver.
        Err(Errno::NXIO | Errno::NODEV) => return Ok(Found::Other),
        Err(error) => return Err(error),
    };
    let kind = FileType::from_raw_mode(rustix::fs::fstat(&file)?.st_mode);
    Ok(if kind == FileType::RegularFile { Found::File(file) } else { Found::Other })
}

/// A file that is being written and has no name of its own yet. Dropped before it is placed, nothing of it stays.
#[derive(Debug)]
pub struct Fresh<'a> {
    file: File,
    parent: BorrowedFd<'a>,
    /// The passing name, where the file system has no files without one.
    passing: Option<String>,
}

impl<'a> Fresh<'a> {
    /// Readable and writable, for its owner only.
    pub fn make(parent: BorrowedFd<'a>) -> rustix::io::Result<Self> {
        if let Some(file) = nameless(parent) {
            return Ok(Self { file: file.into(), parent, passing: None });
        }
        let name = passing_name(parent);
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let file = rustix::fs::openat(parent, name.as_str(), flags, Mode::from_raw_mode(0o600))?;
        Ok(Self { file: file.into(), parent, passing: Some(name) })
    }

    pub fn file(&mut self) -> &mut File {
        &mut self.file
    }

    /// Sets when it was last changed, in Unix seconds.
    pub fn set_time(&self, seconds: u64) -> rustix::io::Result<()> {
        set_time(&self.file, seconds)
    }

    /// Gives it its permissions, without any that reach beyond them, and its name.
    pub fn place(mut self, name: &OsStr, mode: u32, standing: Standing) -> rustix::io::Result<()> {
        rustix::fs::fchmod(&self.file, Mode::from_raw_mode(mode & 0o777))?;
        if self.passing.is_none() {
            match self.link(name) {
                Err(Errno::EXIST) if standing == Standing::Replaced => {}
                done => return done,
            }
            let passing = passing_name(self.parent);
            self.link(OsStr::new(&passing))?;
            self.passing = Some(passing);
        }
        let Some(passing) = &self.passing else { return Ok(()) };
        rename(self.parent, passing, name, standing)?;
        self.passing = None;
        Ok(())
    }

    fn link(&self, name: &OsStr) -> rustix::io::Result<()> {
        let handle = format!("/proc/self/fd/{}", self.file.as_raw_fd());
        let follow = AtFlags::SYMLINK_FOLLOW;
        rustix::fs::linkat(rustix::fs::CWD, handle.as_str(), self.parent, name, follow)
    }
}

impl Drop for Fresh<'_> {
    fn drop(&mut self) {
        if let Some(passing) = &self.passing {
            let _ = rustix::fs::unlinkat(self.parent, passing.as_str(), AtFlags::empty());
        }
    }
}

/// A file without a name, which is gone when it is closed.
pub fn unnamed_file(directory: &Path) -> io::Result<File> {
    let parent = root(directory)?;
    Fresh::make(parent.as_fd())?.file().try_clone()
}

/// Sets when an open file or directory was last changed, in Unix seconds. A time that no clock has is left alone.
pub fn set_time(file: impl AsFd, seconds: u64) -> rustix::io::Result<()> {
    let Ok(tv_sec) = i64::try_from(seconds) else { return Ok(()) };
    let now = Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_NOW };
    let times = Timestamps { last_access: now, last_modification: Timespec { tv_sec, tv_nsec: 0 } };
    rustix::fs::futimens(file, &times)
}

/// Makes a link, in one step where one stands already.
pub fn place_link(
    parent: BorrowedFd<'_>,
    name: &OsStr,
    target: &OsStr,
    standing: Standing,
) -> rustix::io::Result<()> {
    match rustix::fs::symlinkat(target, parent, name) {
        Err(Errno::EXIST) if standing == Standing::Replaced => {}
        done => return done,
    }
    let passing = passing_name(parent);
    rustix::fs::symlinkat(target, parent, passing.as_str())?;
    rename(parent, &passing, name, Standing::Replaced).inspect_err(|_| {
        let _ = rustix::fs::unlinkat(parent, passing.as_str(), AtFlags::empty());
    })
}

fn rename(parent: BorrowedFd<'_>, from: &str, to: &OsStr, standing: Standing) -> rustix::io::Result<()> {
    match standing {
        Standing::Replaced => rustix::fs::renameat(parent, from, parent, to),
        Standing::Refused => {
            rustix::fs::renameat_with(parent, from, parent, to, rustix::fs::RenameFlags::NOREPLACE)
        }
    }
}

/// A name for a moment. What has it was left behind by a process of the same number that was killed.
fn passing_name(parent: BorrowedFd<'_>) -> String {
    let name = format!(".palisade-copy-{}", std::process::id());
    let _ = rustix::fs::unlinkat(parent, name.as_str(), AtFlags::empty());
    name
}

/// A file that a `kill -9` leaves nothing of. Not every file system has such files.
#[cfg(target_os = "linux")]
fn nameless(parent: BorrowedFd<'_>) -> Option<OwnedFd> {
    let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
    rustix::fs::openat(parent, ".", flags, Mode::from_raw_mode(0o600)).ok()
}

#[cfg(not(target_os = "linux"))]
fn nameless(_parent: BorrowedFd<'_>) -> Option<OwnedFd> {
    None
}

/// Bytes that an ordinary user may still write there.
pub fn room(directory: impl AsFd) -> io::Result<u64> {
    let space = rustix::fs::fstatvfs(directory)?;
    Ok(space.f_bavail.saturating_mul(space.f_frsize))
}

#[cfg(test)]
mod tests;
