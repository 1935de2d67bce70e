//! What a sandbox leaves in a bound directory that the host's own tools run by themselves: the user hears of all of it.

use crate::support::{Running, inspect};
use palisade_testing::Instance;
use rustix::process::{Pid, Signal, kill_process};
use std::path::PathBuf;

contracts!(
    files_that_run_by_themselves_are_reported_after_a_run,
    a_run_that_is_killed_is_reported_on_by_the_next_command,
    a_sandbox_whose_keeper_is_killed_is_reported_on_by_the_next_command,
);

/// A project with files that run by themselves, made before any sandbox.
fn project(instance: &Instance) -> PathBuf {
    let project = instance.work().join("project");
    std::fs::create_dir_all(project.join("samples/tool")).unwrap();
    for file in [".envrc", "samples/tool/.envrc", "mine"] {
        std::fs::write(project.join(file), "mine").unwrap();
    }
    instance.give(&project);
    project
}

fn files_that_run_by_themselves_are_reported_after_a_run(method: &'static str) {
    let instance = Instance::with_method(method);
    let project = project(&instance);
    let quiet = instance.run(["run", "-w", "project", "--", "sh", "-c", "echo x > other"]).ok();
    assert!(!quiet.stderr.contains("host's own tools"), "{}", quiet.stderr);
    let script = "mkdir -p a .vscode n/.git; echo x > .vscode/tasks.json; ln -s refs/heads/x a/HEAD
        echo x > a/objects; echo x > a/refs; chmod +x a/objects a/refs; mv samples moved
        for n in $(seq 30); do mkdir -p many/$n; echo x > many/$n/AGENTS.md; done";
    let outcome = instance.run(["run", "-w", "project", "--", "sh", "-c", script]).ok();
    if method == "noop" {
        // It isolates nothing, so there is nothing that a bound directory would add.
        assert!(!outcome.stderr.contains("host's own tools"), "{}", outcome.stderr);
        return;
    }
    let line = outcome.stderr.lines().find(|line| line.contains("host's own tools")).expect("a report");
    for found in
        ["a (is a repository", "n/.git (is a rep", "moved/tool/.envrc (runs", ".vscode/tasks.json (may"]
    {
        assert!(line.contains(found), "{found}: {line}");
    }
    assert!(!line.contains(" .envrc"), "{line}");
    let (_, list) = line.rsplit_once("and 14 more; see ").unwrap_or_else(|| panic!("{line}"));
    let list = std::fs::read_to_string(list).unwrap();
    assert_eq!(list.lines().count(), 35, "{list}");
    assert!(project.join("many/30/AGENTS.md").exists());
    let again = instance.run(["run", "-w", "project", "--", "true"]).ok();
    assert!(!again.stderr.contains("host's own tools"), "{}", again.stderr);
}

fn a_run_that_is_killed_is_reported_on_by_the_next_command(method: &'static str) {
    let instance = Instance::with_method(method);
    project(&instance);
    let script = "echo x > .envrc; echo ready; exec sleep 1000";
    let run = Running::until_ready(&mut instance.command(["run", "-w", "project", "--", "sh", "-c", script]));
    run.signal(Signal::KILL);
    run.finish();
    let next = instance.run(["run", "--", "true"]).ok();
    let reported = next.stderr.contains("project, and run by the host's own tools: .envrc (runs when");
    assert_eq!(reported, method != "noop", "{}", next.stderr);
    let after = instance.run(["gc"]).ok();
    assert!(!after.stderr.contains("host's own tools"), "once is enough: {}", after.stderr);
}

fn a_sandbox_whose_keeper_is_killed_is_reported_on_by_the_next_command(method: &'static str) {
    let instance = Instance::with_method(method);
    project(&instance);
    instance.run(["create", "-w", "project", "box"]).ok();
    instance.run(["start", "box"]).ok();
    instance.run(["exec", "box", "--", "sh", "-c", "echo x > .envrc"]).ok();
    let keeper = inspect(&instance, "box")["keeper_pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    let next = instance.run(["stop", "box"]);
    let reported = next.stderr.contains("project, and run by the host's own tools: .envrc (runs when");
    assert_eq!(reported, method != "noop", "{next:?}");
}
