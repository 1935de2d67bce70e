//! Telemetry never changes what a command does, and without an endpoint there is none.

use crate::support::{Scene, exporting};
use palisade_testing::{Answer, Collector, Instance, Outcome, PATIENCE, eventually};
use std::process::Stdio;
use std::time::{Duration, Instant};

fn timed(command: &mut std::process::Command) -> (Outcome, Duration) {
    let since = Instant::now();
    (Instance::finish(command), since.elapsed())
}

const COMMAND: [&str; 5] = ["run", "--", "sh", "-c", "echo out; echo err >&2; exit 5"];

/// With no word of telemetry in the environment, as a reference.
fn plainly(instance: &Instance) -> Outcome {
    // The first run of an instance may say which limits do not hold here.
    instance.run(COMMAND);
    instance.run(COMMAND)
}

#[test]
fn a_dead_collector_changes_nothing_and_is_told_in_one_line_at_debug() {
    let instance = Instance::with_method("noop");
    let expected = plainly(&instance);
    let (outcome, took) = timed(exporting(&mut instance.command(COMMAND), &Collector::dead()));
    assert_eq!(outcome, expected);
    assert!(took < PATIENCE / 2, "{took:?}");
    let debug = ["--log-level", "debug"].into_iter().chain(COMMAND);
    let outcome = Instance::finish(exporting(&mut instance.command(debug), &Collector::dead()));
    let told: Vec<&str> =
        outcome.stderr.lines().filter(|line| line.contains("spans were not delivered")).collect();
    assert_eq!(
        (outcome.stdout, outcome.code, told.len()),
        (expected.stdout, expected.code, 1),
        "{}",
        outcome.stderr
    );
    assert!(told[0].contains("DEBUG") && told[0].contains("Connection refused"), "{told:?}");
}

/// Nobody gave it a time, so it has its second; without a bound it would be asked for ever.
#[test]
fn a_collector_that_hangs_holds_up_a_command_for_a_bounded_time() {
    let instance = Instance::with_method("noop");
    let expected = plainly(&instance);
    let collector = Collector::answering(Answer::Never);
    let run = |arguments: &[&str]| {
        timed(instance.command(arguments).env("OTEL_EXPORTER_OTLP_ENDPOINT", collector.endpoint()))
    };
    let (outcome, took) = run(&COMMAND);
    assert_eq!(outcome, expected);
    assert!(took < PATIENCE / 2, "{took:?}");
    for verb in [&["create", "box"][..], &["start", "box"], &["stop", "box"], &["rm", "box"]] {
        let (outcome, took) = run(verb);
        assert_eq!(outcome.code, 0, "{outcome:?}");
        assert!(took < PATIENCE / 2, "{verb:?}: {took:?}");
    }
    assert!(collector.connections() >= 5);
}

#[test]
fn a_collector_that_refuses_changes_nothing() {
    let instance = Instance::with_method("noop");
    let expected = plainly(&instance);
    let collector = Collector::answering(Answer::Status(500));
    let outcome = Instance::finish(exporting(&mut instance.command(COMMAND), &collector.endpoint()));
    assert_eq!((outcome, collector.deliveries().len()), (expected, 1));
}

#[test]
fn what_cannot_be_obeyed_is_told_and_the_command_runs() {
    let scene = Scene::new("noop");
    let expected = plainly(&scene.instance);
    for (variable, value, reason) in [
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://localhost:4318", "https is not supported"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "localhost:4318", "it does not start with http://"),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc", "grpc is not supported, use http/protobuf or http/json"),
        ("OTEL_EXPORTER_OTLP_HEADERS", "canary", "not of the form name=value"),
    ] {
        let outcome = Instance::finish(scene.command(&COMMAND).env(variable, value));
        assert_eq!((&outcome.stdout, outcome.code), (&expected.stdout, expected.code));
        let told: Vec<&str> = outcome.stderr.lines().filter(|line| line.contains("telemetry")).collect();
        assert_eq!(told.len(), 1, "{}", outcome.stderr);
        assert!(told[0].contains(variable) && told[0].contains(reason), "{told:?}");
        assert!(told[0].contains("no spans are exported") && !told[0].contains("canary"), "{told:?}");
    }
    assert_eq!(scene.collector.connections(), 0);
}

#[test]
fn nothing_is_exported_when_it_is_turned_off() {
    let scene = Scene::new("noop");
    let expected = plainly(&scene.instance);
    for (variable, value) in [
        ("OTEL_SDK_DISABLED", "true"),
        ("OTEL_TRACES_EXPORTER", "none"),
        ("TRACEPARENT", "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", ""),
    ] {
        assert_eq!(Instance::finish(scene.command(&COMMAND).env(variable, value)), expected);
    }
    assert_eq!(scene.collector.connections(), 0);
}

/// The names of the threads of a sandbox's keeper, if it has one.
fn threads(instance: &Instance, name: &str) -> Vec<String> {
    let id = instance.run(["inspect", name, "--json"]).ok().json()["id"].as_str().expect("an id").to_owned();
    let keeper = std::fs::read_dir("/proc").unwrap().flatten().find(|entry| {
        let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
        let words: Vec<&[u8]> = words.split(|&byte| byte == 0).collect();
        words.contains(&b"__keeper".as_slice()) && words.contains(&id.as_bytes())
    });
    let tasks = keeper.map(|keeper| std::fs::read_dir(keeper.path().join("task")));
    let tasks = tasks.into_iter().flatten().flatten().flatten();
    let mut names: Vec<String> = tasks
        .filter_map(|task| std::fs::read_to_string(task.path().join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    names.sort();
    names
}

#[test]
fn a_keeper_has_a_thread_for_telemetry_only_while_it_delivers() {
    let scene = Scene::new("noop");
    let silent = Collector::answering(Answer::Never);
    for name in ["without", "with", "hanging"] {
        scene.run(&["create", name]).ok();
    }
    scene.instance.run(["start", "without"]).ok();
    let without = threads(&scene.instance, "without");
    assert!(!without.iter().any(|name| name == "telemetry"), "{without:?}");
    scene.run(&["start", "with"]).ok();
    eventually("the boot is told", || scene.collector.spans().iter().any(|span| span.name == "sandbox.boot"));
    eventually("the thread is gone again", || threads(&scene.instance, "with") == without);
    // The control: a collector that takes its time keeps the thread.
    let mut start = scene.instance.command(["start", "hanging"]);
    let mut start = exporting(&mut start, &silent.endpoint()).stderr(Stdio::null()).spawn().unwrap();
    eventually("the thread delivers", || {
        threads(&scene.instance, "hanging").iter().any(|name| name == "telemetry")
    });
    drop(silent);
    assert!(start.wait().unwrap().success());
}
