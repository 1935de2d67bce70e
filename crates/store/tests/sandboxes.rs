//! Sandboxes in the store: the lifecycle is enforced, names and uids are unique, rows that rot stand apart.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_core::{
    Diagnostic, Event, ExitCode, HostIdentity, IllegalTransition, SandboxName, State, SyncTrigger,
};
use palisade_store::{
    BadRow, EVENTS_KEPT, Inserted, Intent, IntentKind, ProcessIdentity, Row, Store, StoreError, StoredEvent,
};
use serde_json::json;
use support::{AT, fresh, id, me, raw, sandbox};

/// Puts a sandbox into any state, past the state machine.
fn force(store: &Store, number: u32, state: State) {
    raw(store)
        .execute("UPDATE sandboxes SET state = ?2 WHERE id = ?1", [id(number).as_str(), state.as_str()])
        .unwrap();
}

#[test]
fn a_sandbox_is_recorded_together_with_the_intent_to_make_it() {
    let (_directory, store) = fresh();
    let new = sandbox(1, "one");
    let Inserted { spec, intent } = store.insert(&new, &me()).unwrap();
    assert_eq!(spec, new.spec);
    let row = Row {
        name: SandboxName::new("one").unwrap(),
        spec,
        state: State::Created,
        uid: None,
        created_at: AT,
        updated_at: AT,
        error: None,
        keeper: None,
    };
    assert_eq!(store.list().unwrap().rows, vec![row.clone()]);
    assert_eq!(store.by_name(&row.name).unwrap(), Some(row.clone()));
    assert_eq!(store.by_id(&id(1)).unwrap(), Some(row));
    let expected = Intent {
        id: intent,
        sandbox_id: id(1),
        kind: IntentKind::Create,
        payload: json!(null),
        owner: me(),
        created_at: AT,
    };
    assert_eq!(store.intents().unwrap().intents, [expected]);
    store.end_intent(intent).unwrap();
    store.end_intent(intent).unwrap();
    assert_eq!(store.intents().unwrap().intents, []);
}

#[test]
fn a_taken_name_says_who_has_it_and_records_nothing() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let error = store.insert(&sandbox(2, "one"), &me()).unwrap_err();
    assert_eq!(error.to_string(), format!("a sandbox named 'one' already exists (id {}, created)", id(1)));
    assert_eq!(
        (error.code(), error.exit(), error.hints()),
        (
            "name-taken",
            ExitCode::Conflict,
            vec!["choose another name, or remove that one with: palisade rm one".into()]
        )
    );
    assert_eq!((store.list().unwrap().rows.len(), store.intents().unwrap().intents.len()), (1, 1));
}

#[test]
fn a_sandbox_without_a_name_is_kept_under_its_id() {
    let (_directory, store) = fresh();
    let mut new = sandbox(1, "one");
    new.spec.name = None;
    store.insert(&new, &me()).unwrap();
    let row = store.find(id(1).as_str()).unwrap();
    assert_eq!((row.name.as_str(), row.spec.name), (id(1).as_str(), None));
}

#[test]
fn every_transition_follows_the_state_machine_and_leaves_an_event() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let mut seq = 0;
    for from in State::ALL {
        for to in State::ALL {
            force(&store, 1, from);
            let moved = store.transition(&id(1), to, Some("because"), AT + 1);
            let row = store.by_id(&id(1)).unwrap().unwrap();
            let events = store.events(&id(1), seq, 10).unwrap();
            match from.to(to) {
                Ok(_) => {
                    assert_eq!(moved.unwrap(), from);
                    assert_eq!((row.state, row.updated_at), (to, AT + 1));
                    assert_eq!(row.error, (to == State::Error).then(|| "because".to_owned()));
                    seq = events[0].seq;
                    let event = Event::State { from, to, reason: Some("because".into()) };
                    assert_eq!(events, [StoredEvent { seq, at: AT + 1, event }]);
                }
                Err(expected) => {
                    let error = moved.unwrap_err();
                    assert!(matches!(&error, StoreError::Illegal { source, .. } if *source == expected));
                    assert_eq!((error.exit(), row.state, events), (ExitCode::Conflict, from, vec![]));
                }
            }
        }
    }
}

#[test]
fn an_illegal_transition_names_the_sandbox_and_both_states() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let error = store.transition(&id(1), State::Running, None, AT).unwrap_err();
    assert!(matches!(
        error,
        StoreError::Illegal { source: IllegalTransition { from: State::Created, to: State::Running }, .. }
    ));
    assert_eq!(
        error.to_string(),
        format!("sandbox {}: a sandbox that is created cannot become running", id(1))
    );
}

#[test]
fn a_conditional_transition_happens_only_from_the_expected_states() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let error = store.transition_if(&id(1), &[State::Running, State::Stopped], State::Starting, None, AT);
    assert_eq!(
        error.unwrap_err().to_string(),
        format!("sandbox {} is created now, not running or stopped", id(1))
    );
    let from =
        store.transition_if(&id(1), &[State::Created, State::Stopped], State::Starting, None, AT).unwrap();
    assert_eq!(from, State::Created);
}

#[test]
fn changing_a_sandbox_that_is_not_there_is_not_found() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let event = Event::Recovered { what: "x".into() };
    for error in [
        store.transition(&id(9), State::Starting, None, AT).unwrap_err(),
        store.set_keeper(&id(9), None).unwrap_err(),
        store.append_event(&id(9), &event, AT).unwrap_err(),
        store.find("web").unwrap_err(),
    ] {
        assert_eq!((error.code(), error.exit()), ("sandbox-not-found", ExitCode::NotFound));
        assert!(matches!(error, StoreError::NotFound { names, .. } if names == ["one"]));
    }
}

#[test]
fn a_running_sandbox_gets_another_keeper_only_in_place_of_the_one_that_is_recorded() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "web"), &me()).unwrap();
    let (dead, heir) = (me(), ProcessIdentity { pid: 4343, ..me() });
    store.transition(&id(1), State::Starting, None, AT).unwrap();
    assert!(store.adopt(&id(1), &dead).unwrap());
    assert!(!store.succeed(&id(1), &dead, &heir).unwrap(), "a start is not taken over");
    store.transition(&id(1), State::Running, None, AT).unwrap();
    let other = ProcessIdentity { start_ticks: 1, ..dead.clone() };
    assert!(!store.succeed(&id(1), &other, &heir).unwrap(), "somebody else was its keeper");
    assert!(store.succeed(&id(1), &dead, &heir).unwrap());
    assert!(!store.succeed(&id(1), &dead, &me()).unwrap(), "the second comes too late");
    assert_eq!(store.find("web").unwrap().keeper, Some(heir));
}

#[test]
fn the_keeper_is_remembered_and_forgotten_whole() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let keeper = ProcessIdentity { pid: u32::MAX, start_ticks: u64::MAX, boot: "b".into() };
    store.set_keeper(&id(1), Some(&keeper)).unwrap();
    assert_eq!(store.find("one").unwrap().keeper, Some(keeper));
    store.set_keeper(&id(1), None).unwrap();
    assert_eq!(store.find("one").unwrap().keeper, None);
}

#[test]
fn uids_are_the_lowest_free_from_the_base_and_come_back_when_freed() {
    let (_directory, store) = fresh();
    let insert = |number: u32| {
        let new = palisade_store::NewSandbox {
            uids: Some(70_000..80_000),
            ..sandbox(number, &format!("box-{number}"))
        };
        store.insert(&new, &me()).unwrap().spec.identity
    };
    let identity = |uid| HostIdentity { uid, gid: uid };
    assert_eq!([insert(1), insert(2), insert(3)], [identity(70_000), identity(70_001), identity(70_002)]);
    assert!(store.delete(id(2).as_str()).unwrap());
    assert_eq!([insert(4), insert(5)], [identity(70_001), identity(70_003)]);
    assert_eq!(store.find("box-4").unwrap().uid, Some(70_001));
    assert_eq!(store.find("box-4").unwrap().spec.identity, identity(70_001));
}

#[test]
fn the_last_uid_is_never_given_out() {
    let (_directory, store) = fresh();
    let last = |number, base| palisade_store::NewSandbox {
        uids: Some(base..u32::MAX),
        ..sandbox(number, &format!("box-{number}"))
    };
    assert_eq!(store.insert(&last(1, u32::MAX - 1), &me()).unwrap().spec.identity.uid, u32::MAX - 1);
    let error = store.insert(&last(2, u32::MAX - 1), &me()).unwrap_err();
    assert_eq!(error.to_string(), "no host uid is free from 4294967294 up");
}

#[test]
fn find_takes_a_name_an_id_or_a_start_that_only_one_id_has() {
    let (_directory, store) = fresh();
    // These ids share their first characters and differ at the seventh.
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    store.insert(&sandbox(2, "two"), &me()).unwrap();
    store.insert(&sandbox(0xffff_0000, "far"), &me()).unwrap();
    let name = |text: &str| store.find(text).map(|row| row.name.to_string());
    assert_eq!(name("one").unwrap(), "one");
    assert_eq!(name(id(2).as_str()).unwrap(), "two");
    assert_eq!(name(&id(0xffff_0000).as_str()[..4]).unwrap(), "far");
    assert_eq!(name(&id(1).as_str()[..7]).unwrap(), "one");

    let ambiguous = name(&id(1).as_str()[..4]).unwrap_err();
    assert_eq!(
        ambiguous.to_string(),
        format!("'aaaa' is the start of more than one sandbox id: {}, {}", id(1), id(2))
    );
    assert_eq!((ambiguous.code(), ambiguous.exit()), ("sandbox-ambiguous", ExitCode::Usage));
    for nothing in [&id(0xffff_0000).as_str()[..3], "", "%%%%", "____", "zzzz", "a'--", "aaaa\u{1b}[31m"] {
        assert_eq!(name(nothing).unwrap_err().code(), "sandbox-not-found", "{nothing:?}");
    }
    assert_eq!(name("\u{1b}[31m").unwrap_err().to_string(), "there is no sandbox '\\u{1b}[31m'");
}

#[test]
fn a_name_wins_over_the_start_of_an_id() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    store.insert(&sandbox(0xffff_0000, "aaaa"), &me()).unwrap();
    assert_eq!(store.find("aaaa").unwrap().spec.id, id(0xffff_0000));
}

#[test]
fn deleting_takes_row_intents_and_events_and_may_be_repeated() {
    let (_directory, store) = fresh();
    for number in [1, 2] {
        store.insert(&sandbox(number, &format!("box-{number}")), &me()).unwrap();
        store.transition(&id(number), State::Starting, None, AT).unwrap();
    }
    assert!(store.delete(id(1).as_str()).unwrap());
    assert!(!store.delete(id(1).as_str()).unwrap());
    assert_eq!(store.list().unwrap().rows.len(), 1);
    assert_eq!(store.intents().unwrap().intents.len(), 1);
    assert_eq!(store.events(&id(1), 0, 10).unwrap(), []);
    assert_eq!(store.events(&id(2), 0, 10).unwrap().len(), 1);
}

#[test]
fn rows_that_cannot_be_read_stand_apart_and_can_be_deleted() {
    let (_directory, store) = fresh();
    for number in 1..=5 {
        store.insert(&sandbox(number, &format!("box-{number}")), &me()).unwrap();
    }
    let change = |sql: &str, number: u32| raw(&store).execute(sql, [id(number).as_str()]).unwrap();
    change("UPDATE sandboxes SET spec = '{' WHERE id = ?1", 1);
    change("UPDATE sandboxes SET state = 'asleep' WHERE id = ?1", 2);
    change("UPDATE sandboxes SET spec = (SELECT spec FROM sandboxes WHERE name = 'box-5') WHERE id = ?1", 3);
    change("UPDATE sandboxes SET name = CAST(x'ff41' AS TEXT) WHERE id = ?1", 4);

    let listing = store.list().unwrap();
    assert_eq!(listing.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>(), ["box-5"]);
    let bad = |number, name: &str, why: &str| BadRow {
        id: id(number).to_string(),
        name: name.into(),
        why: why.into(),
    };
    assert_eq!(
        listing.bad,
        [
            bad(
                1,
                "box-1",
                "its specification does not parse: EOF while parsing an object at line 1 column 1"
            ),
            bad(2, "box-2", "unknown state 'asleep'"),
            bad(3, "box-3", "its specification is that of another sandbox"),
            bad(4, "\u{fffd}A", "a sandbox name has only a-z, 0-9 and '-'; \u{fffd} is not allowed"),
        ]
    );
    assert_eq!(store.find("box-1").unwrap_err().code(), "store-bad-row");
    assert_eq!(store.transition(&id(2), State::Starting, None, AT).unwrap_err().code(), "store-bad-row");
    for row in &listing.bad {
        assert!(store.delete(&row.id).unwrap());
    }
    assert_eq!((store.list().unwrap().rows.len(), store.list().unwrap().bad.len()), (1, 0));
}

#[test]
fn intents_need_no_row_and_one_that_cannot_be_read_stands_apart() {
    let (_directory, store) = fresh();
    let mut expected = Vec::new();
    for kind in IntentKind::ALL {
        let payload = json!({ "path": "/srv/x", "kind": kind });
        let intent = store.begin_intent(&id(1), kind, &payload, &me(), AT).unwrap();
        expected.push(Intent { id: intent, sandbox_id: id(1), kind, payload, owner: me(), created_at: AT });
    }
    let rotten = store.begin_intent(&id(1), IntentKind::Start, &json!(1), &me(), AT).unwrap();
    raw(&store).execute("UPDATE intents SET kind = 'dance' WHERE id = ?1", [rotten.0]).unwrap();
    let intents = store.intents().unwrap();
    assert_eq!(intents.intents, expected);
    assert_eq!((intents.bad[0].id, intents.bad[0].why.as_str()), (rotten, "unknown kind of intent 'dance'"));
}

#[test]
fn only_the_newest_events_of_each_sandbox_are_kept() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    store.insert(&sandbox(2, "two"), &me()).unwrap();
    let event = |number: usize| Event::Recovered { what: number.to_string() };
    store.append_event(&id(2), &event(0), AT).unwrap();
    for number in 0..EVENTS_KEPT + 5 {
        store.append_event(&id(1), &event(number), AT).unwrap();
    }
    let kept = store.events(&id(1), 0, usize::MAX).unwrap();
    let expected: Vec<Event> = (5..EVENTS_KEPT + 5).map(event).collect();
    assert_eq!(kept.iter().map(|stored| stored.event.clone()).collect::<Vec<_>>(), expected);
    assert_eq!(store.events(&id(2), 0, 10).unwrap().len(), 1);
    assert_eq!(store.events(&id(1), kept[1].seq, 2).unwrap(), kept[2..4]);
}

#[test]
fn syncs_without_end_do_not_push_the_rest_of_the_history_out() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let first = Event::Recovered { what: "first".into() };
    store.append_event(&id(1), &first, AT).unwrap();
    for number in 0..310 {
        let failed = Event::SyncFailed { trigger: SyncTrigger::Commit, reason: number.to_string() };
        store.append_event(&id(1), &failed, AT).unwrap();
    }
    let kept = store.events(&id(1), 0, usize::MAX).unwrap();
    assert_eq!(kept.len(), 1 + 300, "one that is no sync, and the newest syncs");
    assert_eq!(kept[0].event, first);
    let last = Event::SyncFailed { trigger: SyncTrigger::Commit, reason: "309".into() };
    assert_eq!(kept.last().unwrap().event, last);
}

#[test]
fn an_event_of_an_unknown_kind_is_left_out() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "one"), &me()).unwrap();
    let event = Event::Recovered { what: "x".into() };
    let first = store.append_event(&id(1), &event, AT).unwrap();
    let second = store.append_event(&id(1), &event, AT).unwrap();
    raw(&store).execute("UPDATE events SET event = '{\"event\":\"later\"}' WHERE seq = ?1", [first]).unwrap();
    assert_eq!(store.events(&id(1), 0, 1).unwrap(), [StoredEvent { seq: second, at: AT, event }]);
}

#[test]
fn trust_is_pinned_to_one_digest_per_path() {
    let (_directory, store) = fresh();
    assert_eq!(store.trust_get("/p").unwrap(), None);
    store.trust_set("/p", "old", 1).unwrap();
    store.trust_set("/p", "new", 2).unwrap();
    store.trust_set("/a", "other", 3).unwrap();
    assert_eq!(store.trust_get("/p").unwrap().as_deref(), Some("new"));
    let trusted = |path: &str, digest: &str, at| palisade_store::Trusted {
        path: path.into(),
        digest: digest.into(),
        at,
    };
    assert_eq!(store.trust_list().unwrap(), [trusted("/a", "other", 3), trusted("/p", "new", 2)]);
    assert!(store.trust_remove("/p").unwrap());
    assert!(!store.trust_remove("/p").unwrap());
}
