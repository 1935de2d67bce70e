//! The kernel's own files: cgroup v2, or the v1 controllers that a hybrid machine has.

use super::{Group, Limits, judge};
use palisade_core::{BackendError, Resources};
use std::collections::BTreeMap;
use std::io;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

/// Where each controller is mounted.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Hierarchies {
    /// Controller name to mount point; several controllers may share one.
    v1: BTreeMap<String, PathBuf>,
    /// The unified mount point and the controllers it offers.
    v2: Option<(PathBuf, Vec<String>)>,
}

const WANTED: [(&str, &str); 3] = [("memory", "memory"), ("cpus", "cpu"), ("pids", "pids")];

impl Hierarchies {
    /// Where every distribution mounts them, and from `/proc/self/mounts` where they are elsewhere.
    pub fn detect() -> io::Result<Self> {
        let usual = Self::usual(Path::new("/sys/fs/cgroup"));
        if WANTED.iter().all(|(_, controller)| usual.place(controller).is_some()) {
            return Ok(usual);
        }
        let mounts = std::fs::read_to_string("/proc/self/mounts")?;
        Ok(Self::parse(&mounts, |unified| {
            std::fs::read_to_string(unified.join("cgroup.controllers")).unwrap_or_default()
        }))
    }

    /// Looks only at the usual places, which takes microseconds; the table of mounts takes as long as it is.
    fn usual(root: &Path) -> Self {
        let mut found = Self::default();
        for (_, controller) in WANTED {
            let point = root.join(controller);
            if point.join("tasks").exists() {
                found.v1.insert(controller.to_owned(), point);
            }
        }
        for point in [root.to_owned(), root.join("unified")] {
            if let Ok(offered) = std::fs::read_to_string(point.join("cgroup.controllers")) {
                found.v2 = Some((point, offered.split_whitespace().map(str::to_owned).collect()));
                break;
            }
        }
        found
    }

    fn parse(mounts: &str, controllers: impl Fn(&Path) -> String) -> Self {
        let mut found = Self::default();
        for line in mounts.lines() {
            let fields: Vec<&str> = line.split(' ').collect();
            let [_, point, kind, options, ..] = fields[..] else { continue };
            match kind {
                "cgroup" => {
                    for option in options.split(',') {
                        if WANTED.iter().any(|(_, controller)| *controller == option) {
                            found.v1.entry(option.to_owned()).or_insert_with(|| point.into());
                        }
                    }
                }
                "cgroup2" if found.v2.is_none() => {
                    let offered =
                        controllers(Path::new(point)).split_whitespace().map(str::to_owned).collect();
                    found.v2 = Some((point.into(), offered));
                }
                _ => {}
            }
        }
        found
    }

    pub fn describe(&self) -> String {
        let rows = WANTED.map(|(limit, controller)| match self.place(controller) {
            Some((_, version)) => format!("{limit}: {version}"),
            None => format!("{limit}: none"),
        });
        rows.join(", ")
    }

    /// The mount point that serves a controller, and how it is called.
    fn place(&self, controller: &str) -> Option<(&Path, &'static str)> {
        if let Some(point) = self.v1.get(controller) {
            return Some((point, "cgroup v1"));
        }
        match &self.v2 {
            Some((point, offered)) if offered.iter().any(|name| name == controller) => {
                Some((point, "cgroup v2"))
            }
            _ => None,
        }
    }

    /// Whether any of our controllers is one of the unified hierarchy.
    pub(super) fn is_unified(&self) -> bool {
        WANTED
            .iter()
            .any(|(_, controller)| self.place(controller).is_some_and(|(_, version)| version == "cgroup v2"))
    }

    fn points(&self) -> Vec<&Path> {
        self.points_of(&WANTED)
    }

    fn points_of(&self, wanted: &[(&str, &str)]) -> Vec<&Path> {
        let mut points: Vec<&Path> = wanted
            .iter()
            .filter_map(|(_, controller)| self.place(controller))
            .map(|(point, _)| point)
            .collect();
        points.sort();
        points.dedup();
        points
    }

    pub(super) fn group(
        &self,
        owner: &str,
        leaf: &str,
        resources: &Resources,
        limits: &Limits,
    ) -> Result<Group, BackendError> {
        let mut directories = Vec::new();
        let mut failures: BTreeMap<&str, String> = BTreeMap::new();
        let wanted: Vec<(&str, &str)> =
            WANTED.into_iter().filter(|(limit, _)| *limit != "cpus" || !limits.every_cpu).collect();
        for point in self.points_of(&wanted) {
            let directory = point.join("palisade").join(owner).join(leaf);
            match self.make(point, &directory) {
                Ok(()) => directories.push(directory),
                Err(error) => {
                    for (limit, controller) in WANTED {
                        if self.place(controller).is_some_and(|(other, _)| other == point) {
                            failures.insert(limit, format!("{}: {error}", directory.display()));
                        }
                    }
                }
            }
        }
        for (limit, controller) in wanted {
            if failures.contains_key(limit) {
                continue;
            }
            let Some((point, version)) = self.place(controller) else { continue };
            let directory = point.join("palisade").join(owner).join(leaf);
            if let Err(error) = set(&directory, limit, version, limits) {
                failures.insert(limit, error.to_string());
            }
        }
        let outcome = |limit: &str| {
            let controller =
                WANTED.iter().find(|(name, _)| *name == limit).map_or("", |(_, controller)| controller);
            match (failures.get(limit), self.place(controller)) {
                _ if limit == "cpus" && limits.every_cpu => Ok("having no more of them".into()),
                (Some(why), _) => Err(why.clone()),
                (None, Some((_, version))) => Ok(version.to_owned()),
                (None, None) => Err(format!("the kernel offers no {controller} controller")),
            }
        };
        let back = if directories.is_empty() { Vec::new() } else { self.own_tasks() };
        let group = Group { directories, back, enforcement: Vec::new() };
        match judge(resources, limits, outcome) {
            Ok(enforcement) => Ok(Group { enforcement, ..group }),
            Err(error) => {
                // Empty groups; nothing joined them yet, so this cannot fail for a reason worth more than the first.
                let _ = group.remove();
                Err(error)
            }
        }
    }

    /// The `tasks` files of the groups this process is in, for the controllers of v1.
    fn own_tasks(&self) -> Vec<PathBuf> {
        let table = std::fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        self.tasks_in(&table)
    }

    fn tasks_in(&self, table: &str) -> Vec<PathBuf> {
        let mut files = Vec::new();
        for line in table.lines() {
            let mut fields = line.splitn(3, ':').skip(1);
            let (Some(controllers), Some(path)) = (fields.next(), fields.next()) else { continue };
            let point = controllers.split(',').find_map(|controller| self.v1.get(controller));
            if let Some(point) = point {
                let file = point.join(path.trim_start_matches('/')).join("tasks");
                if !files.contains(&file) {
                    files.push(file);
                }
            }
        }
        files
    }

    fn make(&self, point: &Path, directory: &Path) -> io::Result<()> {
        // The common case is one mkdir: the parents are there from earlier sandboxes. Another process may just be
        // taking the empty parents away, so they are made again a few times.
        const TRIES: usize = 10;
        for _ in 0..TRIES {
            match std::fs::create_dir(directory) {
                Err(error) if error.kind() == io::ErrorKind::NotFound => {
                    self.make_parents(point, directory)?
                }
                // Whoever starts this sandbox is alone in it, so what is there was left by a start that died.
                Err(error) if error.kind() == io::ErrorKind::AlreadyExists => remove(directory)?,
                other => return other,
            }
        }
        std::fs::create_dir(directory)
    }

    fn make_parents(&self, point: &Path, directory: &Path) -> io::Result<()> {
        let unified = self.v2.as_ref().is_some_and(|(unified, _)| unified == point);
        let parents = [point.join("palisade"), directory.parent().unwrap_or(point).to_owned()];
        let mut above = point.to_owned();
        for parent in parents {
            if unified {
                std::fs::write(above.join("cgroup.subtree_control"), self.offered(point))?;
            }
            make_shared(&parent)?;
            above = parent;
        }
        if unified {
            std::fs::write(above.join("cgroup.subtree_control"), self.offered(point))?;
        }
        Ok(())
    }

    /// The controllers of ours that a unified hierarchy offers, as a request to hand them down.
    fn offered(&self, point: &Path) -> String {
        let here = |controller: &str| self.place(controller).is_some_and(|(other, _)| other == point);
        WANTED
            .iter()
            .filter(|(_, controller)| here(controller))
            .map(|(_, controller)| format!("+{controller} "))
            .collect()
    }

    /// The leaves of one owner in every hierarchy: name and directories.
    pub fn leaves(&self, owner: &str) -> BTreeMap<String, Vec<PathBuf>> {
        let mut leaves: BTreeMap<String, Vec<PathBuf>> = BTreeMap::new();
        for point in self.points() {
            let Ok(entries) = std::fs::read_dir(point.join("palisade").join(owner)) else { continue };
            for entry in entries.flatten() {
                if entry.file_type().is_ok_and(|kind| kind.is_dir())
                    && let Ok(name) = entry.file_name().into_string()
                {
                    leaves.entry(name).or_default().push(entry.path());
                }
            }
        }
        leaves
    }

    /// Removes the owner's own level where it is empty, so that nothing at all remains of an instance.
    pub fn remove_owner(&self, owner: &str) {
        for point in self.points() {
            // Fails while another sandbox of this owner is there, which is what we want.
            let _ = std::fs::remove_dir(point.join("palisade").join(owner));
        }
    }
}

fn make_shared(directory: &Path) -> io::Result<()> {
    match std::fs::create_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => Ok(()),
        other => other,
    }
}

fn set(directory: &Path, limit: &str, version: &str, limits: &Limits) -> io::Result<()> {
    const PERIOD_MICROSECONDS: u64 = 100_000;
    let quota = (u64::from(limits.cpus.milli()) * PERIOD_MICROSECONDS / 1000).max(1000);
    let write = |file: &str, value: String| {
        let path = directory.join(file);
        std::fs::write(&path, value)
            .map_err(|error| io::Error::new(error.kind(), format!("{}: {error}", path.display())))
    };
    match (limit, version) {
        ("memory", "cgroup v1") => {
            write("memory.limit_in_bytes", limits.memory.to_string())?;
            // With swap accounting the limit must hold for both; without it the file is not there.
            if directory.join("memory.memsw.limit_in_bytes").exists() {
                write("memory.memsw.limit_in_bytes", limits.memory.to_string())?;
            }
            Ok(())
        }
        ("memory", _) => {
            write("memory.max", limits.memory.to_string())?;
            if directory.join("memory.swap.max").exists() {
                write("memory.swap.max", "0".into())?;
            }
            Ok(())
        }
        ("cpus", "cgroup v1") => {
            write("cpu.cfs_period_us", PERIOD_MICROSECONDS.to_string())?;
            write("cpu.cfs_quota_us", quota.to_string())
        }
        ("cpus", _) => write("cpu.max", format!("{quota} {PERIOD_MICROSECONDS}")),
        _ => write("pids.max", limits.pids.to_string()),
    }
}

/// Kills what is in a group and removes it. Processes may take a moment to be gone after the signal.
pub(super) fn remove(directory: &Path) -> io::Result<()> {
    const PATIENCE: Duration = Duration::from_secs(5);
    let deadline = Instant::now() + PATIENCE;
    loop {
        match std::fs::remove_dir(directory) {
            Ok(()) => return Ok(()),
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            Err(error) if Instant::now() > deadline => return Err(error),
            Err(_) => {}
        }
        for pid in std::fs::read_to_string(directory.join("cgroup.procs")).unwrap_or_default().lines() {
            if let Some(pid) = pid.parse().ok().and_then(rustix::process::Pid::from_raw) {
                // A process that is gone already is what we want.
                let _ = rustix::process::kill_process(pid, rustix::process::Signal::KILL);
            }
        }
        // The kernel tells nobody when a v1 group becomes empty, so this is the one place that polls.
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HYBRID: &str = "\
tmpfs /sys/fs/cgroup tmpfs rw 0 0
cgroup /sys/fs/cgroup/cpu,cpuacct cgroup rw,cpu,cpuacct 0 0
cgroup /sys/fs/cgroup/memory cgroup rw,memory 0 0
cgroup2 /sys/fs/cgroup/unified cgroup2 rw 0 0
";

    #[test]
    fn a_hybrid_machine_uses_each_controller_where_it_is() {
        let found = Hierarchies::parse(HYBRID, |_| "pids".into());
        assert_eq!(found.describe(), "memory: cgroup v1, cpus: cgroup v1, pids: cgroup v2");
        assert_eq!(found.points().len(), 3);
    }

    #[test]
    fn the_way_back_is_where_each_controller_has_us() {
        let found = Hierarchies::parse(HYBRID, |_| "pids".into());
        let table = "9:name=systemd:/x\n4:memory:/user/7\n2:cpu,cpuacct:/\n0::/unified\n";
        assert_eq!(
            found.tasks_in(table),
            ["/sys/fs/cgroup/memory/user/7/tasks", "/sys/fs/cgroup/cpu,cpuacct/tasks"].map(PathBuf::from)
        );
    }

    #[test]
    fn a_unified_machine_uses_one_group() {
        let found = Hierarchies::parse("cgroup2 /sys/fs/cgroup cgroup2 rw 0 0\n", |_| {
            "cpuset cpu memory pids".into()
        });
        assert_eq!(found.describe(), "memory: cgroup v2, cpus: cgroup v2, pids: cgroup v2");
        assert_eq!(found.points(), [Path::new("/sys/fs/cgroup")]);
    }

    #[test]
    fn where_every_processor_is_allowed_there_is_nothing_to_enforce() {
        let found = Hierarchies::parse("", |_| String::new());
        let resources = Resources::default();
        let group = found.group("o", "l", &resources, &Limits::of(&resources, 1 << 30, 1)).unwrap();
        let cpus = &group.enforcement()[1];
        assert_eq!(
            (cpus.enforced, cpus.how.as_str()),
            (true, "having no more of them, capped to what this machine has")
        );
    }

    #[test]
    fn a_missing_controller_is_named() {
        let found = Hierarchies::parse("", |_| String::new());
        assert_eq!(found.describe(), "memory: none, cpus: none, pids: none");
        let resources = Resources::default();
        let group = found.group("o", "l", &resources, &Limits::of(&resources, 1 << 30, 1)).unwrap();
        assert_eq!(group.enforcement()[0].how, "the kernel offers no memory controller");
    }
}
