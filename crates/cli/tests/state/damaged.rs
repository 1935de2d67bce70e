//! A store, a row or a file that makes no sense.

use palisade_testing::{Instance, Traces, eventually, requires};
use rusqlite::Connection;
use std::fs;
use std::path::PathBuf;

fn database(instance: &Instance) -> PathBuf {
    instance.state().join("state.db")
}

fn states(instance: &Instance) -> Vec<(String, String)> {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut rows: Vec<(String, String)> =
        rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect();
    rows.sort();
    rows
}

fn set_aside(instance: &Instance) -> Vec<String> {
    let names = fs::read_dir(instance.state()).unwrap().flatten();
    let names = names.filter_map(|entry| entry.file_name().into_string().ok());
    names.filter(|name| name.contains(".corrupt-")).collect()
}

/// Two sandboxes, one of them running with work in it.
fn furnished() -> Instance {
    let instance = Instance::with_method("bwrap");
    instance.started("busy");
    instance.shell("busy", "echo work > /workspace/work").ok();
    instance.run(["create", "idle"]).ok();
    instance
}

/// What must hold once a damaged store was set aside.
fn all_is_found_again(instance: &Instance) {
    let found = [("busy".to_owned(), "running".to_owned()), ("idle".to_owned(), "stopped".to_owned())];
    assert_eq!(states(instance), found);
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
    let told = instance.run(["doctor"]).ok().stdout;
    assert!(told.contains("set aside"), "{told}");
    instance.run(["stop", "busy"]).ok();
    assert_eq!(states(instance)[0].1, "stopped", "its keeper finds the new store");
    instance.run(["start", "busy"]).ok();
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
    instance.run(["rm", "--force", "busy", "idle"]).ok();
    instance.run(["gc"]).ok();
    for name in set_aside(instance) {
        fs::remove_file(instance.state().join(name)).unwrap();
    }
    eventually("nothing is left", || Traces::of(instance).is_clean());
}

#[test]
fn a_store_that_is_no_database_is_set_aside_and_the_sandboxes_are_found_again() {
    requires!(bwrap);
    let instance = furnished();
    fs::write(database(&instance), "this is no database at all, ".repeat(1000)).unwrap();
    let told = instance.run(["ls"]).ok();
    assert!(told.stderr.contains("the store was damaged (file is not a database)"), "{told:?}");
    assert!(told.stderr.contains("2 sandboxes were found again"), "{told:?}");
    assert_eq!(told.stderr.lines().count(), 1, "{told:?}");
    let kept = set_aside(&instance);
    assert!(kept.iter().any(|name| name.starts_with("state.db.corrupt-2")), "{kept:?}");
    all_is_found_again(&instance);
}

#[test]
fn damage_found_while_reading_is_told_and_the_next_command_works() {
    requires!(bwrap);
    let instance = furnished();
    // Everything into the one file, and then all but its first page is gone.
    Connection::open(database(&instance))
        .unwrap()
        .query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(()))
        .unwrap();
    let mut bytes = fs::read(database(&instance)).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(database(&instance), bytes).unwrap();
    let told = instance.run(["ls"]);
    assert_eq!(told.code, 1, "{told:?}");
    assert!(told.stderr.contains("is set aside as"), "{told:?}");
    all_is_found_again(&instance);
}

#[test]
fn a_store_of_a_later_version_is_refused_and_not_touched() {
    requires!(bwrap);
    let instance = furnished();
    let later = palisade_store::VERSION + 1;
    let other = Connection::open(database(&instance)).unwrap();
    other.pragma_update(None, "user_version", later).unwrap();
    for command in [&["ls"] as &[&str], &["create", "more"], &["rm", "idle"], &["gc"]] {
        let refused = instance.run(command);
        assert_eq!(refused.code, 3, "{refused:?}");
        let expected = format!("has version {later}, and this palisade knows versions up to {}", later - 1);
        assert!(
            refused.stderr.contains(&expected) && refused.stderr.contains("upgrade palisade"),
            "{refused:?}"
        );
    }
    assert_eq!(set_aside(&instance), Vec::<String>::new());
    other.pragma_update(None, "user_version", later - 1).unwrap();
    assert_eq!(states(&instance).len(), 2);
}

#[test]
fn one_row_that_cannot_be_read_is_shown_and_can_be_removed_with_all_it_has() {
    requires!(bwrap);
    let instance = furnished();
    let other = Connection::open(database(&instance)).unwrap();
    other.execute("UPDATE sandboxes SET spec = 'garbage' WHERE name = 'busy'", []).unwrap();
    let listed = instance.run(["ls"]).ok();
    let row = listed.stdout.lines().find(|line| line.starts_with("busy")).expect("it is listed");
    assert!(row.contains("unreadable"), "{row}");
    assert!(listed.stderr.contains("remove it with: palisade rm --discard busy"), "{listed:?}");
    assert!(instance.run(["doctor"]).ok().stdout.contains("cannot be read: busy"));
    assert_eq!(states(&instance), [("idle".to_owned(), "created".to_owned())], "the rest works");
    for words in [&["rm", "busy"][..], &["rm", "--force", "busy"]] {
        let refused = instance.run(words);
        assert_eq!(refused.code, 1, "nothing is known of its work: {refused:?}");
        assert!(refused.stderr.contains("palisade rm --discard "), "{refused:?}");
    }
    instance.run(["rm", "--discard", "busy"]).ok();
    instance.run(["create", "busy"]).ok();
    instance.run(["rm", "busy", "idle"]).ok();
    eventually("nothing is left", || Traces::of(&instance).is_clean());
}
