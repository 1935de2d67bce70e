//! A sync that is killed at any point loses nothing, and the next one finishes what it began.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{CommitsOutcome, ExchangeError, GitError, WhyWaiting};
use support::{Scene, paths};

/// What is left of a sync besides its work.
fn leftovers(scene: &Scene) -> String {
    scene.host(
        "git fsck --strict --no-dangling 2>&1; find .git -name '*.lock' -o -name 'palisade-*' -o -name 'tmp_*' | grep -v palisade.lock || true
         find . -path ./.git -prune -o -name '*palisade*' -print",
    )
}

/// A scene with work of every kind: a commit that changes, makes and removes files, and more that is not committed.
async fn with_work() -> Scene {
    let scene = Scene::new();
    scene.host("mkdir d && echo old > d/gone && git add -A && git commit -qm d");
    scene.start().await;
    scene.host("echo mine > notes && echo mine > .git/info/exclude");
    scene.inside(
        "echo agent > code && echo new > new && git rm -q d/gone && git add -A && git commit -qm second
         echo work >> readme && mkdir e && echo loose > e/loose && git branch other",
    );
    scene
}

#[track_caller]
fn assert_all_came(scene: &Scene, point: &str) {
    assert_eq!(
        scene.host("git log --format=%s; git log -1 --format=%s other"),
        "second\nd\nfirst\nsecond",
        "{point}"
    );
    assert_eq!(
        scene.host("git status --porcelain --untracked-files=all; cat code new e/loose notes; tail -n1 readme; ls -d d 2>/dev/null || true"),
        " M readme\n?? e/loose\n?? notes\nagent\nnew\nloose\nmine\nwork",
        "{point}"
    );
    assert_eq!(leftovers(scene), "", "{point}");
}

async fn finishes_after(test: &str, points: &[&str]) {
    for point in points {
        let scene = with_work().await;
        scene.sync_killed_at(test, point);
        assert_eq!(scene.read("host/notes"), "mine\n");
        let synced = scene.sync().await;
        assert!(!synced.0.sync.needs_user(), "{point}: {synced:?}");
        assert_all_came(&scene, point);
        assert!(scene.sync().await.is_nothing(), "{point}");
    }
}

#[tokio::test]
async fn a_sync_that_is_killed_while_it_receives_is_finished_by_the_next() {
    Scene::is_killed_here().await;
    let test = "a_sync_that_is_killed_while_it_receives_is_finished_by_the_next";
    finishes_after(test, &["unpack-objects", "palisade: archive", "sync.archived"]).await;
}

#[tokio::test]
async fn a_sync_that_is_killed_while_it_writes_is_finished_by_the_next() {
    Scene::is_killed_here().await;
    let test = "a_sync_that_is_killed_while_it_writes_is_finished_by_the_next";
    let points = ["read-tree -m -u", "checkout-index", "sync.placed", "update-index -q --refresh"];
    finishes_after(test, &points).await;
}

#[tokio::test]
async fn a_sync_that_is_killed_while_it_moves_refs_is_finished_by_the_next() {
    Scene::is_killed_here().await;
    let test = "a_sync_that_is_killed_while_it_moves_refs_is_finished_by_the_next";
    finishes_after(test, &["sync.indexed", "palisade: work of", "sync.moved"]).await;
}

/// There is nothing more to do then, but to take the lock away.
#[tokio::test]
async fn a_sync_of_files_alone_that_is_killed_leaves_no_lock_behind() {
    Scene::is_killed_here().await;
    for point in ["checkout-index", "sync.placed", "sync.indexed", "palisade: work of"] {
        let scene = Scene::new();
        scene.start().await;
        scene.inside("echo loose > code; echo new > new");
        scene.sync_killed_at("a_sync_of_files_alone_that_is_killed_leaves_no_lock_behind", point);
        scene.sync().await;
        assert_eq!(leftovers(&scene), "", "{point}");
        assert_eq!(
            scene.host("git add -A; git status --porcelain; cat code new"),
            "M  code\nA  new\nloose\nnew",
            "{point}"
        );
    }
}

#[tokio::test]
async fn what_the_user_does_after_a_killed_sync_is_kept() {
    Scene::is_killed_here().await;
    let test = "what_the_user_does_after_a_killed_sync_is_kept";
    let scene = with_work().await;
    scene.sync_killed_at(test, "sync.placed");
    scene.host("echo users > code; echo users > e/loose; echo users > readme");
    let synced = scene.sync().await;
    assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["code"])));
    assert_eq!(synced.files().conflicts, paths(&["e/loose", "readme"]));
    assert_eq!(scene.host("cat code e/loose readme notes"), "users\nusers\nusers\nmine");
    assert_eq!(leftovers(&scene), "");
}

/// Lines end differently in the working tree and in git: what lies there is known all the same.
#[tokio::test]
async fn a_killed_sync_with_converted_files_leaves_no_copies() {
    Scene::is_killed_here().await;
    let scene = Scene::new();
    scene.host("git config core.autocrlf true; rm code readme; git checkout -q .");
    scene.start().await;
    scene.inside("git rm -q readme; printf 'a\\nb\\n' > code; printf 'c\\nd\\n' > new; git add -A; git commit -qm second; printf 'e\\nf\\n' > loose");
    scene.sync_killed_at("a_killed_sync_with_converted_files_leaves_no_copies", "sync.placed");
    scene.sync().await;
    assert_eq!(leftovers(&scene), "");
    assert_eq!(
        scene.host("git status --porcelain; od -c code | head -n1 | tr -d ' '"),
        "?? loose\n0000000a\\r\\nb\\r\\n"
    );
}

/// What earlier versions and other programs leave is left to them.
#[tokio::test]
async fn what_is_not_ours_is_not_cleared_away() {
    let scene = Scene::new();
    scene.start().await;
    scene.write("host/.git/palisade-index.lock", "");
    scene.write("host/.git/palisade-index", "half of one");
    scene.write("host/.git/index.lock", "palisade\n");
    scene.write("host/.git/objects/pack/tmp_pack_other", "somebody's");
    scene.write("host/.git/objects/tmp_objdir-palisade/pack/tmp_pack_ours", "half of one");
    scene.inside("echo four >> readme && git commit --quiet -am second && echo 6 >> code");
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&["code"]))
    );
    assert_eq!(leftovers(&scene), ".git/objects/pack/tmp_pack_other");
    assert_eq!(scene.host("git status --porcelain"), " M code");
}

#[tokio::test]
async fn an_index_that_another_program_works_on_is_left_to_it() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo four >> readme && git commit --quiet -am second");
    scene.write("host/.git/index.lock", "");
    let error = scene.sync_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Git(GitError::IndexLocked { .. })), "{error}");
    assert_eq!(
        scene.host("git status --porcelain; git log --format=%s; ls .git/palisade-* 2>/dev/null || true"),
        "first"
    );
    std::fs::remove_file(scene.path("host/.git/index.lock")).unwrap();
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "second\nfirst");
}

/// Another program is done with the index while the sync waits.
#[tokio::test]
async fn an_index_that_is_locked_for_a_moment_is_waited_for() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside("echo four >> readme && git commit --quiet -am second");
    scene.write("host/.git/index.lock", "");
    scene.interrupt(
        "hash-object --stdin-paths",
        "(until [ -e .git/palisade-index-lock ]; do :; done; rm .git/index.lock) >/dev/null 2>&1 &",
    );
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert!(scene.was_interrupted());
}

#[tokio::test]
async fn several_syncs_at_once_take_turns() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > code && git commit -qam second && echo more > new");
    let (one, two, three) = tokio::join!(scene.sync(), scene.sync(), scene.sync());
    let moved = [one, two, three].into_iter().filter(|synced| synced.commits() != CommitsOutcome::Nothing);
    assert_eq!(moved.count(), 1);
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "?? new\nsecond\nfirst");
    assert_eq!(leftovers(&scene), "");
}
