//! Work that comes back from a sandbox when something is in the way: kills, full disks, and files that try to be
//! somewhere else.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod artifacts;
mod hostile_artifacts;
mod interrupted;
mod lost_work;
mod reports;
mod rounds;

use palisade_testing::{Instance, Outcome, palisade_binary};
use std::process::Command;

fn git(instance: &Instance, line: &str) -> String {
    let mut command = Command::new("git");
    command.args(line.split(' ')).current_dir(instance.work()).env("HOME", instance.home());
    let output = command.env("GIT_CONFIG_NOSYSTEM", "1").output().unwrap();
    assert!(output.status.success(), "git {line}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

fn repository() -> Instance {
    let instance = Instance::with_method("bwrap");
    let identity = "[user]\nname = Ada\nemail = ada@example.org\n";
    std::fs::write(instance.home().join(".gitconfig"), identity).unwrap();
    git(&instance, "init --quiet --initial-branch=main");
    std::fs::write(instance.work().join("code"), "start\n").unwrap();
    git(&instance, "add -A");
    git(&instance, "commit --quiet -m start");
    std::fs::write(instance.work().join("notes"), "the user's\n").unwrap();
    let start = ["agent", "start", "--agent", "shell", "--name", "box", "--allow-dirty", "--task", "true"];
    instance.run(start).ok();
    instance
}

/// What the user does, as a script.
#[track_caller]
fn host(instance: &Instance, script: &str) -> String {
    let mut command = Command::new("sh");
    command.args(["-ec", script]).current_dir(instance.work()).env("HOME", instance.home());
    let output = command.env("GIT_CONFIG_NOSYSTEM", "1").env("GIT_EDITOR", "true").output().unwrap();
    assert!(output.status.success(), "{script}: {}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
}

/// A repository with one commit, and no sandbox yet.
fn clean_repository() -> Instance {
    let instance = Instance::with_method("bwrap");
    let identity = "[user]\nname = Ada\nemail = ada@example.org\n";
    std::fs::write(instance.home().join(".gitconfig"), identity).unwrap();
    host(&instance, "git init -q -b main; printf '1\\n2\\n3\\n' > code; git add -A; git commit -qm first");
    instance
}

/// Gives a task to an agent that is a shell.
fn task(instance: &Instance, options: &[&str], script: &str) -> Outcome {
    let words = ["agent", "start", "shell", "--name", "box"];
    instance.run(words.iter().chain(options).copied().chain(["--task", script]))
}

/// Brings the work home, with the exit code that is expected.
#[track_caller]
fn sync(instance: &Instance, options: &[&str], code: i32) -> String {
    let synced = instance.run(["agent", "sync", "box"].iter().chain(options));
    assert_eq!(synced.code, code, "{}", synced.stderr);
    synced.stderr
}

/// What an agent does, as a script.
#[track_caller]
fn inside(instance: &Instance, script: &str) -> String {
    instance.run(["agent", "exec", "box", "--", "sh", "-c", script]).ok().stdout
}

/// Runs a script, for which `$P` is the program, with the working directory on a file system of 4 MiB. Only root can.
fn on_a_small_disk(instance: &Instance, script: &str) -> Outcome {
    let mount = "set -e; mount -t tmpfs -o size=4m,mode=0755 none \"$PWD\"; cd \"$PWD\"";
    let mut command = Command::new("unshare");
    command.args(["--mount", "--propagation", "private", "sh", "-c", &format!("{mount}\n{script}")]);
    command.env_clear();
    for (name, value) in instance.command(["--version"]).get_envs() {
        command.env(name, value.unwrap());
    }
    Instance::finish(command.env("P", palisade_binary()).current_dir(instance.work()))
}
