//! Repositories that have left objects at their remote.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_core::RefScope;
use palisade_workspace::{CommitsOutcome, ExchangeError, Growth, SendError};
use support::Scene;

/// A host that is a partial clone of `../origin`.
fn partial(filter: &str) -> Scene {
    let scene = Scene::new();
    scene.host(
        "git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
         mkdir d; for i in 2 3; do echo $i > code; echo $i > d/$i; git add -A; git commit -qm $i; done; mv ../host ../origin",
    );
    std::fs::create_dir(scene.path("host")).unwrap();
    scene.host(&format!(
        "git clone -q --no-local --filter={filter} ../origin .; git config user.name Ada; git config user.email ada@example.org"
    ));
    scene
}

/// How many objects of the history are not here.
fn missing(scene: &Scene) -> String {
    scene.host("git rev-list --objects --missing=print --quiet --all | wc -l")
}

#[tokio::test]
async fn what_a_partial_clone_lacks_is_brought_from_its_remote() {
    for filter in ["blob:none", "tree:0"] {
        for shared in [false, true] {
            let scene = partial(filter);
            assert_ne!(missing(&scene), "0", "{filter}");
            if shared {
                let shared = scene.share(RefScope::All, Growth::Grow, &[]).await;
                scene.start_with(|options| options.shared = Some(shared)).await.unwrap();
            } else {
                scene.start().await;
            }
            assert_eq!(missing(&scene), "0", "{filter}");
            assert_eq!(
                scene
                    .inside("git show HEAD~1:code HEAD~2:code | tail -n2; git fsck --connectivity-only 2>&1"),
                "4\n5",
                "{filter}"
            );
            scene.inside("echo agent > code; git commit -qam agent");
            assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
        }
    }
}

#[tokio::test]
async fn without_its_remote_a_partial_clone_is_refused() {
    let scene = partial("blob:none");
    scene.host("mv ../origin ../gone");
    let refused = scene.start_with(|_| {}).await;
    assert!(matches!(refused, Err(ExchangeError::Send(SendError::PartialClone))), "{refused:?}");
}

/// The user's own way to a remote is not opened for settings that an agent may have written.
#[tokio::test]
async fn nothing_is_fetched_with_settings_that_lie_in_the_working_tree() {
    let run = |place: &str| {
        let scene = partial("blob:none");
        scene.host(&format!(
            "printf '[core]\nsshCommand = \"touch ran; false\"\n[remote \"origin\"]\nurl = ssh://localhost/x\n' > {place}
             printf 'settings\n' > .git/info/exclude; git config --unset remote.origin.url; git config include.path $PWD/{place}"
        ));
        scene
    };
    let scene = run("settings");
    let refused = scene.start_with(|_| {}).await;
    assert!(matches!(refused, Err(ExchangeError::Send(SendError::PartialClone))), "{refused:?}");
    assert!(!scene.path("host/ran").exists());
    // With the same settings elsewhere git uses them, so it could have.
    let scene = run("../settings");
    let refused = scene.start_with(|_| {}).await;
    assert!(matches!(refused, Err(ExchangeError::Send(SendError::PartialClone))), "{refused:?}");
    assert!(scene.path("host/ran").exists());
}
