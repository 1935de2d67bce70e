//! A keeper whose guest fails it, and keepers that come too late.

use crate::fake::{Fault, Scene};
use palisade_core::State;
use palisade_engine::EngineError;
use palisade_host::process;
use palisade_protocol::client::{Client, StreamEvent};
use palisade_protocol::{KeeperVerb, Open};
use std::time::Duration;

/// A sandbox in the state in which its keeper is started.
async fn starting(scene: &Scene) {
    let row = scene.created("web").await;
    scene.store().transition(row.id(), State::Starting, None, 0).unwrap();
}

async fn keep(scene: &Scene) -> (Result<(), EngineError>, serde_json::Value) {
    let mut report = Vec::new();
    let kept = scene.engine().keep("web", &mut report).await;
    (kept, serde_json::from_slice(&report).unwrap())
}

#[tokio::test(start_paused = true)]
async fn a_guest_that_says_nothing_is_given_up_and_everything_put_away() {
    let scene = Scene::new();
    starting(&scene).await;
    scene.fake.fault("handshake", Fault::Hang);
    let began = tokio::time::Instant::now();
    let (kept, report) = keep(&scene).await;
    kept.unwrap();
    assert_eq!(began.elapsed().as_secs(), 20);
    let why = "method 'bwrap' cannot be used: the guest says nothing";
    assert_eq!(
        report,
        serde_json::json!({
            "report": "failed", "code": "method-unavailable", "exit": 4, "message": why, "hints": ["talk to it"],
        })
    );
    assert_eq!(scene.fake.calls(), ["start web", "connect web", "stop web"]);
    assert_eq!(scene.state("web"), ("error".into(), Some(why.into())));
    assert_eq!(scene.row("web").unwrap().keeper, None);
}

#[tokio::test]
async fn a_guest_that_leaves_at_once_is_explained() {
    let scene = Scene::new();
    starting(&scene).await;
    scene.fake.fault("handshake", Fault::Fail);
    let (kept, report) = keep(&scene).await;
    kept.unwrap();
    assert_eq!(report["message"], "method 'bwrap' cannot be used: the guest says nothing");
    assert_eq!(scene.state("web").0, "error");
}

#[tokio::test]
async fn a_stream_that_cannot_be_had_is_reported() {
    let scene = Scene::new();
    starting(&scene).await;
    scene.fake.fault("connect", Fault::Fail);
    let (kept, report) = keep(&scene).await;
    kept.unwrap();
    assert_eq!(report["message"], "connect web: no luck");
    assert_eq!(scene.fake.calls(), ["start web", "connect web", "stop web"]);
    assert_eq!(scene.state("web"), ("error".into(), Some("connect web: no luck".into())));
}

#[tokio::test]
async fn the_end_is_recorded_although_not_everything_could_be_given_back() {
    let scene = Scene::new();
    starting(&scene).await;
    scene.fake.fault("start", Fault::Fail);
    scene.fake.fault("stop", Fault::Fail);
    let (kept, report) = keep(&scene).await;
    assert_eq!(kept.unwrap_err().to_string(), "stop web: no luck");
    assert_eq!(report["message"], "start web: no luck", "the first failure is the one to tell");
    assert_eq!(scene.state("web"), ("error".into(), Some("start web: no luck".into())));
}

#[tokio::test]
async fn a_keeper_that_is_not_wanted_any_more_touches_nothing() {
    let scene = Scene::new();
    starting(&scene).await;
    let row = scene.row("web").unwrap();
    scene.store().transition(row.id(), State::Error, Some("judged dead"), 0).unwrap();
    let (kept, report) = keep(&scene).await;
    assert!(matches!(kept, Err(EngineError::WrongState { .. })), "{kept:?}");
    assert_eq!((report["code"].as_str(), report["exit"].as_u64()), (Some("wrong-state"), Some(7)));
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    assert_eq!(scene.state("web"), ("error".into(), Some("judged dead".into())));
}

#[tokio::test]
async fn of_two_keepers_the_second_leaves_the_first_alone() {
    let scene = Scene::new();
    starting(&scene).await;
    let row = scene.row("web").unwrap();
    assert!(scene.store().adopt(row.id(), &process::this_process()).unwrap());
    let (kept, _) = keep(&scene).await;
    assert!(matches!(kept, Err(EngineError::WrongState { .. })), "{kept:?}");
    assert_eq!(scene.fake.calls(), Vec::<String>::new());
    let now = scene.row("web").unwrap();
    assert_eq!((now.state, now.keeper), (State::Starting, Some(process::this_process())));
}

/// A sandbox of an engine, whose keeper lives in this very process; `act` says what happens to it.
async fn kept<T>(scene: &Scene, act: impl AsyncFnOnce() -> T) -> (Result<(), EngineError>, T) {
    scene.fake.become_engine();
    starting(scene).await;
    let engine = scene.engine();
    let acting = async {
        becomes(scene, "running", None).await;
        act().await
    };
    let mut report = Vec::new();
    let kept = tokio::join!(engine.keep("web", &mut report), acting);
    scene.fake.heal();
    kept
}

/// Waits for a state, and for what is wrong with it.
async fn becomes(scene: &Scene, state: &str, error: Option<&str>) {
    let is = |(found, why): (String, Option<String>)| match error {
        None => found == state && why.is_none(),
        Some(error) => found == state && why.is_some_and(|why| why.contains(error)),
    };
    while !is(scene.state("web")) {
        tokio::time::sleep(Duration::from_millis(1)).await;
    }
}

async fn ask_to_stop(scene: &Scene) -> Option<String> {
    let dir = scene.row("web").unwrap().spec.dir.unwrap();
    let stream = palisade_engine::keeper::socket::connect(dir.path(), "keeper.sock").await.unwrap();
    let (client, _) = Client::connect(stream).await.unwrap();
    let (_sender, mut receiver) = client.open(Open::Keeper(KeeperVerb::Stop { grace_ms: 0 })).await.unwrap();
    while let Ok(Some(event)) = receiver.next().await {
        if let StreamEvent::Refused(refusal) = event {
            return Some(refusal.text);
        }
    }
    None
}

#[tokio::test]
async fn a_connection_that_is_lost_is_tried_again_until_the_engine_says_that_it_is_over() {
    let scene = Scene::new();
    let (kept, ()) = kept(&scene, async || {
        scene.fake.cut();
        becomes(&scene, "running", Some("is lost")).await;
        becomes(&scene, "running", None).await;
        // Nobody can be asked: nothing is claimed, and a stop is refused.
        scene.fake.fault("inspect", Fault::Fail);
        scene.fake.cut();
        becomes(&scene, "running", Some("is lost")).await;
        let refused = ask_to_stop(&scene).await;
        assert_eq!(refused.as_deref(), Some("method 'bwrap' cannot be used: nobody answers"));
        assert_eq!(scene.state("web").0, "running");
        scene.fake.heal();
        becomes(&scene, "running", None).await;
        scene.fake.ended.store(true, std::sync::atomic::Ordering::Relaxed);
        scene.fake.cut();
    })
    .await;
    kept.unwrap();
    let why = "the guest is gone: the connection to the sandbox was closed";
    assert_eq!(scene.state("web"), ("error".into(), Some(why.into())));
    let calls = scene.fake.calls();
    assert_eq!(calls.last().map(String::as_str), Some("stop web"), "{calls:?}");
    assert_eq!(calls.iter().filter(|call| *call == "connect web").count(), 3, "{calls:?}");
}

#[tokio::test]
async fn a_stop_that_the_engine_does_not_confirm_is_not_recorded() {
    let scene = Scene::new();
    let (kept, refused) = kept(&scene, async || {
        scene.fake.fault("stop", Fault::Fail);
        ask_to_stop(&scene).await
    })
    .await;
    assert_eq!(kept.unwrap_err().to_string(), "stop web: no luck");
    assert_eq!(refused, None, "the guest was told to leave");
    assert_eq!(scene.state("web").0, "stopping", "what came of it is for the next command to find out");
}

#[tokio::test]
async fn a_start_that_fails_is_recorded_although_the_engine_does_not_confirm_its_end() {
    let scene = Scene::new();
    scene.fake.become_engine();
    starting(&scene).await;
    scene.fake.fault("start", Fault::Fail);
    scene.fake.fault("stop", Fault::Fail);
    let (_, report) = keep(&scene).await;
    assert_eq!(report["message"], "start web: no luck");
    assert_eq!(scene.state("web"), ("error".into(), Some("start web: no luck".into())));
}
