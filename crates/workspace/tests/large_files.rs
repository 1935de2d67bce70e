//! Files of Git LFS go in and come back with their contents. Git LFS is the real program.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_testing::requires;
use palisade_workspace::{Arrival, CommitsOutcome};
use support::{Scene, paths};

/// A host with one file of Git LFS that is committed and checked out.
fn scene() -> Scene {
    let scene = Scene::new();
    scene.host(
        "git lfs install --local >/dev/null; git lfs track '*.bin' >/dev/null; head -c 100000 /dev/urandom > a.bin; \
         git add -A; git commit --quiet -m large",
    );
    scene
}

#[tokio::test]
async fn contents_are_inside_and_new_ones_come_back() {
    requires!(git_lfs);
    let scene = scene();
    let report = scene.start().await;
    let large = report.large_files;
    assert_eq!((large.files, large.missing, large.has_program), (1, 0, true));
    assert_eq!(scene.inside("sha256sum < a.bin; git status --porcelain"), scene.host("sha256sum < a.bin"));

    scene.inside(
        "head -c 50000 /dev/urandom > b.bin; echo more >> a.bin; git add -A; git commit --quiet -m more",
    );
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert!(synced.0.archived.is_complete(), "{synced:?}");
    assert!(
        scene.read("host/b.bin").starts_with("version https://git-lfs"),
        "the program does not run during a sync"
    );
    scene.host("git lfs checkout 2>&1");
    assert_eq!(
        scene.host("sha256sum a.bin b.bin; git status --porcelain"),
        scene.inside("sha256sum a.bin b.bin")
    );
}

#[tokio::test]
async fn a_file_with_its_contents_is_not_a_change_of_the_users() {
    requires!(git_lfs);
    let scene = scene();
    scene.host("touch a.bin");
    assert_eq!(scene.start().await.arrival, Arrival::Cloned);
    scene.inside("echo more >> a.bin");
    let synced = scene.sync().await;
    assert_eq!((synced.written(), synced.files().conflicts), (paths(&["a.bin"]), paths(&[])));
    scene.host("git add a.bin; git commit --quiet -m taken; git lfs checkout a.bin 2>&1");
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: true });
    assert_eq!(scene.inside("sha256sum < a.bin; git status --porcelain"), scene.host("sha256sum < a.bin"));
}

#[tokio::test]
async fn a_file_that_the_host_does_not_have_stays_a_pointer() {
    requires!(git_lfs);
    let scene = scene();
    scene.host("rm -r .git/lfs/objects/*");
    let large = scene.start().await.large_files;
    assert_eq!((large.files, large.missing), (1, 1));
    assert!(scene.read("inside/a.bin").starts_with("version https://git-lfs"));
    assert_eq!(scene.inside("git status --porcelain"), "");
}
