//! A keeper dies: on Docker the sandbox goes on, and whoever needs it next finds another keeper.

use crate::engine::{Engine, keeper, kill};
use palisade_testing::{Instance, eventually, requires};
use std::process::Stdio;

fn state(instance: &Instance) -> String {
    instance.run(["ls", "--json"]).ok().json()[0]["state"].as_str().unwrap().to_owned()
}

#[test]
fn a_sandbox_and_its_sessions_outlive_a_keeper_that_dies_in_the_middle_of_a_frame() {
    requires!(docker);
    requires!(curl);
    let instance = Instance::with_method("docker");
    instance.started("box");
    instance.run(["exec", "--session", "s", "--detach", "box", "--", "sleep", "1000"]).ok();
    instance.shell("box", "echo kept > $HOME/file; echo memory > /tmp/file").ok();
    let container = Engine::of("docker").owned_by(&instance);
    for _ in 0..3 {
        // Busy in both directions, so that frames are cut wherever they are.
        let mut busy = instance.command(["exec", "box", "--", "sh", "-c", "cat /dev/zero"]);
        let mut busy = busy.stdout(Stdio::piped()).stderr(Stdio::null()).spawn().unwrap();
        let mut bytes = [0; 1 << 16];
        std::io::Read::read_exact(busy.stdout.as_mut().unwrap(), &mut bytes).unwrap();
        kill(keeper(&instance, "box"));
        drop(busy.stdout.take());
        busy.wait().unwrap();

        let found = instance.shell("box", "cat $HOME/file /tmp/file");
        assert_eq!((found.stdout.as_str(), found.code), ("kept\nmemory\n", 0), "{}", found.stderr);
    }
    let sessions = instance.run(["sessions", "box", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["exit"]), (&"s".into(), &serde_json::Value::Null));
    assert_eq!(Engine::of("docker").owned_by(&instance), container, "it is the same container");
}

#[test]
fn gc_finds_a_sandbox_without_a_keeper_another_one() {
    requires!(docker);
    requires!(curl);
    let instance = Instance::with_method("docker");
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
    assert!(Engine::of("docker").owned_by(&instance).is_empty());
}

#[test]
fn on_podman_a_sandbox_ends_with_its_keeper_and_starts_again() {
    requires!(podman);
    requires!(curl);
    let instance = Instance::with_method("podman");
    instance.started("box");
    instance.shell("box", "echo kept > $HOME/file").ok();
    kill(keeper(&instance, "box"));
    instance.run(["gc"]).ok();
    assert_eq!(state(&instance), "error");
    instance.run(["start", "box"]).ok();
    assert_eq!(instance.shell("box", "cat $HOME/file").stdout, "kept\n");
}
