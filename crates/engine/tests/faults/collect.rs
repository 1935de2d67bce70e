//! `gc`: what it settles, what it leaves alone, and that one failure does not keep the rest from it.

use crate::fake::{Fault, Scene, dead_process};
use palisade_core::{Diagnostic, ExitCode, Lasting, LeftoverLabels, SandboxDescription, SandboxId, State};
use palisade_engine::{GcAction, GcItem, RemoveMode};
use palisade_host::process;
use palisade_store::IntentKind;

fn item(what: &str, action: GcAction) -> GcItem {
    GcItem::new(what, action)
}

async fn gc(scene: &Scene, dry_run: bool) -> Vec<GcItem> {
    let report = scene.engine().gc(dry_run).await.unwrap();
    assert!(report.failures.is_empty(), "{:?}", report.failures);
    report.items
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
    assert_eq!(gc(&scene, true).await, told);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(scene.state("web"), ("running".into(), None));
    assert_eq!(gc(&scene, false).await, told);
    assert_eq!(scene.fake.calls(), ["stop web"], "stopped, never removed");
    assert_eq!(scene.state("web"), ("error".into(), Some("its keeper died".into())));
    assert_eq!(scene.row("web").unwrap().keeper, None);
    assert_eq!(gc(&scene, false).await, []);
}

#[tokio::test]
async fn a_sandbox_that_was_being_stopped_is_stopped() {
    let scene = Scene::new();
    orphaned(&scene, "web").await;
    let row = scene.row("web").unwrap();
    scene.store().transition(row.id(), State::Stopping, None, 0).unwrap();
    gc(&scene, false).await;
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
    assert_eq!(gc(&scene, false).await, []);
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
    assert_eq!(gc(&scene, true).await, told);
    assert_eq!(gc(&scene, false).await, told);
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
    assert_eq!(gc(&scene, false).await, []);
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
    let failures = scene.engine().gc(false).await.unwrap().failures;
    assert_eq!(failures.iter().map(ToString::to_string).collect::<Vec<_>>(), ["stop bad: no luck"]);
    assert_eq!(scene.fake.calls(), ["stop bad", "stop good", "discard stray"]);
    assert_eq!(scene.state("bad"), ("running".into(), None));
    assert_eq!(scene.state("good").0, "error");
    scene.fake.heal();
    let told = [item("sandbox bad without a keeper", GcAction::Recovered)];
    assert_eq!(gc(&scene, false).await, told);
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
    let kept = GcItem::kept(
        format!("sandbox {unknown} without a record (thing work of one unknown)"),
        format!("remove it and its files with: palisade rm --discard {unknown}"),
    );
    let mut told = ["of one that does not", "of one unknown", "of nobody"]
        .map(|key| item(&format!("thing {key}"), GcAction::Removed))
        .to_vec();
    told.push(kept.clone());
    assert_eq!(gc(&scene, true).await, told);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(gc(&scene, false).await, told);
    assert_eq!(
        scene.fake.calls(),
        ["discard of one that does not", "discard of one unknown", "discard of nobody"]
    );
    assert_eq!(gc(&scene, false).await, [kept], "what may hold work is named every time");
    let listed = scene.engine().list().unwrap().unrecorded;
    assert_eq!(listed.iter().map(|found| &found.id).collect::<Vec<_>>(), [&unknown], "and ls knows of it");
    for mode in [RemoveMode::Careful, RemoveMode::Force] {
        let refused = scene.engine().remove(unknown.as_str(), mode).await.unwrap_err();
        assert_eq!(refused.exit(), ExitCode::Conflict, "{refused}");
    }
    scene.engine().remove(unknown.as_str(), RemoveMode::Discard).await.unwrap();
    assert_eq!(scene.fake.calls(), ["discard work of one unknown"]);
    assert_eq!(scene.engine().list().unwrap().unrecorded, []);
    assert_eq!(gc(&scene, false).await, []);
}

#[tokio::test]
async fn what_runs_without_a_record_is_not_ended() {
    let scene = Scene::new();
    let unknown = SandboxId::from_random([9; 15]);
    let leave = |scene: &Scene| {
        scene.fake.leave_as("running", Some((unknown.clone(), Lasting::WhileItRuns)), true, None);
    };
    leave(&scene);
    let told = gc(&scene, false).await;
    assert_eq!((told.len(), told[0].action), (1, GcAction::Kept));
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    let refused = scene.engine().remove(unknown.as_str(), RemoveMode::Force).await.unwrap_err();
    assert_eq!(refused.exit(), ExitCode::Conflict, "{refused}");
    scene.engine().remove(unknown.as_str(), RemoveMode::Discard).await.unwrap();
    assert_eq!(scene.fake.calls(), ["discard running"]);
}

#[tokio::test]
async fn a_sandbox_that_an_engine_runs_gets_its_record_corrected_and_is_not_removed() {
    let scene = Scene::new();
    let row = scene.created("web").await;
    scene.fake.become_engine();
    scene.fake.leave_as("container", Some((row.id().clone(), Lasting::WhileItRuns)), true, None);
    let told = [item("sandbox web, which runs although its record said created", GcAction::Recovered)];
    assert_eq!(gc(&scene, true).await, told);
    assert_eq!(scene.state("web").0, "created", "a dry run changes nothing");
    // The keeper that would take it over ends at once here.
    let report = scene.engine().gc(false).await.unwrap();
    assert_eq!((report.items.len(), report.failures.len()), (0, 1), "{report:?}");
    assert_eq!(scene.fake.calls(), Vec::<String>::new(), "whatever becomes of that, nothing is ended");
    assert_eq!(scene.state("web").0, "running");
}

#[tokio::test]
async fn what_describes_itself_is_recorded_again_from_its_labels() {
    let scene = Scene::new();
    let mut spec = scene.created("web").await.spec;
    scene.engine().remove("web", RemoveMode::Careful).await.unwrap();
    scene.fake.calls();
    spec.id = SandboxId::from_random([9; 15]);
    let description = Some(SandboxDescription::new(spec.clone(), 7));
    let says = Some(LeftoverLabels { name: Some("web".into()), description });
    let volume = |key: &str| {
        scene.fake.leave_as(key, Some((spec.id.clone(), Lasting::WithTheSandbox)), false, says.clone());
    };
    volume("home");
    let told = gc(&scene, true).await;
    assert_eq!(told[0].action, GcAction::Kept, "half a sandbox is not recorded as a whole one: {told:?}");
    volume("workspace");
    let told = [item("sandbox web in bwrap without a record", GcAction::Adopted)];
    assert_eq!(gc(&scene, true).await, told);
    assert_eq!(scene.row("web"), None);
    assert_eq!(gc(&scene, false).await, told);
    let row = scene.row("web").unwrap();
    assert_eq!((row.id(), row.created_at, row.state), (&spec.id, 7, State::Stopped));
    assert!(row.spec.dir.unwrap().description().as_path().exists());
    assert_eq!(gc(&scene, false).await, []);
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_backend_that_cannot_be_asked_is_named_where_there_may_be_something() {
    let scene = Scene::new();
    scene.fake.fault("leftovers", Fault::Fail);
    assert_eq!(gc(&scene, false).await, [], "it was never used");
    scene.fake.used.store(true, std::sync::atomic::Ordering::Relaxed);
    let failures = scene.engine().gc(false).await.unwrap().failures;
    assert_eq!(
        failures[0].to_string(),
        "bwrap could not be asked what is left there: method 'bwrap' cannot be used: nobody answers"
    );
    let hints = ["start it", "if that engine is gone for good, remove /state/used"].map(str::to_owned);
    assert_eq!((failures[0].exit(), failures[0].hints()), (ExitCode::Preflight, hints.to_vec()));
    scene.fake.used.store(false, std::sync::atomic::Ordering::Relaxed);
    scene.created("web").await;
    assert_eq!(scene.engine().gc(false).await.unwrap().failures.len(), 1, "a sandbox of the record uses it");
}

#[tokio::test]
async fn a_removal_of_what_has_no_record_is_finished_after_a_crash() {
    let scene = Scene::new();
    let unknown = SandboxId::from_random([9; 15]);
    let directory = scene.directory().join("sandboxes").join(unknown.as_str());
    std::fs::create_dir_all(directory.join("home")).unwrap();
    scene.fake.leave("work", Some((unknown.clone(), Lasting::WithTheSandbox)));
    let nothing = serde_json::Value::Null;
    let dead = dead_process();
    scene.store().begin_intent(&unknown, IntentKind::Remove, &nothing, &dead, 0).unwrap();
    let told = [item(&format!("interrupted rm of sandbox {unknown}"), GcAction::Finished)];
    assert_eq!(gc(&scene, false).await, told);
    assert_eq!(scene.fake.calls(), ["discard work"]);
    assert!(!directory.exists());
    assert_eq!(scene.store().intents().unwrap().intents, []);
}
