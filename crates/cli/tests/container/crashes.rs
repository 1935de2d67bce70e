//! Killed at any moment, and `gc` after it: nothing of ours is left that should not be, and nothing of others is gone.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::Instance;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

on_engines!(
    heavy_commands_are_killed_at_any_moment,
    a_neighbours_look_alikes_are_left_alone,
    a_stop_does_not_need_the_volumes_and_rm_takes_them,
);

fn heavy_commands_are_killed_at_any_moment(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["run", "--", "true"]).ok();
    for milliseconds in (0..600).step_by(60) {
        for words in [&["run", "--", "sleep", "1000"][..], &["create", "--start", "box"]] {
            let mut command = instance.command(words);
            let mut child = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
            std::thread::sleep(Duration::from_millis(milliseconds));
            child.kill().unwrap();
            child.wait().unwrap();
            instance.run(["gc"]);
            instance.run(["rm", "--force", "box"]);
            instance.run(["gc"]).ok();
            let left = Engine::of(method).owned_by(&instance);
            assert_eq!(left, BTreeSet::new(), "{words:?} killed after {milliseconds} ms");
        }
    }
}

fn a_neighbours_look_alikes_are_left_alone(method: &'static str) {
    let (instance, neighbour) = (Instance::with_method(method), Instance::with_method(method));
    neighbour.started("box");
    instance.run(["run", "--", "true"]).ok();
    let engine = Engine::of(method);
    let name = format!("palisade-{}", "a".repeat(24));
    let labels = json!({ "dev.palisade.owner": "somebody", "dev.palisade.kind": "run", "dev.palisade.process": "1-1.0" });
    for (name, labels) in [(name.clone(), labels), (format!("{name}-2"), json!({}))] {
        let body = json!({ "Image": "palisade-bash:latest", "Cmd": ["true"], "Labels": labels });
        engine.ask("POST", &format!("/containers/create?name={name}"), &body);
        engine.ask("POST", "/volumes/create", &json!({ "Name": format!("{name}-home") }));
    }
    instance.run(["gc"]).ok();
    let containers = engine.get("/containers/json?all=true").to_string();
    let volumes = engine.get("/volumes").to_string();
    for name in [name.clone(), format!("{name}-2")] {
        assert!(containers.contains(&format!("/{name}\"")), "{name} is gone");
        assert!(volumes.contains(&format!("\"{name}-home\"")), "{name}-home is gone");
        engine.ask("DELETE", &format!("/containers/{name}?force=true"), &Value::Null);
        engine.ask("DELETE", &format!("/volumes/{name}-home"), &Value::Null);
    }
    assert_eq!(neighbour.shell("box", "echo alive").stdout, "alive\n");
}

fn a_stop_does_not_need_the_volumes_and_rm_takes_them(method: &'static str) {
    let instance = Instance::with_method(method);
    let engine = Engine::of(method);
    instance.started("box");
    assert_eq!(engine.owned_by(&instance).len(), 3, "a container and two volumes");
    instance.run(["stop", "box"]).ok();
    assert_eq!(engine.owned_by(&instance).len(), 2);
    assert_eq!(instance.run(["gc", "--json"]).ok().stdout, "[]\n", "a stopped sandbox keeps its work");
    instance.run(["rm", "box"]).ok();
    assert_eq!(engine.owned_by(&instance), BTreeSet::new());
}
