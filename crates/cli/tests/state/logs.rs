//! `palisade logs`.

use palisade_testing::{Instance, requires};
use std::io::{BufRead, BufReader};
use std::process::Stdio;

#[test]
fn the_life_of_a_sandbox_is_told_in_order() {
    requires!(noop);
    let instance = Instance::with_method("noop");
    instance.started("web");
    instance.run(["stop", "--grace", "0", "web"]).ok();
    let told = instance.run(["logs", "web"]).ok().stdout;
    let lines: Vec<(&str, &str)> = told.lines().map(|line| line.split_once("  ").unwrap()).collect();
    let moves: Vec<&str> = lines.iter().map(|(_, what)| *what).filter(|what| what.contains(" -> ")).collect();
    assert_eq!(
        moves,
        ["created -> starting", "starting -> running", "running -> stopping", "stopping -> stopped"]
    );
    assert!(lines.iter().all(|(at, _)| at.len() == 24 && at.ends_with('Z')), "{told}");
    assert!(lines.is_sorted_by_key(|(at, _)| *at), "{told}");
    let values: Vec<serde_json::Value> = instance
        .run(["logs", "web", "--json", "--since", "1h"])
        .ok()
        .stdout
        .lines()
        .map(|line| serde_json::from_str(line).unwrap())
        .collect();
    assert_eq!(values.len(), lines.len());
    assert_eq!((&values[0]["event"], &values[0]["to"]), (&"state".into(), &"starting".into()));
    assert_eq!(instance.run(["logs", "web", "--since", "2100-01-01T00:00:00Z"]).ok().stdout, "");
    assert_eq!(instance.run(["logs", "web", "--since", "soon"]).code, 2);
    assert_eq!(instance.run(["logs", "nobody"]).code, 6);
    instance.run(["logs", "web", "--keeper"]).ok();
}

#[test]
fn following_tells_what_happens_and_ends_with_the_sandbox() {
    requires!(noop);
    let instance = Instance::with_method("noop");
    instance.run(["create", "web"]).ok();
    let mut command = instance.command(["logs", "web", "--follow"]);
    let mut following = command.stdout(Stdio::piped()).spawn().unwrap();
    let mut lines = BufReader::new(following.stdout.take().unwrap()).lines().map(Result::unwrap);
    instance.run(["start", "web"]).ok();
    assert!(lines.by_ref().any(|line| line.ends_with("starting -> running")));
    instance.run(["stop", "--grace", "0", "web"]).ok();
    assert!(lines.by_ref().any(|line| line.ends_with("stopping -> stopped")));
    instance.run(["rm", "web"]).ok();
    assert_eq!(lines.count(), 0, "the stream ends");
    assert!(following.wait().unwrap().success());
}

#[test]
fn what_a_sandbox_had_a_hand_in_is_escaped() {
    requires!(noop);
    let instance = Instance::with_method("noop");
    instance.run(["create", "web"]).ok();
    let store = palisade_store::Store::open(&instance.state(), String::new).unwrap();
    let row = store.find("web").unwrap();
    let text = "new file \x1b]0;owned\x07\r\nforged".to_owned();
    store.append_event(row.id(), &palisade_core::Event::Notice { text }, 0).unwrap();
    let told = instance.run(["logs", "web"]).ok().stdout;
    assert_eq!(told.lines().count(), 1, "{told:?}");
    assert!(!told.contains('\x1b') && !told.contains('\r'), "{told:?}");
}
