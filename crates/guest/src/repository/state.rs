//! Operations in progress, and the commits that only their files name.

use super::records::is_id;
use std::fs;
use std::path::Path;

/// Files of a git directory that hold ids of commits.
const FILES: [&str; 13] = [
    "MERGE_HEAD",
    "MERGE_AUTOSTASH",
    "CHERRY_PICK_HEAD",
    "REVERT_HEAD",
    "REBASE_HEAD",
    "BISECT_HEAD",
    "ORIG_HEAD",
    "rebase-merge/autostash",
    "rebase-merge/orig-head",
    "rebase-merge/onto",
    "rebase-merge/stopped-sha",
    "rebase-apply/autostash",
    "rebase-apply/orig-head",
];

/// What shows that an operation is in progress.
const OPERATIONS: [(&str, &str); 6] = [
    ("MERGE_HEAD", "merge"),
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
];

/// The commits that files of a git directory name, with the file's name.
pub(crate) fn tips(git_directory: &Path) -> Vec<(&'static str, String)> {
    let mut tips = Vec::new();
    for name in FILES {
        let Ok(text) = fs::read_to_string(git_directory.join(name)) else { continue };
        tips.extend(text.lines().filter(|line| is_id(line)).map(|id| (name, id.to_owned())));
    }
    tips
}

/// The operations that are in progress in a working tree, separated by commas.
pub(crate) fn operations(git_directory: &Path) -> String {
    let found = OPERATIONS.iter().filter(|(file, _)| git_directory.join(file).exists());
    let mut names: Vec<&str> = found.map(|(_, operation)| *operation).collect();
    names.dedup();
    names.join(",")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_head_of_a_merge_and_the_stash_of_a_rebase_are_found() {
        let directory = tempfile::tempdir().unwrap();
        let (a, b, c) = ("a".repeat(40), "b".repeat(40), "c".repeat(64));
        fs::write(directory.path().join("MERGE_HEAD"), format!("{a}\n{b}\n")).unwrap();
        fs::create_dir(directory.path().join("rebase-merge")).unwrap();
        fs::write(directory.path().join("rebase-merge/autostash"), format!("{c}\n")).unwrap();
        fs::write(directory.path().join("ORIG_HEAD"), "nonsense\n").unwrap();
        assert_eq!(
            tips(directory.path()),
            [("MERGE_HEAD", a), ("MERGE_HEAD", b), ("rebase-merge/autostash", c)]
        );
        assert_eq!(operations(directory.path()), "merge,rebase");
    }
}
