//! What an engine keeps is not the store's to lose: with the store, the directories, or both gone, volumes and running
//! containers are found again, and nothing is removed that no record says is to be removed.

use crate::engine::{Engine, keeper, kill};
use crate::on_engines;
use palisade_core::SandboxId;
use palisade_testing::{Instance, Outcome, eventually};
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::fs;
use std::process::Command;

on_engines!(
    a_lost_store_costs_no_volume_and_no_running_container,
    sandboxes_are_recorded_again_from_their_volumes_when_everything_else_is_lost,
    volumes_that_were_removed_by_hand_fail_the_start_and_are_named;
    what_does_not_describe_itself_is_kept_and_shown_until_it_is_removed_by_its_id,
    a_copy_leaves_the_originals_containers_and_volumes_alone,
);

fn remove_store(instance: &Instance) {
    for name in ["state.db", "state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(instance.state().join(name));
    }
}

fn states(listed: &Outcome) -> Vec<(String, String)> {
    let rows = listed.json();
    let text = |value: &Value| value.as_str().unwrap().to_owned();
    let mut rows: Vec<(String, String)> =
        rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect();
    rows.sort();
    rows
}

fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

fn id_of(instance: &Instance, name: &str) -> String {
    instance.run(["inspect", name, "--json"]).ok().json()["id"].as_str().unwrap().to_owned()
}

/// A sandbox that runs with a session at work, and one that does not run; both with files.
fn furnished(method: &'static str) -> Instance {
    let instance = Instance::with_method(method);
    for name in ["idle", "busy"] {
        instance.started(name);
        instance.shell(name, &format!("echo {name} > /workspace/work; echo {name} > $HOME/home")).ok();
    }
    instance.run(["stop", "idle"]).ok();
    instance.run(["exec", "--session", "s", "--detach", "busy", "--", "sleep", "1000"]).ok();
    instance
}

/// Both are there with their files, and the session goes on.
#[track_caller]
fn all_is_there(instance: &Instance) {
    let expected = [pair("busy", "running"), pair("idle", "stopped")];
    assert_eq!(states(&instance.run(["ls", "--json"]).ok()), expected);
    let sessions = instance.run(["sessions", "busy", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["state"]), (&"s".into(), &"running".into()));
    instance.run(["start", "idle"]).ok();
    for name in ["idle", "busy"] {
        let found = instance.shell(name, "cat /workspace/work $HOME/home").ok().stdout;
        assert_eq!(found, format!("{name}\n{name}\n"));
    }
    instance.run(["stop", "idle"]).ok();
}

fn a_lost_store_costs_no_volume_and_no_running_container(method: &'static str) {
    let instance = furnished(method);
    let engine = Engine::of(method);
    let owned = engine.owned_by(&instance);
    assert_eq!(owned.len(), 5, "a container and four volumes: {owned:?}");
    // A backup from before anything was made.
    let empty = Instance::with_method(method);
    empty.run(["ls"]).ok();
    let older = fs::read(empty.state().join("state.db")).unwrap();
    type Loss = fn(&Instance, &[u8]);
    let losses: [Loss; 3] = [
        |instance, _| remove_store(instance),
        |instance, _| fs::write(instance.state().join("state.db"), "").unwrap(),
        |instance, older| {
            remove_store(instance);
            fs::write(instance.state().join("state.db"), older).unwrap();
        },
    ];
    for (number, lose) in losses.into_iter().enumerate() {
        lose(&instance, &older);
        // Also without being asked: a process that died at work has every command look.
        fs::write(instance.state().join("leases/4000000-1.00000000"), "").unwrap();
        instance.run(["create", "other"]).ok();
        instance.run(["rm", "other"]).ok();
        assert_eq!(instance.run(["gc", "--json"]).ok().json(), json!([]), "{number}");
        assert_eq!(engine.owned_by(&instance), owned, "{number}");
        let expected = [pair("busy", "running"), pair("idle", "stopped")];
        assert_eq!(states(&instance.run(["ls", "--json"]).ok()), expected, "{number}");
    }
    all_is_there(&instance);
    instance.run(["rm", "--force", "idle", "busy"]).ok();
    assert_eq!(engine.owned_by(&instance), BTreeSet::new());
}

fn sandboxes_are_recorded_again_from_their_volumes_when_everything_else_is_lost(method: &'static str) {
    let instance = furnished(method);
    let engine = Engine::of(method);
    let lose_everything = || {
        kill(keeper(&instance, "busy"));
        remove_store(&instance);
        fs::remove_dir_all(instance.state().join("sandboxes")).unwrap();
    };
    lose_everything();
    let told = instance.run(["ls"]).ok().stderr;
    for name in ["busy", "idle"] {
        let expected = format!("warning: sandbox {name} in {method} without a record was found again\n");
        assert!(told.contains(&expected), "{told}");
    }
    assert_eq!(instance.run(["ls"]).ok().stderr, "", "it is told once");
    all_is_there_without_sessions(&instance);

    lose_everything();
    let adopted = |name: &str| json!({ "what": format!("sandbox {name} in {method} without a record"), "action": "adopted" });
    let owned = engine.owned_by(&instance);
    let mut dry = instance.run(["gc", "--json", "--dry-run"]).ok().json();
    let mut done = instance.run(["gc", "--json"]).ok().json();
    for told in [&mut dry, &mut done] {
        let items = told.as_array_mut().unwrap();
        items.sort_by_key(ToString::to_string);
        assert_eq!(*items, [adopted("busy"), adopted("idle")]);
    }
    assert_eq!(engine.owned_by(&instance), owned);
    all_is_there_without_sessions(&instance);
    instance.run(["rm", "--force", "idle", "busy"]).ok();
    assert_eq!(engine.owned_by(&instance), BTreeSet::new());
}

/// What became of sessions was written in the directory that is lost; the guest knows those that run.
#[track_caller]
fn all_is_there_without_sessions(instance: &Instance) {
    let expected = [pair("busy", "running"), pair("idle", "stopped")];
    assert_eq!(states(&instance.run(["ls", "--json"]).ok()), expected);
    let found = instance.shell("busy", "cat /workspace/work $HOME/home").ok().stdout;
    assert_eq!(found, "busy\nbusy\n");
    let sessions = instance.run(["sessions", "busy", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["state"]), (&"s".into(), &"running".into()));
}

fn what_does_not_describe_itself_is_kept_and_shown_until_it_is_removed_by_its_id(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("later");
    instance.run(["stop", "later"]).ok();
    let engine = Engine::of(method);
    let id = id_of(&instance, "later");
    let description = instance.state().join("sandboxes").join(&id).join("sandbox.json");
    let whole = fs::read_to_string(&description).unwrap();
    // As a later version may write it: it is not replaced by what the labels say.
    fs::write(&description, whole.replace(r#""form":1"#, r#""form":2"#)).unwrap();
    // As an earlier version has made it: the labels do not describe it.
    let old = &SandboxId::from_random([std::process::id().to_be_bytes()[3]; 15]).to_string();
    let owner = instance.owner();
    let volume = |kind: &str| format!("palisade-{old}-{kind}");
    for kind in ["home", "workspace"] {
        let labels = json!({
            "dev.palisade.owner": owner, "dev.palisade.kind": kind, "dev.palisade.sandbox": old, "dev.palisade.name": "old",
        });
        engine.ask("POST", "/volumes/create", &json!({ "Name": volume(kind), "Labels": labels }));
    }
    remove_store(&instance);
    let owned = engine.owned_by(&instance);
    assert_eq!(owned.len(), 4, "{owned:?}");

    for _ in 0..2 {
        let collected = instance.run(["gc", "--json"]).ok().json();
        let items = collected.as_array().unwrap();
        assert_eq!(items.len(), 2, "{collected}");
        let item = |id: &str| {
            let hint = format!("remove it and its files with: palisade rm --discard {id}");
            items.iter().find(|item| item["hint"] == *hint).expect("it is named").clone()
        };
        for id in [old.as_str(), &id] {
            let item = item(id);
            assert_eq!(item["action"], "kept", "{item}");
            assert!(item["what"].as_str().unwrap().contains(&format!("volume palisade-{id}-home")), "{item}");
        }
        assert!(
            item(old)["what"].as_str().unwrap().starts_with(&format!("sandbox old ({old}) without")),
            "{collected}"
        );
    }
    let listed = instance.run(["ls", "--json"]).ok().json();
    let row = |id: &str| listed.as_array().unwrap().iter().find(|row| row["id"] == id).unwrap().clone();
    let unrecorded: Value = "unrecorded".into();
    assert_eq!(
        (&row(old)["state"], &row(old)["name"], &row(old)["method"]),
        (&unrecorded, &"old".into(), &method.into())
    );
    assert_eq!(
        (&row(&id)["state"], &row(&id)["remove"]),
        (&unrecorded, &format!("palisade rm --discard {id}").into())
    );
    assert_eq!(engine.owned_by(&instance), owned, "nothing was removed");

    assert_eq!(instance.run(["rm", old]).code, 7, "nothing is known of its work");
    instance.run(["rm", "--discard", old]).ok();
    fs::write(&description, &whole[..20]).unwrap();
    let collected = instance.run(["gc", "--json"]).ok().json();
    assert_eq!(
        collected[0]["action"], "adopted",
        "what is cut short is made whole from the labels: {collected}"
    );
    assert_eq!(states(&instance.run(["ls", "--json"]).ok()), [pair("later", "stopped")]);
    instance.run(["rm", "later"]).ok();
    assert_eq!(engine.owned_by(&instance), BTreeSet::new());
}

fn a_copy_leaves_the_originals_containers_and_volumes_alone(method: &'static str) {
    let instance = furnished(method);
    let engine = Engine::of(method);
    let owned = engine.owned_by(&instance);
    let base = instance.home().join("copied");
    fs::create_dir(&base).unwrap();
    let copied = Command::new("cp").arg("-a").arg(instance.state()).arg(&base).status().unwrap();
    assert!(copied.success());
    let run = |words: &[&str]| Instance::finish(instance.command(words).env("XDG_STATE_HOME", &base));

    let told = run(&["ls"]).ok().stderr;
    assert!(told.contains("the files of idle, busy are in volumes of the original and stay there"), "{told}");
    assert_eq!(states(&run(&["ls", "--json"]).ok()), [pair("busy", "error"), pair("idle", "error")]);
    assert_eq!(run(&["gc", "--json"]).ok().json(), json!([]));
    for words in [&["start", "idle"][..], &["stop", "busy"], &["exec", "busy", "--", "true"]] {
        let refused = run(words);
        assert_eq!(refused.code, 7, "{words:?}: {refused:?}");
        assert!(refused.stderr.contains("belong to another installation"), "{words:?}: {refused:?}");
    }
    // A sandbox of its own does not come into the original's way.
    run(&["create", "--start", "own"]).ok();
    run(&["rm", "--force", "own", "busy", "idle"]).ok();
    assert_eq!(run(&["ls", "--json"]).ok().stdout, "[]\n");
    assert_eq!(run(&["gc", "--json"]).ok().json(), json!([]));
    assert_eq!(engine.owned_by(&instance), owned);
    all_is_there(&instance);
}

fn volumes_that_were_removed_by_hand_fail_the_start_and_are_named(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.started("box");
    instance.run(["stop", "box"]).ok();
    let (engine, id) = (Engine::of(method), id_of(&instance, "box"));
    let name = |kind: &str| format!("palisade-{id}-{kind}");
    engine.ask("DELETE", &format!("/volumes/{}", name("workspace")), &Value::Null);
    let refused = instance.run(["start", "box"]);
    let expected =
        format!("error: the files of sandbox 'box' are gone: there is no volume {}", name("workspace"));
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
    assert!(refused.stderr.contains("palisade rm box"), "{}", refused.stderr);
    assert_eq!(engine.owned_by(&instance), BTreeSet::from([name("home")]));
    let volumes = engine.get("/volumes").to_string();
    assert!(!volumes.contains(&name("workspace")), "none is made in its place");
    // Put back under its name, it is used again.
    engine.ask("POST", "/volumes/create", &json!({ "Name": name("workspace") }));
    instance.run(["start", "box"]).ok();
    instance.run(["rm", "--force", "box"]).ok();
    eventually("all of it is removed", || !engine.get("/volumes").to_string().contains(&id));
}
