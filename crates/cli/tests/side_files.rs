//! The small files beside the store, written by another version or cut off: they save time or remember a detail, so
//! none of them may keep anybody from their sandboxes.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::{Instance, requires};
use std::fs;

/// What another version, or a crash, might have left there.
const FOREIGN: [&str; 3] = ["", "{\"version\": 99, \"torn", "{\"version\": 99, \"everything\": \"else\"}"];

#[test]
fn side_files_that_cannot_be_read_keep_nobody_from_their_sandboxes() {
    requires!(bwrap);
    for foreign in FOREIGN {
        let instance = Instance::with_method("bwrap");
        instance.started("kept");
        fs::create_dir_all(instance.state().join("fences")).unwrap();
        for file in ["preflight-bwrap.json", "limits-noted", "turns.lock", "fences/foreign.json"] {
            fs::write(instance.state().join(file), foreign).unwrap();
        }
        instance.run(["doctor"]).ok();
        assert_eq!(instance.shell("kept", "echo reached").ok().stdout, "reached\n");
        fs::create_dir(instance.work().join("bound")).unwrap();
        instance.run(["run", "-w", "bound", "--", "true"]).ok();
        instance.run(["gc"]).ok();
        instance.run(["rm", "--force", "kept"]).ok();
        let foreign_journal = instance.state().join("fences/foreign.json");
        assert!(foreign_journal.exists(), "what is not understood is not ours to remove");
    }
}

/// The names in the state directory that begin like this.
fn names(instance: &Instance, beginning: &str) -> Vec<String> {
    let entries = fs::read_dir(instance.state()).unwrap();
    let names = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap());
    names.filter(|name| name.starts_with(beginning)).collect()
}

#[test]
fn a_damaged_store_is_set_aside_and_its_sandboxes_are_found_again() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "idle"]).ok();
    instance.started("busy");
    for journal in ["state.db-wal", "state.db-shm"] {
        let _ = fs::remove_file(instance.state().join(journal));
    }
    fs::write(instance.state().join("state.db"), "this is no database\n".repeat(400)).unwrap();

    let listed = instance.run(["ls", "--json"]).ok();
    assert!(listed.stderr.contains("is set aside as"), "{}", listed.stderr);
    assert!(listed.stderr.contains("2 sandboxes were found again"), "{}", listed.stderr);
    let mut found: Vec<(String, String)> =
        listed.json().as_array().unwrap().iter().map(name_and_state).collect();
    found.sort();
    assert_eq!(found, [("busy".into(), "running".into()), ("idle".into(), "stopped".into())]);
    assert_eq!(instance.shell("busy", "echo reached").ok().stdout, "reached\n");
    assert_eq!(names(&instance, "state.db.corrupt-").len(), 1);
    assert_eq!(instance.run(["ls"]).ok().stderr, "", "it is told once");
}

fn name_and_state(sandbox: &serde_json::Value) -> (String, String) {
    let text = |key: &str| sandbox[key].as_str().unwrap().to_owned();
    (text("name"), text("state"))
}

#[test]
fn a_file_that_holds_no_instance_id_is_set_aside_and_the_id_stays() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.started("kept");
    let owner = instance.owner();
    fs::write(instance.state().join("instance"), "{\"version\": 99}").unwrap();
    let listed = instance.run(["ls"]).ok();
    assert!(listed.stderr.contains("held no instance id and was set aside"), "{}", listed.stderr);
    assert_eq!(instance.owner(), owner);
    assert_eq!(names(&instance, "instance.corrupt-").len(), 1);
    instance.run(["rm", "--force", "kept"]).ok();
}
