//! A keeper that dies while agents are at work: everybody is told, and the work is there.

use crate::agent::{git, repository};
use crate::support::{Running, inspect, states};
use palisade_testing::{Instance, Pty, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};

contracts!(
    a_keeper_that_dies_mid_task_is_told_and_the_work_is_there,
    sessions_that_were_running_when_a_sandbox_was_stopped_are_told,
);

const WORK: &str = "b=$(git branch --show-current) && echo 1 > kept-$b && git add -A && git commit -qm kept-$b \
                    && echo 2 > loose && echo ready && exec sleep 1000";

fn agent(instance: &Instance, rest: &[&str]) -> std::process::Command {
    let words = ["agent", "start", "--agent", "shell", "--name", "box"];
    instance.command(words.iter().chain(rest))
}

/// The sessions as they are listed, without the moments, which must be there for those that were lost.
#[track_caller]
fn sessions(instance: &Instance) -> Value {
    let mut listed = instance.run(["sessions", "box", "--json"]).ok().json();
    for session in listed.as_array_mut().unwrap() {
        let session = session.as_object_mut().unwrap();
        let at = session.remove("lost_at");
        assert_eq!(at.is_some_and(|at| at.is_i64()), session["state"] == "lost", "{session:?}");
    }
    listed
}

fn kill_keeper(instance: &Instance) {
    let keeper = inspect(instance, "box")["keeper_pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    eventually("the keeper is gone", || inspect(instance, "box")["keeper_pid"].is_null());
}

fn a_keeper_that_dies_mid_task_is_told_and_the_work_is_there(method: &'static str) {
    // Containers go on without their keeper, sessions and all: see tests/container/adoption.rs.
    if matches!(method, "docker" | "podman") {
        return;
    }
    let instance = repository(method);
    let attached = Running::until_ready(&mut agent(&instance, &["--task", WORK]));
    let side = ["--detach", "--worktree", "side", "--task", WORK];
    Instance::finish(&mut agent(&instance, &side)).ok();
    let mut looking =
        Pty::start(&mut instance.command(["agent", "attach", "box", "--worktree", "side"]), 24, 200);
    looking.wait_for("ready");
    instance.run(["exec", "box", "--session", "early", "--detach", "--", "sh", "-c", "exit 3"]).ok();
    eventually("the early session has ended", || sessions(&instance)[1]["state"] == "ended");

    kill_keeper(&instance);
    let told = "sandbox 'box' has ended meanwhile: its keeper died";
    let hint = "hint: what was written in it is kept; start it again with: palisade start box";
    let outcome = attached.finish();
    assert_eq!(outcome.code, 1);
    assert!(outcome.stderr.ends_with(&format!("error: {told}\n{hint}\n")), "{}", outcome.stderr);
    assert_eq!(looking.wait(), 1);
    assert!(looking.screen().contains(told) && looking.is_as_before(), "{}", looking.screen());

    assert_eq!(states(&instance), [("box".into(), "error".into())]);
    let listed = instance.run(["agent", "ls", "--json"]).ok().json();
    assert_eq!(listed[0]["state"], "error");
    assert!(listed[0]["error"].as_str().unwrap().starts_with("its keeper died"), "{listed}");
    let became = json!([
        { "name": "agent-side", "state": "lost", "viewers": 0, "lost_because": "its keeper died" },
        { "name": "early", "state": "ended", "exit_code": 3, "viewers": 0 },
    ]);
    assert_eq!(sessions(&instance), became);
    instance.run(["start", "box"]).ok();
    assert_eq!(sessions(&instance), became);
    let table = instance.run(["sessions", "box"]).ok().stdout;
    assert!(table.contains("agent-side  lost with the sandbox: its keeper died, noticed 2"), "{table}");
    let mut nobody =
        Pty::start(&mut instance.command(["agent", "attach", "box", "--worktree", "side"]), 24, 200);
    assert_eq!(nobody.wait(), 6);
    let screen = nobody.screen();
    assert!(screen.contains("the last one lost with the sandbox: its keeper died"), "{screen}");

    // The worktree's own file waits: its branch is checked out nowhere here.
    assert_eq!(instance.run(["agent", "sync", "box", "--all"]).code, 7);
    assert_eq!(git(&instance, "log --format=%s main"), "kept-main\nfirst");
    // It began where the other agent was.
    assert_eq!(git(&instance, "log --format=%s side"), "kept-side\nkept-main\nfirst");
    assert_eq!(git(&instance, "status --porcelain"), "?? loose");
    Instance::finish(&mut agent(
        &instance,
        &[&["--allow-dirty"], &side[..3], &["--task", "exec sleep 1000"]].concat(),
    ))
    .ok();
    assert_eq!(sessions(&instance)[0]["state"], "running");
}

fn sessions_that_were_running_when_a_sandbox_was_stopped_are_told(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.run(["exec", "box", "--session", "job", "--detach", "--", "sleep", "1000"]).ok();
    instance.run(["stop", "box", "--grace", "0"]).ok();
    let became = json!([{ "name": "job", "state": "lost", "viewers": 0, "lost_because": "it was stopped" }]);
    assert_eq!(sessions(&instance), became);
    instance.run(["start", "box"]).ok();
    assert_eq!(sessions(&instance), became);
}
