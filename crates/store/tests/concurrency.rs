//! Many at once, each with a connection of its own: threads, and real processes.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_store::{NewSandbox, Store, StoreError};
use std::collections::BTreeSet;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::Barrier;
use std::thread;
use support::{fresh, me, open, sandbox};

/// Runs `body` in `count` threads that all start at the same moment, and gathers what they return.
fn at_once<T: Send>(count: u32, body: impl Fn(u32) -> T + Sync) -> Vec<T> {
    let barrier = Barrier::new(count as usize);
    thread::scope(|scope| {
        let run = |number| {
            let (barrier, body) = (&barrier, &body);
            scope.spawn(move || {
                barrier.wait();
                body(number)
            })
        };
        let threads: Vec<_> = (0..count).map(run).collect();
        threads.into_iter().map(|thread| thread.join().unwrap()).collect()
    })
}

#[test]
fn of_a_hundred_who_want_one_name_exactly_one_gets_it() {
    let (directory, store) = fresh();
    let results = at_once(100, |number| open(directory.path()).insert(&sandbox(number, "wanted"), &me()));
    let (winners, losers): (Vec<_>, Vec<_>) = results.into_iter().partition(Result::is_ok);
    assert_eq!((winners.len(), losers.len()), (1, 99));
    let winner = winners.into_iter().next().unwrap().unwrap().spec.id;
    for loser in losers {
        let error = loser.unwrap_err();
        assert!(matches!(&error, StoreError::NameTaken { id, .. } if *id == winner.as_str()), "{error:?}");
    }
    assert_eq!(store.find("wanted").unwrap().spec.id, winner);
    assert_eq!(store.intents().unwrap().intents.len(), 1);
}

#[test]
fn many_who_come_first_at_once_find_one_and_the_same_store() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let instances: BTreeSet<String> = at_once(32, |number| {
        let store = Store::open(&directory, || format!("instance-{number}")).unwrap();
        store.insert(&sandbox(number, &format!("box-{number}")), &me()).unwrap();
        store.instance().unwrap()
    })
    .into_iter()
    .collect();
    assert_eq!(instances.len(), 1);
    assert_eq!(open(&directory).list().unwrap().rows.len(), 32);
}

#[test]
fn uids_given_out_at_once_are_all_different_and_without_gaps() {
    let (directory, _store) = fresh();
    let uids: BTreeSet<u32> = at_once(64, |number| {
        let new = NewSandbox { uids: Some(70_000..80_000), ..sandbox(number, &format!("box-{number}")) };
        open(directory.path()).insert(&new, &me()).unwrap().spec.identity.uid
    })
    .into_iter()
    .collect();
    assert_eq!(uids, (70_000..70_064).collect());
}

const DIRECTORY: &str = "STORE_TEST_DIRECTORY";
const NUMBER: &str = "STORE_TEST_NUMBER";

/// The part of a process of its own in the next test; without its variables it has nothing to do.
#[test]
fn as_one_of_many_processes() {
    let (Some(directory), Some(number)) = (std::env::var_os(DIRECTORY), std::env::var(NUMBER).ok()) else {
        return;
    };
    let number: u32 = number.parse().unwrap();
    let store = Store::open(Path::new(&directory), || format!("instance-{number}")).unwrap();
    store.insert(&sandbox(number, &format!("box-{number}")), &me()).unwrap();
    match store.insert(&sandbox(1000 + number, "wanted"), &me()) {
        Ok(_) => store.trust_set("winner", &number.to_string(), 0).unwrap(),
        Err(error) => assert!(matches!(error, StoreError::NameTaken { .. }), "{error:?}"),
    }
}

#[test]
fn processes_that_make_the_store_together_lose_nothing() {
    let parent = tempfile::tempdir().unwrap();
    let directory = parent.path().join("state");
    let program = std::env::current_exe().unwrap();
    let children: Vec<_> = (0..48)
        .map(|number: u32| {
            Command::new(&program)
                .args(["--exact", "as_one_of_many_processes", "--nocapture"])
                .env(DIRECTORY, &directory)
                .env(NUMBER, number.to_string())
                .stdout(Stdio::null())
                .stderr(Stdio::piped())
                .spawn()
                .unwrap()
        })
        .collect();
    for child in children {
        let output = child.wait_with_output().unwrap();
        assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    }
    let store = open(&directory);
    assert_eq!(store.list().unwrap().rows.len(), 49);
    assert_eq!(store.trust_list().unwrap().len(), 1);
}
