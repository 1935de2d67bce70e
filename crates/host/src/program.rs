//! Programs, found as a shell finds them; but never in a relative directory, which would be wherever we are just now.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};

/// The first program of that name in the directories of a search path.
pub fn find<P: AsRef<Path>>(search_path: impl IntoIterator<Item = P>, name: &str) -> Option<PathBuf> {
    let directories = search_path.into_iter().filter(|directory| directory.as_ref().is_absolute());
    directories.map(|directory| directory.as_ref().join(name)).find(|path| is_executable(path))
}

/// Whether it is a file that somebody may run.
pub fn is_executable(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
}

/// Lets the standard library start programs without a copy of this one's memory, which costs more than the start itself.
/// It looks for these two functions of the C library, and a static program has only what something names.
pub fn start_without_copying() {
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    {
        std::hint::black_box(libc::gnu_get_libc_version as *const ());
        std::hint::black_box(libc::posix_spawn_file_actions_addchdir_np as *const ());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_that_may_be_run_is_found_and_none_in_a_relative_directory() {
        let root = tempfile::tempdir().unwrap();
        let file = |path: &str, mode: u32| {
            let path = root.path().join(path);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(&path, "").unwrap();
            std::fs::set_permissions(&path, PermissionsExt::from_mode(mode)).unwrap();
            path
        };
        file("a/tool", 0o644);
        std::fs::create_dir_all(root.path().join("b/tool")).unwrap();
        let tool = file("c/tool", 0o755);
        file("d/tool", 0o755);
        let directories = ["a", "b", "missing", "c", "d"].map(|name| root.path().join(name));
        assert_eq!(find(&directories, "tool"), Some(tool));
        assert_eq!(find(["bin", "../../usr/bin", "usr/bin"], "sh"), None);
    }
}
