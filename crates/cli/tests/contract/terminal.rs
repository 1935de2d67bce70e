//! A person at a terminal: job control, sizes, and a terminal that is as it was afterwards.

use crate::support::{processes_with, unique_sleep};
use palisade_testing::{Instance, Pty, eventually, requires};
use rustix::process::Signal;
use std::process::Command;

contracts!(
    job_control_works,
    the_terminal_has_the_callers_size_and_follows_it,
    the_terminal_is_put_back_after_every_end,
    a_shell_is_a_terminal_in_a_running_sandbox,
    exec_with_a_terminal,
    a_run_works_in_tmux,
);

const PROMPT: &str = "prompt> ";

fn job_control_works(method: &'static str) {
    let instance = Instance::with_method(method);
    let mut command = instance.command(["run", "-e", &format!("PS1={PROMPT}"), "--", "sh"]);
    let mut terminal = Pty::start(&mut command, 30, 100);
    terminal.wait_for(PROMPT);
    assert!(!terminal.is_as_before(), "the terminal is not raw, so nothing that follows proves anything");

    terminal.type_keys("tty\r");
    terminal.wait_for("/dev/pts/");
    terminal.wait_for(PROMPT);

    let sleep = unique_sleep();
    terminal.type_keys(&format!("sleep {sleep}\r"));
    eventually("the sleep runs", || processes_with(&sleep).len() == 1);
    let process = processes_with(&sleep)[0];
    terminal.type_keys("\x1a");
    terminal.wait_for("Stopped");
    terminal.wait_for(PROMPT);
    eventually("the sleep is stopped", || state_of(process) == Some('T'));
    terminal.type_keys("jobs\r");
    terminal.wait_for("Stopped");
    terminal.wait_for(PROMPT);
    terminal.type_keys("fg\r");
    eventually("the sleep goes on", || state_of(process) == Some('S'));
    terminal.type_keys("\x03");
    terminal.wait_for(PROMPT);
    assert_eq!(processes_with(&sleep), Vec::<u32>::new());
    terminal.type_keys("echo status $?\r");
    terminal.wait_for("status 130");

    terminal.type_keys("exit 7\r");
    assert_eq!(terminal.wait(), 7);
    assert!(terminal.is_as_before(), "{}", terminal.screen());
}

/// `T` is stopped, `S` waits.
fn state_of(process: u32) -> Option<char> {
    let line = std::fs::read_to_string(format!("/proc/{process}/stat")).ok()?;
    line.rsplit_once(") ")?.1.chars().next()
}

fn the_terminal_has_the_callers_size_and_follows_it(method: &'static str) {
    let instance = Instance::with_method(method);
    let script = "stty size; trap 'echo told $(stty size)' WINCH; echo ready; sleep 1000 & wait; wait";
    let mut terminal = Pty::start(&mut instance.command(["run", "--", "bash", "-c", script]), 31, 101);
    terminal.wait_for("31 101");
    terminal.wait_for("ready");
    terminal.resize(45, 132);
    terminal.wait_for("told 45 132");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 130);
}

fn the_terminal_is_put_back_after_every_end(method: &'static str) {
    let instance = Instance::with_method(method);
    let forever = "echo ready; exec sleep 1000";
    for signal in [Signal::TERM, Signal::INT, Signal::HUP] {
        let mut terminal = Pty::start(&mut instance.command(["run", "--", "sh", "-c", forever]), 24, 80);
        terminal.wait_for("ready");
        assert!(!terminal.is_as_before());
        terminal.signal(signal);
        assert_eq!(terminal.wait(), 128 + signal.as_raw());
        assert!(terminal.is_as_before(), "after {signal:?}");
    }
    // The command may leave its own terminal in any mode; it is another one.
    let wild = ["run", "--", "sh", "-c", "stty raw -echo; exit 4"];
    let mut terminal = Pty::start(&mut instance.command(wild), 24, 80);
    assert_eq!(terminal.wait(), 4);
    assert!(terminal.is_as_before());
    let mut terminal = Pty::start(&mut instance.command(["run", "--", "no-such-program"]), 24, 80);
    assert_eq!(terminal.wait(), 127);
    assert!(terminal.is_as_before());
}

fn a_shell_is_a_terminal_in_a_running_sandbox(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.shell("box", "echo text > file").ok();
    // Whatever the start-up files make of the prompt, this is shown before it, and it ends in a blank; then the shell
    // listens.
    let shell = ["shell", "-e", "PROMPT_COMMAND=printf shown:", "box"];
    let mut terminal = Pty::start(&mut instance.command(shell), 33, 99);
    terminal.wait_for("shown:");
    terminal.wait_for(" ");
    terminal.type_keys("cat file; stty size; shopt -q login_shell && echo login $((40 + 2))\r");
    terminal.wait_for("text\r\n33 99\r\nlogin 42\r\n");
    terminal.wait_for("shown:");
    terminal.wait_for(" ");
    terminal.type_keys("exit 3\r");
    assert_eq!(terminal.wait(), 3);
    assert!(terminal.is_as_before());
    // The end of input ends a shell, and not the sandbox.
    let mut terminal = Pty::start(&mut instance.command(shell), 33, 99);
    terminal.wait_for("shown:");
    terminal.wait_for(" ");
    terminal.type_keys("\x04");
    assert_eq!(terminal.wait(), 0);
    instance.shell("box", "true").ok();
}

fn exec_with_a_terminal(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let script = "test -t 0 && test -t 1 && test -t 2 && echo $TERM; read line; echo got $line; exit 4";
    let mut command = instance.command(["exec", "-t", "box", "--", "sh", "-c", script]);
    let mut terminal = Pty::start(command.env("TERM", "screen"), 24, 80);
    terminal.wait_for("screen\r\n");
    terminal.type_keys("typed\r");
    terminal.wait_for("got typed\r\n");
    assert_eq!(terminal.wait(), 4);
    assert!(terminal.is_as_before());
    // Without -t there is none, although the caller has one.
    let mut terminal = Pty::start(&mut instance.command(["exec", "box", "--", "test", "-t", "1"]), 24, 80);
    assert_eq!(terminal.wait(), 1);
}

/// A tmux server of the test's own.
struct Tmux<'a>(&'a Instance);

impl Tmux<'_> {
    fn run(&self, arguments: &[&str]) -> palisade_testing::Outcome {
        let surroundings = self.0.command(["ls"]);
        let mut tmux = Command::new("tmux");
        tmux.env_clear()
            .env("TMUX_TMPDIR", self.0.work())
            .env("SHELL", "/bin/sh")
            .args(["-f", "/dev/null"])
            .args(arguments);
        tmux.envs(surroundings.get_envs().filter_map(|(name, value)| Some((name, value?))));
        Instance::finish(tmux.current_dir(self.0.work()))
    }

    fn type_line(&self, line: &str) {
        self.run(&["send-keys", "-l", line]).ok();
        self.run(&["send-keys", "Enter"]).ok();
    }

    #[track_caller]
    fn wait_for(&self, line: &str) {
        eventually(line, || self.run(&["capture-pane", "-p"]).stdout.lines().any(|shown| shown == line));
    }
}

impl Drop for Tmux<'_> {
    fn drop(&mut self) {
        self.run(&["kill-server"]);
    }
}

fn a_run_works_in_tmux(method: &'static str) {
    requires!(tmux);
    let instance = Instance::with_method(method);
    let tmux = Tmux(&instance);
    let program = palisade_testing::palisade_binary().display().to_string();
    let line = format!("{program} run -e PS1='$ ' -- bash --norc; echo ended with $?; exec sleep 1000");
    tmux.run(&["new-session", "-d", "-x", "100", "-y", "30", &line]).ok();
    tmux.wait_for("$");
    tmux.type_line("echo $((6 * 7)) $TERM");
    let kind = tmux.run(&["show-options", "-gv", "default-terminal"]).ok().stdout;
    tmux.wait_for(&format!("42 {}", kind.trim()));
    tmux.run(&["resize-window", "-x", "72", "-y", "21"]).ok();
    let size = tmux.run(&["display-message", "-p", "#{pane_height} #{pane_width}"]).ok().stdout;
    eventually("the new size arrives", || {
        tmux.type_line("clear; stty size");
        tmux.run(&["capture-pane", "-p"]).stdout.lines().any(|shown| shown == size.trim())
    });
    tmux.type_line("exit 5");
    tmux.wait_for("ended with 5");
}
