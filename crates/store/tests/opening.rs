//! Opening the store: what is made, what is refused, and what is left untouched.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_core::{Diagnostic, ExitCode};
use palisade_store::{Store, StoreError, VERSION};
use std::fs;
use std::os::unix::fs::PermissionsExt;
use support::{fresh, me, open, raw, sandbox};

#[test]
fn a_new_store_is_private_and_has_the_instance_it_was_given_once() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state/palisade");
    let first = Store::open(&directory, || "first".into()).unwrap();
    let second = Store::open(&directory, || "second".into()).unwrap();
    assert_eq!((first.instance().unwrap(), second.instance().unwrap()), ("first".into(), "first".into()));
    second.insert(&sandbox(1, "one"), &me()).unwrap();

    let mode = |name: &str| fs::metadata(directory.join(name)).unwrap().permissions().mode() & 0o777;
    assert_eq!(fs::metadata(&directory).unwrap().permissions().mode() & 0o777, 0o700);
    for name in ["state.db", "state.db-wal", "state.db-shm", "state.lock"] {
        assert_eq!(mode(name), 0o600, "{name}");
    }
}

#[test]
fn the_file_is_in_wal_mode_and_at_the_current_version() {
    let (_directory, store) = fresh();
    let other = raw(&store);
    let mode: String = other.pragma_query_value(None, "journal_mode", |row| row.get(0)).unwrap();
    let version: i64 = other.pragma_query_value(None, "user_version", |row| row.get(0)).unwrap();
    assert_eq!((mode.as_str(), version), ("wal", VERSION));
}

#[test]
fn opening_a_current_store_neither_writes_nor_waits_for_a_writer() {
    let (directory, store) = fresh();
    let writer = raw(&store);
    writer.execute_batch("BEGIN EXCLUSIVE").unwrap();
    // With the write lock held elsewhere, an open that wrote anything would wait out the busy time-out and fail.
    assert_eq!(open(directory.path()).instance().unwrap(), "instance-of-the-test");
}

#[test]
fn a_store_left_empty_by_a_crash_is_finished() {
    let directory = tempfile::tempdir().unwrap();
    fs::write(directory.path().join("state.db"), "").unwrap();
    fs::write(directory.path().join("state.new"), "half made").unwrap();
    fs::write(directory.path().join("state.new-wal"), "half made, too").unwrap();
    let store = open(directory.path());
    assert!(store.list().unwrap().rows.is_empty() && store.is_new() && store.is_current());
    assert!(!open(directory.path()).is_new());
    let names = fs::read_dir(directory.path()).unwrap().map(|entry| entry.unwrap().file_name());
    assert!(!names.into_iter().any(|name| name.to_string_lossy().starts_with("state.new")));
}

#[test]
fn a_store_emptied_or_removed_while_it_is_open_is_begun_again_and_its_journal_is_kept() {
    type Loss = fn(&std::path::Path);
    let losses: [(&str, Loss); 2] = [
        ("emptied", |file| fs::write(file, "").unwrap()),
        ("removed", |file| fs::remove_file(file).unwrap()),
    ];
    for (loss, lose) in losses {
        let (directory, held) = fresh();
        held.insert(&sandbox(1, "one"), &me()).unwrap();
        assert!(held.is_current());
        lose(held.file());
        let store = open(directory.path());
        assert!(store.is_new() && store.list().unwrap().rows.is_empty(), "{loss}");
        assert!(!held.is_current(), "{loss}: who has it open can tell");
        store.insert(&sandbox(2, "two"), &me()).unwrap();
        drop(held);
        drop(store);
        let rows = open(directory.path()).list().unwrap().rows;
        assert_eq!(rows.len(), 1, "{loss}: the old connection takes nothing of the new store with it");
        assert!(directory.path().join("state.db.corrupt-empty-wal").exists(), "{loss}");
    }
}

#[test]
fn a_lookup_makes_no_store() {
    let directory = tempfile::tempdir().unwrap();
    assert!(Store::open_existing(directory.path()).unwrap().is_none());
    fs::write(directory.path().join("state.db"), "").unwrap();
    assert!(Store::open_existing(directory.path()).unwrap().is_none());
    assert_eq!(fs::read(directory.path().join("state.db")).unwrap(), b"");
    drop(open(directory.path()));
    let found = Store::open_existing(directory.path()).unwrap().unwrap();
    assert_eq!(found.instance().unwrap(), "instance-of-the-test");
}

#[test]
fn a_store_that_has_lost_its_version_is_damaged_and_no_statement_is_shown() {
    let (directory, store) = fresh();
    raw(&store).pragma_update(None, "user_version", 0).unwrap();
    drop(store);
    let error = Store::open(directory.path(), || unreachable!("an instance id is not needed")).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { why, .. } if why == "it has tables, and no version"));
    assert!(Store::set_aside(directory.path(), 0).unwrap().is_some());
    assert!(open(directory.path()).is_new());
}

#[test]
fn a_newer_store_is_refused_and_left_untouched() {
    let (directory, store) = fresh();
    raw(&store).pragma_update(None, "user_version", VERSION + 7).unwrap();
    let file = store.file().to_owned();
    drop(store);
    let before = fs::read(&file).unwrap();

    let error = Store::open(directory.path(), || unreachable!("an instance id is not needed")).unwrap_err();
    assert!(matches!(error, StoreError::Newer { found, known: VERSION, .. } if found == VERSION + 7));
    assert_eq!(
        error.to_string(),
        format!(
            "{} has version {}, and this palisade knows versions up to {VERSION}",
            file.display(),
            VERSION + 7
        )
    );
    assert_eq!(
        (error.code(), error.exit(), error.hints()),
        (
            "store-newer",
            ExitCode::Configuration,
            vec![
                "it was written by a newer palisade, and nothing was changed; upgrade palisade, or set \
                 XDG_STATE_HOME to use a state of its own"
                    .into()
            ]
        )
    );
    assert_eq!(fs::read(&file).unwrap(), before);
}

#[test]
fn a_damaged_store_is_named_and_set_aside() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.db");
    fs::write(&file, "this is no database at all, ".repeat(100)).unwrap();
    let error = Store::open(directory.path(), || unreachable!("an instance id is not needed")).unwrap_err();
    assert!(matches!(&error, StoreError::Corrupt { file: named, .. } if *named == file));
    assert_eq!((error.code(), error.exit()), ("store-corrupt", ExitCode::Failed));
    let aside = Store::set_aside(directory.path(), 1_700_000_000_000).unwrap().unwrap();
    assert_eq!(aside, directory.path().join("state.db.corrupt-20231114T221320Z"));
    assert!(fs::read(&aside).unwrap().starts_with(b"this is no database"));
    assert!(open(directory.path()).list().unwrap().rows.is_empty());
    assert_eq!(Store::set_aside(directory.path(), 0).unwrap(), None, "a sound one stays");
}

#[test]
fn damage_deep_inside_is_found_when_it_is_read() {
    let (directory, store) = fresh();
    for number in 0..50 {
        store.insert(&sandbox(number, &format!("box-{number}")), &me()).unwrap();
    }
    let file = store.file().to_owned();
    drop(store);
    let mut bytes = fs::read(&file).unwrap();
    bytes[4096..].fill(0xa5);
    fs::write(&file, bytes).unwrap();
    let error = open(directory.path()).list().unwrap_err();
    assert!(matches!(error, StoreError::Corrupt { .. }), "{error:?}");
}

#[test]
fn a_directory_others_can_write_is_refused() {
    let directory = tempfile::tempdir().unwrap();
    fs::set_permissions(directory.path(), fs::Permissions::from_mode(0o770)).unwrap();
    let error = Store::open(directory.path(), String::new).unwrap_err();
    assert_eq!(error.to_string(), format!("{} can be written by other users", directory.path().display()));
    assert_eq!(
        error.hints(),
        [format!("close it to others with: chmod go-w {}", directory.path().display())]
    );
    assert!(!directory.path().join("state.db").exists());
}

#[test]
fn a_place_that_cannot_hold_a_directory_is_a_clear_error() {
    let parent = tempfile::tempdir().unwrap();
    let file = parent.path().join("file");
    fs::write(&file, "").unwrap();
    let error = Store::open(&file.join("state"), String::new).unwrap_err();
    assert_eq!(
        error.to_string(),
        format!("cannot make the state directory: {}/state: Not a directory (os error 20)", file.display())
    );
    assert_eq!(error.code(), "store-unopenable");
}
