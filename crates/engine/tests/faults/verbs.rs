//! Create, start, stop and remove when something goes wrong half-way.

use crate::fake::{Fault, Scene, dead_process, request};
use palisade_core::{Diagnostic, ExitCode, State};
use palisade_engine::{EngineError, RemoveMode, Started, StopOutcome};
use palisade_host::process;
use palisade_store::IntentKind;
use std::process::{Command, Stdio};
use std::time::Duration;

#[tokio::test]
async fn a_failed_create_leaves_no_record_and_says_why() {
    let scene = Scene::new();
    scene.fake.fault("create", Fault::Fail);
    let error = scene.engine().create(request("web")).await.unwrap_err();
    assert_eq!(error.to_string(), "create web: no luck");
    assert_eq!(scene.fake.calls(), ["create web", "stop web", "remove web"]);
    assert_eq!(scene.row("web"), None);
    assert_eq!(scene.store().intents().unwrap().intents, []);
    scene.fake.heal();
    scene.engine().create(request("web")).await.unwrap();
}

#[tokio::test]
async fn a_failed_create_that_cannot_be_undone_keeps_its_record_and_tells_the_first_failure() {
    let scene = Scene::new();
    scene.fake.fault("create", Fault::Fail);
    scene.fake.fault("remove", Fault::Fail);
    let error = scene.engine().create(request("web")).await.unwrap_err();
    assert_eq!(error.to_string(), "create web: no luck");
    let refused = scene.engine().start("web").await.unwrap_err();
    assert_eq!((refused.code(), refused.exit()), ("sandbox-interrupted", ExitCode::Conflict));
    scene.fake.heal();
    scene.engine().remove("web", RemoveMode::Careful).await.unwrap();
    assert_eq!(scene.row("web"), None);
    assert_eq!(scene.store().intents().unwrap().intents, []);
}

#[tokio::test]
async fn a_keeper_that_ends_without_a_word_leaves_an_error_and_the_sandbox_can_be_started_again() {
    let scene = Scene::new();
    scene.created("web").await;
    let error = scene.engine().start("web").await.unwrap_err();
    assert_eq!(error.code(), "keeper-failed");
    let (state, why) = scene.state("web");
    assert_eq!((state.as_str(), why), ("error", Some(error.to_string())));
    assert!(error.to_string().contains("it ended early (exit status: 3)"), "{error}");
    assert_eq!(scene.fake.calls(), ["stop web"], "what it may have held is given back");
    assert_eq!(scene.store().intents().unwrap().intents, []);
    assert_eq!(start_and_keep(&scene).await.unwrap(), Started::Now);
}

#[tokio::test]
async fn a_start_that_the_backend_refuses_is_reported_with_its_reason() {
    let scene = Scene::new();
    scene.created("web").await;
    scene.fake.fault("start", Fault::Fail);
    let error = start_and_keep(&scene).await.unwrap_err();
    assert_eq!(error.to_string(), "start web: no luck");
    assert_eq!(scene.state("web"), ("error".into(), Some("start web: no luck".into())));
    assert_eq!(scene.row("web").unwrap().keeper, None);
    scene.fake.heal();
    assert_eq!(start_and_keep(&scene).await.unwrap(), Started::Now);
    assert_eq!(scene.state("web"), ("running".into(), None));
}

/// `start`, with a keeper that lives in this very process until it is dropped, once the start is over.
async fn start_and_keep(scene: &Scene) -> Result<Started, EngineError> {
    let engine = scene.engine_with(r#"while [ ! -s "$REPORT" ]; do sleep 0.01; done; cat "$REPORT""#);
    let _ = std::fs::remove_file(scene.report());
    let keeper = scene.engine();
    let keeping = async {
        while scene.row("web").unwrap().state != State::Starting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        keeper.keep("web", std::fs::File::create(scene.report()).unwrap()).await.unwrap();
        std::future::pending().await
    };
    tokio::select! {
        started = engine.start("web") => started,
        () = keeping => unreachable!(),
    }
}

#[tokio::test]
async fn a_removal_waits_for_the_start_that_is_under_way_and_then_refuses() {
    let scene = Scene::new();
    scene.created("web").await;
    let engine = scene.engine();
    let removing = async {
        while scene.row("web").unwrap().state != State::Starting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        engine.remove("web", RemoveMode::Careful).await
    };
    let (started, removed) = tokio::join!(start_and_keep(&scene), removing);
    assert_eq!(started.unwrap(), Started::Now);
    let refused = removed.unwrap_err();
    assert_eq!(refused.to_string(), "sandbox 'web' is running, so rm is not possible");
    assert_eq!(scene.fake.calls(), ["start web", "connect web"], "nothing was taken away from under it");
}

#[tokio::test]
async fn a_second_start_waits_for_the_first_and_finds_it_running() {
    let scene = Scene::new();
    scene.created("web").await;
    let engine = scene.engine();
    let again = async {
        while scene.row("web").unwrap().state != State::Starting {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        engine.start("web").await
    };
    let (first, second) = tokio::join!(start_and_keep(&scene), again);
    assert_eq!((first.unwrap(), second.unwrap()), (Started::Now, Started::Already));
    assert_eq!(scene.fake.calls(), ["start web", "connect web"]);
}

#[tokio::test]
async fn an_interrupted_removal_keeps_the_sandbox_from_being_started() {
    let scene = Scene::new();
    let row = scene.created("web").await;
    let nothing = serde_json::Value::Null;
    scene.store().begin_intent(row.id(), IntentKind::Remove, &nothing, &dead_process(), 0).unwrap();
    let refused = scene.engine().start("web").await.unwrap_err();
    assert_eq!(refused.to_string(), "the rm of sandbox 'web' was interrupted, so it is not whole");
    assert_eq!(scene.state("web"), ("created".into(), None));
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
}

#[tokio::test]
async fn a_removal_that_fails_can_be_repeated() {
    let scene = Scene::new();
    scene.created("web").await;
    scene.fake.fault("remove", Fault::Fail);
    assert_eq!(
        scene.engine().remove("web", RemoveMode::Careful).await.unwrap_err().to_string(),
        "remove web: no luck"
    );
    scene.fake.heal();
    scene.engine().remove("web", RemoveMode::Careful).await.unwrap();
    assert_eq!(scene.row("web"), None);
    assert_eq!(scene.store().intents().unwrap().intents, []);
}

#[tokio::test]
async fn a_keeper_that_hangs_is_killed_and_the_sandbox_put_in_order() {
    let scene = Scene::new();
    let row = scene.created("web").await;
    let mut keeper = Command::new("/bin/sh")
        .args(["-c", "trap '' TERM; echo deaf; while :; do sleep 0.1; done"])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = [0; 5];
    std::io::Read::read_exact(keeper.stdout.as_mut().unwrap(), &mut line).unwrap();
    let store = scene.store();
    store.transition(row.id(), State::Starting, None, 0).unwrap();
    assert!(store.adopt(row.id(), &process::identify(keeper.id()).unwrap()).unwrap());
    store.transition(row.id(), State::Running, None, 0).unwrap();
    let stopped = scene.engine().stop("web", Duration::ZERO).await.unwrap();
    assert_eq!(stopped.outcome, StopOutcome::Stopped);
    assert_eq!(scene.fake.calls(), ["stop web"]);
    assert_eq!(scene.state("web"), ("stopped".into(), None));
    assert_eq!(
        scene.engine().notices(row.id(), 0).unwrap(),
        ["its keeper did not end when asked and was killed"]
    );
    assert_eq!(
        scene.engine().stop("web", Duration::ZERO).await.unwrap().outcome,
        StopOutcome::AlreadyStopped
    );
    keeper.wait().unwrap();
}

#[tokio::test]
async fn what_runs_and_finds_no_other_keeper_is_stopped_without_one_and_never_unasked() {
    let scene = Scene::new();
    scene.fake.become_engine();
    let row = scene.created("web").await;
    let store = scene.store();
    store.transition(row.id(), State::Starting, None, 0).unwrap();
    assert!(store.adopt(row.id(), &dead_process()).unwrap());
    store.transition(row.id(), State::Running, None, 0).unwrap();
    // Here every keeper ends at once.
    for _ in 0..2 {
        let refused = scene.engine().start("web").await.unwrap_err();
        assert_eq!(refused.code(), "keeper-failed");
        assert_eq!((scene.fake.calls(), scene.state("web").0), (Vec::new(), "running".into()));
    }
    scene.fake.fault("stop", Fault::Fail);
    assert_eq!(
        scene.engine().stop("web", Duration::ZERO).await.unwrap_err().to_string(),
        "stop web: no luck"
    );
    assert_eq!(scene.state("web").0, "stopping", "the engine has not said that it is done");
    scene.fake.heal();
    scene.fake.calls();
    scene.fake.ended.store(true, std::sync::atomic::Ordering::Relaxed);
    scene.engine().stop("web", Duration::ZERO).await.unwrap();
    assert_eq!((scene.fake.calls(), scene.state("web").0), (vec!["stop web".to_owned()], "stopped".into()));
}

#[tokio::test]
async fn whether_a_sandbox_of_an_engine_runs_is_for_the_engine_to_say() {
    let scene = Scene::new();
    scene.created("web").await;
    scene.fake.become_engine();
    // The record says that it was never started.
    assert_eq!(scene.engine().stop("web", Duration::ZERO).await.unwrap().outcome, StopOutcome::Stopped);
    assert_eq!((scene.fake.calls(), scene.state("web").0), (vec!["stop web".to_owned()], "stopped".into()));
    scene.fake.fault("inspect", Fault::Fail);
    let refused = scene.engine().stop("web", Duration::ZERO).await.unwrap_err();
    assert_eq!(refused.exit(), ExitCode::Preflight, "{refused}");
    scene.fake.heal();
    scene.fake.ended.store(true, std::sync::atomic::Ordering::Relaxed);
    assert_eq!(
        scene.engine().stop("web", Duration::ZERO).await.unwrap().outcome,
        StopOutcome::AlreadyStopped
    );
}
