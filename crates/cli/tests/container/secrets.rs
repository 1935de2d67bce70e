//! What whoever may ask the engine learns of a sandbox: nothing that was said over the stream.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::Instance;

on_engines!(a_secret_is_in_nothing_that_the_engine_tells);

fn a_secret_is_in_nothing_that_the_engine_tells(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    let canary = "canary-6a1f";
    let mut command = instance.command([
        "exec",
        "-e",
        "TOKEN",
        "box",
        "--",
        "sh",
        "-c",
        "echo $TOKEN; cat /proc/1/environ 2>/dev/null; true",
    ]);
    let told = Instance::finish(command.env("TOKEN", canary)).ok();
    assert!(told.stdout.starts_with(&format!("{canary}\n")), "the command has it: {told:?}");
    assert_eq!(told.stdout.matches(canary).count(), 1, "the first process has not");
    let engine = Engine::of(method);
    let id = instance.run(["inspect", "box", "--json"]).ok().json()["id"].as_str().unwrap().to_owned();
    for path in [
        format!("/containers/palisade-{id}/json"),
        format!("/containers/palisade-{id}/top"),
        "/containers/json?all=true".to_owned(),
        "/volumes".to_owned(),
        "/images/json".to_owned(),
        "/images/palisade-bash:latest/history".to_owned(),
    ] {
        assert!(!engine.get(&path).to_string().contains(canary), "{path}");
    }
    let events = engine.ask("GET", "/events?since=0&until=1", &serde_json::Value::Null);
    assert!(!events.contains(canary), "{events}");
    let logs = engine.ask(
        "GET",
        &format!("/containers/palisade-{id}/logs?stdout=true&stderr=true"),
        &serde_json::Value::Null,
    );
    assert!(!logs.contains(canary), "{logs}");
}
