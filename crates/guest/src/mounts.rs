//! Compares what is mounted in the sandbox with what the host opened, before anything runs.

use palisade_protocol::ExpectedMount;

/// The paths at which something else is mounted than the host opened.
pub(crate) fn differing(expected: &[ExpectedMount]) -> Vec<&str> {
    let differs = |mount: &&ExpectedMount| {
        // What cannot even be looked at was not shown to have been opened.
        rustix::fs::lstat(mount.path.as_str())
            .map_or(true, |found| (found.st_dev, found.st_ino) != (mount.device, mount.inode))
    };
    expected.iter().filter(differs).map(|mount| mount.path.as_str()).collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::MetadataExt;

    #[test]
    fn only_the_very_directory_that_was_opened_passes() {
        let place = tempfile::tempdir().unwrap();
        let path = |name: &str| place.path().join(name).to_str().unwrap().to_owned();
        for name in ["opened", "other"] {
            std::fs::create_dir(path(name)).unwrap();
        }
        std::os::unix::fs::symlink(path("opened"), path("link")).unwrap();
        let opened = std::fs::metadata(path("opened")).unwrap();
        let at = |name: &str| ExpectedMount { device: opened.dev(), inode: opened.ino(), path: path(name) };
        assert_eq!(differing(&[at("opened")]), Vec::<&str>::new());
        for name in ["other", "link", "missing"] {
            assert_eq!(differing(&[at("opened"), at(name)]), [path(name)]);
        }
    }
}
