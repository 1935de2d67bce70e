//! A store of the host's commits, which sandboxes see without a copy of their own.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_core::RefScope;
use palisade_workspace::{Arrival, CommitsOutcome, Growth};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use support::Scene;

impl Scene {
    fn packs(&self) -> Vec<PathBuf> {
        let entries = std::fs::read_dir(self.path("state/objects/one/pack")).unwrap().flatten();
        let files = entries.map(|entry| entry.path());
        files.filter(|path| path.extension().is_some_and(|kind| kind == "pack")).collect()
    }

    async fn start_shared(&self, growth: Growth) -> Arrival {
        let shared = self.share(RefScope::All, growth, std::slice::from_ref(&self.refs)).await;
        self.start_with(|options| options.shared = Some(shared)).await.unwrap().arrival
    }

    /// How many objects the sandbox has of its own.
    fn own_objects(&self) -> u32 {
        self.inside("git count-objects -v | awk '/^(count|in-pack):/ { sum += $2 } END { print sum }'")
            .parse()
            .unwrap()
    }

    /// Whether everything is there that the refs inside lead to.
    fn is_whole(&self) -> bool {
        self.inside("git fsck --connectivity-only 2>&1 | grep -v dangling || echo whole") == "whole"
    }
}

#[tokio::test]
async fn commits_are_seen_inside_without_a_transfer_and_work_comes_back() {
    let scene = Scene::new();
    scene.host("git branch other && git tag -a v1 -m one");
    assert_eq!(scene.start_shared(Growth::Grow).await, Arrival::Cloned);
    assert_eq!((scene.packs().len(), scene.own_objects()), (1, 0));
    assert_eq!(scene.inside("git describe && git log --format=%s other && git status --short"), "v1\nfirst");

    scene.inside("echo more >> code && git commit --quiet -am second");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git log --format=%s"), "second\nfirst");
    assert!(scene.is_whole());
}

#[tokio::test]
async fn a_store_grows_by_what_is_new_and_only_then() {
    let scene = Scene::new();
    scene.start_shared(Growth::Grow).await;
    scene.start_shared(Growth::Grow).await;
    assert_eq!(scene.packs().len(), 1);

    scene.host("echo more >> code && git commit --quiet -am second");
    assert_eq!(scene.start_shared(Growth::Grow).await, Arrival::Followed { moved: true });
    assert_eq!((scene.packs().len(), scene.own_objects()), (2, 0));
    let sizes =
        "for i in *.idx; do git show-index --object-format=sha1 < $i | wc -l; done | sort -n | tr '\\n' ' '";
    assert_eq!(scene.host(&format!("cd ../state/objects/one/pack && {sizes}")), "3 4");

    // A commit that was dropped and pruned on the host is no reason to fail.
    scene.host("git commit --quiet --amend -m other && git reflog expire --expire=now --all && git update-ref -d refs/palisade/base/none || true");
    scene.host("git for-each-ref --format='delete %(refname)' refs/palisade | git update-ref --stdin && git gc --quiet --prune=now");
    scene.start_shared(Growth::Grow).await;
    assert!(scene.is_whole());
}

#[tokio::test]
async fn what_a_copy_of_the_store_lacks_is_sent() {
    let scene = Scene::new();
    scene.start_shared(Growth::Keep).await;
    scene.host("echo more >> code && git commit --quiet -am second");

    assert_eq!(scene.start_shared(Growth::Keep).await, Arrival::Followed { moved: true });
    assert_eq!((scene.packs().len(), scene.own_objects()), (1, 3));
    assert!(scene.is_whole());
}

#[tokio::test]
async fn only_commits_that_the_sandbox_may_see_are_in_it() {
    let scene = Scene::new();
    scene.host("git switch --quiet -c secret && echo hush > code && git commit --quiet -am secret && git switch --quiet main");
    scene.host("echo staged > staged && git add staged && echo loose > loose && echo kept >> code && git stash --quiet && git stash apply --quiet");
    let shared = scene.share(RefScope::Branch, Growth::Grow, &[]).await;
    scene
        .start_with(|options| {
            options.scope = RefScope::Branch;
            options.on_uncommitted = palisade_workspace::OnUncommitted::Include;
            options.shared = Some(shared);
        })
        .await
        .unwrap();
    let count = "cd ../state/objects/one/pack && for i in *.idx; do git show-index --object-format=sha1 < $i; done | wc -l";
    assert_eq!(scene.host(count), "4", "one commit, its tree and two files");
    assert_eq!(scene.inside("cat staged loose"), "staged\nloose");
    assert_eq!(
        scene.inside("git branch --all --format='%(refname)'"),
        "refs/heads/main\nrefs/remotes/host/main"
    );

    let _ = scene.share(RefScope::All, Growth::Grow, &[]).await;
    assert_eq!(scene.host(count), "7", "and the secret branch, when all may be seen");
}

#[tokio::test]
async fn a_store_that_was_lost_is_written_again_with_what_sandboxes_rely_on() {
    let scene = Scene::new();
    scene.start_shared(Growth::Grow).await;
    // The sandbox is at a commit that no branch of the host's has any more.
    scene.host("git commit --quiet --amend -m other");
    scene.host("rm -rf ../state/objects/one");

    let shared = scene.share(RefScope::All, Growth::Grow, std::slice::from_ref(&scene.refs)).await;

    assert!(shared.was_damaged);
    assert!(scene.is_whole());
    scene.host("rm ../state/objects/one/pack/*.idx");
    let shared = scene.share(RefScope::All, Growth::Grow, std::slice::from_ref(&scene.refs)).await;
    assert!(shared.was_damaged);
    assert_eq!(scene.packs().len(), 1, "what has no index is a remainder");
    assert!(scene.is_whole());
}

#[tokio::test]
async fn a_shallow_clone_that_gets_its_history_gives_it_to_the_sandbox() {
    let scene = Scene::new();
    scene.host("for n in 2 3; do echo $n >> code && git commit --quiet -am $n; done");
    scene.host("cp -a . ../whole && cd .. && rm -rf host && git clone --quiet --depth 1 file://$PWD/whole host && cd host && git config user.name Ada && git config user.email ada@example.org");
    scene.start_shared(Growth::Grow).await;
    assert_eq!(scene.inside("git rev-list --count HEAD"), "1");

    scene.host("git fetch --quiet --unshallow");
    scene.start_shared(Growth::Grow).await;
    assert_eq!(scene.inside("git rev-list --count HEAD"), "3");
    assert!(scene.is_whole());
}

#[tokio::test]
async fn everybody_may_read_the_packs_whatever_the_mask_is() {
    let scene = Scene::new();
    let mask = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o077));
    scene.share(RefScope::All, Growth::Grow, &[]).await;
    rustix::process::umask(mask);
    for file in std::fs::read_dir(scene.path("state/objects/one/pack")).unwrap() {
        assert_eq!(file.unwrap().metadata().unwrap().permissions().mode() & 0o777, 0o444);
    }
}
