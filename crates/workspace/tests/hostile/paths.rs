//! Links in the work, links of the user's own, and links that take a directory's place while files are written: nothing
//! is written through any of them.

use crate::assert_refs;
use crate::support::{Scene, paths};
use palisade_workspace::{CommitsOutcome, WhyWaiting};

#[tokio::test]
async fn a_link_that_becomes_a_directory_leads_nowhere() {
    for (target, commit) in [(".git/hooks", "git add -A && git commit -qm step"), ("../outside", "true")] {
        let scene = Scene::new();
        scene.write("outside/kept", "");
        scene.host("mkdir -p .git/hooks");
        scene.start().await;
        scene.inside(&format!("ln -s {target} a && {commit}"));
        scene.sync().await;
        let led = format!("host/{target}/post-checkout");
        scene.inside(&format!("rm a && mkdir a && echo evil > a/post-checkout && {commit}"));
        scene.plain("cp ../inside/a/post-checkout a/post-checkout");
        assert!(scene.exists(&led.replace("host", "plain")), "the control");
        let _ = std::fs::remove_file(scene.path("outside/post-checkout"));

        scene.sync().await;
        assert_eq!((scene.read("host/a/post-checkout").as_str(), scene.exists(&led)), ("evil\n", false));
        scene.inside(&format!("rm -r a && ln -s . a && {commit}"));
        scene.sync().await;
        assert_eq!(scene.host("readlink a"), ".");
        assert!(!scene.exists(&led));
    }
}

#[tokio::test]
async fn a_link_of_the_users_is_not_written_through() {
    for (commit, ignore) in
        [("git add -f build && git commit -qm build", "/build"), ("true", "/build/y"), ("true", "/nothing")]
    {
        let scene = Scene::new();
        scene.host(&format!("echo {ignore} > .gitignore && git add -A && git commit -qm ignore"));
        scene.start().await;
        scene.host("mkdir ../outside && ln -s ../outside build");
        scene.inside(&format!("mkdir build && echo evil > build/x && {commit}"));
        scene.plain("cp -r ../inside/build/. build/");
        assert!(scene.exists("outside/x"), "the control");
        std::fs::remove_file(scene.path("outside/x")).unwrap();

        let synced = scene.sync().await;
        if commit == "true" {
            assert_eq!(synced.files().conflicts, paths(&["build/x"]));
        } else {
            assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["build/x"])));
        }
        assert_eq!(scene.host("readlink build; ls ../outside"), "../outside");
    }
}

/// Where the user has a repository, or files in a directory that is to go, both stay.
#[tokio::test]
async fn directories_with_something_of_the_users_stay() {
    let scene = Scene::new();
    scene.host("mkdir d && echo x > d/tracked && echo '*.o' > .gitignore && git add -A && git commit -qm d");
    scene.start().await;
    scene.host("echo mine > d/own.o && git init -q nested && echo mine > nested/file");
    scene.inside("git rm -qr d && echo file > d && git add -A && git commit -qm file");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::HostChanges(paths(&["d"])));
    scene.inside("git reset -q --hard HEAD~1 && echo file > nested && git add -A && git commit -qm nested");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::HostChanges(paths(&["nested"])));
    scene.inside("git reset -q --hard HEAD~1 && echo file > nested");
    assert_eq!(scene.sync().await.files().conflicts, paths(&["nested"]), "not committed");
    assert_eq!(
        (scene.read("host/d/own.o"), scene.read("host/nested/file")),
        ("mine\n".into(), "mine\n".into())
    );

    scene.host("rm d/own.o");
    scene.inside("rm nested && git rm -qr d && echo file > d && git add -A && git commit -qm file");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.read("host/d"), "file\n");
}

/// What is there when the files are looked at is not what is there when they are written.
#[tokio::test]
async fn a_link_that_takes_the_place_of_a_directory_meanwhile_is_not_followed() {
    let swap = "mv d ../moved; ln -s ../outside d";
    for (commit, swap) in [
        ("git add -A; git commit -qm work", swap),
        ("true", swap),
        ("git add -A; git commit -qm work", "mkdir -p ../outside/new; mv d ../moved; ln -s ../outside/new d"),
    ] {
        let mut scene = Scene::new();
        scene.host("mkdir d && echo 1 > d/old && echo 1 > d/gone && git add -A && git commit -qm d && mkdir ../outside && echo theirs > ../outside/old && echo theirs > ../outside/gone");
        scene.start().await;
        scene.inside(&format!("echo evil > d/old; echo evil > d/new; rm d/gone; {commit}"));
        scene.plain(&format!("{swap}; cp ../inside/d/new d/new"));
        assert_ne!(scene.host("find ../outside -name new -type f"), "", "the control");
        scene.host("rm -rf ../moved; find ../outside -name new -type f -delete");
        scene.interrupt(if commit == "true" { "checkout-index" } else { "read-tree -m -u" }, swap);

        scene.sync().await;
        assert!(scene.was_interrupted());
        assert_eq!(
            scene.host("cat ../outside/old ../outside/gone; find ../outside -name new -type f"),
            "theirs\ntheirs"
        );
        assert_eq!(scene.host("readlink d | cut -c1-10; cat ../moved/old ../moved/gone"), "../outside\n1\n1");
        assert_refs_of(&scene);
    }
}

/// Commits wait on a branch of their own, and files are conflicts: nothing else has come.
#[track_caller]
fn assert_refs_of(scene: &Scene) {
    let waits = scene.host("git branch --list palisade/box/main");
    let waiting = ["refs/heads/main", "refs/heads/palisade/box/main"];
    assert_refs(scene, if waits.is_empty() { &waiting[..1] } else { &waiting });
}

#[tokio::test]
async fn a_link_that_takes_the_place_of_a_file_meanwhile_stays_and_is_not_followed() {
    for commit in ["git commit -qam work", "true"] {
        let mut scene = Scene::new();
        scene.write("victim", "theirs\n");
        scene.start().await;
        scene.inside(&format!("echo evil > code; {commit}"));
        let swap = "rm code; ln -s ../victim code";
        scene.plain(&format!("{swap}; cat ../inside/code > code"));
        assert_eq!(scene.read("victim"), "evil\n", "the control");
        scene.write("victim", "theirs\n");
        scene.interrupt(if commit == "true" { "checkout-index" } else { "read-tree -m -u" }, swap);

        let synced = scene.sync().await;
        assert!(scene.was_interrupted());
        assert_eq!(
            (scene.read("victim").as_str(), scene.host("readlink code").as_str()),
            ("theirs\n", "../victim")
        );
        if commit == "true" {
            assert_eq!(synced.files().conflicts, paths(&["code"]));
        } else {
            assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["code"])));
        }
    }
}

/// A commit names another repository where the user has something of their own.
#[tokio::test]
async fn a_gitlink_takes_the_place_of_nothing_of_the_users() {
    let scene = Scene::new();
    scene.start().await;
    scene.host("mkdir sub && echo mine > sub/file && git init -q other && git -C other -c user.name=a -c user.email=a@b commit -q --allow-empty -m mine && echo mine > other/file");
    scene.inside("for n in sub other; do git init -q $n && git -C $n commit -q --allow-empty -m x; done; git add sub other 2>/dev/null; git commit -qm links");
    scene.sync().await;
    assert_eq!(scene.host("cat sub/file other/file; git -C other log --format=%s"), "mine\nmine\nmine");
    assert_eq!(scene.host("ls -A sub"), "file", "nothing has made a repository of it");
}

/// Stage directories with files of a sync that was killed, and a link where they would be saved.
#[tokio::test]
async fn a_file_that_a_killed_sync_had_taken_out_is_saved_without_following_a_link() {
    let scene = Scene::new();
    scene.start().await;
    scene.host("mkdir ../outside; ln -s ../outside d; mkdir -p .git/palisade-stage/committed/d .git/palisade-stage/parked; echo precious > .git/palisade-stage/committed/d/x; ln -s precious .git/palisade-stage/committed/link");
    scene.plain("cp .git/palisade-stage/committed/d/x d/x");
    assert!(scene.exists("outside/x"), "the control");
    std::fs::remove_file(scene.path("outside/x")).unwrap();

    scene.sync().await;
    assert_eq!(scene.host("ls ../outside; cat x.palisade-saved-*; readlink link.palisade-saved-*; ls .git | grep stage || true"), "precious\nprecious");
}
