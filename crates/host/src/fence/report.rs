//! What a sandbox has left in a bound directory that the host's own tools would run by themselves. The fence closes
//! the directory's own repository; a repository or an editor task further down it can only tell of.

use super::GIT;
use palisade_core::{Access, HostPath, Policy, Workspace, printable};
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

/// What of a nested repository counts, beside itself: a file changed in place does not show in its directory.
const WITHIN: [&str; 4] = ["config", "config.worktree", "hooks", "info/attributes"];

/// What the user should know of the directories that a sandbox under this policy could write since then.
pub fn warnings(policy: &Policy, since: SystemTime) -> Vec<String> {
    let bound = match &policy.workspace {
        Workspace::Bound { host, access: Access::ReadWrite } => Some(host),
        _ => None,
    };
    let mounts =
        policy.mounts.iter().filter(|mount| mount.access == Access::ReadWrite).map(|mount| &mount.host);
    let tell = |host: &HostPath| {
        let found = changed_since(host, since);
        let told = format!("new or changed in {host}, and run by the host's own tools: {}", found.join(", "));
        (!found.is_empty()).then_some(told)
    };
    bound.into_iter().chain(mounts).filter_map(tell).collect()
}

/// Those that were made or changed since, relative to the directory.
pub fn changed_since(directory: &HostPath, since: SystemTime) -> Vec<String> {
    let since = since.duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_secs() as i64);
    let mut found = Vec::new();
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
            let own = path == Path::new(GIT);
            if own {
                found.extend(led_astray(&entry.path(), since).map(|link| format!("{GIT}/{link}")));
                continue;
            }
            let touched = || {
                changed(&entry.path(), since)
                    || WITHIN.iter().any(|name| changed(&entry.path().join(name), since))
            };
            if suspect && touched() {
                found.push(printable(&path.to_string_lossy()));
            }
            let above = directory.as_path().join(&relative);
            if entry.file_name() == "HEAD"
                && looks_like_a_bare_repository(&above)
                && changed(&entry.path(), since)
            {
                let path = printable(&path.to_string_lossy());
                found.push(format!(
                    "{path}, with objects and refs (git takes the directory for a repository)"
                ));
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) && !path.ends_with(GIT) {
                pending.push_back(path);
            }
        }
    }
    found
}

/// In the directory's own repository: links through which git on the host would write elsewhere (it never makes any
/// itself), and the commands of an unfinished rebase.
fn led_astray(repository: &Path, since: i64) -> impl Iterator<Item = String> {
    let mut found = Vec::new();
    let mut pending = vec![PathBuf::new()];
    while let Some(relative) = pending.pop() {
        for entry in std::fs::read_dir(repository.join(&relative)).into_iter().flatten().flatten() {
            let path = relative.join(entry.file_name());
            let Ok(kind) = entry.file_type() else { continue };
            let suspect = kind.is_symlink() || path == Path::new("rebase-merge/git-rebase-todo");
            if suspect && changed(&entry.path(), since) {
                found.push(printable(&path.to_string_lossy()));
            }
            // Objects are named by their content, and there are many.
            if kind.is_dir() && path != Path::new("objects") {
                pending.push(path);
            }
        }
    }
    found.into_iter().take(MOST_TOLD)
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
    fn links_in_the_repository_itself_are_told() {
        let root = tempfile::tempdir().unwrap();
        std::fs::create_dir_all(root.path().join(".git/logs")).unwrap();
        std::fs::write(root.path().join(".git/HEAD"), "ref: refs/heads/main\n").unwrap();
        for link in [".git/COMMIT_EDITMSG", ".git/logs/HEAD"] {
            std::os::unix::fs::symlink("/nonexistent", root.path().join(link)).unwrap();
        }
        let host = HostPath::new(root.path()).unwrap();
        let mut told = changed_since(&host, SystemTime::now() - Duration::from_secs(60));
        told.sort();
        assert_eq!(told, [".git/COMMIT_EDITMSG", ".git/logs/HEAD"]);
    }

    #[test]
    fn a_directory_turned_into_a_bare_repository_is_told() {
        for place in ["", "docs/deep/"] {
            let root = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(root.path().join(place).join("objects")).unwrap();
            std::fs::create_dir(root.path().join(place).join("refs")).unwrap();
            std::fs::write(root.path().join(place).join("HEAD"), "ref: refs/heads/main\n").unwrap();
            let host = HostPath::new(root.path()).unwrap();
            let told = changed_since(&host, SystemTime::now() - Duration::from_secs(60));
            assert_eq!(told.len(), 1);
            assert!(told[0].starts_with(&format!("{place}HEAD, ")), "{told:?}");
        }
    }
}
