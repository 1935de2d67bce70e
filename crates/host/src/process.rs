//! Reading who a process is, and whether it still is.

use palisade_core::ProcessIdentity;
use std::io::Read;
use std::sync::OnceLock;

/// Asked for by every lease, label and record, and the same all the time.
pub fn this_process() -> ProcessIdentity {
    static KNOWN: OnceLock<ProcessIdentity> = OnceLock::new();
    let find = || {
        let pid = std::process::id();
        ProcessIdentity { pid, start_ticks: start_ticks(pid).unwrap_or(0), boot: boot_id() }
    };
    let known = KNOWN.get_or_init(find);
    // A child that was forked and not executed is another process.
    if known.pid == std::process::id() { known.clone() } else { find() }
}

pub fn identify(pid: u32) -> Option<ProcessIdentity> {
    Some(ProcessIdentity { pid, start_ticks: start_ticks(pid)?, boot: boot_id() })
}

pub fn is_alive(process: &ProcessIdentity) -> bool {
    process.boot == boot_id() && start_ticks(process.pid) == Some(process.start_ticks)
}

/// A name for things that last no longer than this boot, from which their owner can be told.
pub fn label(process: &ProcessIdentity) -> String {
    format!("{}-{}", process.pid, process.start_ticks)
}

/// Whether the process that [`label`] named is alive; `None` when the text is no such label.
pub fn label_is_alive(label: &str) -> Option<bool> {
    let (pid, start) = label.split_once('-')?;
    let (pid, start): (u32, u64) = (pid.parse().ok()?, start.parse().ok()?);
    Some(start_ticks(pid) == Some(start))
}

pub fn boot_id() -> String {
    read_short("/proc/sys/kernel/random/boot_id").unwrap_or_default().trim().to_owned()
}

/// A file of `/proc` that is shorter than a page, in one read: it has no size to go by, and every read of it is made
/// up anew.
fn read_short(path: &str) -> Option<String> {
    let mut buffer = [0; 4096];
    let count = std::fs::File::open(path).ok()?.read(&mut buffer).ok()?;
    Some(String::from_utf8_lossy(&buffer[..count]).into_owned())
}

/// Field 22 of `/proc/PID/stat`; the name before it may hold anything, so count from its closing bracket.
/// A zombie holds no resource any more and does not count.
pub fn start_ticks(pid: u32) -> Option<u64> {
    let stat = read_short(&format!("/proc/{pid}/stat"))?;
    let (_, rest) = stat.rsplit_once(')')?;
    let mut fields = rest.split_whitespace();
    let state = fields.next()?;
    if state == "Z" || state == "X" {
        return None;
    }
    let shown: u64 = fields.nth(18)?.parse().ok()?;
    shown.checked_add_signed(-time_offset())
}

/// By how many ticks the kernel shifts these numbers for processes of this time namespace: the same process must be the
/// same for one that looks from another.
fn time_offset() -> i64 {
    static KNOWN: OnceLock<i64> = OnceLock::new();
    *KNOWN.get_or_init(|| ticks_of_offset(&read_short("/proc/self/timens_offsets").unwrap_or_default()))
}

/// On every architecture that this program is made for.
const TICKS_PER_SECOND: i64 = 100;

/// From lines such as `boottime 100000 500000000`: seconds and nanoseconds.
fn ticks_of_offset(offsets: &str) -> i64 {
    let line = offsets.lines().find_map(|line| line.strip_prefix("boottime"));
    let mut numbers =
        line.unwrap_or_default().split_whitespace().map(|word| word.parse::<i64>().unwrap_or(0));
    let (seconds, nanoseconds) = (numbers.next().unwrap_or(0), numbers.next().unwrap_or(0));
    seconds * TICKS_PER_SECOND + nanoseconds * TICKS_PER_SECOND / 1_000_000_000
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_offset_of_a_time_namespace_is_read() {
        assert_eq!(
            ticks_of_offset("monotonic           0         0\nboottime       100000 500000000\n"),
            10_000_050
        );
        assert_eq!(
            ticks_of_offset("monotonic           0         0\nboottime           -5         0\n"),
            -500
        );
        assert_eq!(ticks_of_offset(""), 0);
    }

    #[test]
    fn this_process_is_alive_and_one_with_another_start_is_not() {
        let me = this_process();
        assert!(is_alive(&me));
        assert_eq!(label_is_alive(&label(&me)), Some(true));
        let other = ProcessIdentity { start_ticks: me.start_ticks + 1, ..me.clone() };
        assert!(!is_alive(&other));
        assert_eq!(label_is_alive(&label(&other)), Some(false));
        assert!(!is_alive(&ProcessIdentity { boot: "another".into(), ..me }));
    }

    #[test]
    fn a_child_that_ended_but_was_not_reaped_is_not_alive() {
        let mut child = std::process::Command::new("true").spawn().unwrap();
        let pid = child.id();
        let deadline = std::time::Instant::now() + std::time::Duration::from_secs(10);
        while start_ticks(pid).is_some() && std::time::Instant::now() < deadline {
            std::thread::yield_now();
        }
        assert_eq!(start_ticks(pid), None);
        child.wait().unwrap();
    }
}
