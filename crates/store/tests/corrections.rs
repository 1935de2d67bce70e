//! Corrections: what is found is recorded, whatever the record said, and a copy lets go of the original.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_core::{Event, HostIdentity, Method, State};
use palisade_store::{IntentKind, KnownId, NewSandbox, RecoveredSandbox};
use support::{AT, fresh, id, me, open, sandbox};

fn recovered(new: NewSandbox, uid: Option<u32>) -> RecoveredSandbox {
    let identity = uid.map_or(new.spec.identity, |uid| HostIdentity { uid, gid: uid });
    let spec = palisade_core::SandboxSpec { identity, ..new.spec };
    RecoveredSandbox { spec, uid, state: State::Stopped, keeper: None, created_at: 3, at: AT }
}

#[test]
fn a_sandbox_that_was_found_gets_a_name_and_leaves_an_event() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "web"), &me()).unwrap();
    let found = store.insert_recovered(&recovered(sandbox(2, "web"), None)).unwrap();
    assert_eq!(found.as_str(), format!("web-{}", id(2).short()), "another one has its name by now");
    let row = store.find(found.as_str()).unwrap();
    assert_eq!((row.state, row.created_at, row.spec.name.as_ref()), (State::Stopped, 3, Some(&found)));
    let events = store.events(&id(2), 0, 10).unwrap();
    assert_eq!(events[0].event, Event::Recovered { what: "found without a record".into() });
    assert!(store.insert_recovered(&recovered(sandbox(2, "other"), None)).is_err(), "it has a record now");
}

#[test]
fn a_uid_that_a_found_sandbox_has_is_given_to_no_other() {
    let (_directory, store) = fresh();
    let with_uid = |number, name| NewSandbox { uids: Some(5000..6000), ..sandbox(number, name) };
    store.insert(&with_uid(1, "one"), &me()).unwrap();
    // A store that is older has given it to another one.
    store.insert_recovered(&recovered(sandbox(2, "two"), Some(5000))).unwrap();
    store.insert_recovered(&recovered(sandbox(3, "three"), Some(5001))).unwrap();
    store.delete(id(1).as_str()).unwrap();
    let inserted = store.insert(&with_uid(4, "four"), &me()).unwrap();
    assert_eq!(inserted.spec.identity.uid, 5002, "both are still in use by files");
}

#[test]
fn what_runs_is_recorded_as_running_and_only_a_record_at_rest_is_corrected() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "web"), &me()).unwrap();
    store.record_running(&id(1), None, AT).unwrap();
    let row = store.find("web").unwrap();
    assert_eq!(row.state, State::Running);
    assert!(row.keeper.is_some_and(|keeper| keeper.pid == 0), "of a keeper that is never alive");
    store.record_running(&id(1), Some(&me()), AT).unwrap();
    assert_ne!(store.find("web").unwrap().keeper, Some(me()), "it was running already");
    store.set_trouble(&id(1), Some("the engine is away")).unwrap();
    assert_eq!(store.find("web").unwrap().error.as_deref(), Some("the engine is away"));
    store.set_trouble(&id(1), None).unwrap();
    store.transition(&id(1), State::Stopping, None, AT).unwrap();
    store.set_trouble(&id(1), Some("too late")).unwrap();
    assert_eq!(store.find("web").unwrap().error, None);
}

#[test]
fn a_copy_keeps_what_is_whole_in_it_and_lets_go_of_the_rest() {
    let (directory, store) = fresh();
    let mut docker = sandbox(2, "container");
    docker.spec.method = Method::Docker;
    let made = store.insert(&sandbox(1, "process"), &me()).unwrap();
    store.insert(&docker, &me()).unwrap();
    store.end_intent(made.intent).unwrap();
    store.begin_intent(&id(1), IntentKind::Start, &serde_json::Value::Null, &me(), AT).unwrap();
    store.transition(&id(1), State::Starting, None, AT).unwrap();
    assert!(store.adopt(&id(1), &me()).unwrap());
    assert_eq!(store.detach("its-own", AT).unwrap(), ["container"]);

    let store = open(directory.path());
    assert_eq!(store.instance().unwrap(), "its-own");
    let (process, container) = (store.find("process").unwrap(), store.find("container").unwrap());
    assert_eq!((process.state, process.keeper), (State::Stopped, None));
    assert_eq!(
        (process.spec.owner.as_str(), container.spec.owner.as_str()),
        ("its-own", "instance-of-the-test")
    );
    let intents = store.intents().unwrap().intents;
    let kinds: Vec<_> = intents.iter().map(|intent| (intent.kind, intent.owner.pid)).collect();
    assert_eq!(kinds, [(IntentKind::Create, 0)], "what is half made is the copy's own to undo");
}

#[test]
fn ids_are_known_by_a_record_or_an_intent() {
    let (_directory, store) = fresh();
    store.insert(&sandbox(1, "web"), &me()).unwrap();
    store.begin_intent(&id(2), IntentKind::Remove, &serde_json::Value::Null, &me(), AT).unwrap();
    let known = store.known_ids().unwrap();
    assert_eq!(known.len(), 2);
    assert_eq!(
        known[id(1).as_str()],
        KnownId::Sandbox(Some(State::Created)),
        "a record counts more than its intent"
    );
    assert_eq!(known[id(2).as_str()], KnownId::Intent);
}

#[test]
fn engines_are_to_be_asked_until_they_were() {
    let (_directory, store) = fresh();
    assert_eq!(store.unsearched_engines().unwrap(), []);
    store.set_unsearched_engines(&[Method::Docker, Method::Podman]).unwrap();
    store.set_unsearched_engines(&[Method::Podman]).unwrap();
    assert_eq!(store.unsearched_engines().unwrap(), [Method::Podman]);
    store.set_unsearched_engines(&[]).unwrap();
    assert_eq!(store.unsearched_engines().unwrap(), []);
}

#[test]
fn a_sandboxs_directory_is_where_the_store_is() {
    let (directory, store) = fresh();
    let mut new = sandbox(1, "web");
    let elsewhere = palisade_core::HostPath::new("/somewhere/else").unwrap();
    new.spec.dir = Some(palisade_core::SandboxDir::new(elsewhere));
    store.insert(&new, &me()).unwrap();
    let expected = directory.path().join("sandboxes").join(id(1).as_str());
    assert_eq!(store.find("web").unwrap().spec.dir.unwrap().path().as_path(), expected);
    assert_eq!(store.list().unwrap().rows[0].spec.dir.as_ref().unwrap().path().as_path(), expected);
}
