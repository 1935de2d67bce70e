//! What a sandbox has left in a bound directory that the host's own tools would run by themselves. The fence closes
//! the directory's own repository; a repository or an editor task further down it can only tell of.

use palisade_core::{HostPath, printable};
use std::collections::VecDeque;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

/// A tree larger than this is looked at in part; telling late is worse than telling less.
const MOST_ENTRIES: usize = 200_000;
const MOST_TOLD: usize = 20;

/// Files that git, direnv or an editor obeys without being asked.
const SELF_RUNNING: [&str; 5] =
    [".git", ".gitmodules", ".envrc", ".vscode/tasks.json", ".idea/workspace.xml"];

/// Those that were made or changed since, relative to the directory.
pub fn changed_since(directory: &HostPath, since: SystemTime) -> Vec<String> {
    let since = since.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64);
    let mut found = Vec::new();
    if looks_like_a_bare_repository(directory.as_path()) && changed(&directory.as_path().join("HEAD"), since)
    {
        found.push("HEAD, objects and refs (git takes the directory for a repository)".to_owned());
    }
    let mut pending = VecDeque::from([PathBuf::new()]);
    let mut seen = 0;
    while let Some(relative) = pending.pop_front() {
        let Ok(entries) = std::fs::read_dir(directory.as_path().join(&relative)) else { continue };
        for entry in entries.flatten() {
            seen += 1;
            if seen > MOST_ENTRIES || found.len() >= MOST_TOLD {
                return found;
            }
            let path = relative.join(entry.file_name());
            let suspect = SELF_RUNNING.iter().any(|name| path.ends_with(name));
            // The directory's own repository is what the fence is for.
            let own = path == Path::new(".git");
            if suspect && !own && changed(&entry.path(), since) {
                found.push(printable(&path.to_string_lossy()));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !path.ends_with(".git") {
                pending.push_back(path);
            }
        }
    }
    found
}

fn looks_like_a_bare_repository(directory: &Path) -> bool {
    directory.join("HEAD").is_file() && directory.join("objects").is_dir() && directory.join("refs").is_dir()
}

fn changed(path: &Path, since: i64) -> bool {
    std::fs::symlink_metadata(path).is_ok_and(|meta| meta.ctime() >= since)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::time::Duration;

    #[test]
    fn only_what_runs_by_itself_and_is_new_is_told() {
        let root = tempfile::tempdir().unwrap();
        for directory in [".git", "sub/.git/hooks", ".vscode", "plain"] {
            std::fs::create_dir_all(root.path().join(directory)).unwrap();
        }
        for file in ["plain/a.txt", ".vscode/tasks.json", ".git/config", "sub/.git/config"] {
            std::fs::write(root.path().join(file), "").unwrap();
        }
        let host = HostPath::new(root.path()).unwrap();
        let mut told = changed_since(&host, SystemTime::now() - Duration::from_secs(60));
        told.sort();
        assert_eq!(told, [".vscode/tasks.json", "sub/.git"]);
        let later = SystemTime::now() + Duration::from_secs(60);
        assert_eq!(changed_since(&host, later), Vec::<String>::new());
    }

    #[test]
    fn a_directory_turned_into_a_bare_repository_is_told() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir(root.path().join("objects")).unwrap();
        std::fs::create_dir(root.path().join("refs")).unwrap();
        std::fs::write(root.path().join("HEAD"), "ref: refs/heads/main\n").unwrap();
        let told =
            changed_since(&HostPath::new(root.path()).unwrap(), SystemTime::now() - Duration::from_secs(60));
        assert_eq!(told.len(), 1);
        assert!(told[0].starts_with("HEAD"), "{told:?}");
    }
}
