//! What was decided can be read, and a hostile loop fills nothing.

use crate::Scene;
use palisade_testing::{eventually, requires};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Lines};
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ChildStdout, Command, Stdio};

palisade_testing::on_isolating_methods!(
    every_decision_is_counted_once_for_each_destination,
    decisions_are_followed_as_they_are_made_until_the_sandbox_ends,
    a_follower_ends_with_a_keeper_that_dies_and_on_an_interrupt,
    a_run_says_at_its_end_what_it_was_refused,
    a_loop_over_ever_new_names_fills_nothing,
);

fn every_decision_is_counted_once_for_each_destination(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    let create =
        ["create", "--start", "box", "--allow", "site.example.net", "--allow", "private.example.net"];
    scene.internet.run(&scene.instance, create).ok();
    let script =
        "for host in site other private; do curl -s -m 20 -o /dev/null http://$host.example.net/hello; done
                  for i in 1 2 3 4; do curl -s -m 20 -o /dev/null http://other.example.net/hello; done";
    scene.instance.shell("box", script);
    let seen = || -> Vec<(Value, Value, Value, Value)> {
        let log = scene.instance.run(["egress", "log", "box", "--json"]).ok().json();
        let entry = |entry: &Value| {
            (entry["host"].clone(), entry["outcome"].clone(), entry["reason"].clone(), entry["count"].clone())
        };
        log.as_array().unwrap().iter().map(entry).collect()
    };
    let expected = [
        (json!("site.example.net"), json!("allowed"), json!(null), json!(1)),
        (json!("other.example.net"), json!("refused"), json!("not-listed"), json!(5)),
        (json!("private.example.net"), json!("refused"), json!({"address": "private"}), json!(1)),
    ];
    eventually("all decisions are written down", || seen() == expected);
    let events = scene.instance.run(["logs", "box"]).ok().stdout;
    for refused in [
        "the network policy refused other.example.net:80: not on the allow list",
        "the network policy refused private.example.net:80: it is a private address, and that is not listed",
    ] {
        assert_eq!(events.lines().filter(|line| line.ends_with(refused)).count(), 1, "{events}");
    }
    // They stay readable when it has stopped, and the next keeper goes on counting.
    scene.instance.run(["stop", "box"]).ok();
    assert_eq!(seen(), expected);
}

/// The lines that a command says, one by one.
fn said(command: &mut Command) -> (Child, Lines<BufReader<ChildStdout>>) {
    let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
    let output = child.stdout.take().unwrap();
    (child, BufReader::new(output).lines())
}

fn decisions_are_followed_as_they_are_made_until_the_sandbox_ends(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    let create = ["create", "--start", "box", "--allow", "site.example.net"];
    scene.internet.run(&scene.instance, create).ok();
    let follow = ["egress", "log", "box", "--follow"];
    let (mut people, mut lines) = said(&mut scene.instance.command(follow));
    let (mut programs, mut objects) = said(&mut scene.instance.command([&follow[..], &["--json"]].concat()));
    let ask = |host: &str| {
        scene.instance.shell("box", &format!("curl -s -m 20 -o /dev/null http://{host}.example.net/hello"));
    };
    ask("site");
    assert!(lines.next().unwrap().unwrap().starts_with("LAST "));
    let mut told = |host: &str, outcome: &str, count: u64| {
        let line = lines.next().unwrap().unwrap();
        assert!(line.contains(outcome) && line.contains(host), "{line}");
        let entry: Value = serde_json::from_str(&objects.next().unwrap().unwrap()).unwrap();
        assert_eq!((&entry["host"], &entry["outcome"]), (&json!(host), &json!(outcome)));
        assert_eq!(entry["count"], count);
    };
    told("site.example.net", "allowed", 1);
    ask("other");
    told("other.example.net", "refused", 1);
    ask("other");
    told("other.example.net", "refused", 2);
    scene.instance.run(["stop", "box"]).ok();
    assert!(lines.next().is_none() && objects.next().is_none());
    assert!(people.wait().unwrap().success() && programs.wait().unwrap().success());
    // Of a sandbox that does not run, it tells what there was.
    let after = scene.instance.run(follow).ok().stdout;
    assert_eq!(after.lines().count(), 3, "{after}");
}

fn a_follower_ends_with_a_keeper_that_dies_and_on_an_interrupt(method: &'static str) {
    requires!(python3, curl);
    let scene = Scene::new(method);
    scene.internet.run(&scene.instance, ["create", "--start", "box", "--allow", "site.example.net"]).ok();
    scene.instance.shell("box", "curl -s -m 20 -o /dev/null http://site.example.net/hello");
    let follow = || {
        let (child, mut lines) = said(&mut scene.instance.command(["egress", "log", "box", "-f", "--json"]));
        assert!(lines.next().unwrap().unwrap().contains("site.example.net"));
        (child, lines)
    };
    let (mut interrupted, _lines) = follow();
    kill_process(Pid::from_child(&interrupted), Signal::INT).unwrap();
    assert_eq!(interrupted.wait().unwrap().signal(), Some(Signal::INT.as_raw()));
    let (mut following, mut lines) = follow();
    let keeper = scene.instance.run(["inspect", "box", "--json"]).ok().json()["keeper_pid"].as_i64().unwrap();
    kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
    assert!(lines.next().is_none());
    assert!(following.wait().unwrap().success());
}

fn a_run_says_at_its_end_what_it_was_refused(method: &'static str) {
    requires!(curl);
    let scene = Scene::new(method);
    let outcome = scene.run(&["--network", "allowlist"], "curl -s http://other.example.net/; true").ok();
    assert!(
        outcome
            .stderr
            .contains("warning: the network policy refused other.example.net:80: not on the allow list\n"),
        "{}",
        outcome.stderr
    );
}

fn a_loop_over_ever_new_names_fills_nothing(method: &'static str) {
    requires!(python3);
    let scene = Scene::new(method);
    scene.instance.run(["create", "--start", "box", "--network", "allowlist"]).ok();
    let script = "
import socket
for number in range(1500):
    try: socket.getaddrinfo(f'x{number}.example.com', 80)
    except socket.gaierror: pass";
    scene.instance.run(["exec", "box", "--", "/usr/bin/python3", "-IS", "-c", script]).ok();
    let log = || scene.instance.run(["egress", "log", "box", "--json"]).ok().json();
    let counted =
        || log().as_array().unwrap().iter().map(|entry| entry["count"].as_u64().unwrap()).sum::<u64>();
    eventually("every question is counted", || counted() >= 1500);
    assert!(log().as_array().unwrap().len() <= 510);
}
