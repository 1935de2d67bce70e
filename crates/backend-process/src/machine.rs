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
