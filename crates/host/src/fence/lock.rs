//! One writable sandbox per host directory: an exclusive lock on the directory, and shared ones on those above it,
//! so that a directory inside a bound one cannot be bound either.

use palisade_core::{BackendError, HostPath};
use rustix::fd::OwnedFd;
use rustix::fs::{FlockOperation, Mode, OFlags};
use rustix::io::Errno;

/// Held as long as the sandbox runs; the kernel lets go of it when the process dies.
#[derive(Debug)]
pub struct DirectoryLock {
    _files: Vec<OwnedFd>,
}

impl DirectoryLock {
    pub fn take(directory: &HostPath) -> Result<Self, BackendError> {
        let busy = || BackendError::DirectoryBusy { path: directory.to_string() };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let mut files = Vec::new();
        for (depth, path) in directory.as_path().ancestors().enumerate() {
            let file = match rustix::fs::open(path, flags, Mode::empty()) {
                Ok(file) => file,
                // A directory above that we may not read cannot be bound by us either.
                Err(_) if depth > 0 => continue,
                Err(error) => {
                    return Err(BackendError::io(format!("open {directory}"))(error.into()));
                }
            };
            let operation = if depth == 0 {
                FlockOperation::NonBlockingLockExclusive
            } else {
                FlockOperation::NonBlockingLockShared
            };
            match rustix::fs::flock(&file, operation) {
                Ok(()) => files.push(file),
                Err(Errno::WOULDBLOCK) => return Err(busy()),
                // Some network file systems know no locks on directories; then the rule cannot be kept.
                Err(error) if depth == 0 => {
                    return Err(BackendError::HostDirectory {
                        path: directory.to_string(),
                        reason: format!("it cannot be locked: {}", std::io::Error::from(error)),
                        fix: "bind a directory on a local file system, or bind it read-only with :ro".into(),
                    });
                }
                Err(_) => {}
            }
        }
        Ok(Self { _files: files })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(path: &std::path::Path) -> HostPath {
        HostPath::new(path).unwrap()
    }

    #[test]
    fn a_directory_and_those_inside_and_above_it_have_one_holder() {
        let root = tempfile::tempdir().unwrap();
        let inner = root.path().join("a/b");
        std::fs::create_dir_all(&inner).unwrap();
        let held = DirectoryLock::take(&host(&root.path().join("a"))).unwrap();
        for taken in [root.path().join("a"), inner.clone(), root.path().to_owned()] {
            assert!(
                matches!(DirectoryLock::take(&host(&taken)), Err(BackendError::DirectoryBusy { .. })),
                "{}",
                taken.display()
            );
        }
        drop(held);
        DirectoryLock::take(&host(&inner)).unwrap();
    }

    #[test]
    fn neighbours_do_not_disturb_each_other() {
        let root = tempfile::tempdir().unwrap();
        let (one, two) = (root.path().join("one"), root.path().join("two"));
        std::fs::create_dir(&one).unwrap();
        std::fs::create_dir(&two).unwrap();
        let _one = DirectoryLock::take(&host(&one)).unwrap();
        DirectoryLock::take(&host(&two)).unwrap();
    }
}
