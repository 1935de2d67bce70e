//! A keeper dies: the sandbox goes on, and whoever needs it next finds another keeper.

use crate::engine::{Engine, keeper, kill};
use crate::on_engines;
use palisade_testing::{Instance, eventually};
use std::io::Read;
use std::process::Stdio;

on_engines!(
    a_sandbox_and_its_sessions_outlive_a_keeper_that_dies_in_the_middle_of_a_frame,
    gc_finds_a_sandbox_without_a_keeper_another_one,
    a_stop_after_a_new_keeper_gives_everything_inside_its_grace,
    nothing_inside_can_pass_for_a_new_keeper,
);

fn state(instance: &Instance) -> String {
    instance.run(["ls", "--json"]).ok().json()[0]["state"].as_str().unwrap().to_owned()
}

fn a_sandbox_and_its_sessions_outlive_a_keeper_that_dies_in_the_middle_of_a_frame(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.run(["exec", "--session", "s", "--detach", "box", "--", "sleep", "1000"]).ok();
    instance.shell("box", "echo kept > $HOME/file; echo memory > /tmp/file").ok();
    let container = Engine::of(method).owned_by(&instance);
    for _ in 0..3 {
        // Busy in both directions, so that frames are cut wherever they are.
        let mut busy = instance.command(["exec", "box", "--", "sh", "-c", "cat /dev/zero"]);
        let mut busy = busy.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
        let mut bytes = [0; 1 << 16];
        busy.stdout.as_mut().unwrap().read_exact(&mut bytes).unwrap();
        kill(keeper(&instance, "box"));
        drop(busy.stdout.take());
        let mut said = String::new();
        busy.stderr.take().unwrap().read_to_string(&mut said).unwrap();
        busy.wait().unwrap();
        assert!(!said.contains("palisade start"), "it need not be started: {said}");

        let found = instance.shell("box", "cat $HOME/file /tmp/file");
        assert_eq!((found.stdout.as_str(), found.code), ("kept\nmemory\n", 0), "{}", found.stderr);
    }
    let sessions = instance.run(["sessions", "box", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["exit"]), (&"s".into(), &serde_json::Value::Null));
    assert_eq!(Engine::of(method).owned_by(&instance), container, "it is the same container");
}

fn gc_finds_a_sandbox_without_a_keeper_another_one(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let dead = keeper(&instance, "box");
    kill(dead);
    eventually("its death is noticed", || state(&instance) == "error");
    let collected = instance.run(["gc", "--json"]).ok().json();
    assert_eq!(
        collected,
        serde_json::json!([{ "what": "sandbox box without a keeper", "action": "recovered" }])
    );
    assert_eq!(state(&instance), "running");
    assert_ne!(keeper(&instance, "box"), dead);
    kill(keeper(&instance, "box"));
    instance.run(["stop", "box"]).ok();
    assert_eq!(state(&instance), "stopped");
    instance.run(["rm", "box"]).ok();
    assert!(Engine::of(method).owned_by(&instance).is_empty());
}

/// Whatever carries the stream of the new keeper must neither be ended first nor be waited for.
fn a_stop_after_a_new_keeper_gives_everything_inside_its_grace(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    kill(keeper(&instance, "box"));
    let script = "trap 'echo asked > $HOME/last; exit 0' TERM; echo up; while :; do sleep 0.1; done";
    let mut last = instance.command(["exec", "box", "--", "sh", "-c", script]);
    let mut last = last.stdout(Stdio::piped()).spawn().unwrap();
    last.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    let begun = std::time::Instant::now();
    instance.run(["stop", "--grace", "100", "box"]).ok();
    assert!(begun.elapsed().as_secs() < 90, "nobody used up the grace");
    assert!(last.wait().unwrap().success(), "its end was told before the stream ended");
    instance.run(["start", "box"]).ok();
    assert_eq!(instance.shell("box", "cat $HOME/last").stdout, "asked\n");
}

/// What the engine is asked to start for a new keeper is turned away when something inside starts it.
fn nothing_inside_can_pass_for_a_new_keeper(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let before = keeper(&instance, "box");
    let tried = "echo nonsense | /.palisade/guest bridge; (echo nonsense | setsid /.palisade/guest bridge &); sleep 0.2";
    assert_eq!(instance.shell("box", tried).stdout, "");
    assert_eq!(instance.shell("box", "echo reached").ok().stdout, "reached\n");
    assert_eq!((keeper(&instance, "box"), state(&instance)), (before, "running".to_owned()));
}
