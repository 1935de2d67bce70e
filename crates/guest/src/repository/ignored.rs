//! How much there is that git ignores: it is in no archive, and goes with the sandbox.

use super::git::{Git, GitFailure};
use super::records::Records;
use super::working_tree::WorkingTree;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// `COUNT BYTES`, each ended by a NUL, for all working trees of a repository.
pub(crate) fn ignored(directory: &Path) -> Result<Vec<u8>, GitFailure> {
    let failed = |error: std::io::Error| GitFailure::new("open the repository", error.to_string());
    let (mut count, mut bytes) = (0u64, 0u64);
    for tree in WorkingTree::open(directory).map_err(failed)?.with_linked() {
        let list = ["ls-files", "--others", "--ignored", "--exclude-standard", "-z"];
        let answer = Git::at(&tree.path).run(&list)?;
        for path in answer.output.split(|byte| *byte == 0).filter(|path| !path.is_empty()) {
            // Other working trees are looked at by themselves.
            if path.starts_with(b".worktrees/") {
                continue;
            }
            count += 1;
            let found = std::fs::symlink_metadata(tree.path.join(OsStr::from_bytes(path)));
            bytes += found.map_or(0, |found| found.len());
        }
    }
    let mut records = Records::default();
    records.add(&[count.to_string().as_bytes(), bytes.to_string().as_bytes()]);
    Ok(records.into_bytes())
}
