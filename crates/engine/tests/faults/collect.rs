//! `gc`: what it settles, what it leaves alone, and that one failure does not keep the rest from it.

use crate::fake::{Fault, Scene, dead_process};
use palisade_core::{Lasting, SandboxId, State};
use palisade_engine::{GcAction, GcItem};
use palisade_host::process;
use palisade_store::IntentKind;

fn item(what: &str, action: GcAction) -> GcItem {
    GcItem { what: what.into(), action }
}

/// A sandbox that runs, as far as the record knows, with a keeper that is dead.
async fn orphaned(scene: &Scene, name: &str) {
    let row = scene.created(name).await;
    let store = scene.store();
    store.transition(row.id(), State::Starting, None, 0).unwrap();
    assert!(store.adopt(row.id(), &dead_process()).unwrap());
    store.transition(row.id(), State::Running, None, 0).unwrap();
}

#[tokio::test]
async fn a_dead_keepers_sandbox_is_put_in_order_and_keeps_its_directories() {
    let scene = Scene::new();
    orphaned(&scene, "web").await;
    let told = [item("sandbox web without a keeper", GcAction::Recovered)];
    assert_eq!(scene.engine().gc(true).await.unwrap(), told);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(scene.state("web"), ("running".into(), None));
    assert_eq!(scene.engine().gc(false).await.unwrap(), told);
    assert_eq!(scene.fake.calls(), ["stop web"], "stopped, never removed");
    assert_eq!(scene.state("web"), ("error".into(), Some("its keeper died".into())));
    assert_eq!(scene.row("web").unwrap().keeper, None);
    assert_eq!(scene.engine().gc(false).await.unwrap(), []);
}

#[tokio::test]
async fn a_sandbox_that_was_being_stopped_is_stopped() {
    let scene = Scene::new();
    orphaned(&scene, "web").await;
    let row = scene.row("web").unwrap();
    scene.store().transition(row.id(), State::Stopping, None, 0).unwrap();
    scene.engine().gc(false).await.unwrap();
    assert_eq!(scene.state("web"), ("stopped".into(), None));
}

#[tokio::test]
async fn what_living_processes_have_begun_is_left_alone() {
    let scene = Scene::new();
    let me = process::this_process();
    let nothing = serde_json::Value::Null;
    scene.begun("being-made", 1, &me);
    let removed = scene.created("being-removed").await;
    scene.store().begin_intent(removed.id(), IntentKind::Remove, &nothing, &me, 0).unwrap();
    let started = scene.created("being-started").await;
    scene.store().begin_intent(started.id(), IntentKind::Start, &nothing, &me, 0).unwrap();
    scene.store().transition(started.id(), State::Starting, None, 0).unwrap();
    let before = (scene.store().list().unwrap(), scene.store().intents().unwrap());
    assert_eq!(scene.engine().gc(false).await.unwrap(), []);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!((scene.store().list().unwrap(), scene.store().intents().unwrap()), before);
}

#[tokio::test]
async fn what_dead_processes_had_begun_is_undone_or_finished() {
    let scene = Scene::new();
    let nothing = serde_json::Value::Null;
    scene.begun("half-made", 1, &dead_process());
    let removed = scene.created("half-gone").await;
    scene.store().begin_intent(removed.id(), IntentKind::Remove, &nothing, &dead_process(), 0).unwrap();
    let started = scene.created("half-up").await;
    scene.store().begin_intent(started.id(), IntentKind::Start, &nothing, &dead_process(), 0).unwrap();
    scene.store().transition(started.id(), State::Starting, None, 0).unwrap();
    let told = [
        item("interrupted create of sandbox half-made", GcAction::Undone),
        item("interrupted rm of sandbox half-gone", GcAction::Finished),
        item("interrupted start of sandbox half-up", GcAction::Undone),
    ];
    assert_eq!(scene.engine().gc(true).await.unwrap(), told);
    assert_eq!(scene.engine().gc(false).await.unwrap(), told);
    assert_eq!(
        scene.fake.calls(),
        ["stop half-made", "remove half-made", "stop half-gone", "remove half-gone", "stop half-up"]
    );
    let left: Vec<String> =
        scene.store().list().unwrap().rows.iter().map(|row| row.name.to_string()).collect();
    assert_eq!(left, ["half-up"]);
    assert_eq!(scene.store().intents().unwrap().intents, []);
}

#[tokio::test]
async fn a_keeper_that_went_on_without_its_command_is_left_alone() {
    let scene = Scene::new();
    let row = scene.created("web").await;
    let nothing = serde_json::Value::Null;
    let store = scene.store();
    store.begin_intent(row.id(), IntentKind::Start, &nothing, &dead_process(), 0).unwrap();
    store.transition(row.id(), State::Starting, None, 0).unwrap();
    assert!(store.adopt(row.id(), &process::this_process()).unwrap());
    assert_eq!(scene.engine().gc(false).await.unwrap(), []);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(scene.state("web"), ("starting".into(), None));
    assert_eq!(store.intents().unwrap().intents, [], "but the dead command's intent is ended");
}

#[tokio::test]
async fn one_sandbox_that_cannot_be_put_in_order_does_not_keep_the_others_from_it() {
    let scene = Scene::new();
    orphaned(&scene, "bad").await;
    orphaned(&scene, "good").await;
    scene.fake.leave("stray", None);
    scene.fake.fault("stop bad", Fault::Fail);
    assert_eq!(scene.engine().gc(false).await.unwrap_err().to_string(), "stop bad: no luck");
    assert_eq!(scene.fake.calls(), ["stop bad", "stop good", "discard stray"]);
    assert_eq!(scene.state("bad"), ("running".into(), None));
    assert_eq!(scene.state("good").0, "error");
    scene.fake.heal();
    let told = [item("sandbox bad without a keeper", GcAction::Recovered)];
    assert_eq!(scene.engine().gc(false).await.unwrap(), told);
}

#[tokio::test]
async fn only_what_no_living_sandbox_needs_is_discarded() {
    let scene = Scene::new();
    let idle = scene.created("idle").await;
    let busy = scene.created("busy").await;
    let store = scene.store();
    store.transition(busy.id(), State::Starting, None, 0).unwrap();
    assert!(store.adopt(busy.id(), &process::this_process()).unwrap());
    let unknown = SandboxId::from_random([9; 15]);
    for (whose, id) in
        [("one that runs", busy.id()), ("one that does not", idle.id()), ("one unknown", &unknown)]
    {
        scene.fake.leave(&format!("of {whose}"), Some((id.clone(), Lasting::WhileItRuns)));
        scene.fake.leave(&format!("work of {whose}"), Some((id.clone(), Lasting::WithTheSandbox)));
    }
    scene.fake.leave("of nobody", None);
    let told = ["of one that does not", "of one unknown", "work of one unknown", "of nobody"]
        .map(|key| item(&format!("thing {key}"), GcAction::Removed));
    assert_eq!(scene.engine().gc(true).await.unwrap(), told);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(scene.engine().gc(false).await.unwrap(), told);
    assert_eq!(
        scene.fake.calls(),
        [
            "discard of one that does not",
            "discard of one unknown",
            "discard work of one unknown",
            "discard of nobody"
        ]
    );
    assert_eq!(scene.engine().gc(false).await.unwrap(), []);
}
