//! Removing trees and making places below directories that a sandbox has written: no link in them is ever followed.

use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use rustix::fs::{AtFlags, Dir, FileType, Mode, OFlags};
use rustix::io::Errno;
use std::ffi::{CStr, OsStr};
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Component, Path};

const DIRECTORY: OFlags =
    OFlags::RDONLY.union(OFlags::DIRECTORY).union(OFlags::NOFOLLOW).union(OFlags::CLOEXEC);

/// Directories held open at once, far below any limit on open files.
const MOST_OPEN: usize = 128;

/// Removes a tree whatever is in it: directories without permissions, any depth, any names. Links are removed, not
/// followed. An absent tree is fine.
pub fn remove(path: &Path) -> io::Result<()> {
    let Some(name) = path.file_name() else {
        return Err(io::Error::new(io::ErrorKind::InvalidInput, "this path has no name to remove"));
    };
    let parent = match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => parent,
        _ => Path::new("."),
    };
    let parent =
        match rustix::fs::open(parent, OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()) {
            Err(Errno::NOENT) => return Ok(()),
            other => other?,
        };
    let mut bytes = name.as_bytes().to_vec();
    bytes.push(0);
    let name = CStr::from_bytes_with_nul(&bytes).map_err(|_| io::Error::from(io::ErrorKind::InvalidInput))?;
    remove_entry(parent.as_fd(), name)?;
    Ok(())
}

fn remove_entry(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<()> {
    match rustix::fs::unlinkat(parent, name, AtFlags::empty()) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::ISDIR | Errno::PERM) => {}
        Err(error) => return Err(error),
    }
    match rustix::fs::unlinkat(parent, name, AtFlags::REMOVEDIR) {
        Ok(()) | Err(Errno::NOENT) => return Ok(()),
        Err(Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS) => {}
        Err(error) => return Err(error),
    }
    // An explicit stack, and a bounded one: a hostile tree can be deeper than our own stack and our open files are.
    // Beyond the bound a directory is moved up to the top of the tree and comes to its turn there.
    let mut hoisted = 0u32;
    let mut stack: Vec<(OwnedFd, Vec<u8>)> =
        vec![(open_for_removal(parent, name)?, name.to_bytes_with_nul().to_vec())];
    while let Some((directory, _)) = stack.last() {
        match first_directory(directory.as_fd())? {
            Some(child) => {
                let child_name = CStr::from_bytes_with_nul(&child).map_err(|_| Errno::INVAL)?;
                if stack.len() >= MOST_OPEN {
                    hoist(directory.as_fd(), child_name, stack[0].0.as_fd(), &mut hoisted)?;
                    continue;
                }
                let opened = open_for_removal(directory.as_fd(), child_name)?;
                stack.push((opened, child));
            }
            None => {
                let Some((_, name)) = stack.pop() else { break };
                let name = CStr::from_bytes_with_nul(&name).map_err(|_| Errno::INVAL)?;
                let above = stack.last().map_or(parent, |(directory, _)| directory.as_fd());
                match rustix::fs::unlinkat(above, name, AtFlags::REMOVEDIR) {
                    Ok(()) | Err(Errno::NOENT) => {}
                    Err(error) => return Err(error),
                }
            }
        }
    }
    Ok(())
}

/// Moves a directory to the top of the tree that is being removed, under a name that is free there.
fn hoist(
    parent: BorrowedFd<'_>,
    name: &CStr,
    top: BorrowedFd<'_>,
    count: &mut u32,
) -> rustix::io::Result<()> {
    loop {
        *count += 1;
        let free = format!(".palisade-removing-{count}");
        match rustix::fs::renameat_with(parent, name, top, free.as_str(), rustix::fs::RenameFlags::NOREPLACE)
        {
            Err(Errno::EXIST) => {}
            other => return other,
        }
    }
}

/// Unlinks every non-directory, and gives the first directory that is not empty, if there is one.
fn first_directory(directory: BorrowedFd<'_>) -> rustix::io::Result<Option<Vec<u8>>> {
    for entry in Dir::read_from(directory)? {
        let entry = entry?;
        let name = entry.file_name();
        if name == c"." || name == c".." {
            continue;
        }
        let flags =
            if entry.file_type() == FileType::Directory { AtFlags::REMOVEDIR } else { AtFlags::empty() };
        match rustix::fs::unlinkat(directory, name, flags) {
            Ok(()) | Err(Errno::NOENT) => {}
            Err(Errno::ISDIR | Errno::NOTEMPTY | Errno::EXIST | Errno::ACCESS | Errno::PERM) => {
                return Ok(Some(name.to_bytes_with_nul().to_vec()));
            }
            Err(error) => return Err(error),
        }
    }
    Ok(None)
}

fn open_for_removal(parent: BorrowedFd<'_>, name: &CStr) -> rustix::io::Result<OwnedFd> {
    let readable = |directory: &OwnedFd| rustix::fs::fchmod(directory, Mode::RWXU);
    match rustix::fs::openat(parent, name, DIRECTORY, Mode::empty()) {
        Ok(directory) => {
            // Without write permission the entries could not be unlinked; a failure shows there.
            let _ = readable(&directory);
            Ok(directory)
        }
        Err(Errno::ACCESS) => {
            // The owner may always change the mode, by a path that cannot be a link: it was opened as a directory.
            let handle = rustix::fs::openat(
                parent,
                name,
                OFlags::PATH | OFlags::DIRECTORY | OFlags::NOFOLLOW,
                Mode::empty(),
            )?;
            use rustix::fd::AsRawFd;
            let magic = format!("/proc/self/fd/{}", handle.as_raw_fd());
            rustix::fs::chmod(magic.as_str(), Mode::RWXU)?;
            rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())
        }
        Err(error) => Err(error),
    }
}

/// What kind of thing a mount target must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Target {
    Directory,
    File,
}

/// Makes the target of a mount below `base`, a directory that a sandbox may have written: every step is opened
/// without following links, what is missing is made and given to `owner`. Fails on a link or a thing of another kind.
pub fn make_target(base: &Path, relative: &Path, target: Target, owner: (u32, u32)) -> io::Result<()> {
    let mut here = rustix::fs::open(base, DIRECTORY, Mode::empty())?;
    let mut steps = relative.components().peekable();
    while let Some(step) = steps.next() {
        let Component::Normal(name) = step else {
            return Err(io::Error::new(io::ErrorKind::InvalidInput, "not a plain relative path"));
        };
        if steps.peek().is_none() && target == Target::File {
            return make_file(here.as_fd(), name, owner);
        }
        here = step_into(here.as_fd(), name, owner)?;
    }
    Ok(())
}

fn step_into(parent: BorrowedFd<'_>, name: &OsStr, owner: (u32, u32)) -> io::Result<OwnedFd> {
    match rustix::fs::mkdirat(parent, name, Mode::from_raw_mode(0o755)) {
        Ok(()) => give(parent, name, owner)?,
        Err(Errno::EXIST) => {}
        Err(error) => return Err(error.into()),
    }
    Ok(rustix::fs::openat(parent, name, DIRECTORY, Mode::empty())?)
}

fn make_file(parent: BorrowedFd<'_>, name: &OsStr, owner: (u32, u32)) -> io::Result<()> {
    let flags = OFlags::WRONLY | OFlags::CREATE | OFlags::EXCL | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    match rustix::fs::openat(parent, name, flags, Mode::from_raw_mode(0o644)) {
        Ok(_) => give(parent, name, owner),
        Err(Errno::EXIST) => {
            let stat = rustix::fs::statat(parent, name, AtFlags::SYMLINK_NOFOLLOW)?;
            if FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile {
                Ok(())
            } else {
                Err(io::Error::new(io::ErrorKind::AlreadyExists, "something else than a file is there"))
            }
        }
        Err(error) => Err(error.into()),
    }
}

fn give(parent: BorrowedFd<'_>, name: &OsStr, (uid, gid): (u32, u32)) -> io::Result<()> {
    if !rustix::process::geteuid().is_root() {
        return Ok(());
    }
    let (uid, gid) = (rustix::fs::Uid::from_raw(uid), rustix::fs::Gid::from_raw(gid));
    Ok(rustix::fs::chownat(parent, name, Some(uid), Some(gid), AtFlags::SYMLINK_NOFOLLOW)?)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{PermissionsExt, symlink};

    fn me() -> (u32, u32) {
        (rustix::process::geteuid().as_raw(), rustix::process::getegid().as_raw())
    }

    #[test]
    fn a_tree_goes_with_links_closed_directories_and_odd_names_and_nothing_outside() {
        let root = tempfile::tempdir().unwrap();
        let (tree, outside) = (root.path().join("tree"), root.path().join("outside"));
        std::fs::create_dir_all(tree.join("a/b/c")).unwrap();
        std::fs::create_dir(&outside).unwrap();
        std::fs::write(outside.join("keep"), "x").unwrap();
        symlink(&outside, tree.join("a/link")).unwrap();
        std::fs::write(tree.join("a/b").join(OsStr::from_bytes(b"\xff\n")), "").unwrap();
        std::fs::write(tree.join("a/b/c/closed"), "").unwrap();
        std::fs::set_permissions(tree.join("a/b/c"), PermissionsExt::from_mode(0o000)).unwrap();
        remove(&tree).unwrap();
        assert!(!tree.exists());
        assert!(outside.join("keep").exists());
        remove(&tree).unwrap();
    }

    #[test]
    fn a_very_deep_tree_goes_too() {
        let root = tempfile::tempdir().unwrap();
        let mut here =
            rustix::fs::open(root.path(), OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        for _ in 0..3000 {
            rustix::fs::mkdirat(&here, "d", Mode::RWXU).unwrap();
            here = rustix::fs::openat(&here, "d", OFlags::PATH | OFlags::DIRECTORY, Mode::empty()).unwrap();
        }
        drop(here);
        let top = root.path().join("d");
        let limit = rustix::process::getrlimit(rustix::process::Resource::Nofile);
        let few = rustix::process::Rlimit { current: Some(256), maximum: limit.maximum };
        rustix::process::setrlimit(rustix::process::Resource::Nofile, few).unwrap();
        remove(&top).unwrap();
        assert!(!top.exists());
    }

    #[test]
    fn a_target_is_made_step_by_step_and_never_through_a_link() {
        let root = tempfile::tempdir().unwrap();
        make_target(root.path(), Path::new("a/b"), Target::Directory, me()).unwrap();
        make_target(root.path(), Path::new("a/f"), Target::File, me()).unwrap();
        make_target(root.path(), Path::new("a/f"), Target::File, me()).unwrap();
        assert!(root.path().join("a/b").is_dir() && root.path().join("a/f").is_file());
        symlink("/tmp", root.path().join("out")).unwrap();
        symlink("/etc/hostname", root.path().join("a/l")).unwrap();
        for (path, kind) in [
            ("out/x", Target::Directory),
            ("out", Target::Directory),
            ("a/l", Target::File),
            ("../x", Target::File),
        ] {
            assert!(make_target(root.path(), Path::new(path), kind, me()).is_err(), "{path}");
        }
    }
}
