//! `wrap`: whoever starts the wrapper has the command itself before him, but for what the sandbox keeps from it.

use crate::support::{Running, argument_lists_with, files_with, processes_with, said, unique_sleep};
use palisade_testing::{Instance, Outcome, Pty, Traces, eventually};
use rustix::process::Signal;
use std::ffi::OsStr;
use std::io::Write;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

contracts!(
    the_wrapper_has_the_commands_name_and_stands_in_a_private_directory,
    every_byte_of_input_and_output_passes_through,
    arguments_arrive_exactly,
    the_exit_code_is_the_commands_own_through_a_wrapper,
    output_of_a_wrapped_command_that_cannot_be_written_is_a_failure,
    a_signal_to_the_wrapper_reaches_the_command,
    a_killed_wrapper_takes_the_command_with_it,
    a_terminal_passes_through_with_its_size,
    the_method_is_the_one_it_was_made_with,
    what_a_wrapper_was_given_is_in_its_record_alone_and_what_its_caller_has_is_nowhere,
    a_home_lasts_between_calls_only_when_it_is_kept,
    a_wrapper_is_removed_whole_and_nothing_else_is,
    every_wrapper_made_is_logged_at_debug,
);

/// Makes a wrapper for the directory `project`.
#[track_caller]
pub(crate) fn wrap(instance: &Instance, words: &[&str]) -> PathBuf {
    let project = instance.work().join("project");
    std::fs::create_dir_all(&project).expect("the project");
    instance.give(&project);
    let made = instance.run([&["wrap", "-w", "project"], words].concat()).ok();
    let path = made.stdout.strip_suffix('\n').expect("one line");
    assert!(!path.contains('\n'), "{path:?}");
    PathBuf::from(path)
}

/// The wrapper as a service without any environment starts it.
fn call(wrapper: &Path) -> Command {
    let mut command = Command::new(wrapper);
    command.env_clear().current_dir("/").stdin(Stdio::null());
    command
}

fn ended(command: &mut Command) -> Outcome {
    let outcome = Instance::finish(command);
    Outcome { stderr: said(&outcome), ..outcome }
}

fn the_wrapper_has_the_commands_name_and_stands_in_a_private_directory(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "/bin/sh"]);
    assert_eq!(wrapper.file_name(), Some(OsStr::new("sh")));
    let wrappers =
        std::fs::canonicalize(instance.state().join("wrappers")).expect("the directory of wrappers");
    let own = wrapper.strip_prefix(&wrappers).expect("below it");
    assert_eq!(own.iter().next().map(OsStr::len), Some(24), "an id that nobody guesses: {own:?}");
    let mode = |path: &Path| std::fs::metadata(path).expect("it is there").permissions().mode() & 0o777;
    for directory in wrapper.ancestors().skip(1).take_while(|above| above.starts_with(&wrappers)) {
        assert_eq!(mode(directory), 0o700, "{}", directory.display());
    }
    assert_eq!(mode(&wrapper), 0o700);
    assert_eq!(mode(&wrapper.with_file_name("../wrapper.json")), 0o600);
}

fn every_byte_of_input_and_output_passes_through(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "sh", "-c", "tee /dev/stderr"]);
    let input: Vec<u8> = (0..1 << 20).map(|number: u32| (number * 7 + number / 251) as u8).collect();
    let mut child = call(&wrapper)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("starts");
    let mut stdin = child.stdin.take().expect("a pipe");
    let written = input.clone();
    let writer = std::thread::spawn(move || stdin.write_all(&written).expect("all input is taken"));
    let output = child.wait_with_output().expect("its end");
    writer.join().expect("the writer ends");
    assert!(output.status.success());
    assert!(output.stdout == input, "{} bytes of {}", output.stdout.len(), input.len());
    assert!(output.stderr.ends_with(&input), "{} bytes of {}", output.stderr.len(), input.len());
}

fn arguments_arrive_exactly(method: &'static str) {
    let instance = Instance::with_method(method);
    let fixed = ["-c", "printf '%s\\0' \"$@\"", "--", "-x", "it's", ""];
    let wrapper = wrap(&instance, &[&["--", "sh"][..], &fixed].concat());
    let given: [&[u8]; 9] = [
        b"--help",
        b"--",
        b"-",
        b"",
        b"a b",
        b"'\"$HOME`id`\\",
        b"new\nline",
        b"\xff\x81\x00"[..2].as_ref(),
        b"*",
    ];
    let output = call(&wrapper).args(given.map(OsStr::from_bytes)).output().expect("it runs");
    let words: Vec<&[u8]> = output.stdout.split(|&byte| byte == 0).collect();
    let expected: Vec<&[u8]> =
        [&b"-x"[..], b"it's", b""].into_iter().chain(given).chain([&b""[..]]).collect();
    assert_eq!(words, expected, "{}", String::from_utf8_lossy(&output.stderr));
}

fn the_exit_code_is_the_commands_own_through_a_wrapper(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "sh", "-c"]);
    for code in [0, 1, 7, 255] {
        let outcome = ended(call(&wrapper).arg(format!("echo out; echo err >&2; exit {code}")));
        assert_eq!(outcome, Outcome { stdout: "out\n".into(), stderr: "err\n".into(), code });
    }
    assert_eq!(ended(call(&wrapper).arg("kill -TERM $$")).code, 143);
    // It works in its directory, wherever it is called.
    ended(call(&wrapper).arg("echo text > file")).ok();
    assert_eq!(std::fs::read_to_string(instance.work().join("project/file")).expect("the file"), "text\n");
}

fn output_of_a_wrapped_command_that_cannot_be_written_is_a_failure(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "sh", "-c"]);
    // The first ends before its output is written, the second would never end.
    for script in ["echo lost", "yes"] {
        let full = std::fs::File::options().write(true).open("/dev/full").expect("a full device");
        let ended = ended(call(&wrapper).arg(script).stdout(full));
        let error = "error: cannot write the command's output: No space left on device (os error 28)\n";
        assert_eq!((ended.stderr.as_str(), ended.code), (error, 1), "{script}");
    }
}

fn a_signal_to_the_wrapper_reaches_the_command(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "bash", "-c"]);
    for (signal, name) in [(Signal::TERM, "TERM"), (Signal::INT, "INT"), (Signal::HUP, "HUP")] {
        let script = format!("trap 'echo got {name}; exit 9' {name}; echo ready; sleep 1000 & wait");
        let running = Running::until_ready(call(&wrapper).arg(&script));
        running.signal(signal);
        let ended = running.finish();
        assert_eq!((ended.stdout, ended.code), (format!("got {name}\n"), 9));
    }
}

fn a_killed_wrapper_takes_the_command_with_it(method: &'static str) {
    let instance = Instance::with_method(method);
    let sleep = unique_sleep();
    let wrapper = wrap(&instance, &["--", "sh", "-c", &format!("echo ready; exec sleep {sleep}")]);
    let running = Running::until_ready(&mut call(&wrapper));
    eventually("the command runs", || processes_with(&sleep).len() == 1);
    running.signal(Signal::KILL);
    assert_eq!(running.finish().code, -9);
    eventually("the command is gone", || processes_with(&sleep).is_empty());
    instance.run(["gc"]).ok();
    assert_eq!(ended(&mut call(&wrap(&instance, &["--", "true"]))).code, 0, "the directory is free again");
}

fn a_terminal_passes_through_with_its_size(method: &'static str) {
    let instance = Instance::with_method(method);
    let script = "test -t 0 && test -t 1 && test -t 2 && stty size; \
                  trap 'echo told $(stty size)' WINCH; echo ready; sleep 1000 & wait; wait";
    let wrapper = wrap(&instance, &["--", "bash", "-c", script]);
    let mut terminal = Pty::start(&mut call(&wrapper), 31, 101);
    terminal.wait_for("31 101");
    terminal.wait_for("ready");
    assert!(!terminal.is_as_before(), "the terminal is the command's");
    terminal.resize(45, 132);
    terminal.wait_for("told 45 132");
    terminal.type_keys("\x03");
    assert_eq!(terminal.wait(), 130);
    assert!(terminal.is_as_before());
    // Without a terminal there is none inside.
    let plain = wrap(&instance, &["--", "sh", "-c", "test -t 0 || test -t 1 || test -t 2 || echo none"]);
    assert_eq!(ended(&mut call(&plain)).stdout, "none\n");
}

fn the_method_is_the_one_it_was_made_with(method: &'static str) {
    let instance = Instance::with_method(method);
    let wrapper = wrap(&instance, &["--", "true"]);
    // Neither a later choice nor a project's file where it is called makes it another one.
    let settings = instance.work().join(".palisade");
    std::fs::create_dir(&settings).expect("a project's directory");
    std::fs::write(settings.join("config.toml"), "method = 'nonsense'\n").expect("a project's file");
    for other in ["noop", "bwrap", "docker", "nonsense", ""] {
        let mut command = call(&wrapper);
        command.env("SANDBOX_METHOD", other).env("PALISADE_NETWORK", "open").current_dir(instance.work());
        command.env("PALISADE_LOG", "info").env("PALISADE_LOG_FORMAT", "json");
        let outcome = ended(&mut command).ok();
        let line = outcome.stderr.lines().find(|line| line.contains("sandbox method")).expect("it is logged");
        let line: serde_json::Value = serde_json::from_str(line).expect("JSON");
        let text = |key: &str| line[key].as_str().unwrap_or_default().to_owned();
        assert_eq!(
            (text("sandbox.select"), text("origin")),
            (method.into(), "environment SANDBOX_METHOD".into())
        );
    }
}

fn what_a_wrapper_was_given_is_in_its_record_alone_and_what_its_caller_has_is_nowhere(method: &'static str) {
    let instance = Instance::with_method(method);
    let (given, taken) = (format!("given's-{}", unique_sleep()), format!("taken-{}", unique_sleep()));
    let script = "echo ready; echo $GIVEN ${TAKEN-unset} ${OTHER-unset}; cat > /dev/null";
    let variable = format!("GIVEN={given}");
    let flags = ["-e", &variable, "-e", "TAKEN", "--", "sh", "-c", script];
    instance.give(&instance.work());
    let mut command = instance.command([&["wrap", "-w", "."], &flags[..]].concat());
    let made = Instance::finish(command.env("TAKEN", &taken)).ok();
    let wrapper = PathBuf::from(made.stdout.trim_end());
    assert_eq!(ended(&mut call(&wrapper)).stdout, format!("ready\n{given} unset unset\n"));

    let mut with = call(&wrapper);
    with.env("TAKEN", &taken).env("OTHER", "x").stdin(Stdio::piped());
    let mut running = Running::until_ready(&mut with);
    let record = wrapper.with_file_name("../wrapper.json");
    let record = std::fs::canonicalize(record).expect("the record");
    let written = |needle: &str| -> Vec<PathBuf> {
        let found = files_with(&instance.state(), needle.as_bytes()).into_iter();
        found.map(|file| std::fs::canonicalize(file).expect("it is there")).collect()
    };
    for (canary, files) in [(&given, vec![record.clone()]), (&taken, Vec::new())] {
        assert_eq!(written(canary), files, "{canary}");
        assert_eq!(argument_lists_with(canary), Vec::<String>::new(), "{canary}");
    }
    let mode = std::fs::metadata(&record).expect("the record").permissions().mode();
    assert_eq!(mode & 0o777, 0o600);
    drop(running.child.stdin.take());
    assert_eq!(running.finish().stdout, format!("{given} {taken} unset\n"));
    instance.run([OsStr::new("wrap"), OsStr::new("--rm"), wrapper.as_os_str()]).ok();
    assert_eq!(written(&given), Vec::<PathBuf>::new(), "it went with the wrapper");
}

fn a_home_lasts_between_calls_only_when_it_is_kept(method: &'static str) {
    let instance = Instance::with_method(method);
    let script = "cat ~/note 2>/dev/null; echo again >> ~/note";
    let forgetful = wrap(&instance, &["--", "sh", "-c", script]);
    let keeping = wrap(&instance, &["--keep-home", "--", "sh", "-c", script]);
    let twice = |wrapper: &Path| [0, 1].map(|_| ended(&mut call(wrapper)).ok().stdout);
    assert_eq!(twice(&forgetful), ["", ""]);
    assert_eq!(twice(&keeping), ["", "again\n"]);
    instance.run(["gc"]).ok();
    assert_eq!(ended(&mut call(&keeping)).stdout, "again\nagain\n", "a wrapper is no garbage");
    instance.run([OsStr::new("wrap"), OsStr::new("--rm"), keeping.as_os_str(), forgetful.as_os_str()]).ok();
    let traces = Traces::of(&instance);
    assert!(traces.is_clean(), "{traces:?}");
}

fn a_wrapper_is_removed_whole_and_nothing_else_is(method: &'static str) {
    let instance = Instance::with_method(method);
    let kept = wrap(&instance, &["--", "true"]);
    let elsewhere = instance.work().join("bin-agent");
    let wrapper = wrap(&instance, &["--output", "bin-agent", "--", "sh", "-c", "echo ready; cat"]);
    assert_eq!(wrapper, std::fs::canonicalize(&elsewhere).expect("it is where it was asked for"));
    let remove = |path: &Path| instance.run([OsStr::new("wrap"), OsStr::new("--rm"), path.as_os_str()]);

    let mut running = Running::until_ready(call(&wrapper).stdin(Stdio::piped()));
    let refused = remove(&wrapper);
    assert_eq!((refused.code, refused.stderr.contains("is running")), (7, true), "{refused:?}");
    drop(running.child.stdin.take());
    assert_eq!(running.finish().code, 0);

    std::fs::write(instance.work().join("foreign"), "#!/bin/sh\n").expect("somebody's file");
    let foreign = remove(&instance.work().join("foreign"));
    assert_eq!(
        (foreign.code, foreign.stderr.contains("no wrapper of this installation")),
        (7, true),
        "{foreign:?}"
    );
    remove(&wrapper).ok();
    assert!(!elsewhere.exists());
    assert_eq!(remove(&wrapper).code, 6, "what is gone is not found");
    assert_eq!(remove(&kept.with_file_name("other")).code, 6, "a wrapper is removed by its own path only");
    remove(&kept).ok();
    assert_eq!(instance.run(["wrap", "--ls", "--json"]).ok().json(), serde_json::json!([]));
    assert!(instance.work().join("foreign").exists());
    let traces = Traces::of(&instance);
    assert!(traces.is_clean(), "{traces:?}");
}

fn every_wrapper_made_is_logged_at_debug(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.give(&instance.work());
    let log = ["--log-level", "debug", "--log-format", "json", "wrap", "-w", ".", "--", "true"];
    let made = instance.run(log).ok();
    let lines = made.stderr.lines().filter_map(|line| serde_json::from_str::<serde_json::Value>(line).ok());
    let told: Vec<_> = lines.filter(|line| line["message"] == "wrapper made").collect();
    assert_eq!(told.len(), 1, "{}", made.stderr);
    let text = |key: &str| told[0][key].as_str().unwrap_or_default();
    assert_eq!(
        (text("level"), text("sandbox.select"), text("path")),
        ("DEBUG", method, made.stdout.trim_end())
    );
}
