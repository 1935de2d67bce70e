//! The connection to an engine is cut: the sandbox runs on, its keeper connects again, and until then nothing is claimed
//! that only the engine knows.

use crate::engine::{Engine, keeper};
use crate::faults::Scene;
use crate::on_engines;
use crate::proxy::Mood;
use palisade_testing::{Outcome, eventually, requires};
use serde_json::{Value, json};
use std::io::{BufRead, BufReader, Read};
use std::process::Stdio;

on_engines!(
    a_sandbox_survives_an_engine_that_goes_away_and_nothing_is_claimed_meanwhile,
    a_run_that_is_cut_off_is_ended_and_cleared_away,
    a_short_cut_is_mended_without_anybody_noticing_but_those_who_were_connected;
    a_container_that_runs_is_not_removed_because_a_record_says_otherwise,
    gc_names_an_engine_that_it_could_not_ask,
);

/// Writes a line into a file again and again, as long as the container runs.
const COUNT: &str = "while :; do echo x >> $HOME/count; sleep 0.05; done";

fn start_counting(scene: &Scene) {
    scene.run(&["create", "--start", "box"]).ok();
    let count = ["exec", "--session", "work", "--detach", "box", "--", "sh", "-c", COUNT];
    scene.run(&count).ok();
}

fn listed(scene: &Scene) -> Value {
    scene.run(&["ls", "--json"]).ok().json()[0].clone()
}

fn container_runs(scene: &Scene, method: &str) -> bool {
    let name = format!("palisade-{}", scene.id());
    Engine::of(method).get(&format!("/containers/{name}/json"))["State"]["Running"] == json!(true)
}

fn count(scene: &Scene) -> usize {
    scene.run(&["exec", "box", "--", "sh", "-c", "wc -l < $HOME/count"]).ok().stdout.trim().parse().unwrap()
}

#[track_caller]
fn the_session_runs(scene: &Scene) {
    let sessions = scene.run(&["sessions", "box", "--json"]).ok().json();
    assert_eq!(
        (&sessions[0]["name"], &sessions[0]["state"]),
        (&json!("work"), &json!("running")),
        "{sessions}"
    );
}

fn a_sandbox_survives_an_engine_that_goes_away_and_nothing_is_claimed_meanwhile(method: &'static str) {
    let scene = Scene::new(method);
    start_counting(&scene);
    let keeper_before = keeper(&scene.instance, "box");
    let mut attached = scene.command(&["exec", "box", "--", "sh", "-c", "echo up; exec sleep 1000"]);
    let mut attached = attached.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    attached.stdout.as_mut().unwrap().read_exact(&mut [0; 3]).unwrap();
    let before = count(&scene);

    scene.proxy.go_away();
    let ended = attached.wait_with_output().unwrap();
    let told = String::from_utf8(ended.stderr).unwrap();
    let lost = format!("sandbox 'box' cannot be reached: the connection to {method} is lost");
    assert!(ended.status.code() == Some(4) && told.contains(&lost), "{:?}: {told}", ended.status);

    eventually("ls tells what is wrong", || !listed(&scene)["error"].is_null());
    let row = listed(&scene);
    assert_eq!(row["state"], "running", "{row}");
    assert!(row["error"].as_str().unwrap().contains("is lost"), "{row}");
    for words in [&["exec", "box", "--", "true"][..], &["start", "box"], &["cp", "box:/etc/hosts", "-"]] {
        let (code, said) = scene.refused(words);
        assert!(code == 4 && said.contains(&lost), "{words:?}: {code} {said}");
    }
    let (code, said) = scene.refused(&["stop", "box"]);
    assert_eq!(code, 4, "{said}");
    assert!(said.starts_with("error: sandbox 'box' was not stopped: "), "{said}");
    assert_eq!(scene.run(&["rm", "--force", "box"]).code, 4);
    assert!(container_runs(&scene, method), "nothing was ended");
    assert_eq!(listed(&scene)["state"], "running");

    scene.proxy.come_back();
    eventually("the keeper connects again", || listed(&scene)["error"].is_null());
    assert_eq!(keeper(&scene.instance, "box"), keeper_before, "it is the same keeper");
    assert!(count(&scene) > before, "the session went on");
    the_session_runs(&scene);
    assert_eq!(scene.run(&["gc", "--json"]).ok().json(), json!([]));
    let id = scene.id();
    scene.run(&["stop", "box"]).ok();
    let gone = Engine::of(method).ask("GET", &format!("/containers/palisade-{id}/json"), &Value::Null);
    assert!(
        gone.to_lowercase().contains("no such container"),
        "a stop is done when the engine says so: {gone}"
    );
    assert_eq!(listed(&scene)["state"], "stopped");
    scene.proxy.go_away();
    assert_eq!(scene.run(&["stop", "box"]).code, 4, "whether it runs is for the engine to say");
    assert_eq!(scene.run(&["rm", "box"]).code, 4);
    scene.proxy.come_back();
    assert_eq!(scene.run(&["stop", "box"]).ok().stderr, "box is not running\n");
    scene.run(&["rm", "box"]).ok();
    assert!(Engine::of(method).owned_by(&scene.instance).is_empty());
}

fn a_short_cut_is_mended_without_anybody_noticing_but_those_who_were_connected(method: &'static str) {
    let scene = Scene::new(method);
    start_counting(&scene);
    for _ in 0..2 {
        let before = count(&scene);
        scene.proxy.cut();
        eventually("it can be used again", || scene.run(&["exec", "box", "--", "true"]).code == 0);
        the_session_runs(&scene);
        assert!(count(&scene) >= before);
        assert_eq!(listed(&scene)["state"], "running");
    }
    let told = scene.run(&["logs", "box"]).ok().stdout;
    assert!(told.contains(&format!("the connection to {method} is back")), "{told}");
    // How a session ends is still heard, so that it is known when the sandbox is gone.
    scene.run(&["exec", "--session", "short", "--detach", "box", "--", "sh", "-c", "exit 7"]).ok();
    let sessions = || scene.run(&["sessions", "box", "--json"]).ok().json();
    let short = |field: &str| {
        let all = sessions();
        let found = all.as_array().unwrap().iter().find(|session| session["name"] == "short").cloned();
        found.unwrap_or_default()[field].clone()
    };
    eventually("it ends", || short("state") == "ended");
    let written = scene.instance.state().join("sandboxes").join(scene.id()).join("sessions.json");
    eventually("its end is written down", || {
        let records: Value = serde_json::from_slice(&std::fs::read(&written).unwrap()).unwrap();
        records.as_array().unwrap().iter().any(|record| record["end"]["how"]["code"] == 7)
    });
    scene.run(&["stop", "box"]).ok();
    assert_eq!((listed(&scene)["state"].clone(), short("exit_code")), (json!("stopped"), json!(7)));
}

/// As a store that is older than the last start has it.
fn a_container_that_runs_is_not_removed_because_a_record_says_otherwise(method: &'static str) {
    let scene = Scene::new(method);
    start_counting(&scene);
    let wrong_record = || {
        // Not even the keeper is there to tell.
        crate::engine::kill(keeper(&scene.instance, "box"));
        let database = rusqlite::Connection::open(scene.instance.state().join("state.db")).unwrap();
        let correction = "UPDATE sandboxes SET state = 'stopped', keeper_pid = NULL, keeper_start = NULL, keeper_boot = NULL";
        database.execute(correction, []).unwrap();
    };
    wrong_record();
    let collected = scene.run(&["gc", "--json"]).ok().json();
    let what = "sandbox box, which runs although its record said stopped";
    assert_eq!(collected, json!([{ "what": what, "action": "recovered" }]));
    the_session_runs(&scene);

    wrong_record();
    scene.run(&["start", "box"]).ok();
    the_session_runs(&scene);

    wrong_record();
    let refused = scene.run(&["rm", "box"]);
    assert_eq!(refused.code, 7, "it runs, so it is only removed by force: {refused:?}");
    the_session_runs(&scene);

    wrong_record();
    let stopped = scene.run(&["stop", "box"]).ok();
    assert!(!stopped.stderr.contains("is not running"), "{}", stopped.stderr);
    assert!(!Engine::of(method).owned_by(&scene.instance).contains(&format!("palisade-{}", scene.id())));
    scene.run(&["rm", "box"]).ok();
}

fn gc_names_an_engine_that_it_could_not_ask(method: &'static str) {
    let scene = Scene::new(method);
    scene.proxy.set(Mood::HangsUp);
    let unused = scene.run(&["gc"]).ok();
    assert_eq!(unused.stderr, "nothing to clean up\n", "an engine that was never used is not missed");
    scene.proxy.set(Mood::Passes);
    scene.run(&["run", "--", "true"]).ok();
    let named = format!("error: {method} could not be asked what is left there: ");
    let is_told = |mood: Option<Mood>| {
        match mood.clone() {
            Some(mood) => scene.proxy.set(mood),
            None => scene.proxy.go_away(),
        }
        let told = scene.run(&["gc"]);
        assert!(told.stderr.starts_with(&named), "{mood:?}: {told:?}");
        assert!(!told.stderr.contains("nothing to clean up"), "{mood:?}: {told:?}");
        assert_eq!(scene.run(&["gc", "--json"]).stdout, "[]\n");
        told.code
    };
    assert_eq!(is_told(Some(Mood::Babbles)), 4);
    assert_eq!(is_told(Some(Mood::BreaksOff)), 4);
    assert_eq!(is_told(Some(Mood::HangsUp)), 4);
    assert_eq!(is_told(Some(Mood::Refuses { words: "/containers/json", status: 500, message: "boom" })), 1);
    assert_eq!(is_told(None), 4);
}

/// A run whose engine goes away ends with the cause, and the next command removes its container.
fn a_run_that_is_cut_off_is_ended_and_cleared_away(method: &'static str) {
    let scene = Scene::new(method);
    let mut command = scene.command(&["run", "--", "sh", "-c", "echo ready; exec sleep 1000"]);
    let mut run = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(run.stdout.take().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "ready\n");
    scene.proxy.go_away();
    let ended = Outcome::from(run.wait_with_output().unwrap());
    assert_ne!(ended.code, 0, "{ended:?}");
    assert!(ended.stderr.contains("error: ") && ended.stderr.contains("hint: "), "{ended:?}");
    scene.proxy.come_back();
    let next = scene.run(&["run", "--", "echo", "again"]).ok();
    assert_eq!(next.stdout, "again\n");
    assert!(Engine::of(method).owned_by(&scene.instance).is_empty(), "{}", next.stderr);
}

#[test]
fn a_stop_says_that_the_engine_is_frozen() {
    requires!(docker);
    requires!(curl);
    let scene = Scene::new("docker");
    start_counting(&scene);
    scene.proxy.set(Mood::Hangs);
    scene.proxy.cut();
    eventually("ls tells what is wrong", || !listed(&scene)["error"].is_null());
    let expected = "error: sandbox 'box' was not stopped: docker did not answer within 5 s";
    assert_eq!(scene.refused(&["stop", "box"]), (4, expected.to_owned()));
    assert!(container_runs(&scene, "docker"));
    scene.proxy.set(Mood::Passes);
    scene.proxy.cut();
    eventually("the keeper connects again", || listed(&scene)["error"].is_null());
    the_session_runs(&scene);
}
