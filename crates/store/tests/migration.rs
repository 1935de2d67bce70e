//! A store that an earlier version made is opened by this one, and everything is there.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

use palisade_core::{Event, State, Workspace};
use palisade_store::{IntentKind, Store, VERSION};

/// Dumped from what the program of that version wrote.
const VERSION_1: &str = include_str!("version_1.sql");

#[test]
fn a_store_of_version_1_is_migrated_with_everything_in_it() {
    let directory = tempfile::tempdir().unwrap();
    let file = directory.path().join("state.db");
    let made = rusqlite::Connection::open(&file).unwrap();
    made.execute_batch("PRAGMA foreign_keys = OFF").unwrap();
    made.execute_batch(VERSION_1).unwrap();
    drop(made);

    let store = Store::open(directory.path(), || unreachable!("it has an instance")).unwrap();
    let version: i64 = rusqlite::Connection::open(&file)
        .unwrap()
        .pragma_query_value(None, "user_version", |row| row.get(0))
        .unwrap();
    assert_eq!(version, VERSION);
    assert_eq!(store.instance().unwrap(), "x34gpmt3em7dpa9aqya2j7d3");
    let listing = store.list().unwrap();
    assert_eq!(listing.bad, []);
    let told: Vec<(String, String, State, Option<String>)> = listing
        .rows
        .iter()
        .map(|row| (row.name.to_string(), row.spec.method.to_string(), row.state, row.error.clone()))
        .collect();
    let row = |name: &str, method: &str, state, error: Option<&str>| {
        (name.to_owned(), method.to_owned(), state, error.map(str::to_owned))
    };
    assert_eq!(
        told,
        [
            row("web", "bwrap", State::Stopped, None),
            row("idle", "noop", State::Created, None),
            row("broken", "bwrap", State::Error, Some("its keeper died")),
        ]
    );
    assert!(matches!(listing.rows[2].spec.policy.workspace, Workspace::Bound { .. }));
    let events = store.events(listing.rows[0].id(), 0, 10).unwrap();
    assert_eq!(events.len(), 4);
    assert_eq!(events[3].event, Event::State { from: State::Stopping, to: State::Stopped, reason: None });
    let intents = store.intents().unwrap();
    assert_eq!((intents.bad.len(), intents.intents.len()), (0, 1));
    let intent = &intents.intents[0];
    assert_eq!((intent.kind, &intent.sandbox_id), (IntentKind::Create, listing.rows[2].id()));
    let trusted = store.trust_list().unwrap();
    assert_eq!(trusted.len(), 1);
    assert_eq!(trusted[0].path, "/srv/user/project/.palisade/config.toml");
}
