//! What the kernel counts in a control group, for anybody who may read it.

use std::path::{Path, PathBuf};

/// The number behind a word in one of the kernel's files of events; 0 when it is not there.
pub fn event(text: &str, word: &str) -> u64 {
    let number = |line: &str| line.strip_prefix(word)?.strip_prefix(' ')?.trim().parse().ok();
    text.lines().find_map(number).unwrap_or(0)
}

/// How many processes of a memory group the kernel has killed because the group had reached its limit. `None` when this
/// is not a memory group.
pub fn memory_kills(group: &Path) -> Option<u64> {
    // The first is v2's, the second v1's.
    let files = ["memory.events", "memory.oom_control"];
    let text = files.into_iter().find_map(|file| std::fs::read_to_string(group.join(file)).ok())?;
    Some(event(&text, "oom_kill"))
}

/// The memory group of a process. It is not found where control groups are mounted elsewhere than everywhere.
pub fn memory_group_of(pid: u32) -> Option<PathBuf> {
    let table = std::fs::read_to_string(format!("/proc/{pid}/cgroup")).ok()?;
    let mounts = ["/sys/fs/cgroup/memory", "/sys/fs/cgroup", "/sys/fs/cgroup/unified"].map(Path::new);
    candidates(&table, &mounts).into_iter().find(|group| memory_kills(group).is_some())
}

fn candidates(table: &str, mounts: &[&Path]) -> Vec<PathBuf> {
    let mut found = Vec::new();
    for line in table.lines() {
        let mut fields = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
        if controllers.is_empty() || controllers.split(',').any(|name| name == "memory") {
            let path = path.trim_start_matches('/');
            // A path that leaves the reader's own part of the hierarchy cannot be followed.
            if !path.starts_with("..") {
                found.extend(mounts.iter().map(|mount| mount.join(path)));
            }
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_read_by_their_word() {
        let events = "low 0\nmax 12\noom 3\noom_kill 2\n";
        assert_eq!((event(events, "oom_kill"), event(events, "max"), event(events, "oo")), (2, 12, 0));
    }

    #[test]
    fn the_memory_group_is_found_in_either_version() {
        let mounts = [Path::new("/m")];
        let of = |table| candidates(table, &mounts);
        assert_eq!(of("4:memory:/a/b\n3:cpu:/c\n"), [Path::new("/m/a/b")]);
        assert_eq!(of("0::/user.slice/x\n"), [Path::new("/m/user.slice/x")]);
        assert!(of("0::/../x\n").is_empty());
    }
}
