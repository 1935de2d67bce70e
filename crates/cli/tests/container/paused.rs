//! A container that is paused, as `docker pause` and `podman pause` have it.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::{Instance, Pty};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;
use std::time::Instant;

on_engines!(a_paused_sandbox_is_given_up_and_can_be_stopped, a_command_goes_on_when_its_container_does);

/// A sandbox `box` that runs, and the name of its container.
fn running(method: &'static str) -> (Instance, String) {
    let instance = Instance::with_method(method);
    instance.run(["create", "--start", "box"]).ok();
    let id = instance.run(["inspect", "box", "--json"]).ok().json()["id"].as_str().unwrap().to_owned();
    (instance, format!("palisade-{id}"))
}

fn state(instance: &Instance) -> String {
    instance.run(["ls", "--json"]).ok().json()[0]["state"].as_str().unwrap().to_owned()
}

fn a_paused_sandbox_is_given_up_and_can_be_stopped(method: &'static str) {
    let (instance, container) = running(method);
    Engine::of(method).pause(&container);
    let silent = "error: sandbox 'box' did not answer for 30 s";
    let mut attached = Pty::start(&mut instance.command(["attach", "box"]), 24, 80);
    std::thread::scope(|scope| {
        for words in
            [&["exec", "box", "--", "true"][..], &["sessions", "box"], &["cp", "box:/etc/hosts", "-"]]
        {
            let instance = &instance;
            scope.spawn(move || {
                let begun = Instant::now();
                let refused = instance.run(words);
                assert_eq!((refused.code, refused.stderr.lines().next()), (8, Some(silent)), "{words:?}");
                assert!(begun.elapsed().as_secs() < 40, "{words:?}: {:?}", begun.elapsed());
            });
        }
    });
    assert_eq!(attached.wait(), 8, "{}", attached.screen());
    instance.run(["stop", "--grace", "0", "box"]).ok();
    assert_eq!(state(&instance), "stopped");
    instance.run(["start", "box"]).ok();
    assert_eq!(instance.run(["exec", "box", "--", "echo", "again"]).ok().stdout, "again\n");
    instance.run(["rm", "--force", "box"]).ok();
}

/// What runs in a container that is paused for a while goes on with it, input and end included.
fn a_command_goes_on_when_its_container_does(method: &'static str) {
    let (instance, container) = running(method);
    let words = ["exec", "-i", "box", "--", "sh", "-c", "echo ready; read line; echo $line; exit 7"];
    let mut command = instance.command(words);
    let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut output = BufReader::new(child.stdout.take().unwrap()).lines();
    assert_eq!(output.next().unwrap().unwrap(), "ready");
    Engine::of(method).pause(&container);
    child.stdin.take().unwrap().write_all(b"sent meanwhile\n").unwrap();
    assert_eq!(state(&instance), "running");
    Engine::of(method).go_on(&container);
    assert_eq!(output.next().unwrap().unwrap(), "sent meanwhile");
    assert_eq!(child.wait().unwrap().code(), Some(7));
    instance.run(["rm", "--force", "box"]).ok();
}
