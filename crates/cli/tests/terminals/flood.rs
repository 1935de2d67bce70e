//! A command that writes without end in front of a reader that stops: nothing grows, nothing is lost.

use palisade_testing::{Instance, Pty, eventually, requires};
use std::time::{Duration, Instant};

/// How long the reader stops.
const STOPPED: Duration = Duration::from_secs(60);
/// By then everything on the way is full.
const FILLED: Duration = Duration::from_secs(10);
const COUNTED: u32 = 2_000_000;

/// Memory of a process that is its own, in KiB; of one that ended, none.
fn memory(process: u32) -> u64 {
    let text = std::fs::read_to_string(format!("/proc/{process}/smaps_rollup")).unwrap_or_default();
    let line = |name: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(name));
        line.and_then(|line| line.split_whitespace().next()?.parse::<u64>().ok()).unwrap_or(0)
    };
    line("Private_Dirty:") + line("Private_Clean:")
}

/// The guest of the sandbox: the process that the program inside is a child of.
fn parent_of(process: u32) -> u32 {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.split_whitespace().nth(1).unwrap().parse().unwrap()
}

fn processes_with(word: &str) -> Vec<u32> {
    let entries = std::fs::read_dir("/proc").unwrap().flatten();
    let numbers = entries.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    numbers
        .filter(|number| {
            let words = std::fs::read(format!("/proc/{number}/cmdline")).unwrap_or_default();
            words.split(|&byte| byte == 0).any(|argument| argument == word.as_bytes())
        })
        .collect()
}

#[test]
fn a_reader_that_stops_for_a_minute_loses_nothing_and_nothing_grows() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let mark = format!("{COUNTED}.{}", std::process::id());
    let script = format!("stty -echo; echo ready; read go; seq 1 {COUNTED}; echo END; read bye; exit 8");
    let mut command = instance.command(["attach", "box", "--", "sh", "-c", &script, &mark]);
    let mut terminal = Pty::start(&mut command, 24, 80);
    terminal.wait_for("ready\r\n");
    let inside = processes_with(&mark).into_iter().find(|number| *number != terminal.id()).unwrap();
    let keeper = instance.run(["inspect", "box", "--json"]).ok().json()["keeper_pid"].as_u64().unwrap();
    let parts = [terminal.id(), u32::try_from(keeper).unwrap(), parent_of(inside)];
    terminal.type_keys("go\r");
    terminal.wait_for("\r\n1000\r\n");
    // From here on nothing is read. What may wait on the way has a bound, and that is soon reached.
    eventually("nothing more can be written", || terminal.is_full());
    let stopped = Instant::now();
    let mut settled = None;
    while stopped.elapsed() < STOPPED {
        // Somebody else is served all the while.
        assert_eq!(instance.shell("box", "echo here").ok().stdout, "here\n");
        let now = parts.map(memory);
        assert!(now.iter().all(|memory| *memory < 8 * 1024), "KiB of client, keeper and guest: {now:?}");
        if stopped.elapsed() > FILLED {
            let first = *settled.get_or_insert(now);
            let grown = now.iter().zip(first).map(|(now, first)| now.saturating_sub(first));
            assert!(grown.max() < Some(1024), "KiB of client, keeper and guest: {first:?}, then {now:?}");
        }
        std::thread::sleep(Duration::from_secs(1));
    }
    let now = parts.map(memory);
    eprintln!("KiB of client, keeper and guest after {FILLED:?}: {settled:?}, after {STOPPED:?}: {now:?}");
    terminal.wait_for("END\r\n");
    let screen = terminal.screen();
    let counted = screen.lines().filter_map(|line| line.parse::<u32>().ok());
    assert!(counted.eq(1..=COUNTED), "the count has a hole");
    terminal.type_keys("\r");
    assert_eq!(terminal.wait(), 8);
    assert!(terminal.is_as_before());
}
