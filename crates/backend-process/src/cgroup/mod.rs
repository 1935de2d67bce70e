//! Limits through control groups: which means this machine offers, and one group per running sandbox.
//!
//! Groups lie at `palisade/<owner>/<leaf>` below the root of each hierarchy, so that `sweep` finds those that a
//! crash left and can tell them from everybody else's.

mod hierarchy;
mod user_manager;

pub use hierarchy::Hierarchies;
pub use user_manager::UserManager;

use palisade_core::{BackendError, CpuCount, Enforcement, LimitSource, Resources};
use palisade_host::cgroup;
use std::path::{Path, PathBuf};

/// The means of enforcement this process has.
#[derive(Debug, Clone)]
pub enum Means {
    /// Started by root: groups of our own.
    Hierarchies(Hierarchies),
    /// An ordinary user with a systemd user manager, which makes a scope for us.
    UserManager(UserManager),
    None {
        why: String,
    },
}

/// The values to enforce, after capping the defaults to the machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Limits {
    pub memory: u64,
    pub cpus: CpuCount,
    /// The machine has no more processors than that, so there is nothing to enforce.
    pub every_cpu: bool,
    pub pids: u32,
}

impl Limits {
    /// Defaults are capped to what the machine has; what somebody asked for is taken as it is.
    pub fn of(resources: &Resources, machine_memory: u64, machine_cpus: u32) -> Self {
        let memory = match resources.memory.source {
            LimitSource::Asked => resources.memory.value.0,
            LimitSource::Default => resources.memory.value.0.min(machine_memory),
        };
        let cpus = match resources.cpus.source {
            LimitSource::Asked => resources.cpus.value,
            LimitSource::Default => resources.cpus.value.min(CpuCount::whole(machine_cpus)),
        };
        let every_cpu = cpus >= CpuCount::whole(machine_cpus);
        Self { memory, cpus, every_cpu, pids: resources.pids.value }
    }
}

/// One sandbox's group while it runs. Dropping it does nothing: `remove` is explicit, and `sweep` finds the rest.
#[derive(Debug)]
pub struct Group {
    pub(crate) directories: Vec<PathBuf>,
    /// The files through which a thread of ours goes back where it came from.
    pub(crate) back: Vec<PathBuf>,
    pub(crate) enforcement: Vec<Enforcement>,
}

impl Group {
    pub fn none() -> Self {
        Self { directories: Vec::new(), back: Vec::new(), enforcement: Vec::new() }
    }

    /// Whether a process is in it, in any hierarchy.
    pub(crate) fn has_processes(&self) -> bool {
        let processes = |group: &PathBuf| std::fs::read(group.join("cgroup.procs")).unwrap_or_default();
        self.directories.iter().any(|group| !processes(group).is_empty())
    }

    /// The limit that stopped something in the group, should there be one.
    pub(crate) fn reached(&self) -> Option<Reached> {
        let is_reached = |kind: &Reached| self.directories.iter().any(|group| kind.is_reached(group));
        [Reached::Pids, Reached::Memory].into_iter().find(is_reached)
    }

    pub fn enforcement(&self) -> &[Enforcement] {
        &self.enforcement
    }

    /// The way in and back out for the thread that spawns, where the kernel moves single threads (v1). Moving another
    /// process waits for everybody on the machine who is just starting or ending a thread, which costs milliseconds;
    /// a thread that moves itself waits for nobody, and what it spawns is born in the group.
    pub(crate) fn detour(&self) -> std::io::Result<Detour> {
        let open = |path: &PathBuf| std::fs::OpenOptions::new().write(true).open(path);
        let tasks: Vec<PathBuf> = self.directories.iter().map(|group| group.join("tasks")).collect();
        let into =
            tasks.iter().filter(|path| path.exists()).map(open).collect::<std::io::Result<Vec<_>>>()?;
        let back = self.back.iter().map(open).collect::<std::io::Result<Vec<_>>>()?;
        Ok(Detour { into, back })
    }

    /// Moves processes in, where the kernel moves only whole processes (v2).
    pub(crate) fn join(&self, processes: &[u32]) -> std::io::Result<()> {
        for directory in self.whole_process_groups() {
            for process in processes {
                match std::fs::write(directory.join("cgroup.procs"), process.to_string()) {
                    // It has ended already; its end is told elsewhere.
                    Err(error) if error.raw_os_error() == Some(libc::ESRCH) => {}
                    other => other?,
                }
            }
        }
        Ok(())
    }

    fn whole_process_groups(&self) -> impl Iterator<Item = &PathBuf> {
        self.directories.iter().filter(|group| !group.join("tasks").exists())
    }

    /// Kills whatever is still in the group and removes it.
    pub fn remove(&self) -> std::io::Result<()> {
        self.directories.iter().try_for_each(|directory| hierarchy::remove(directory))
    }
}

/// A limit that something has run into.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Reached {
    Memory,
    Pids,
}

impl Reached {
    /// Whether a group has run into it. Asked only of a group whose sandbox did not start, so a little less will do.
    fn is_reached(self, group: &Path) -> bool {
        const CLOSE: u64 = 64 * 1024;
        let read = |file: &str| std::fs::read_to_string(group.join(file)).unwrap_or_default();
        let number = |file: &str| read(file).trim().parse::<u64>().ok();
        match self {
            Self::Memory => {
                // The kernel's counts of failures leave out those for which swap was to blame.
                let used = number("memory.max_usage_in_bytes").zip(number("memory.limit_in_bytes"));
                cgroup::memory_kills(group).is_some_and(|kills| kills > 0)
                    || used.is_some_and(|(most, limit)| most.saturating_add(CLOSE) >= limit)
                    || cgroup::event(&read("memory.events"), "max") > 0
            }
            Self::Pids => cgroup::event(&read("pids.events"), "max") > 0,
        }
    }
}

/// Opened while we may; a thread that has given up root can still walk it.
#[derive(Debug)]
pub(crate) struct Detour {
    into: Vec<std::fs::File>,
    back: Vec<std::fs::File>,
}

impl Detour {
    pub(crate) fn enter(&self) -> std::io::Result<()> {
        Self::walk(&self.into)
    }

    pub(crate) fn leave(&self) -> std::io::Result<()> {
        Self::walk(&self.back)
    }

    fn walk(files: &[std::fs::File]) -> std::io::Result<()> {
        use std::io::Write;
        files.iter().try_for_each(|mut file| file.write_all(b"0"))
    }
}

/// Says for each limit what became of it, and fails when one that was asked for cannot be enforced.
pub(crate) fn judge(
    resources: &Resources,
    limits: &Limits,
    outcome: impl Fn(&str) -> Result<String, String>,
) -> Result<Vec<Enforcement>, BackendError> {
    let memory = palisade_core::ByteSize(limits.memory).to_string();
    let capped = |less: bool| if less { ", capped to what this machine has" } else { "" };
    let rows = [
        ("memory", memory, resources.memory.source, capped(limits.memory < resources.memory.value.0)),
        ("cpus", limits.cpus.to_string(), resources.cpus.source, capped(limits.cpus < resources.cpus.value)),
        ("pids", limits.pids.to_string(), resources.pids.source, ""),
    ];
    rows.into_iter()
        .map(|(limit, value, source, capped)| match (outcome(limit).map(|how| how + capped), source) {
            (Ok(how), _) => Ok(Enforcement { limit: limit.into(), value, enforced: true, how }),
            (Err(how), LimitSource::Default) => Ok(Enforcement { limit: limit.into(), value, enforced: false, how }),
            (Err(reason), LimitSource::Asked) => Err(BackendError::Limit {
                limit: limit.into(),
                reason,
                fix: "leave the limit out, start Palisade as root, or under a systemd user session that delegates cgroups"
                    .into(),
            }),
        })
        .collect()
}

impl Means {
    /// Makes the group for one sandbox. `leaf` names it; see the module's invariant.
    pub fn group(
        &self,
        owner: &str,
        leaf: &str,
        resources: &Resources,
        limits: &Limits,
    ) -> Result<Group, BackendError> {
        match self {
            Means::Hierarchies(hierarchies) => hierarchies.group(owner, leaf, resources, limits),
            // The user manager moves a process that already runs; see `adopt`.
            Means::UserManager(_) => Ok(Group {
                directories: Vec::new(),
                back: Vec::new(),
                enforcement: judge(resources, limits, |_| Ok("systemd user manager".into()))?,
            }),
            Means::None { why } => Ok(Group {
                directories: Vec::new(),
                back: Vec::new(),
                enforcement: judge(resources, limits, |_| Err(why.clone()))?,
            }),
        }
    }

    /// Whether processes can only be moved after they were started, and whole.
    pub(crate) fn moves_whole_processes(&self) -> bool {
        matches!(self, Means::Hierarchies(hierarchies) if hierarchies.is_unified())
    }

    /// Moves a process that waits to be moved, where the means works that way.
    pub fn adopt(&self, leaf: &str, pid: u32, limits: &Limits) -> Result<(), BackendError> {
        match self {
            Means::UserManager(manager) => manager.start_scope(leaf, pid, limits),
            Means::Hierarchies(_) | Means::None { .. } => Ok(()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_core::{ByteSize, Limit};

    #[test]
    fn defaults_are_capped_to_the_machine_and_asked_values_are_not() {
        let mut resources = Resources::default();
        let small = Limits::of(&resources, 2 * ByteSize::GIB, 2);
        let expected =
            Limits { memory: 2 * ByteSize::GIB, cpus: CpuCount::whole(2), every_cpu: true, pids: 4096 };
        assert_eq!(small, expected);
        resources.cpus = Limit::asked(CpuCount::whole(16));
        assert_eq!(Limits::of(&resources, 2 * ByteSize::GIB, 2).cpus, CpuCount::whole(16));
    }

    #[test]
    fn an_asked_limit_without_means_is_an_error_and_a_default_is_only_said() {
        let mut resources = Resources::default();
        let limits = Limits::of(&resources, ByteSize::GIB, 1);
        let means = Means::None { why: "no cgroups here".into() };
        let group = means.group("owner", "leaf", &resources, &limits).unwrap();
        assert!(group.enforcement().iter().all(|row| !row.enforced && row.how == "no cgroups here"));
        resources.pids = Limit::asked(10);
        let error = means.group("owner", "leaf", &resources, &limits).unwrap_err();
        assert_eq!(
            error.to_string(),
            "the pids limit that was asked for cannot be enforced: no cgroups here"
        );
    }
}
