//! Cgroups that what we started may have left empty.

use std::path::{Path, PathBuf};

/// The directories of one cgroup in the unified and in the older hierarchies.
pub(crate) fn named(name: &str) -> Vec<PathBuf> {
    let root = Path::new("/sys/fs/cgroup");
    let hierarchies = std::fs::read_dir(root).into_iter().flatten().flatten().map(|entry| entry.path());
    std::iter::once(root.to_owned())
        .chain(hierarchies)
        .map(|directory| directory.join(name))
        .filter(|directory| directory.is_dir())
        .collect()
}
