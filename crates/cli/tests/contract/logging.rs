//! What is logged, and what never is.

use crate::support::{Running, argument_lists_with, files_with, unique_sleep};
use palisade_testing::Instance;
use std::path::Path;

contracts!(
    the_method_and_who_chose_it_are_logged_at_info,
    nothing_of_a_users_command_is_logged_above_debug,
    a_secret_is_in_no_argument_list_and_no_log,
);

fn json_lines(text: &str) -> Vec<serde_json::Value> {
    text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect()
}

fn the_method_and_who_chose_it_are_logged_at_info(method: &'static str) {
    let instance = Instance::new();
    let log = ["--log-level", "info", "--log-format", "json", "run"];
    let by_flag = instance.run(log.into_iter().chain(["--method", method, "--", "true"])).ok();
    let mut by_variable = instance.command(log.into_iter().chain(["--", "true"]));
    let by_variable = Instance::finish(by_variable.env("SANDBOX_METHOD", method)).ok();
    for (outcome, origin) in [(by_flag, "flag --method"), (by_variable, "environment SANDBOX_METHOD")] {
        let lines = json_lines(&outcome.stderr);
        let chosen: Vec<_> = lines.iter().filter(|line| line["message"] == "sandbox method").collect();
        assert_eq!(chosen.len(), 1, "{}", outcome.stderr);
        let text = |key: &str| chosen[0][key].as_str().unwrap_or_default();
        assert_eq!((text("level"), text("sandbox.select"), text("origin")), ("INFO", method, origin));
    }
}

fn nothing_of_a_users_command_is_logged_above_debug(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let commands: [&[&str]; 2] = [
        &["run", "-e", "NAME=canary-value", "--", "/bin/echo", "canary-argument"],
        &["exec", "-e", "NAME=canary-value", "box", "--", "/bin/echo", "canary-argument"],
    ];
    for command in commands {
        for (level, program_is_told) in [("info", false), ("debug", true)] {
            let log = ["--log-level", level, "--log-format", "json"];
            let outcome = instance.run(log.iter().chain(command)).ok();
            assert_eq!(outcome.stdout, "canary-argument\n");
            assert!(!outcome.stderr.contains("canary"), "{level}: {}", outcome.stderr);
            assert_eq!(outcome.stderr.contains("/bin/echo"), program_is_told, "{level}: {}", outcome.stderr);
        }
    }
}

/// The value of `--env NAME` travels over the stream: it is in no process's arguments and in no file of ours, also
/// with everything logged.
fn a_secret_is_in_no_argument_list_and_no_log(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "box"]).ok();
    let mut start = instance.command(["start", "box"]);
    Instance::finish(start.env("PALISADE_LOG", "trace")).ok();
    let secret = format!("canary-secret-{}", unique_sleep());
    let script = "test -n \"$SECRET\" && echo ready && exec sleep 1000";
    let commands: [&[&str]; 2] = [
        &["--log-level", "trace", "run", "--env", "SECRET", "--", "sh", "-c", script],
        &["--log-level", "trace", "exec", "--env", "SECRET", "box", "--", "sh", "-c", script],
    ];
    for command in commands {
        let running = Running::until_ready(instance.command(command).env("SECRET", &secret));
        assert_eq!(argument_lists_with(&secret), Vec::<String>::new());
        running.signal(rustix::process::Signal::TERM);
        let ended = running.finish();
        assert_eq!(ended.code, 143);
        assert!(!ended.stderr.contains(&secret), "{}", ended.stderr);
    }
    instance.run(["stop", "box"]).ok();
    assert_eq!(files_with(&instance.state(), secret.as_bytes()), Vec::<std::path::PathBuf>::new());
    // The log is where it would have been.
    let directory =
        crate::support::inspect(&instance, "box")["directory"].as_str().expect("a path").to_owned();
    let logs = files_with(Path::new(&directory), b"keeper starts");
    assert_eq!(logs.len(), 1, "the keeper's log is not below {directory}");
}
