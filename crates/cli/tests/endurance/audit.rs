//! Nothing but what the records say: every process, mount, cgroup, socket, file, row and lock of an instance is
//! accounted for by a sandbox that is there.

use crate::support::{below, store};
use palisade_core::State;
use palisade_host::process;
use palisade_store::Row;
use palisade_testing::{Instance, Traces, is_root};
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::PathBuf;

/// All that can be there of an instance.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
struct Ground {
    /// Those that name the instance, and those that were seen at work and still live.
    processes: BTreeSet<u32>,
    mounts: BTreeSet<String>,
    /// Names of the groups, which each hierarchy has once.
    cgroups: BTreeSet<String>,
    files: BTreeSet<PathBuf>,
    intents: Vec<String>,
    locks: Vec<String>,
    /// Rows in a state that nobody is at work on and that will never be left.
    unsettled: Vec<String>,
}

/// Compares what is there with what the rows account for. `seen` are processes that took part in what was killed.
pub(crate) fn audit(instance: &Instance, seen: &BTreeSet<u32>) -> Result<(), String> {
    let rows = store(instance).list().map_err(|error| error.to_string())?;
    if !rows.bad.is_empty() {
        return Err(format!("records that cannot be read: {:?}", rows.bad));
    }
    let (found, expected) = (found(instance, &rows.rows, seen), expected(instance, &rows.rows));
    if found == expected {
        Ok(())
    } else {
        Err(format!("found {found:#?}\nbut the records account for {expected:#?}"))
    }
}

fn found(instance: &Instance, rows: &[Row], seen: &BTreeSet<u32>) -> Ground {
    let traces = Traces::of(instance);
    let number = |text: &String| text.split(':').next().and_then(|pid| pid.parse().ok());
    let mut processes: BTreeSet<u32> = traces.processes.iter().filter_map(number).collect();
    processes.extend(seen.iter().filter(|pid| process::identify(**pid).is_some()));
    // What runs inside a sandbox is its keeper's affair, and ends with it.
    let inside: BTreeSet<u32> = rows
        .iter()
        .filter_map(|row| row.keeper.as_ref())
        .flat_map(|keeper| below(keeper).into_iter().map(|process| process.pid))
        .collect();
    let work = |path: &PathBuf| {
        let places = rows.iter().filter_map(|row| row.spec.dir.as_ref());
        places
            .flat_map(|dir| [dir.home(), dir.workspace()])
            .any(|place| path.starts_with(place.as_path()) && path != place.as_path())
    };
    // What is told of a sandbox stays as long as the sandbox does.
    let told = |path: &PathBuf| path.ends_with("keeper.log") || path.ends_with("sessions.json");
    let unsettled = rows
        .iter()
        .filter(|row| !matches!(row.state, State::Created | State::Running | State::Stopped | State::Error));
    Ground {
        processes: processes.difference(&inside).copied().collect(),
        mounts: traces.mounts,
        cgroups: traces
            .cgroups
            .iter()
            .filter_map(|path| Some(path.file_name()?.to_str()?.to_owned()))
            .collect(),
        files: traces.files.into_iter().filter(|path| !work(path) && !told(path)).collect(),
        intents: store(instance)
            .intents()
            .unwrap()
            .intents
            .iter()
            .map(|intent| format!("{intent:?}"))
            .collect(),
        locks: locks(instance),
        unsettled: unsettled.map(|row| format!("{row:?}")).collect(),
    }
}

fn expected(instance: &Instance, rows: &[Row]) -> Ground {
    let kept: Vec<&Row> = rows.iter().filter(|row| row.state.has_keeper()).collect();
    let mut files = BTreeSet::new();
    for row in rows {
        let dir = row.spec.dir.as_ref().unwrap();
        assert!(dir.path().as_path().starts_with(instance.state()));
        files.extend([dir.path().clone(), dir.home(), dir.workspace(), dir.description()].map(PathBuf::from));
        if let Some(keeper) = row.keeper.as_ref().filter(|_| row.state.has_keeper()) {
            files.insert(dir.socket().into());
            let lease = format!("{}.{}", process::label(keeper), &keeper.boot[..8]);
            files.insert(instance.state().join("leases").join(lease));
        }
    }
    let groups = kept.iter().filter(|_| is_root()).map(|row| format!("sb-{}", row.id()));
    Ground {
        processes: kept.iter().filter_map(|row| Some(row.keeper.as_ref()?.pid)).collect(),
        cgroups: groups.collect(),
        files,
        ..Ground::default()
    }
}

/// Locks on the instance's own lock files. The kernel takes them back from the dead, but not from a living process
/// that got one by mistake.
fn locks(instance: &Instance) -> Vec<String> {
    let files = ["turns.lock", "state.lock"].map(|name| instance.state().join(name));
    let ours: Vec<String> =
        files.iter().filter_map(|file| Some(format!(":{} ", std::fs::metadata(file).ok()?.ino()))).collect();
    let table = std::fs::read_to_string("/proc/locks").unwrap();
    let is_ours = |line: &&str| ours.iter().any(|inode| line.contains(inode));
    table.lines().filter(is_ours).map(str::to_owned).collect()
}
