//! `run`: one command, its streams, its environment and its end.

use crate::support::{Running, inspect, outcome, said};
use palisade_testing::probe::Differences;
use palisade_testing::{Instance, Outcome};
use rustix::process::Signal;
use std::collections::BTreeMap;
use std::process::Stdio;
use std::thread::sleep;
use std::time::{Duration, Instant};

contracts!(
    the_exit_code_is_the_commands_own,
    a_signal_is_128_and_its_number,
    stdout_and_stderr_stay_apart,
    a_command_that_is_not_there_is_127,
    a_file_that_cannot_be_executed_is_126,
    stdin_is_relayed_up_to_its_end,
    a_run_does_not_wait_for_input_that_nobody_reads,
    much_output_arrives_whole_on_both_streams,
    a_reader_that_goes_away_ends_the_run,
    the_environment_is_the_documented_one,
    variables_are_given_by_value_and_from_the_caller,
    the_command_starts_in_the_workspace,
    a_bound_directory_is_seen_and_changed,
    a_signal_to_palisade_reaches_the_command,
    nothing_is_left_of_a_run,
    nothing_is_left_of_a_run_that_is_interrupted_while_it_starts,
);

fn shell(instance: &Instance, script: &str) -> Outcome {
    let outcome = instance.run(["run", "--", "sh", "-c", script]);
    Outcome { stderr: said(&outcome), ..outcome }
}

fn the_exit_code_is_the_commands_own(method: &'static str) {
    let instance = Instance::with_method(method);
    for code in [0, 1, 7, 125, 255] {
        assert_eq!(shell(&instance, &format!("exit {code}")), outcome("", "", code));
    }
}

fn a_signal_is_128_and_its_number(method: &'static str) {
    let instance = Instance::with_method(method);
    for (name, number) in [("TERM", 15), ("KILL", 9), ("SEGV", 11)] {
        assert_eq!(shell(&instance, &format!("kill -{name} $$")), outcome("", "", 128 + number));
    }
}

fn stdout_and_stderr_stay_apart(method: &'static str) {
    let instance = Instance::with_method(method);
    let script = "echo one; echo two >&2; echo three; echo four >&2";
    assert_eq!(shell(&instance, script), outcome("one\nthree\n", "two\nfour\n", 0));
}

fn a_command_that_is_not_there_is_127(method: &'static str) {
    let instance = Instance::with_method(method);
    for command in ["no-such-program", "/no/such/program"] {
        let ended = instance.run(["run", "--", command]);
        let told = format!("error: {command}: command not found in the sandbox\n");
        assert_eq!((ended.stdout.as_str(), said(&ended), ended.code), ("", told, 127));
    }
}

fn a_file_that_cannot_be_executed_is_126(method: &'static str) {
    let instance = Instance::with_method(method);
    for command in ["/etc/passwd", "/usr"] {
        let ended = instance.run(["run", "--", command]);
        let told = format!("error: {command}: cannot be started in the sandbox: Permission denied\n");
        assert_eq!((ended.stdout.as_str(), said(&ended), ended.code), ("", told, 126));
    }
}

fn stdin_is_relayed_up_to_its_end(method: &'static str) {
    let instance = Instance::with_method(method);
    let input: String = (0..50_000).map(|line| format!("line {line}\n")).collect();
    let echoed = instance.run_with_input(["run", "--", "sh", "-c", "cat; echo end"], input.as_bytes());
    assert_eq!(echoed.code, 0);
    assert!(echoed.stdout == format!("{input}end\n"), "{} bytes came back", echoed.stdout.len());
}

/// An input that stays open, such as a terminal, must not hold up the end: the guest leaves when its stream closes, and
/// is killed after two seconds when something still holds it.
fn a_run_does_not_wait_for_input_that_nobody_reads(method: &'static str) {
    let instance = Instance::with_method(method);
    let took = |input: fn() -> Stdio| {
        let once = || {
            let mut command = instance.command(["run", "--", "true"]);
            let begun = Instant::now();
            let mut child = command.stdin(input()).stderr(Stdio::null()).spawn().expect("palisade starts");
            let held = child.stdin.take();
            assert!(child.wait().expect("its end").success());
            drop(held);
            begun.elapsed()
        };
        // The best of a few, since other tests run at the same time.
        std::iter::repeat_with(once).take(3).min().expect("three times")
    };
    let (closed, open) = (took(Stdio::null), took(Stdio::piped));
    assert!(open < closed + Duration::from_secs(1), "{open:?} with an open input, {closed:?} without");
}

/// More than 20 MiB each, at the same time.
fn much_output_arrives_whole_on_both_streams(method: &'static str) {
    let instance = Instance::with_method(method);
    let numbers: String = (1..=2_900_000).map(|number| format!("{number}\n")).collect();
    assert!(numbers.len() > 20 << 20);
    let ended = shell(&instance, "seq 1 2900000 >&2 & seq 1 2900000; wait");
    assert_eq!(ended.code, 0);
    assert!(ended.stdout == numbers, "{} bytes on stdout", ended.stdout.len());
    assert!(ended.stderr == numbers, "{} bytes on stderr", ended.stderr.len());
}

fn a_reader_that_goes_away_ends_the_run(method: &'static str) {
    let instance = Instance::with_method(method);
    let mut running =
        Running::until_ready(&mut instance.command(["run", "--", "sh", "-c", "echo ready; yes"]));
    drop(running.stdout);
    let status = running.child.wait().expect("its end");
    assert_eq!(status.code(), Some(141));
}

/// Nothing of the caller's environment comes along, and what is there is what `inspect` says.
fn the_environment_is_the_documented_one(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "documented"]).ok();
    let documented = inspect(&instance, "documented")["layout"]["environment"].clone();
    let documented: Vec<(String, String)> = serde_json::from_value(documented).expect("pairs");
    let names: Vec<&str> = documented.iter().map(|(name, _)| name.as_str()).collect();
    for name in ["PATH", "HOME", "LANG"] {
        assert!(names.contains(&name), "{names:?}");
    }
    let printed = |outcome: Outcome| -> BTreeMap<String, String> {
        let lines = outcome.ok().stdout;
        let pair = |line: &str| line.split_once('=').map(|(name, value)| (name.into(), value.into()));
        lines.lines().map(|line| pair(line).expect("NAME=VALUE")).collect()
    };
    let mut run = instance.command(["run", "--", "env"]);
    let seen =
        printed(Instance::finish(run.env("CANARY", "from the caller").env("LD_LIBRARY_PATH", "/nowhere")));
    let of_the_image: &[&str] = if method == "noop" { &[] } else { Differences::of(method).variables };
    let mut expected = [names.as_slice(), of_the_image].concat();
    expected.sort_unstable();
    assert_eq!(seen.keys().collect::<Vec<_>>(), expected);

    instance.run(["start", "documented"]).ok();
    let mut exec = instance.command(["exec", "documented", "--", "env"]);
    let mut seen = printed(Instance::finish(exec.env("CANARY", "from the caller")));
    for name in of_the_image {
        assert!(seen.remove(*name).is_some(), "{name}");
    }
    assert_eq!(seen, documented.into_iter().collect());
}

fn variables_are_given_by_value_and_from_the_caller(method: &'static str) {
    let instance = Instance::with_method(method);
    let value = "a b=c $HOME `id` \"quoted\" \\ é\nsecond line ";
    let given = format!("GIVEN={value}");
    let arguments = ["run", "--env", &given, "-e", "CALLERS", "-e", "EMPTY=", "-e", "HOME=/else", "--"];
    let print = ["sh", "-c", "printf '%s|%s|%s|%s' \"$GIVEN\" \"$CALLERS\" \"${EMPTY-unset}\" \"$HOME\""];
    let mut run = instance.command(arguments.into_iter().chain(print));
    let ended = Instance::finish(run.env("CALLERS", value)).ok();
    assert_eq!(ended.stdout, format!("{value}|{value}||/else"));

    let long = "x".repeat(64 << 10);
    let ended =
        instance.run(["run", "-e", &format!("LONG={long}"), "--", "sh", "-c", "printf %s \"$LONG\""]).ok();
    assert!(ended.stdout == long, "{} bytes arrived", ended.stdout.len());
}

fn the_command_starts_in_the_workspace(method: &'static str) {
    let instance = Instance::with_method(method);
    let ended = shell(&instance, "pwd; touch here && ls");
    let (directory, files) = ended.stdout.split_once('\n').expect("two lines");
    assert!(directory.ends_with("/workspace"), "{directory}");
    assert_eq!(files, "here\n");
}

fn a_bound_directory_is_seen_and_changed(method: &'static str) {
    let instance = Instance::with_method(method);
    let project = instance.work().join("project");
    std::fs::create_dir(&project).expect("a project");
    std::fs::write(project.join("old"), "from the host").expect("a file");
    std::fs::write(project.join("gone"), "").expect("a file");
    instance.give(&project);
    let script = "cat old; echo from inside > new; rm gone; mkdir made";
    instance.run(["run", "-w", "project", "--", "sh", "-c", script]).ok();
    let ended =
        instance.run(["run", "--workspace", project.to_str().unwrap(), "--", "cat", "old", "new"]).ok();
    assert_eq!(ended.stdout, "from the hostfrom inside\n");
    assert_eq!(std::fs::read_to_string(project.join("new")).unwrap(), "from inside\n");
    assert!(project.join("made").is_dir());
    assert!(!project.join("gone").exists());
    // The host's user owns what was made inside.
    let owner = |path| std::os::unix::fs::MetadataExt::uid(&std::fs::metadata(path).unwrap());
    assert_eq!(owner(project.join("new")), owner(project.clone()));
}

fn a_signal_to_palisade_reaches_the_command(method: &'static str) {
    let instance = Instance::with_method(method);
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'echo got {name}; exit 9' {name}; echo ready; sleep 1000 & wait");
        let running = Running::until_ready(&mut instance.command(["run", "--", "bash", "-c", &script]));
        running.signal(signal);
        let ended = running.finish();
        assert_eq!((ended.stdout, ended.code), (format!("got {name}\n"), 9));
    }
    let running =
        Running::until_ready(&mut instance.command(["run", "--", "sh", "-c", "echo ready; exec sleep 1000"]));
    running.signal(Signal::TERM);
    assert_eq!(running.finish().code, 143);
}

fn nothing_is_left_of_a_run(method: &'static str) {
    let instance = Instance::with_method(method);
    let sleep = crate::support::unique_sleep();
    shell(&instance, &format!("echo kept > $HOME/file; sleep {sleep} & exit 3"));
    assert_eq!(crate::support::processes_with(&sleep), Vec::<u32>::new());
    let traces = palisade_testing::Traces::of(&instance);
    assert!(traces.is_clean(), "{traces:?}");
}

/// Whenever the signal comes: before anything was made it ends Palisade itself, later it ends the command.
fn nothing_is_left_of_a_run_that_is_interrupted_while_it_starts(method: &'static str) {
    let instance = Instance::with_method(method);
    for milliseconds in 0..25 {
        let mut command = instance.command(["run", "--", "sleep", "1000"]);
        let mut child = command.stderr(Stdio::null()).spawn().expect("palisade starts");
        sleep(Duration::from_millis(milliseconds));
        rustix::process::kill_process(rustix::process::Pid::from_child(&child), Signal::TERM)
            .expect("signal it");
        let status = child.wait().expect("its end");
        let by_signal = std::os::unix::process::ExitStatusExt::signal(&status);
        assert!(by_signal == Some(15) || status.code() == Some(143), "after {milliseconds} ms: {status}");
        let traces = palisade_testing::Traces::of(&instance);
        assert!(traces.is_clean(), "after {milliseconds} ms: {traces:?}");
    }
}
