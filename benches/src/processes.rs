//! Processes of a sandbox, as `/proc` tells of them.

use crate::comparison::Result;
use crate::failure::Failure;
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::ffi::OsStrExt;
use std::path::Path;

/// The keepers whose state lies in this directory, and all that descend from them.
pub(crate) fn household(state: &Path) -> Result<BTreeSet<u32>> {
    let mut children: BTreeMap<u32, Vec<u32>> = BTreeMap::new();
    let mut found = BTreeSet::new();
    let mut pending = Vec::new();
    let entries = std::fs::read_dir("/proc").map_err(Failure::io("read /proc"))?;
    for entry in entries.flatten() {
        let Some(pid) = entry.file_name().to_str().and_then(|name| name.parse().ok()) else { continue };
        // Processes end while we look; those are none of ours.
        let Some(parent) = parent(pid) else { continue };
        children.entry(parent).or_default().push(pid);
        if is_keeper(pid, state) {
            pending.push(pid);
        }
    }
    while let Some(pid) = pending.pop() {
        if found.insert(pid) {
            pending.extend(children.remove(&pid).unwrap_or_default());
        }
    }
    Ok(found)
}

fn parent(pid: u32) -> Option<u32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    let stat = String::from_utf8_lossy(&stat);
    // `pid (name) state parent …`, where the name may hold parentheses.
    stat.rsplit_once(')')?.1.split_ascii_whitespace().nth(1)?.parse().ok()
}

fn is_keeper(pid: u32, state: &Path) -> bool {
    let holds = |file: &str, part: &[u8]| {
        std::fs::read(format!("/proc/{pid}/{file}"))
            .is_ok_and(|bytes| bytes.split(|byte| *byte == 0).any(|word| word == part))
    };
    let variable = [b"XDG_STATE_HOME=", state.as_os_str().as_bytes()].concat();
    holds("cmdline", b"__keeper") && holds("environ", &variable)
}

/// A process's share of the memory it uses: what it has alone, and its part of what it shares.
pub(crate) fn proportional_kibibytes(pid: u32) -> Result<u64> {
    let path = format!("/proc/{pid}/smaps_rollup");
    let text = std::fs::read_to_string(&path).map_err(Failure::io(format!("read {path}")))?;
    text.lines()
        .find_map(|line| line.strip_prefix("Pss:")?.split_ascii_whitespace().next()?.parse().ok())
        .ok_or_else(|| Failure::Plan(format!("{path} has no Pss")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn our_own_share_of_memory_is_told_and_we_keep_no_sandbox() {
        assert!(proportional_kibibytes(std::process::id()).unwrap() > 100);
        assert_eq!(household(Path::new("/nonexistent")).unwrap(), BTreeSet::new());
    }
}
