//! What of an instance can be found on the machine: processes, mounts, cgroups, sockets, files. A test takes it
//! before and after and compares.

use crate::Instance;
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Traces {
    /// Command lines or environments that name the instance's directories or a sandbox of its.
    pub processes: BTreeSet<String>,
    pub mounts: BTreeSet<String>,
    pub cgroups: BTreeSet<PathBuf>,
    /// Below the state directory, without the store's own files.
    pub files: BTreeSet<PathBuf>,
}

/// Files of the state directory that belong to the instance and not to a sandbox.
const STANDING: [&str; 19] = [
    "bwrap-bind-fd",
    "file-handles-noted",
    "guest-docker",
    "guest-podman",
    "instance",
    "limits-noted",
    "place.json",
    "preflight-bwrap.json",
    "preflight-docker.json",
    "preflight-podman.json",
    "reserve",
    "state.db",
    "state.db-shm",
    "state.db-wal",
    "state.lock",
    "turns.lock",
    "uids",
    "users-docker",
    "users-podman",
];

impl Traces {
    pub fn of(instance: &Instance) -> Self {
        let state = instance.state();
        let owner = instance.owner();
        Self {
            processes: processes(&state),
            mounts: mounts(&state),
            cgroups: if owner.is_empty() { BTreeSet::new() } else { cgroups(&owner) },
            files: files(&state),
        }
    }

    /// Nothing of any sandbox is left.
    pub fn is_clean(&self) -> bool {
        *self == Self::default()
    }
}

/// Processes that mention the state directory in their arguments, environment or open files.
fn processes(state: &Path) -> BTreeSet<String> {
    let state = state.display().to_string();
    let home = state.trim_end_matches("/palisade").to_owned();
    let mut found = BTreeSet::new();
    for entry in std::fs::read_dir("/proc").expect("/proc").flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse::<u32>().ok()) else {
            continue;
        };
        if pid == std::process::id() {
            continue;
        }
        let path = entry.path();
        let text = |name: &str| {
            let bytes = std::fs::read(path.join(name)).unwrap_or_default();
            String::from_utf8_lossy(&bytes).replace('\0', " ")
        };
        let (command, environment) = (text("cmdline"), text("environ"));
        if command.contains(&state) || environment.contains(&format!("XDG_STATE_HOME={home}")) {
            found.insert(format!("{pid}: {command}"));
        }
    }
    found
}

fn mounts(state: &Path) -> BTreeSet<String> {
    let table = std::fs::read_to_string("/proc/self/mounts").expect("/proc/self/mounts");
    let state = state.display().to_string();
    table.lines().filter(|line| line.contains(&state)).map(str::to_owned).collect()
}

/// An owner's own level in every hierarchy. An installation keeps it for its next run, so it is nobody's leftover.
pub(crate) fn owners_levels(owner: &str) -> Vec<PathBuf> {
    let hierarchies = std::fs::read_dir("/sys/fs/cgroup").into_iter().flatten().flatten();
    std::iter::once(PathBuf::from("/sys/fs/cgroup"))
        .chain(hierarchies.map(|entry| entry.path()))
        .map(|root| root.join("palisade").join(owner))
        .collect()
}

/// Leaves of the owner's cgroups.
fn cgroups(owner: &str) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    for level in owners_levels(owner) {
        let Ok(entries) = std::fs::read_dir(level) else { continue };
        let directories = entries.flatten().filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
        found.extend(directories.map(|entry| entry.path()));
    }
    found
}

fn files(state: &Path) -> BTreeSet<PathBuf> {
    let mut found = BTreeSet::new();
    let mut pending = vec![state.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            // Which directories could be written is known for as long as there is the instance.
            let standing = directory == state && STANDING.iter().any(|name| entry.file_name() == *name)
                || directory == state.join("written");
            // The directories that hold the entries of sandboxes, their accounts, fences, git data, runs, leases, wrappers and
            // writers stay, and so do those of the reports on bound directories.
            let holder = directory == state
                && [
                    "sandboxes",
                    "accounts",
                    "fences",
                    "git",
                    "runs",
                    "leases",
                    "wrappers",
                    "written",
                    "writing",
                    "baselines",
                    "reports",
                ]
                .iter()
                .any(|name| entry.file_name() == *name);
            if !standing && !holder {
                found.insert(path.clone());
            }
            if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
                pending.push(path);
            }
        }
    }
    found
}
