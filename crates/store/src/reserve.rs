//! Space that is kept for a full disk. A change of the store needs a few pages, also one that frees gigabytes; so a file
//! of the state directory holds some, and gives them up when a command that ends or removes something finds none.
//! Everything else fails on a full disk as it should, and leaves the reserve alone.

use std::fs::{self, OpenOptions};
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;

const FILE: &str = "reserve";
/// Room for a hundred small transactions.
const SIZE: u64 = 512 * 1024;
/// It is not taken from a disk that has little more.
const LEFT_BESIDE: u64 = 3 * SIZE;

/// Sets the space aside, where it is not yet and there is enough of it. Without it nothing is lost but the way out of a
/// full disk, so a failure is not one of the caller's.
pub(crate) fn fill(directory: &Path) {
    let path = directory.join(FILE);
    let room =
        rustix::fs::statvfs(directory).map_or(0, |system| system.f_bavail.saturating_mul(system.f_frsize));
    if path.exists() || room < SIZE + LEFT_BESIDE {
        return;
    }
    let file = OpenOptions::new().write(true).create_new(true).mode(0o600).open(&path);
    let Ok(file) = file else { return };
    let kept = rustix::fs::fallocate(&file, rustix::fs::FallocateFlags::empty(), 0, SIZE);
    if kept.is_err() {
        // A file system that cannot promise space.
        let _ = fs::remove_file(&path);
    }
}

/// Gives the space back; says whether there was any.
pub(crate) fn release(directory: &Path) -> bool {
    fs::remove_file(directory.join(FILE)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn the_space_is_held_until_it_is_released() {
        let directory = tempfile::tempdir().unwrap();
        fill(directory.path());
        let found = fs::metadata(directory.path().join(FILE)).unwrap();
        assert_eq!((found.len(), found.mode() & 0o777), (SIZE, 0o600));
        assert!(found.blocks() * 512 >= SIZE, "the disk's own space, not a promise of it");
        assert_eq!((release(directory.path()), release(directory.path())), (true, false));
    }
}
