//! Processes that can be told for ours although whoever started them is gone: by what their environment or their
//! name for themselves says.

use crate::process;
use palisade_core::ProcessIdentity;
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::{Duration, Instant};

/// The name under which a process of ours starts bwrap. It stays until the guest takes bwrap's place, which is as long
/// as bwrap may still make mount points in a bound directory.
pub fn launcher_name(owner: &ProcessIdentity) -> String {
    format!("bwrap-{}", process::label(owner))
}

/// Ends what is left of a dead process's launch; says whether nothing is.
pub fn end_launcher(owner: &ProcessIdentity) -> bool {
    let name = launcher_name(owner);
    kill_all(|pid| {
        let command = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        command.split(|&byte| byte == 0).next() == Some(name.as_bytes())
    })
}

/// Kills the processes for which `ours` holds, until a look at all processes finds none; says whether that came true.
pub fn kill_all(ours: impl Fn(u32) -> bool) -> bool {
    const PATIENCE: Duration = Duration::from_secs(2);
    let deadline = Instant::now() + PATIENCE;
    loop {
        if all().into_iter().filter(|pid| ours(*pid) && kill(*pid, &ours)).count() == 0 {
            return true;
        }
        if Instant::now() > deadline {
            return false;
        }
        std::thread::yield_now();
    }
}

fn all() -> Vec<u32> {
    let Ok(entries) = std::fs::read_dir("/proc") else { return Vec::new() };
    let pids = entries.flatten().filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.filter(|&pid| pid != std::process::id()).collect()
}

/// Holds the process by a descriptor before looking again, so that a reused number is never hit.
fn kill(pid: u32, ours: impl Fn(u32) -> bool) -> bool {
    let Some(raw) = Pid::from_raw(pid as i32) else { return false };
    let Ok(held) = pidfd_open(raw, PidfdFlags::empty()) else { return false };
    ours(pid) && pidfd_send_signal(held, Signal::KILL).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::process::{CommandExt, ExitStatusExt};
    use std::process::Command;

    #[test]
    fn only_the_launch_of_that_very_process_is_ended() {
        let owner = ProcessIdentity { pid: 4_000_000, start_ticks: 1, boot: String::new() };
        let other = ProcessIdentity { start_ticks: 11, ..owner.clone() };
        let sleep = |name: &str| Command::new("sleep").arg0(name).arg("60").spawn().unwrap();
        let (mut ours, mut theirs) = (sleep(&launcher_name(&owner)), sleep(&launcher_name(&other)));
        assert!(end_launcher(&owner));
        assert_eq!(ours.wait().unwrap().signal(), Some(9));
        assert_eq!(theirs.try_wait().unwrap(), None);
        theirs.kill().unwrap();
        theirs.wait().unwrap();
    }
}
