//! What the machine has: memory, processors, and the means to limit them.

use crate::ProcessConfig;
use crate::cgroup::{Hierarchies, Means, UserManager};

pub(crate) fn memory() -> u64 {
    let text = std::fs::read_to_string("/proc/meminfo").unwrap_or_default();
    let kibibytes = text
        .lines()
        .find_map(|line| line.strip_prefix("MemTotal:"))
        .and_then(|rest| rest.split_whitespace().next())
        .and_then(|number| number.parse::<u64>().ok());
    kibibytes.map_or(u64::MAX, |number| number * 1024)
}

pub(crate) fn processors() -> u32 {
    std::thread::available_parallelism().map_or(1, |count| count.get() as u32)
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
