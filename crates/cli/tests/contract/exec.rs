//! `exec`: commands in a running sandbox.

use crate::support::{Running, inspect, outcome, processes_with, unique_sleep};
use palisade_testing::{Instance, Pty, eventually};
use rustix::process::Signal;

contracts!(
    the_end_of_a_command_is_told_exactly,
    streams_stay_apart_and_each_in_order,
    stdin_is_passed_on_only_when_asked,
    commands_side_by_side_keep_their_own_output,
    a_command_dies_with_its_client,
    what_a_command_leaves_running_stays_until_the_stop,
    a_signal_to_the_client_reaches_the_command,
    a_stopped_sandbox_takes_no_commands,
    a_sandbox_is_found_by_its_id_too,
    output_that_cannot_be_written_is_a_failure,
);

fn output_that_cannot_be_written_is_a_failure(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let full = || std::fs::File::options().write(true).open("/dev/full").expect("a full device");
    // The first ends before its output is written, the second would never end.
    for script in ["echo lost", "yes"] {
        for words in [&["exec", "box"][..], &["run"]] {
            let words = [words, &["--", "sh", "-c", script]].concat();
            let ended = Instance::finish(instance.command(&words).stdout(full()));
            let error = "error: cannot write the command's output: No space left on device (os error 28)\n";
            assert!(ended.stderr.ends_with(error), "{words:?}: {}", ended.stderr);
            assert_eq!(ended.code, 1, "{words:?}");
        }
    }
    let words = ["exec", "box", "--", "sh", "-c", "echo kept; echo lost >&2"];
    let ended = Instance::finish(instance.command(words).stderr(full()));
    assert_eq!((ended.stdout.as_str(), ended.code), ("kept\n", 1));
    // A reader that goes away is as in any pipeline.
    let piped = format!("{} exec box -- yes | head -n 1", palisade_testing::palisade_binary().display());
    let command = instance.command([""; 0]);
    let variables = command.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let mut shell = std::process::Command::new("bash");
    let ended = Instance::finish(shell.args(["-c", &piped]).env_clear().envs(variables));
    assert_eq!(ended, outcome("y\n", "", 0));
}

fn the_end_of_a_command_is_told_exactly(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    assert_eq!(instance.shell("box", "exit 0"), outcome("", "", 0));
    assert_eq!(instance.shell("box", "exit 42"), outcome("", "", 42));
    assert_eq!(instance.shell("box", "kill -KILL $$"), outcome("", "", 137));
    assert_eq!(
        instance.run(["exec", "box", "--", "no-such-program"]),
        outcome("", "error: no-such-program: command not found in the sandbox\n", 127)
    );
    assert_eq!(
        instance.run(["exec", "box", "--", "/etc/passwd"]),
        outcome("", "error: /etc/passwd: cannot be started in the sandbox: Permission denied\n", 126)
    );
}

fn streams_stay_apart_and_each_in_order(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let script = "i=0; while [ $i -lt 3000 ]; do echo out $i; echo err $i >&2; i=$((i+1)); done";
    let lines = |word: &str| (0..3000).map(|i| format!("{word} {i}\n")).collect::<String>();
    assert_eq!(instance.shell("box", script), outcome(&lines("out"), &lines("err"), 0));
}

fn stdin_is_passed_on_only_when_asked(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let with = instance.run_with_input(["exec", "-i", "box", "--", "sh", "-c", "cat; echo end"], b"input\n");
    assert_eq!(with, outcome("input\nend\n", "", 0));
    let without = instance.run_with_input(["exec", "box", "--", "sh", "-c", "cat; echo end"], b"input\n");
    assert_eq!(without, outcome("end\n", "", 0));
}

fn commands_side_by_side_keep_their_own_output(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    std::thread::scope(|scope| {
        for number in 0..24 {
            let instance = &instance;
            scope.spawn(move || {
                let script = format!("yes {number} | head -n 20000; echo {number} done >&2; exit {number}");
                let expected =
                    outcome(&format!("{number}\n").repeat(20_000), &format!("{number} done\n"), number);
                assert!(
                    instance.shell("box", &script) == expected,
                    "command {number} lost or gained something"
                );
            });
        }
    });
}

fn a_command_dies_with_its_client(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let sleep = unique_sleep();
    // Two processes, one of them deaf to everything that can be ignored.
    let script = format!("trap '' TERM HUP INT; sleep {sleep} & echo ready; wait");
    let running = Running::until_ready(&mut instance.command(["exec", "box", "--", "sh", "-c", &script]));
    eventually("the command runs", || processes_with(&sleep).len() == 1);
    running.signal(Signal::KILL);
    assert_eq!(running.finish().code, -9);
    eventually("the command ends", || processes_with(&sleep).is_empty());
    assert_eq!(instance.shell("box", "echo still here"), outcome("still here\n", "", 0));

    // One that listens can put its things away: git its locks, an editor its work.
    let script = "trap 'echo bye > ~/bye; exit' TERM; echo ready; sleep 1000 & wait";
    let running = Running::until_ready(&mut instance.command(["exec", "box", "--", "bash", "-c", script]));
    running.signal(Signal::KILL);
    running.finish();
    eventually("it is asked to end", || instance.shell("box", "cat ~/bye").stdout == "bye\n");
}

fn what_a_command_leaves_running_stays_until_the_stop(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let (quiet, loud) = (unique_sleep(), unique_sleep());
    // The second one still holds the command's own output, and is not waited for all the same.
    let script = format!("setsid sleep {quiet} >/dev/null 2>&1 & sleep {loud} & echo left");
    assert_eq!(instance.shell("box", &script), outcome("left\n", "", 0));
    eventually("both run", || processes_with(&quiet).len() == 1 && processes_with(&loud).len() == 1);
    assert_eq!(instance.shell("box", "true"), outcome("", "", 0));
    assert_eq!((processes_with(&quiet).len(), processes_with(&loud).len()), (1, 1));
    instance.run(["stop", "box"]).ok();
    assert_eq!((processes_with(&quiet), processes_with(&loud)), (vec![], vec![]));
}

fn a_signal_to_the_client_reaches_the_command(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let script = "trap 'echo got USR1; exit 5' USR1; echo ready; sleep 1000 & wait";
    let running = Running::until_ready(&mut instance.command(["exec", "box", "--", "bash", "-c", script]));
    running.signal(Signal::USR1);
    assert_eq!(running.finish(), outcome("got USR1\n", "", 5));
}

fn a_stopped_sandbox_takes_no_commands(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "box"]).ok();
    let refusal =
        "error: sandbox 'box' is created, so this is not possible\nhint: start it with: palisade start box\n";
    assert_eq!(instance.run(["exec", "box", "--", "true"]), outcome("", refusal, 7));
    assert_eq!(instance.run(["cp", "box:/etc/hosts", "-"]), outcome("", refusal, 7));
    for words in [["attach", "box"], ["shell", "box"]] {
        let mut terminal = Pty::start(&mut instance.command(words), 24, 80);
        assert_eq!(terminal.wait(), 7, "{words:?}");
        assert!(terminal.screen().contains("start it with: palisade start box"), "{}", terminal.screen());
    }
}

fn a_sandbox_is_found_by_its_id_too(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let id = inspect(&instance, "box")["id"].as_str().expect("an id").to_owned();
    for text in [id.as_str(), &id[..8]] {
        assert_eq!(instance.shell(text, "echo found"), outcome("found\n", "", 0));
    }
}
