//! From `create` to `rm`: states, what stays, and what ends.

use crate::support::{inspect, outcome, processes_with, said, states, unique_sleep};
use palisade_testing::{Instance, Traces, eventually};

contracts!(
    the_states_follow_the_verbs_and_the_verbs_can_be_repeated,
    home_and_workspace_survive_a_stop,
    a_stop_lets_processes_finish,
    a_stop_does_not_wait_for_an_idle_shell,
    a_stop_ends_what_ignores_it,
    a_running_sandbox_is_removed_only_by_force,
    rm_removes_what_it_can_and_tells_the_rest,
    inspect_tells_everything,
    a_shell_needs_a_terminal,
    gc_leaves_a_healthy_instance_alone,
);

fn state(name: &str, state: &str) -> Vec<(String, String)> {
    vec![(name.into(), state.into())]
}

fn the_states_follow_the_verbs_and_the_verbs_can_be_repeated(method: &'static str) {
    let instance = Instance::with_method(method);
    assert_eq!(states(&instance), []);

    assert_eq!(instance.run(["create", "box"]), outcome("box\n", "", 0));
    assert_eq!(states(&instance), state("box", "created"));
    let again = instance.run(["create", "box"]);
    assert_eq!((again.stdout.as_str(), again.code), ("", 7));
    assert_eq!(instance.run(["stop", "box"]), outcome("", "box is not running\n", 0));
    assert_eq!(states(&instance), state("box", "created"));

    for _ in 0..2 {
        let started = instance.run(["start", "box"]);
        assert_eq!((said(&started).as_str(), started.code), ("", 0));
        assert_eq!(states(&instance), state("box", "running"));
        let again = instance.run(["start", "box"]);
        assert_eq!((said(&again).as_str(), again.code), ("box is running already\n", 0));
        assert_eq!(states(&instance), state("box", "running"));

        assert_eq!(instance.run(["stop", "box"]), outcome("", "", 0));
        assert_eq!(states(&instance), state("box", "stopped"));
        assert_eq!(instance.run(["stop", "box"]), outcome("", "box is not running\n", 0));
        assert_eq!(states(&instance), state("box", "stopped"));
    }

    assert_eq!(instance.run(["rm", "box"]), outcome("", "", 0));
    assert_eq!(states(&instance), []);
    let gone = "error: there is no sandbox 'box'\nhint: list the sandboxes with: palisade ls\n";
    assert_eq!(instance.run(["rm", "box"]), outcome("", gone, 6));
    let traces = Traces::of(&instance);
    assert!(traces.is_clean(), "{traces:?}");
}

fn home_and_workspace_survive_a_stop(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "--start", "box"]).ok();
    let script = "echo work > file; echo home > $HOME/file; umask 077; mkdir $HOME/.private; chmod 755 file";
    instance.shell("box", script).ok();
    instance.run(["stop", "box"]).ok();
    instance.run(["start", "box"]).ok();
    let look = "cat file $HOME/file; stat -c %a file $HOME/.private";
    assert_eq!(instance.shell("box", look), outcome("work\nhome\n755\n700\n", "", 0));
}

fn a_stop_lets_processes_finish(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let tidy = "trap 'echo tidied > tidied; exit' TERM; touch ready; sleep 1000 & wait";
    let script = format!("bash -c \"{tidy}\" >/dev/null 2>&1 & while [ ! -e ready ]; do sleep 0.01; done");
    instance.shell("box", &script).ok();
    instance.run(["stop", "box", "--grace", "30"]).ok();
    instance.run(["start", "box"]).ok();
    assert_eq!(instance.shell("box", "cat tidied"), outcome("tidied\n", "", 0));
}

/// An interactive shell ignores a request to end; that its terminal is gone it heeds.
fn a_stop_does_not_wait_for_an_idle_shell(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.shell("box", "echo 'touch ready' > $HOME/.bashrc").ok();
    instance.run(["exec", "box", "--session", "idle", "--detach", "--", "bash", "-i"]).ok();
    eventually("the shell is ready", || instance.shell("box", "test -e ready").code == 0);
    let begun = std::time::Instant::now();
    instance.run(["stop", "box", "--grace", "60"]).ok();
    assert!(begun.elapsed().as_secs() < 30, "{:?}", begun.elapsed());
}

fn a_stop_ends_what_ignores_it(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "box"]).ok();
    for grace in ["0", "1"] {
        instance.run(["start", "box"]).ok();
        let sleep = unique_sleep();
        // Ignored signals stay ignored across exec, in a session of its own and outside of any group of ours.
        let script = format!("trap '' TERM HUP INT; setsid sleep {sleep} >/dev/null 2>&1 &");
        instance.shell("box", &script).ok();
        eventually("the deaf process runs", || processes_with(&sleep).len() == 1);
        assert_eq!(instance.run(["stop", "box", "--grace", grace]), outcome("", "", 0));
        assert_eq!(processes_with(&sleep), Vec::<u32>::new());
        assert_eq!(states(&instance), state("box", "stopped"));
    }
}

fn a_running_sandbox_is_removed_only_by_force(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let refusal = "error: sandbox 'box' is running, so rm is not possible\n\
                   hint: stop it first (palisade stop box), or use palisade rm --force box\n";
    assert_eq!(instance.run(["rm", "box"]), outcome("", refusal, 7));
    assert_eq!(states(&instance), state("box", "running"));
    assert_eq!(instance.shell("box", "echo alive"), outcome("alive\n", "", 0));
    assert_eq!(instance.run(["rm", "--force", "box"]), outcome("", "", 0));
    assert_eq!(states(&instance), []);
    let traces = Traces::of(&instance);
    assert!(traces.is_clean(), "{traces:?}");
}

fn rm_removes_what_it_can_and_tells_the_rest(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "one"]).ok();
    instance.run(["create", "two"]).ok();
    let removed = instance.run(["rm", "one", "missing", "two"]);
    let told = "error: there is no sandbox 'missing'\nhint: list the sandboxes with: palisade ls\n";
    assert_eq!(removed, outcome("", told, 6));
    assert_eq!(states(&instance), []);
}

fn inspect_tells_everything(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "box"]).ok();
    let before = inspect(&instance, "box");
    let text = |key: &str| before[key].as_str().unwrap_or_default();
    assert_eq!((text("name"), text("method"), text("state")), ("box", method, "created"));
    assert!(text("id").len() >= 16, "{before}");
    assert!(before["created_at"].as_i64().is_some_and(|at| at > 0), "{before}");
    for key in ["error", "keeper_pid", "running"] {
        assert!(before[key].is_null(), "{key}: {before}");
    }
    assert_eq!(before["policy"]["network"], "none");
    assert_eq!(before["policy"]["workspace"]["kind"], "own");
    assert_eq!(before["policy"]["resources"]["memory"]["source"], "default");
    assert!(
        before["layout"]["workspace"].as_str().is_some_and(|path| path.ends_with("/workspace")),
        "{before}"
    );
    let directory = std::path::PathBuf::from(text("directory"));
    assert!(directory.starts_with(instance.state()) && directory.is_dir(), "{before}");
    let isolates =
        before["capabilities"].as_array().is_some_and(|all| all.iter().any(|one| one == "isolation"));
    let expected = if method == "noop" { "none: commands run on the host" } else { "isolated" };
    assert_eq!((isolates, text("isolation")), (method != "noop", expected));

    instance.run(["start", "box"]).ok();
    let running = inspect(&instance, "box");
    assert_eq!(running["state"], "running");
    assert!(running["keeper_pid"].as_u64().is_some(), "{running}");
    assert_eq!(running["running"]["running"], true);
    let limits = running["running"]["limits"].as_array().expect("limits");
    let names: Vec<_> = limits.iter().map(|limit| limit["limit"].as_str().unwrap_or_default()).collect();
    assert_eq!(names, ["memory", "cpus", "pids"]);

    let told = instance.run(["inspect", "box"]).ok().stdout;
    for line in [format!("method      {method} ({expected})"), "state       running".into()] {
        assert!(told.lines().any(|told| told == line), "{line:?} is not in {told}");
    }
}

fn a_shell_needs_a_terminal(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let refusal = "error: shell needs a terminal, and this is none\n\
                   hint: to run a command: palisade exec box -- COMMAND\n";
    assert_eq!(instance.run(["shell", "box"]), outcome("", refusal, 2));
}

fn gc_leaves_a_healthy_instance_alone(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("running");
    instance.run(["create", "created"]).ok();
    instance.run(["create", "--start", "stopped"]).ok();
    instance.run(["stop", "stopped"]).ok();
    let (before, keeper) = (states(&instance), inspect(&instance, "running")["keeper_pid"].clone());
    for arguments in [&["gc", "--dry-run", "--json"][..], &["gc", "--json"]] {
        assert_eq!(instance.run(arguments), outcome("[]\n", "", 0));
    }
    assert_eq!(instance.run(["gc"]), outcome("", "nothing to clean up\n", 0));
    assert_eq!(states(&instance), before);
    assert_eq!(inspect(&instance, "running")["keeper_pid"], keeper);
    assert_eq!(instance.shell("running", "echo untouched"), outcome("untouched\n", "", 0));
}
