//! Whole traces.

use crate::support::Scene;
use palisade_testing::requires;

const CALLER: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

#[test]
fn a_run_is_one_trace_below_its_caller() {
    requires!(bwrap);
    let scene = Scene::new("bwrap");
    let mut run = scene.command(&["run", "--", "sh", "-c", "exit 3"]);
    assert_eq!(palisade_testing::Instance::finish(run.env("TRACEPARENT", CALLER)).code, 3);
    assert_eq!(
        scene.trace("palisade run"),
        [
            "palisade run <  (of another process) FAILED process.exit.code=3 sandbox.select=bwrap \
             sandbox.select.origin=environment SANDBOX_METHOD",
            "sandbox.exec < palisade run FAILED process.exit.code=3 sandbox.exec.tty=false sandbox.id=… \
             sandbox.select=bwrap",
            "sandbox.start < palisade run sandbox.id=… sandbox.select=bwrap",
            "sandbox.stop < palisade run sandbox.id=… sandbox.select=bwrap",
        ]
    );
    let (command, exec) = (scene.collector.span("palisade run"), scene.collector.span("sandbox.exec"));
    assert_eq!(format!("00-{}-{}-01", command.trace, command.parent), CALLER);
    assert!(command.start <= exec.start && exec.end <= command.end);
}

fn the_life_of_a_sandbox_is_told(method: &'static str) {
    let scene = Scene::new(method);
    for verb in [
        &["create", "box"][..],
        &["start", "box"],
        &["exec", "box", "--", "true"],
        &["stop", "box"],
        &["rm", "box"],
    ] {
        scene.run(verb).ok();
    }
    let known = format!("sandbox.id=… sandbox.name=box sandbox.select={method}");
    let chosen = format!("sandbox.select={method} sandbox.select.origin=environment SANDBOX_METHOD");
    assert_eq!(
        scene.trace("palisade create"),
        [
            format!("palisade create <  process.exit.code=0 {chosen}"),
            format!("sandbox.create < palisade create {known}"),
        ]
    );
    assert_eq!(
        scene.trace("palisade start"),
        [
            format!("palisade start <  process.exit.code=0 {chosen}"),
            format!("sandbox.boot < sandbox.start (of another process) {known}"),
            format!(
                "sandbox.keep < sandbox.start (of another process) sandbox.id=… sandbox.keeper.end=stop-asked \
                 sandbox.name=box sandbox.select={method}"
            ),
            format!("sandbox.shutdown < sandbox.keep {known}"),
            format!("sandbox.start < palisade start {known}"),
        ]
    );
    assert_eq!(
        scene.trace("palisade exec"),
        [
            "palisade exec <  process.exit.code=0".to_owned(),
            format!("sandbox.exec < palisade exec process.exit.code=0 sandbox.exec.tty=false {known}"),
        ]
    );
    for (command, verb) in [("palisade stop", "sandbox.stop"), ("palisade rm", "sandbox.remove")] {
        assert_eq!(
            scene.trace(command),
            [format!("{command} <  process.exit.code=0"), format!("{verb} < {command} {known}")]
        );
    }
    let ids =
        scene.collector.spans().into_iter().filter_map(|span| span.attributes.get("sandbox.id").cloned());
    assert_eq!(ids.collect::<std::collections::BTreeSet<_>>().len(), 1);
}

#[test]
fn the_life_of_a_sandbox_is_told_bwrap() {
    requires!(bwrap);
    the_life_of_a_sandbox_is_told("bwrap");
}

#[test]
fn the_life_of_a_sandbox_is_told_noop() {
    the_life_of_a_sandbox_is_told("noop");
}

#[test]
fn a_failure_is_told_by_its_code() {
    let scene = Scene::new("noop");
    assert_eq!(scene.run(&["stop", "nobody"]).code, 6);
    assert_eq!(
        scene.trace("palisade stop"),
        ["palisade stop <  FAILED error.type=sandbox-not-found process.exit.code=6"]
    );
    scene.run(&["create", "box"]).ok();
    scene.run(&["create", "twin"]).ok();
    assert_eq!(scene.run(&["create", "box"]).code, 7);
    let failed: Vec<_> = scene.collector.spans().into_iter().filter(|span| span.failed).collect();
    let told: Vec<_> =
        failed.iter().map(|span| (span.name.as_str(), span.attributes["error.type"].as_str())).collect();
    assert_eq!(
        told,
        [
            ("palisade stop", "sandbox-not-found"),
            ("palisade create", "name-taken"),
            ("sandbox.create", "name-taken"),
        ]
    );
}

#[test]
fn a_method_that_cannot_be_used_is_told_before_anything_runs() {
    let scene = Scene::new("microvm");
    assert_eq!(scene.run(&["run", "--", "true"]).code, 4);
    assert_eq!(
        scene.trace("palisade run"),
        [
            "palisade run <  FAILED error.type=method-unavailable process.exit.code=4 sandbox.select=microvm \
             sandbox.select.origin=environment SANDBOX_METHOD",
            "sandbox.start < palisade run FAILED error.type=method-unavailable",
        ]
    );
}

#[test]
fn a_preflight_and_a_collection_are_told() {
    let scene = Scene::new("noop");
    scene.run(&["doctor"]).ok();
    scene.run(&["gc"]).ok();
    assert_eq!(
        scene.trace("palisade doctor")[1..],
        ["sandbox.preflight < palisade doctor sandbox.select=noop"]
    );
    assert_eq!(scene.trace("palisade gc")[1..], ["sandbox.gc < palisade gc"]);
}

#[test]
fn a_sandbox_that_loses_its_guest_ends_its_trace_with_the_reason() {
    let scene = Scene::new("noop");
    scene.run(&["create", "box"]).ok();
    scene.run(&["start", "box"]).ok();
    // With noop the guest is an ordinary process of ours, and the parent of what is run.
    assert_eq!(scene.run(&["exec", "box", "--", "sh", "-c", "kill -9 $PPID; sleep 1000"]).code, 1);
    palisade_testing::eventually("the keeper tells its end", || {
        scene.collector.spans().iter().any(|span| span.name == "sandbox.keep")
    });
    let keep = scene.collector.span("sandbox.keep");
    let told = ["sandbox.keeper.end", "error.type"].map(|key| keep.attributes[key].as_str());
    assert_eq!((keep.failed, told), (true, ["guest-gone", "guest-gone"]));
}

#[test]
fn a_run_that_is_told_to_end_tells_its_end() {
    let scene = Scene::new("noop");
    let mut command = scene.command(&["run", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut child =
        command.stdout(std::process::Stdio::piped()).stderr(std::process::Stdio::null()).spawn().unwrap();
    let mut line = String::new();
    std::io::BufRead::read_line(&mut std::io::BufReader::new(child.stdout.take().unwrap()), &mut line)
        .unwrap();
    assert_eq!(line, "ready\n");
    rustix::process::kill_process(rustix::process::Pid::from_child(&child), rustix::process::Signal::TERM)
        .unwrap();
    assert_eq!(child.wait().unwrap().code(), Some(143));
    assert_eq!(scene.collector.span("palisade run").attributes["process.exit.code"], "143");
}
