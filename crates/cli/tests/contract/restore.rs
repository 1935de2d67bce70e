//! A terminal that is as it was, whatever happened: attributes of the line, and the modes that programs inside have
//! switched on.

use crate::support::inspect;
use palisade_testing::{Instance, Pty, eventually};
use rustix::process::{Pid, Signal, kill_process};

contracts!(
    detaching_and_ending_undo_what_the_program_switched_on,
    after_a_kill_of_the_client_the_terminal_is_as_before,
    a_client_that_is_killed_with_its_whole_group_leaves_the_terminal_as_before,
    after_a_kill_of_the_keeper_the_terminal_is_as_before,
    a_stop_and_a_continuation_leave_a_sane_terminal,
    a_plain_command_is_followed_just_as_well,
    a_terminal_that_takes_nothing_keeps_no_client_from_ending,
);

/// What a full-screen program begins with, and what undoes it.
const SWITCHES: &str =
    "printf '\\033[?1049h\\033[?1000h\\033[?1006h\\033[?2004h\\033[>1u\\033[?25l\\033=ready'";
const UNDONE: &str = "\x1b[<1u\x1b[?2004l\x1b[?1006l\x1b[?1000l\x1b[?25h\x1b[?1049l\x1b>";
const REDONE: &str = "\x1b[?1049h\x1b[?25l\x1b[?1000h\x1b[?1006h\x1b[?2004h\x1b[>1u\x1b=";

/// Attached to a session that has switched things on, and waits for a line.
fn attached(instance: &Instance) -> Pty {
    // The shell itself reads nothing, so that a signal is not kept waiting for a line.
    let script = format!(
        "{SWITCHES}; trap 'stty size' WINCH; head -n 1 </dev/tty >/dev/null & while ! wait $!; do :; done; exit 3"
    );
    let mut terminal =
        Pty::start(&mut instance.command(["attach", "box", "--", "bash", "-c", &script]), 24, 80);
    terminal.wait_for("ready");
    assert!(!terminal.is_as_before());
    terminal
}

fn started(method: &'static str) -> Instance {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance
}

/// The processes that this one has started.
fn children(process: u32) -> Vec<u32> {
    let mut found = Vec::new();
    for task in std::fs::read_dir(format!("/proc/{process}/task")).unwrap().flatten() {
        let list = std::fs::read_to_string(task.path().join("children")).unwrap_or_default();
        found.extend(list.split_whitespace().map(|number| number.parse::<u32>().unwrap()));
    }
    found
}

fn is_alive(process: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap_or_default();
    stat.rsplit_once(") ").is_some_and(|(_, rest)| !rest.starts_with('Z'))
}

fn detaching_and_ending_undo_what_the_program_switched_on(method: &'static str) {
    let instance = started(method);
    let mut terminal = attached(&instance);
    terminal.type_keys("\x1cd");
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.is_as_before());
    terminal.wait_for_anybody(UNDONE);
    // What was on is on again for the next one.
    let mut terminal = attached(&instance);
    let watch = children(terminal.id());
    assert_eq!(watch.len(), 1);
    terminal.type_keys("\r");
    assert_eq!(terminal.wait(), 3);
    terminal.wait_for_anybody(UNDONE);
    assert!(terminal.is_as_before());
    assert!(!is_alive(watch[0]), "the watch outlives who started it");
    assert_eq!(terminal.screen().matches(UNDONE).count(), 1, "{}", terminal.screen().escape_debug());
}

fn after_a_kill_of_the_client_the_terminal_is_as_before(method: &'static str) {
    let instance = started(method);
    let mut terminal = attached(&instance);
    let watch = children(terminal.id());
    terminal.signal(Signal::KILL);
    assert_eq!(terminal.wait(), -9);
    terminal.wait_for_anybody(UNDONE);
    eventually("the line is as before", || terminal.is_as_before());
    eventually("the watch is gone", || !is_alive(watch[0]));
    // The session goes on.
    assert_eq!(instance.run(["sessions", "box", "--json"]).ok().json()[0]["state"], "running");
}

fn a_client_that_is_killed_with_its_whole_group_leaves_the_terminal_as_before(method: &'static str) {
    let instance = started(method);
    let mut terminal = attached(&instance);
    let group = Pid::from_raw(i32::try_from(terminal.id()).unwrap()).unwrap();
    rustix::process::kill_process_group(group, Signal::KILL).unwrap();
    assert_eq!(terminal.wait(), -9);
    terminal.wait_for_anybody(UNDONE);
    eventually("the line is as before", || terminal.is_as_before());
}

fn after_a_kill_of_the_keeper_the_terminal_is_as_before(method: &'static str) {
    let instance = started(method);
    let mut terminal = attached(&instance);
    let keeper = i32::try_from(inspect(&instance, "box")["keeper_pid"].as_i64().unwrap()).unwrap();
    kill_process(Pid::from_raw(keeper).unwrap(), Signal::KILL).unwrap();
    assert_eq!(terminal.wait(), 1);
    assert!(terminal.is_as_before());
    terminal.wait_for_anybody(UNDONE);
    terminal.wait_for_anybody("the connection to the sandbox was closed\r\n");
}

fn a_stop_and_a_continuation_leave_a_sane_terminal(method: &'static str) {
    let instance = started(method);
    let mut terminal = attached(&instance);
    for signal in [Signal::TSTP, Signal::STOP] {
        terminal.signal(signal);
        if signal == Signal::TSTP {
            terminal.wait_for_anybody(UNDONE);
            eventually("the line is as before", || terminal.is_as_before());
        } else {
            // Nobody can see this one coming; a shell puts its own line back.
            terminal.put_back();
        }
        eventually("it is stopped", || state_of(terminal.id()) == 'T');
        terminal.signal(Signal::CONT);
        terminal.wait_for(REDONE);
        assert!(!terminal.is_as_before());
        // The program is told to draw again, by a size that is taken back.
        terminal.wait_for(" 80\r\n");
        eventually("the size is as before", || {
            instance.run(["sessions", "box", "--json"]).ok().json()[0]["rows"] == 24
        });
    }
    terminal.type_keys("\r");
    assert_eq!(terminal.wait(), 3);
    assert!(terminal.is_as_before());
}

fn state_of(process: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{process}/stat")).unwrap();
    stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
}

fn a_plain_command_is_followed_just_as_well(method: &'static str) {
    let instance = started(method);
    let script = format!("{SWITCHES}; kill -KILL $$");
    for words in [&["exec", "-t", "box"][..], &["run"]] {
        let words = words.iter().copied().chain(["--", "bash", "-c", &script]);
        let mut terminal = Pty::start(&mut instance.command(words), 24, 80);
        assert_eq!(terminal.wait(), 137);
        terminal.wait_for_anybody(UNDONE);
        assert!(terminal.is_as_before());
    }
}

/// Its reader has stopped, and everything in between is full.
fn a_terminal_that_takes_nothing_keeps_no_client_from_ending(method: &'static str) {
    let instance = started(method);
    let mut terminal = Pty::start(&mut instance.command(["attach", "box", "--", "yes"]), 24, 80);
    terminal.wait_for("y\r\ny\r\n");
    eventually("nothing more can be written", || terminal.is_full());
    terminal.signal(Signal::TERM);
    eventually("the client has ended", || !is_alive(terminal.id()));
    assert!(terminal.is_as_before());
}
