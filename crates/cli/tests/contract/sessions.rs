//! Named sessions: terminals that outlive whoever looks at them.

use crate::support::{outcome, processes_with, said, unique_sleep};
use palisade_testing::{Instance, Outcome, Pty, eventually};
use rustix::process::Signal;
use serde_json::json;

contracts!(
    attach_opens_a_login_shell_that_goes_on_when_left,
    a_session_is_started_without_looking_at_it,
    an_end_that_nobody_saw_is_shown_once,
    two_terminals_share_a_session,
    leaving_in_any_way_leaves_the_session_and_puts_the_terminal_back,
    a_session_that_cannot_be_is_told,
    the_detach_keys_can_be_chosen_and_typed,
);

const DETACH: &str = "\x1cd";

fn attached(instance: &Instance, arguments: &[&str]) -> Pty {
    Pty::start(&mut instance.command([&["attach", "box"], arguments].concat()), 24, 80)
}

#[track_caller]
fn listed(instance: &Instance) -> serde_json::Value {
    instance.run(["sessions", "box", "--json"]).ok().json()
}

fn attach_opens_a_login_shell_that_goes_on_when_left(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    assert_eq!(
        instance.run(["sessions", "box"]),
        outcome("", "no sessions; open one with: palisade attach box\n", 0)
    );
    let mut terminal = attached(&instance, &["-e", "PROMPT_COMMAND=printf shown:"]);
    terminal.wait_for("shown:");
    assert!(!terminal.is_as_before());
    terminal.type_keys("shopt -q login_shell && kept=$((40 + 2)); stty size\r");
    terminal.wait_for("24 80\r\n");
    terminal.wait_for("shown:");
    assert_eq!(
        listed(&instance),
        json!([{ "name": "main", "state": "running", "viewers": 1, "rows": 24, "columns": 80 }])
    );
    terminal.type_keys(DETACH);
    assert_eq!(terminal.wait(), 0);
    assert!(terminal.is_as_before());
    let told = "session 'main' goes on; come back with: palisade attach box";
    assert!(terminal.screen().trim_end().ends_with(told), "{}", terminal.screen());

    let mut again = Pty::start(&mut instance.command(["attach", "box"]), 30, 100);
    // What was shown before is shown again, and the shell is the same.
    again.wait_for("24 80\r\n");
    again.wait_for("shown:");
    again.type_keys("echo kept $kept; stty size; exit 3\r");
    again.wait_for("kept 42\r\n30 100\r\n");
    assert_eq!(again.wait(), 3);
    assert!(again.is_as_before());
    assert!(again.screen().ends_with("session 'main' has ended (exit code 3)\r\n"), "{}", again.screen());
    let table = "NAME  STATE                VIEWERS  SIZE\nmain  ended (exit code 3)  0        100x30\n";
    assert_eq!(instance.run(["sessions", "box"]), outcome(table, "", 0));
    // Its end was seen, so that the next one is new.
    let mut anew = attached(&instance, &["--", "sh", "-c", "echo anew; exit 5"]);
    anew.wait_for("anew\r\n");
    assert_eq!(anew.wait(), 5);
}

fn detached(instance: &Instance, session: &str, script: &str) -> Outcome {
    let words = ["exec", "box", "--session", session, "--detach", "--", "sh", "-c", script];
    instance.run(words)
}

fn a_session_is_started_without_looking_at_it(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let script = "echo working; read line; echo got $line; read more";
    let told = "session 'agent' runs; look at it with: palisade attach box --session agent\n";
    assert_eq!(detached(&instance, "agent", script), outcome("", told, 0));
    assert_eq!(
        listed(&instance),
        json!([{ "name": "agent", "state": "running", "viewers": 0, "rows": 24, "columns": 80 }])
    );
    let taken = "error: session 'agent' of sandbox 'box' is running\n\
                 hint: attach to it with: palisade attach box --session agent; or choose another name\n";
    assert_eq!(detached(&instance, "agent", "true"), outcome("", taken, 7));
    // Where it runs already, the command is not another one.
    let mut terminal = attached(&instance, &["--session", "agent", "--", "echo", "other"]);
    terminal.wait_for("working\r\n");
    terminal.type_keys("hello\r");
    terminal.wait_for("got hello\r\n");
    terminal.type_keys(DETACH);
    assert_eq!(terminal.wait(), 0);
    let told = "come back with: palisade attach box --session agent";
    assert!(terminal.screen().trim_end().ends_with(told), "{}", terminal.screen());
    assert!(!terminal.screen().contains("other"));
}

fn an_end_that_nobody_saw_is_shown_once(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    detached(&instance, "job", "echo all done; exit 9").ok();
    eventually("it ends", || listed(&instance)[0]["state"] == "ended");
    assert_eq!(
        listed(&instance),
        json!([{ "name": "job", "state": "ended", "exit_code": 9, "viewers": 0, "rows": 24, "columns": 80 }])
    );
    let mut terminal = attached(&instance, &["--session", "job"]);
    terminal.wait_for("all done\r\n");
    assert_eq!(terminal.wait(), 9);
    let mut terminal = attached(&instance, &["--session", "job", "-e", "PROMPT_COMMAND=printf shown:"]);
    terminal.wait_for("shown:");
    assert!(!terminal.screen().contains("all done"));
    terminal.type_keys("exit\r");
    assert_eq!(terminal.wait(), 0);
}

fn two_terminals_share_a_session(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let script = "stty -echo; echo up; while read line; do echo got $line $(stty size); done; exit 4";
    let mut first = attached(&instance, &["--", "sh", "-c", script]);
    first.wait_for("up\r\n");
    let mut second = Pty::start(&mut instance.command(["attach", "box"]), 40, 120);
    second.wait_for("up\r\n");
    assert_eq!(listed(&instance)[0]["viewers"], 2);
    // Whoever came or changed last sets the size.
    first.type_keys("one\r");
    first.wait_for("got one 40 120\r\n");
    second.wait_for("got one 40 120\r\n");
    first.resize(20, 70);
    eventually("the size arrives", || listed(&instance)[0]["rows"] == 20);
    second.type_keys("two\r");
    first.wait_for("got two 20 70\r\n");
    second.wait_for("got two 20 70\r\n");
    second.type_keys(DETACH);
    assert_eq!(second.wait(), 0);
    first.type_keys("three\r");
    first.wait_for("got three 20 70\r\n");
    first.type_keys("\x04");
    assert_eq!(first.wait(), 4);
    assert!(!second.screen().contains("three"));
}

fn leaving_in_any_way_leaves_the_session_and_puts_the_terminal_back(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let sleep = unique_sleep();
    detached(&instance, "main", &format!("echo ready; exec sleep {sleep}")).ok();
    for signal in [Signal::TERM, Signal::HUP, Signal::INT, Signal::QUIT, Signal::USR1] {
        let mut terminal = attached(&instance, &[]);
        terminal.wait_for("ready");
        terminal.signal(signal);
        assert_eq!(terminal.wait(), 128 + signal.as_raw());
        assert!(terminal.is_as_before(), "after {signal:?}");
    }
    let mut terminal = attached(&instance, &[]);
    terminal.wait_for("ready");
    eventually("only this one looks", || listed(&instance)[0]["viewers"] == 1);
    assert_eq!(processes_with(&sleep).len(), 1);
    // The sandbox is stopped while somebody looks.
    instance.run(["stop", "box"]).ok();
    assert_ne!(terminal.wait(), 0);
    assert!(terminal.is_as_before());
}

fn a_session_that_cannot_be_is_told(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let refused = instance.run(["attach", "box"]);
    let told = "error: attach needs a terminal, and this is none\n\
                hint: to start a session without looking at it: palisade exec box --session main --detach -- COMMAND\n";
    assert_eq!(refused, outcome("", told, 2));
    let refused = instance.run(["exec", "box", "--session", "s", "--", "true"]);
    let told = "error: --session needs a terminal, and this is none\nhint: add --detach, or use it from a terminal\n";
    assert_eq!(refused, outcome("", told, 2));
    let missing = instance.run(["exec", "box", "--session", "s", "--detach", "--", "no-such-program"]);
    assert_eq!(
        (said(&missing).as_str(), missing.code),
        ("error: no-such-program: command not found in the sandbox\n", 127)
    );
    for name in ["", "-x", "Main", "a b", "a\u{1b}[31m", &"x".repeat(64)] {
        let refused = instance.run(["exec", "box", &format!("--session={name}"), "--detach", "--", "true"]);
        assert_eq!(refused.code, 2, "{name:?}: {}", refused.stderr);
    }
    assert_eq!(instance.run(["sessions", "nobody"]).code, 6);
    instance.run(["stop", "box"]).ok();
    assert_eq!(instance.run(["sessions", "box"]), outcome("", "no sessions; sandbox 'box' is stopped\n", 0));
}

fn the_detach_keys_can_be_chosen_and_typed(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let show = ["--", "sh", "-c", "stty raw -echo; echo up; exec od -An -v -tx1 -w1"];
    let mut terminal = attached(&instance, &show);
    terminal.wait_for("up");
    // Twice is once; before another key it is itself; a paste is no key; the kitty form detaches.
    terminal.type_keys("\x1c\x1c");
    terminal.wait_for(" 1c\n");
    terminal.type_keys("\x1cx");
    terminal.wait_for(" 1c\n");
    terminal.wait_for(" 78\n");
    terminal.type_keys("\x1b[200~\x1cd\x1b[201~");
    terminal.wait_for(" 1c\n");
    terminal.wait_for(" 64\n");
    terminal.wait_for(" 7e\n");
    terminal.type_keys("\x1b");
    terminal.wait_for(" 1b\n");
    terminal.type_keys("\x1b[92;5ud");
    assert_eq!(terminal.wait(), 0);
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[attach]\ndetach_keys = 'ctrl-p,ctrl-q'\n").unwrap();
    let mut terminal = attached(&instance, &[]);
    terminal.wait_for("up");
    terminal.type_keys("\x1cd");
    terminal.wait_for(" 1c\n");
    terminal.type_keys("\x10\x11");
    assert_eq!(terminal.wait(), 0);
    std::fs::write(instance.user_config(), "[attach]\ndetach_keys = 'ctrl-['\n").unwrap();
    assert_eq!(instance.run(["sessions", "box"]).code, 3);
    std::fs::remove_file(instance.user_config()).unwrap();
}
