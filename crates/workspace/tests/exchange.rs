//! Code goes in, work comes back, and nothing of either side is lost on the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{Arrival, CommitsOutcome, TreeReport, WhyWaiting};
use support::{Scene, paths};

#[tokio::test]
async fn commits_and_uncommitted_work_come_back() {
    let scene = Scene::new();
    assert_eq!(scene.start().await.arrival, Arrival::Cloned);
    assert_eq!(
        scene.inside("git log --format='%an %s' && git status --short --branch"),
        "Ada first\n## main"
    );
    scene.inside("echo four >> readme && git commit --quiet -am second && echo 6 >> code && mkdir d && echo new > d/n && git rm --quiet readme");

    let synced = scene.sync().await;

    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.written(), paths(&["code", "d/n", "readme"]));
    assert!(!synced.0.sync.needs_user());
    assert_eq!(scene.host("git log --format=%s"), "second\nfirst");
    assert_eq!(scene.host("git status --porcelain --untracked-files=all"), " M code\n D readme\n?? d/n");
    assert_eq!((scene.read("host/code").lines().last(), scene.exists("host/readme")), (Some("6"), false));

    let again = scene.sync().await;
    assert!(again.is_nothing(), "{again:?}");
}

#[tokio::test]
async fn a_second_sync_replaces_what_the_first_wrote() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo draft > code && echo x > extra");
    scene.sync().await;
    scene.inside("echo better > code && rm extra");

    let synced = scene.sync().await;
    let TreeReport { written, taken_back, conflicts, .. } = synced.files();
    assert_eq!((written, taken_back, conflicts), (paths(&["code"]), paths(&["extra"]), paths(&[])));
    assert_eq!((scene.read("host/code").as_str(), scene.exists("host/extra")), ("better\n", false));

    scene.inside("git commit --quiet -am done");
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&[]))
    );
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn a_file_may_become_a_directory_and_a_directory_a_file() {
    let scene = Scene::new();
    scene.host("mkdir d && echo 1 > d/n && git add -A && git commit --quiet -m directory");
    scene.start().await;
    scene.inside("git rm --quiet -r code d && mkdir code && echo 1 > code/n && echo 2 > d && git add -A && git commit --quiet -m swap");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!((scene.read("host/code/n").as_str(), scene.read("host/d").as_str()), ("1\n", "2\n"));
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn a_change_of_the_users_stays_and_commits_that_would_go_past_it_wait() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > code && git commit --quiet -am second && echo more > readme");
    scene.write("host/code", "the user's\n");

    let synced = scene.sync().await;
    let waiting = synced.waiting();
    assert_eq!((waiting.count, waiting.branch.as_str()), (1, "palisade/box/main"));
    assert_eq!(waiting.why, WhyWaiting::HostChanges(paths(&["code"])));
    assert_eq!(synced.written(), paths(&["readme"]), "an unrelated file comes all the same");
    assert!(synced.0.sync.needs_user());
    assert_eq!(
        scene.host("git log --format=%s main; git log --format=%s palisade/box/main"),
        "first\nsecond\nfirst"
    );
    assert_eq!(scene.read("host/code"), "the user's\n");

    scene.host("git checkout --quiet code");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/main"]);
    assert_eq!(scene.host("git branch --format='%(refname:short)'"), "main");
}

#[tokio::test]
async fn the_daily_loop_goes_on_when_the_user_commits_what_was_brought() {
    let scene = Scene::new();
    scene.start().await;
    for round in ["one", "two", "three"] {
        scene.inside(&format!("echo {round} >> readme; echo {round} > {round}"));
        scene.sync().await;
        scene.host(&format!("git add -A; git commit --quiet -m {round}"));
        let report = scene.start().await;
        assert_eq!(report.arrival, Arrival::Followed { moved: true }, "{round}");
        assert_eq!(scene.inside("git status --porcelain; git log -1 --format=%s"), round);
    }
}

#[tokio::test]
async fn what_a_sync_wrote_does_not_stop_a_start_and_stays_inside() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo more >> readme; echo n > new");
    scene.sync().await;
    let report = scene.start().await;
    assert_eq!((report.arrival, report.left_behind), (Arrival::Followed { moved: false }, 0));
    assert_eq!(scene.inside("git status --porcelain"), " M readme\n?? new");
}
