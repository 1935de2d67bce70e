//! What can be counted: exactly where it belongs to one installation, roughly where others on the machine are at work
//! as well.

use crate::support::{below, keeper};
use palisade_testing::{Instance, Traces};
use rusqlite::{Connection, OpenFlags};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Everything of one installation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Own {
    /// Of the sandbox that stays.
    keeper_descriptors: usize,
    keeper_threads: usize,
    keeper_memory: Within,
    processes_below_keeper: usize,
    processes: usize,
    mounts: usize,
    cgroups: BTreeSet<PathBuf>,
    /// Every file and directory below its home, state, configuration and work, but SQLite's own beside the database.
    files: BTreeSet<PathBuf>,
    bytes: u64,
    rows: BTreeMap<String, i64>,
    database: Within,
    journal: Within,
}

/// A size that may differ a little: equal when it is not greater than it may be.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Within {
    bytes: u64,
    slack: u64,
}

impl PartialEq for Within {
    fn eq(&self, other: &Self) -> bool {
        self.bytes.abs_diff(other.bytes) <= self.slack.min(other.slack)
    }
}

impl Eq for Within {}

impl Own {
    pub(crate) fn of(instance: &Instance, resident: &str) -> Self {
        let keeper = keeper(instance, resident);
        let process = PathBuf::from(format!("/proc/{}", keeper.pid));
        let traces = Traces::of(instance);
        let root = instance.work().parent().unwrap().to_owned();
        let (files, bytes) = files(&root);
        let size = |name: &str| std::fs::metadata(instance.state().join(name)).map_or(0, |data| data.len());
        Self {
            keeper_descriptors: entries(&process.join("fd")),
            keeper_threads: entries(&process.join("task")),
            keeper_memory: Within { bytes: memory(&process), slack: 1 << 20 },
            processes_below_keeper: below(&keeper).len(),
            processes: traces.processes.len(),
            mounts: traces.mounts.len(),
            cgroups: traces.cgroups,
            files,
            bytes,
            rows: rows(&instance.state().join("state.db")),
            // A few pages more or less of what two lanes had open at once, and never more than SQLite's own limit
            // before it carries the journal over.
            database: Within { bytes: size("state.db"), slack: 64 << 10 },
            journal: Within { bytes: size("state.db-wal"), slack: 5 << 20 },
        }
    }
}

fn entries(directory: &Path) -> usize {
    std::fs::read_dir(directory).unwrap().count()
}

/// What a process has of its own in memory.
fn memory(process: &Path) -> u64 {
    let status = std::fs::read_to_string(process.join("status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn files(root: &Path) -> (BTreeSet<PathBuf>, u64) {
    let (mut found, mut bytes) = (BTreeSet::new(), 0);
    let mut pending = vec![root.to_owned()];
    while let Some(directory) = pending.pop() {
        for entry in std::fs::read_dir(&directory).into_iter().flatten().flatten() {
            let path = entry.path();
            let data = entry.metadata().unwrap();
            let is_store = path.to_str().is_some_and(|path| path.contains("/state.db"));
            if data.is_dir() {
                pending.push(path.clone());
            } else if !is_store {
                bytes += data.len();
            }
            if !is_store {
                found.insert(path);
            }
        }
    }
    (found, bytes)
}

/// How many rows every table has.
fn rows(database: &Path) -> BTreeMap<String, i64> {
    let connection = Connection::open_with_flags(database, OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let mut named = connection.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").unwrap();
    let tables: Vec<String> = named.query_map([], |row| row.get(0)).unwrap().map(Result::unwrap).collect();
    let count = |table: &String| {
        connection.query_row(&format!("SELECT count(*) FROM \"{table}\""), [], |row| row.get(0)).unwrap()
    };
    tables.iter().map(|table| (table.clone(), count(table))).collect()
}

/// What the kernel has in all, on a machine where others are at work, too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Machine {
    counts: BTreeMap<&'static str, u64>,
}

impl Machine {
    pub(crate) fn look() -> Self {
        let lines = |file: &str| std::fs::read_to_string(file).unwrap_or_default().lines().count() as u64;
        let terminals = std::fs::read_to_string("/proc/sys/kernel/pty/nr").unwrap_or_default();
        let mut counts = BTreeMap::from([
            ("mounts", lines("/proc/self/mountinfo")),
            ("unix sockets", lines("/proc/net/unix")),
            ("terminals", terminals.trim().parse().unwrap_or(0)),
        ]);
        // Only root may read it, and not every kernel keeps these apart.
        let slabs = std::fs::read_to_string("/proc/slabinfo").unwrap_or_default();
        for name in ["pid_namespace", "user_namespace", "net_namespace", "uts_namespace"] {
            let line = slabs.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
            if let Some(active) = line.and_then(|line| line.split_whitespace().next()?.parse().ok()) {
                counts.insert(name, active);
            }
        }
        Self { counts }
    }

    /// A leak of one in every cycle would show as `cycles` more; a third of that is left to the others.
    #[track_caller]
    pub(crate) fn assert_no_leak_since(&self, before: &Self, cycles: usize) {
        for (what, count) in &self.counts {
            let grown = count.saturating_sub(before.counts[what]);
            assert!(grown < cycles as u64 / 3, "{what} grew by {grown} in {cycles} cycles");
        }
    }
}
