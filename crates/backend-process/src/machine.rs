//! What the machine has: memory, processors, and the means to limit them.

use crate::ProcessConfig;
use crate::cgroup::{Hierarchies, Means, UserManager};

pub(crate) fn memory() -> u64 {
    let info = rustix::system::sysinfo();
    (info.totalram as u64).saturating_mul(u64::from(info.mem_unit))
}

/// Those this process may run on. A quota on our own cgroup does not count: the sandbox gets a group of its own.
pub(crate) fn processors() -> u32 {
    rustix::thread::sched_getaffinity(None).map_or(1, |set| set.count().max(1))
}

/// Whether a uid exists here: in a container it may lie outside what the user namespace maps.
pub(crate) fn uid_is_mapped(uid: u32) -> bool {
    let map = std::fs::read_to_string("/proc/self/uid_map").unwrap_or_default();
    map_has(&map, uid)
}

fn map_has(map: &str, uid: u32) -> bool {
    map.lines().any(|line| {
        let numbers: Vec<u64> = line.split_whitespace().filter_map(|number| number.parse().ok()).collect();
        let [first, _, count] = numbers[..] else { return false };
        (first..first + count).contains(&u64::from(uid))
    })
}

pub(crate) fn limit_means(config: &ProcessConfig) -> Means {
    if rustix::process::geteuid().is_root() {
        return match Hierarchies::detect() {
            Ok(found) => Means::Hierarchies(found),
            Err(error) => Means::None { why: format!("cgroups cannot be read: {error}") },
        };
    }
    match UserManager::detect(config.find_program("busctl"), config.user_runtime_dir.as_deref()) {
        Ok(manager) => Means::UserManager(manager),
        Err(why) => Means::None { why },
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_uid_is_looked_up_in_the_namespaces_map() {
        let container = "         0     100000      65536\n";
        assert!(map_has(container, 65535));
        assert!(!map_has(container, 1_910_000_000));
        assert!(map_has("         0          0 4294967295\n", 1_910_000_000));
    }
}
