//! Unpacks a tar stream below one directory, and nowhere else: names that lead out of it are refused, and every
//! step is taken from an open directory without following links, so that a tree prepared in advance, or changed
//! meanwhile, cannot redirect what the user sends. A file appears whole under its name or not at all.

use super::complain;
use rustix::fs::{AtFlags, Mode, OFlags, Timespec, Timestamps, UTIME_OMIT};
use rustix::io::Errno;
use std::ffi::OsStr;
use std::fs::File;
use std::io::{self, BufReader, Read};
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use tar::{Archive, Entry, EntryType};

/// Without set-user-id and its like.
const PERMISSIONS: u32 = 0o777;
const OPEN_DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// In the child: unpacks standard input below `path`, complaints on standard error. The exit code.
pub(super) fn run(path: &Path) -> u8 {
    let unpacked = (|| -> io::Result<bool> {
        let input = File::from(io::stdin().as_fd().try_clone_to_owned()?);
        unpack(path, BufReader::with_capacity(64 * 1024, input))
    })();
    match unpacked {
        Ok(complete) => u8::from(!complete),
        Err(error) => {
            complain(path, &error);
            1
        }
    }
}

/// Whether all of it arrived; what did not has been complained of.
pub(super) fn unpack(path: &Path, input: impl Read) -> io::Result<bool> {
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let base = rustix::fs::open(path, flags, Mode::empty())?;
    let mut unpacker = Unpacker { base, directories: Vec::new(), temporaries: 0, complete: true };
    unpacker.unpack(input)?;
    Ok(unpacker.complete)
}

struct Unpacker {
    base: OwnedFd,
    /// Those made here, with the permissions they get in the end: until then their owner must be able to write.
    directories: Vec<(Vec<Vec<u8>>, u32)>,
    temporaries: u64,
    complete: bool,
}

impl Unpacker {
    fn unpack(&mut self, input: impl Read) -> io::Result<()> {
        for entry in Archive::new(input).entries()? {
            // After a header that cannot be read, nothing that follows can be found.
            let mut entry = entry?;
            let name = entry.path_bytes().into_owned();
            if let Err(error) = self.entry(&mut entry, &name) {
                self.fail(&name, &error);
            }
        }
        for (name, mode) in std::mem::take(&mut self.directories).into_iter().rev() {
            let set = self
                .directory(&name)
                .and_then(|directory| Ok(rustix::fs::fchmod(directory, Mode::from_raw_mode(mode))?));
            if let Err(error) = set {
                self.fail(&name.join(&b'/'), &error);
            }
        }
        Ok(())
    }

    fn fail(&mut self, name: &[u8], error: &io::Error) {
        self.complete = false;
        complain(Path::new(OsStr::from_bytes(name)), error);
    }

    fn entry(&mut self, entry: &mut Entry<'_, impl Read>, name: &[u8]) -> io::Result<()> {
        let mut components = components(name)?;
        let mode = entry.header().mode()? & PERMISSIONS;
        let kind = entry.header().entry_type();
        let Some(last) = components.pop() else {
            return match kind {
                // The directory itself, which exists.
                EntryType::Directory => Ok(()),
                _ => Err(io::Error::other("has no name")),
            };
        };
        let parent = self.directory(&components)?;
        match kind {
            EntryType::Directory => {
                if made(&parent, &last)? {
                    components.push(last);
                    self.directories.push((components, mode));
                }
                Ok(())
            }
            EntryType::Regular | EntryType::Continuous | EntryType::GNUSparse => {
                let modified = entry.header().mtime().unwrap_or(0);
                let mut fill = |file: OwnedFd| -> io::Result<File> {
                    let mut file = File::from(file);
                    let announced = entry.size();
                    if io::copy(entry, &mut file)? != announced {
                        return Err(io::Error::other("the stream breaks off in the middle of it"));
                    }
                    rustix::fs::fchmod(&file, Mode::from_raw_mode(mode))?;
                    rustix::fs::futimens(&file, &modified_at(modified))?;
                    Ok(file)
                };
                // Without a name until it is whole, so that nothing of it is left when we are killed; not every
                // file system has such files.
                let flags = OFlags::WRONLY | OFlags::CLOEXEC;
                match rustix::fs::openat(&parent, ".", flags | OFlags::TMPFILE, Mode::from_raw_mode(0o600)) {
                    Ok(nameless) => {
                        let file = fill(nameless)?;
                        self.place(&parent, &last, |temporary| link(&file, &parent, temporary))
                    }
                    Err(_) => self.place(&parent, &last, |temporary| {
                        let flags = flags | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW;
                        let file = rustix::fs::openat(&parent, temporary, flags, Mode::from_raw_mode(0o600))?;
                        fill(file).map(drop)
                    }),
                }
            }
            EntryType::Symlink => {
                let target =
                    entry.link_name_bytes().ok_or_else(|| io::Error::other("is a link to nowhere"))?;
                self.place(&parent, &last, |temporary| {
                    Ok(rustix::fs::symlinkat(target.as_ref(), &parent, temporary)?)
                })
            }
            _ => Err(io::Error::other("skipped: neither a file nor a directory nor a symbolic link")),
        }
    }

    /// Makes something under a temporary name and moves it, whole, to its own.
    fn place(
        &mut self,
        parent: &OwnedFd,
        name: &[u8],
        make: impl FnOnce(&str) -> io::Result<()>,
    ) -> io::Result<()> {
        self.temporaries += 1;
        let temporary = format!(".palisade-{}-{}", std::process::id(), self.temporaries);
        let placed = make(&temporary)
            .and_then(|()| Ok(rustix::fs::renameat(parent, temporary.as_str(), parent, name)?));
        if placed.is_err() {
            let _ = rustix::fs::unlinkat(parent, temporary.as_str(), AtFlags::empty());
        }
        placed
    }

    /// The directory of that name below the base, made where it is missing.
    fn directory(&self, components: &[Vec<u8>]) -> io::Result<OwnedFd> {
        let mut directory = self.base.try_clone()?;
        for component in components {
            made(&directory, component)?;
            directory = rustix::fs::openat(&directory, component.as_slice(), OPEN_DIRECTORY, Mode::empty())?;
        }
        Ok(directory)
    }
}

/// Gives a file without a name its first one.
fn link(file: &File, parent: &OwnedFd, name: &str) -> io::Result<()> {
    let handle = format!("/proc/self/fd/{}", file.as_raw_fd());
    let follow = AtFlags::SYMLINK_FOLLOW;
    Ok(rustix::fs::linkat(rustix::fs::CWD, handle.as_str(), parent, name, follow)?)
}

/// Whether the directory had to be made. An existing one keeps its permissions; a link in its place is an error.
fn made(parent: &OwnedFd, name: &[u8]) -> io::Result<bool> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => rustix::fs::openat(parent, name, OPEN_DIRECTORY, Mode::empty())
            .map_err(|error| match error {
                Errno::LOOP | Errno::NOTDIR => io::Error::other("a link or a file is in the way"),
                other => other.into(),
            })
            .map(|_| false),
        Err(error) => Err(error.into()),
    }
}

/// The steps of a name, if none of them leads out.
fn components(name: &[u8]) -> io::Result<Vec<Vec<u8>>> {
    if name.starts_with(b"/") {
        return Err(io::Error::other("refused: an absolute name"));
    }
    let steps = name.split(|byte| *byte == b'/').filter(|step| !step.is_empty() && *step != b".");
    let steps: Vec<Vec<u8>> = steps.map(<[u8]>::to_vec).collect();
    if steps.iter().any(|step| step == b"..") {
        return Err(io::Error::other("refused: a name that leads out of the directory"));
    }
    Ok(steps)
}

fn modified_at(seconds: u64) -> Timestamps {
    Timestamps {
        last_access: Timespec { tv_sec: 0, tv_nsec: UTIME_OMIT },
        last_modification: Timespec { tv_sec: i64::try_from(seconds).unwrap_or(0), tv_nsec: 0 },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_that_lead_out_are_refused() {
        assert_eq!(components(b"./a//b/").unwrap(), [b"a".to_vec(), b"b".to_vec()]);
        assert_eq!(components(b"a/..b").unwrap(), [b"a".to_vec(), b"..b".to_vec()]);
        for name in [b"/etc".as_slice(), b"..", b"a/../b", b"a/.."] {
            assert!(components(name).is_err());
        }
    }
}
