//! Who runs, as far as `/proc` tells: the members of a session, the descendants of this process.

use crate::system;
use rustix::process::Pid;
use std::collections::{BTreeMap, BTreeSet};

/// Passes over `/proc` in search of processes that appeared while others were being killed.
const PASSES: usize = 16;

struct Process {
    pid: i32,
    parent: i32,
    session: i32,
    has_terminal: bool,
}

/// Living processes; zombies have nothing left to kill.
fn all() -> Vec<Process> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(|entry| {
            let pid: i32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
            // Lossy: a command's name may be any bytes.
            let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
            parse(pid, &String::from_utf8_lossy(&stat))
        })
        .collect()
}

/// The parent of a living process, 0 when that is outside this pid namespace.
pub(crate) fn parent(pid: i32) -> Option<i32> {
    let stat = std::fs::read(format!("/proc/{pid}/stat")).ok()?;
    parse(pid, &String::from_utf8_lossy(&stat)).map(|process| process.parent)
}

/// `pid (name) state parent group session terminal …`, where the name may hold parentheses and blanks.
fn parse(pid: i32, stat: &str) -> Option<Process> {
    let mut fields = stat.rsplit_once(')')?.1.split_ascii_whitespace();
    if matches!(fields.next()?, "Z" | "X") {
        return None;
    }
    let parent = fields.next()?.parse().ok()?;
    let session = fields.nth(1)?.parse().ok()?;
    let has_terminal = fields.next()? != "0";
    Some(Process { pid, parent, session, has_terminal })
}

/// Sends signals to the session that a living child leads.
pub(crate) fn signal_session(leader: Pid, signals: &[i32]) {
    let leader = leader.as_raw_nonzero().get();
    // Before its own setsid a child is in nobody's session but ours.
    for process in all().iter().filter(|process| process.session == leader || process.pid == leader) {
        for signal in signals {
            let _ = system::kill(process.pid, *signal);
        }
    }
}

/// Whether anybody is left in a session.
pub(crate) fn session_lives(leader: Pid) -> bool {
    let leader = leader.as_raw_nonzero().get();
    all().iter().any(|process| process.session == leader)
}

/// Kills the session that a living child leads, its background jobs included.
pub(crate) fn kill_session(leader: Pid) {
    let leader = leader.as_raw_nonzero().get();
    let _ = system::kill(-leader, libc::SIGKILL);
    // Before its own setsid a child is in nobody's group but ours.
    let _ = system::kill(leader, libc::SIGKILL);
    let mut killed = BTreeSet::new();
    for _ in 0..PASSES {
        let fresh: Vec<i32> = all()
            .into_iter()
            .filter(|process| process.session == leader && killed.insert(process.pid))
            .map(|process| process.pid)
            .collect();
        if fresh.is_empty() {
            return;
        }
        for pid in fresh {
            let _ = system::kill(pid, libc::SIGKILL);
        }
    }
}

/// Everything this process is to end before it ends itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Household {
    /// The first process of a pid namespace: everybody.
    Everybody,
    Descendants(i32),
}

impl Household {
    pub(crate) fn mine() -> Self {
        match rustix::process::getpid().as_raw_nonzero().get() {
            1 => Household::Everybody,
            own => Household::Descendants(own),
        }
    }

    /// Without what came in from outside, which has no parent in here.
    pub(crate) fn born_here() -> Self {
        Household::Descendants(rustix::process::getpid().as_raw_nonzero().get())
    }

    pub(crate) fn signal(self, signal: i32) {
        match self {
            Household::Everybody => drop(system::kill(-1, signal)),
            Household::Descendants(own) => {
                for pid in descendants(own) {
                    let _ = system::kill(pid, signal);
                }
            }
        }
    }

    /// Tells all who have a terminal that it is gone. An interactive shell ignores a request to end, and heeds this.
    pub(crate) fn hang_up(self) {
        let members = match self {
            Household::Everybody => None,
            Household::Descendants(own) => Some(descendants(own)),
        };
        let own = rustix::process::getpid().as_raw_nonzero().get();
        for Process { pid, .. } in
            all().into_iter().filter(|process| process.has_terminal && process.pid != own)
        {
            if members.as_ref().is_none_or(|members| members.contains(&pid)) {
                let _ = system::kill(pid, libc::SIGHUP);
            }
        }
    }

    pub(crate) fn is_empty(self) -> bool {
        match self {
            Household::Everybody => system::kill(-1, 0).is_err(),
            Household::Descendants(own) => descendants(own).is_empty(),
        }
    }
}

fn descendants(root: i32) -> Vec<i32> {
    let mut children: BTreeMap<i32, Vec<i32>> = BTreeMap::new();
    for process in all() {
        children.entry(process.parent).or_default().push(process.pid);
    }
    let mut found = children.remove(&root).unwrap_or_default();
    let mut next = 0;
    while let Some(pid) = found.get(next) {
        found.extend(children.remove(pid).unwrap_or_default());
        next += 1;
    }
    found
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_name_made_to_confuse_is_read_as_a_name() {
        let process = parse(7, "7 (a) Z 1 (b) S 3 4 5 0 -1").unwrap();
        assert_eq!((process.pid, process.parent, process.session), (7, 3, 5));
        assert!(!process.has_terminal && parse(7, "7 (sh) S 3 4 5 34816 -1").unwrap().has_terminal);
        assert!(parse(7, "7 (gone) Z 3 4 5 0").is_none());
        assert!(parse(7, "").is_none());
    }

    /// Not this process's own session: its leader may live outside our pid namespace, and then it has no number here.
    #[test]
    fn a_process_is_found_with_its_parent_and_session() {
        let mut leader = std::process::Command::new("setsid")
            .args(["cat"])
            .stdin(std::process::Stdio::piped())
            .stdout(std::process::Stdio::piped())
            .spawn()
            .unwrap();
        // An answer: by then it is past setsid.
        std::io::Write::write_all(leader.stdin.as_mut().unwrap(), b"x").unwrap();
        std::io::Read::read_exact(leader.stdout.as_mut().unwrap(), &mut [0]).unwrap();
        let pid = leader.id() as i32;
        let found = all().into_iter().find(|process| process.pid == pid).unwrap();
        drop(leader.stdin.take());
        leader.wait().unwrap();
        assert_eq!((found.parent, found.session), (std::process::id() as i32, pid));
    }
}
