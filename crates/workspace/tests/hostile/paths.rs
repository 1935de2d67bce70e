//! Links in the work, and links of the user's own: nothing is written through either.

use crate::support::{Scene, paths};
use palisade_workspace::{Commits, Divergence, Waits};

#[tokio::test]
async fn a_link_that_becomes_a_directory_leads_nowhere() {
    for target in [".git/hooks", "../outside"] {
        let scene = Scene::new();
        scene.write("outside/kept", "");
        scene.send().await;
        scene.inside(&format!("ln -s {target} a && git add -A && git commit -qm link"));
        scene.sync(Divergence::Wait).await;
        let led = format!("host/{target}/post-checkout");
        scene.inside(
            "git rm -q a && mkdir a && echo evil > a/post-checkout && git add -A && git commit -qm directory",
        );
        scene.plain("cp ../inside/a/post-checkout a/post-checkout");
        assert!(scene.exists(&led.replace("host", "plain")), "the control");
        let _ = std::fs::remove_file(scene.path("outside/post-checkout"));

        assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
        assert_eq!((scene.read("host/a/post-checkout").as_str(), scene.exists(&led)), ("evil\n", false));
        scene.inside("git rm -qr a && ln -s . a && git add -A && git commit -qm back");
        assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    }
}

#[tokio::test]
async fn a_link_of_the_users_is_not_written_through() {
    let scene = Scene::new();
    scene.host("echo /build > .gitignore && git add -A && git commit -qm ignore && mkdir ../outside && ln -s ../outside build");
    scene.send().await;
    scene.inside("mkdir build && echo evil > build/x && git add -f build && git commit -qm build");
    scene.plain("cp -r ../inside/build/. build/");
    assert!(scene.exists("outside/x"), "the control");
    std::fs::remove_file(scene.path("outside/x")).unwrap();

    let why = Waits::HostChanges(paths(&["build"]));
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Waiting { count: 1, why });
    assert!(!scene.exists("outside/x"));
}

/// Where the user has a repository of their own, or files in a directory that is to go, both stay.
#[tokio::test]
async fn directories_with_something_of_the_users_stay() {
    let scene = Scene::new();
    scene.host("mkdir d && echo x > d/tracked && echo '*.o' > .gitignore && git add -A && git commit -qm d");
    scene.send().await;
    scene.host("echo mine > d/own.o && git init -q nested && echo mine > nested/file");
    scene.inside("git rm -qr d && echo file > d && git add -A && git commit -qm file");
    let why = Waits::HostChanges(paths(&["d"]));
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Waiting { count: 1, why });
    scene.inside("git reset -q --hard HEAD~1 && echo file > nested && git add -A && git commit -qm nested");
    let why = Waits::HostChanges(paths(&["nested"]));
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Waiting { count: 1, why });
    assert_eq!(
        (scene.read("host/d/own.o"), scene.read("host/nested/file")),
        ("mine\n".into(), "mine\n".into())
    );

    scene.host("rm d/own.o");
    scene.inside(
        "git reset -q --hard HEAD~1 && git rm -qr d && echo file > d && git add -A && git commit -qm file",
    );
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    assert_eq!(scene.read("host/d"), "file\n");
}
