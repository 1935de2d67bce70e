//! Killed at any moment, and `gc` after it: nothing of ours is left that should not be, and nothing of others is gone.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::{Instance, is_root};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::process::Stdio;
use std::time::Duration;

on_engines!(
    heavy_commands_are_killed_at_any_moment,
    a_neighbours_look_alikes_are_left_alone,
    a_stop_does_not_need_the_volumes_and_rm_takes_them,
    side_files_of_an_engine_that_cannot_be_read_are_found_out_again,
    gc_takes_the_volumes_of_earlier_guests_that_nobody_uses,
    many_first_starts_at_once_find_the_guest_whole,
);

/// Whoever comes while another fills the volume must not take it for filled.
fn many_first_starts_at_once_find_the_guest_whole(method: &'static str) {
    let guest = std::env::var_os("PALISADE_GUEST").expect("scripts/test says where the guest is");
    let mut contents = std::fs::read(guest).unwrap();
    let instances: Vec<Instance> = (0..6).map(|_| Instance::with_method(method)).collect();
    for round in 0..3 {
        // What follows the program proper makes it another one, which no engine has.
        contents.extend(format!("{} {method} {round}", std::process::id()).bytes());
        let copy = instances[0].work().join("guest");
        std::fs::write(&copy, &contents).unwrap();
        std::thread::scope(|scope| {
            for instance in &instances {
                let mut run = instance.command(["run", "--", "echo", "whole"]);
                run.env("PALISADE_GUEST", &copy);
                scope.spawn(move || {
                    let output = run.output().unwrap();
                    let said = String::from_utf8_lossy(&output.stderr);
                    assert_eq!(output.stdout, b"whole\n", "round {round}: {said}");
                });
            }
        });
    }
    for instance in &instances {
        instance.run(["gc"]).ok();
    }
}

fn gc_takes_the_volumes_of_earlier_guests_that_nobody_uses(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["run", "--", "true"]).ok();
    let engine = Engine::of(method);
    let owner = instance.owner();
    let name = |what: &str| format!("palisade-guest-{what}-{}-{method}", std::process::id());
    let volume = |what: &str, owner: &str| {
        let labels = json!({ "dev.palisade.owner": owner, "dev.palisade.kind": "guest" });
        engine.ask("POST", "/volumes/create", &json!({ "Name": name(what), "Labels": labels }));
    };
    volume("old", &owner);
    volume("used", &owner);
    volume("others", "somebody");
    let image = if method == "podman" { "localhost/palisade-bash:latest" } else { "palisade-bash:latest" };
    let binds = json!({ "Binds": [format!("{}:/x", name("used"))] });
    let body = json!({ "Image": image, "Cmd": ["true"], "HostConfig": binds });
    engine.ask("POST", &format!("/containers/create?name={}", name("user")), &body);

    let collected = instance.run(["gc", "--json"]).ok().json();
    let expected = json!([{ "what": format!("volume {}", name("old")), "action": "removed" }]);
    assert_eq!(collected, expected);
    let left = engine.get("/volumes").to_string();
    for (what, stays) in [("old", false), ("used", true), ("others", true)] {
        assert_eq!(left.contains(&format!("\"{}\"", name(what))), stays, "{what}");
    }
    instance.run(["run", "--", "true"]).ok();
    engine.ask("DELETE", &format!("/containers/{}?force=true", name("user")), &Value::Null);
    engine.ask("DELETE", &format!("/volumes/{}", name("used")), &Value::Null);
    engine.ask("DELETE", &format!("/volumes/{}", name("others")), &Value::Null);
}

/// What is remembered of an engine saves time; without it, or with nonsense, everything is asked for again. The guest's
/// volume itself may be gone, and the engine would silently make an empty one.
fn side_files_of_an_engine_that_cannot_be_read_are_found_out_again(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["run", "--", "true"]).ok();
    // An ordinary user's podman is known by its socket, and is not asked.
    let users = instance.state().join(format!("users-{method}"));
    assert_eq!(users.exists(), method == "docker" || is_root());
    let file = instance.state().join(format!("guest-{method}"));
    for file in [Some(&users).filter(|users| users.exists()), Some(&file)].into_iter().flatten() {
        let good = std::fs::read_to_string(file).unwrap();
        let (identity, _) = good.split_once('\n').unwrap();
        let unknown = format!("{identity}\ny\n");
        let other = if file == &users { unknown.as_str() } else { "x\ny\n" };
        for nonsense in ["", "x", other] {
            std::fs::write(file, nonsense).unwrap();
            instance.run(["run", "--", "true"]).ok();
            assert_eq!(std::fs::read_to_string(file).unwrap(), good);
        }
    }
    let good = std::fs::read_to_string(&file).unwrap();
    let (identity, volume) = good.trim_end().split_once('\n').unwrap();
    assert!(volume.starts_with("palisade-guest-"), "{volume}");
    let empty = format!("{volume}-empty");
    std::fs::write(&file, format!("{identity}\n{empty}\n")).unwrap();
    assert_eq!(instance.run(["run", "--", "echo", "found"]).ok().stdout, "found\n");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), good);
    Engine::of(method).ask("DELETE", &format!("/volumes/{empty}"), &Value::Null);
}

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
