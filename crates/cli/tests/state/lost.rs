//! A store that was deleted, emptied or restored from a backup: the sandboxes are found again with their files, those
//! that run go on, and nothing is removed that the store does not know.

use palisade_testing::{Instance, Traces, eventually, requires};
use rusqlite::Connection;
use std::fs;
use std::path::{Path, PathBuf};

fn database(instance: &Instance) -> PathBuf {
    instance.state().join("state.db")
}

/// The name and state of every sandbox that `ls` shows, sorted.
fn states(instance: &Instance) -> Vec<(String, String)> {
    let rows = instance.run(["ls", "--json"]).ok().json();
    let text = |value: &serde_json::Value| value.as_str().unwrap().to_owned();
    let mut rows: Vec<(String, String)> =
        rows.as_array().unwrap().iter().map(|row| (text(&row["name"]), text(&row["state"]))).collect();
    rows.sort();
    rows
}

fn pair(name: &str, state: &str) -> (String, String) {
    (name.to_owned(), state.to_owned())
}

/// The whole store as it is now, in one file.
fn backup(instance: &Instance) -> Vec<u8> {
    let connection = Connection::open(database(instance)).unwrap();
    connection.query_row("PRAGMA wal_checkpoint(TRUNCATE)", [], |_| Ok(())).unwrap();
    drop(connection);
    fs::read(database(instance)).unwrap()
}

fn remove_store(instance: &Instance) {
    for suffix in ["", "-wal", "-shm"] {
        let _ = fs::remove_file(format!("{}{suffix}", database(instance).display()));
    }
}

/// A sandbox that runs with a session at work and files in it, and one that does not run.
fn furnished() -> Instance {
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "idle"]).ok();
    instance.started("busy");
    instance.run(["exec", "--session", "s", "--detach", "busy", "--", "sleep", "1000"]).ok();
    instance.shell("busy", "echo work > /workspace/work").ok();
    instance
}

/// Nothing is lost: the running sandbox goes on with its session, both can be used and removed, and nothing is left.
#[track_caller]
fn all_is_there(instance: &Instance, idle: &str) {
    assert_eq!(states(instance), [pair("busy", "running"), pair("idle", idle)]);
    assert_eq!(instance.run(["gc", "--json"]).ok().stdout, "[]\n");
    let sessions = instance.run(["sessions", "busy", "--json"]).ok().json();
    assert_eq!((&sessions[0]["name"], &sessions[0]["state"]), (&"s".into(), &"running".into()));
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
    instance.run(["stop", "busy"]).ok();
    assert_eq!(states(instance)[0], pair("busy", "stopped"), "its keeper finds the new store");
    instance.run(["start", "busy"]).ok();
    assert_eq!(instance.shell("busy", "cat work").ok().stdout, "work\n");
    instance.run(["rm", "--force", "busy", "idle"]).ok();
    assert_eq!(states(instance), []);
    for entry in fs::read_dir(instance.state()).unwrap().flatten() {
        if entry.file_name().to_string_lossy().contains(".corrupt-") {
            fs::remove_file(entry.path()).unwrap();
        }
    }
    eventually("nothing is left", || Traces::of(instance).is_clean());
}

#[test]
fn a_store_that_was_deleted_or_emptied_is_found_again_while_a_sandbox_runs() {
    requires!(bwrap);
    type Loss = fn(&Instance);
    let losses: [(&str, Loss); 2] =
        [("deleted", remove_store), ("emptied", |instance| fs::write(database(instance), "").unwrap())];
    for (loss, lose) in losses {
        let instance = furnished();
        lose(&instance);
        let told = instance.run(["ls"]).ok().stderr;
        let expected =
            "warning: 2 sandboxes were found again, of which the store had no record: busy, idle\n";
        assert_eq!(told, expected, "{loss}");
        assert_eq!(instance.run(["ls"]).ok().stderr, "", "{loss}: it is told once");
        all_is_there(&instance, "stopped");
    }
}

#[test]
fn a_store_that_lost_its_version_is_set_aside_and_no_statement_is_shown() {
    requires!(bwrap);
    let instance = furnished();
    Connection::open(database(&instance)).unwrap().pragma_update(None, "user_version", 0).unwrap();
    let told = instance.run(["ls"]).ok().stderr;
    assert!(told.contains("the store was damaged (it has tables, and no version)"), "{told}");
    assert!(told.contains("2 sandboxes were found again") && !told.contains("CREATE"), "{told}");
    all_is_there(&instance, "stopped");
}

#[test]
fn a_store_restored_from_before_a_sandbox_was_made_or_started_is_brought_up_to_date() {
    requires!(bwrap);
    for made_before in [false, true] {
        let instance = Instance::with_method("bwrap");
        instance.run(["create", "idle"]).ok();
        if made_before {
            instance.run(["create", "busy"]).ok();
        }
        let old = backup(&instance);
        if !made_before {
            instance.run(["create", "busy"]).ok();
        }
        instance.run(["start", "busy"]).ok();
        instance.run(["exec", "--session", "s", "--detach", "busy", "--", "sleep", "1000"]).ok();
        instance.shell("busy", "echo work > /workspace/work").ok();
        remove_store(&instance);
        fs::write(database(&instance), old).unwrap();
        // Also without being asked: `create` cleans up when a process has died at work.
        let lease = instance.state().join("leases/4000000-1.00000000");
        fs::write(lease, "").unwrap();
        instance.run(["create", "new"]).ok();
        instance.run(["rm", "new"]).ok();
        all_is_there(&instance, "created");
    }
}

#[test]
fn a_sandbox_that_was_removed_does_not_come_back_with_a_lost_store() {
    requires!(bwrap);
    let instance = furnished();
    let old = backup(&instance);
    instance.run(["rm", "--force", "busy"]).ok();
    remove_store(&instance);
    assert_eq!(states(&instance), [pair("idle", "stopped")]);
    // A store that is older still has the record, and says what is missing.
    remove_store(&instance);
    fs::write(database(&instance), old).unwrap();
    let refused = instance.run(["start", "busy"]);
    assert_eq!(refused.code, 5, "{refused:?}");
    assert!(refused.stderr.contains("the files of sandbox 'busy' are gone"), "{}", refused.stderr);
    instance.run(["rm", "busy", "idle"]).ok();
    eventually("nothing is left", || Traces::of(&instance).is_clean());
}

/// The id of a sandbox, by its name.
fn id_of(instance: &Instance, name: &str) -> String {
    instance.run(["inspect", name, "--json"]).ok().json()["id"].as_str().unwrap().to_owned()
}

fn rewrite(file: &Path, change: impl FnOnce(String) -> String) {
    let text = change(fs::read_to_string(file).unwrap());
    fs::write(file, text).unwrap();
}

#[test]
fn what_does_not_describe_itself_is_kept_and_shown_until_it_is_removed_by_its_id() {
    requires!(bwrap);
    type Damage = fn(String) -> String;
    let damages: [(&str, Damage, &str); 2] = [
        ("another form", |text| text.replace(r#""form":1"#, r#""form":2"#), "has form 2"),
        ("cut short", |text| text[..20].to_owned(), "cannot be read"),
    ];
    for (damage, change, why) in damages {
        let instance = furnished();
        let id = id_of(&instance, "busy");
        let directory = instance.state().join("sandboxes").join(&id);
        rewrite(&directory.join("sandbox.json"), change);
        remove_store(&instance);

        let listed = instance.run(["ls"]).ok();
        let row = listed.stdout.lines().find(|line| line.contains("unrecorded")).expect(damage);
        assert!(row.starts_with(&id) && row.contains(why), "{damage}: {row}");
        assert!(
            listed.stderr.contains(&format!("palisade rm --discard {id}")),
            "{damage}: {}",
            listed.stderr
        );
        let json = instance.run(["ls", "--json"]).ok().json();
        let entry = json.as_array().unwrap().iter().find(|row| row["id"] == *id).expect(damage);
        assert_eq!((&entry["state"], &entry["method"]), (&"unrecorded".into(), &serde_json::Value::Null));
        assert_eq!(entry["remove"], format!("palisade rm --discard {id}"));

        // It even runs on: nothing that has no record is ended or removed.
        for _ in 0..2 {
            let collected = instance.run(["gc", "--json"]).ok().json();
            let kept = &collected[0];
            assert_eq!((kept["action"].as_str(), collected.as_array().unwrap().len()), (Some("kept"), 1));
            assert!(kept["what"].as_str().unwrap().contains(&id), "{kept}");
            assert!(
                kept["hint"].as_str().unwrap().contains(&format!("palisade rm --discard {id}")),
                "{kept}"
            );
        }
        assert_eq!(fs::read_to_string(directory.join("workspace/work")).unwrap(), "work\n");
        let told = instance.run(["--method", "noop", "doctor"]).ok().stdout;
        assert!(told.contains(&id), "{told}");

        for words in [&["rm", &id][..], &["rm", "--force", &id]] {
            let refused = instance.run(words);
            assert_eq!(refused.code, 7, "nothing is known of its work: {refused:?}");
        }
        instance.run(["rm", "--discard", &id]).ok();
        assert!(!directory.exists());
        assert_eq!(instance.run(["gc", "--json"]).ok().stdout, "[]\n");
        instance.run(["rm", "idle"]).ok();
        eventually("nothing is left", || Traces::of(&instance).is_clean());
        assert_eq!(instance.run(["rm", &id]).code, 6, "and then there is no such sandbox");
    }
}

#[test]
fn a_name_that_was_given_again_is_followed_by_the_start_of_the_id() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    instance.run(["create", "web"]).ok();
    let id = id_of(&instance, "web");
    let hidden = instance.work().join("hidden");
    let directory = instance.state().join("sandboxes").join(&id);
    fs::rename(&directory, &hidden).unwrap();
    remove_store(&instance);
    instance.run(["create", "web"]).ok();
    fs::rename(&hidden, &directory).unwrap();
    let found = format!("web-{}", &id[..8]);
    let expected = [pair("web", "created"), pair(&found, "stopped")];
    assert_eq!(states(&instance), expected);
    instance.run(["start", &found]).ok();
    assert_eq!(instance.shell(&found, "echo up").ok().stdout, "up\n");
    instance.run(["rm", "--force", &found, "web"]).ok();
}

/// As an `rm -rf` by hand leaves it: the cause, both ways on, and a removal that works.
#[test]
fn files_that_were_removed_by_hand_fail_the_start_and_are_named() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    for below in ["", "workspace", "home"] {
        instance.run(["create", "box"]).ok();
        let lost = instance.state().join("sandboxes").join(id_of(&instance, "box")).join(below);
        fs::remove_dir_all(&lost).unwrap();
        let refused = instance.run(["start", "box"]);
        let lost = lost.to_str().unwrap().trim_end_matches('/');
        let cause = format!("error: the files of sandbox 'box' are gone: there is no directory {lost}\n");
        assert!(refused.code == 5 && refused.stderr.starts_with(&cause), "{below}: {refused:?}");
        assert!(refused.stderr.ends_with("with: palisade rm box\n"), "{}", refused.stderr);
        instance.run(["rm", "box"]).ok();
    }
    assert!(Traces::of(&instance).is_clean());
}

/// The kernel shows other start times there, by which processes are known.
#[test]
fn a_running_sandbox_is_left_alone_from_another_time_namespace() {
    requires!(bwrap, root);
    let instance = Instance::with_method("bwrap");
    instance.started("box");
    let surroundings = instance.command([""; 0]);
    let mut elsewhere = std::process::Command::new("unshare");
    elsewhere.args(["--time", "--boottime", "100000", "--"]).arg(palisade_testing::palisade_binary());
    let variables = surroundings.get_envs().filter_map(|(name, value)| Some((name, value?)));
    let collected = Instance::finish(elsewhere.arg("gc").env_clear().envs(variables)).ok();
    assert_eq!(collected.stderr, "nothing to clean up\n");
    assert_eq!(instance.shell("box", "echo still here").ok().stdout, "still here\n");
}
