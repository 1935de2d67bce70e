//! Little that becomes much: the host neither lists nor writes more than it said it would.

use crate::support::Scene;
use palisade_workspace::{Commits, Divergence, GitError};

#[tokio::test]
async fn a_tree_of_a_thousand_million_files_is_given_up_before_it_is_listed() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside(
        "tree=$(echo x | git hash-object -w --stdin); kind='100644 blob'
         for level in 1 2 3 4 5 6; do
            tree=$(for name in $(seq 64); do printf '%s %s\\t%s\\n' \"$kind\" $tree $name; done | git mktree); kind='040000 tree'
         done
         git update-ref refs/heads/main $(git commit-tree $tree -p HEAD -m bomb)",
    );
    let plain = scene.plain(
        "git fetch -q ../inside main; git ls-tree -r --full-tree FETCH_HEAD | head -c 70000000 | wc -c",
    );
    assert_eq!(plain.trim(), "70000000", "the control");

    let error = scene.try_sync_of("main", false, Divergence::Wait).await.unwrap_err();
    assert!(matches!(error, GitError::TooMuch { .. }), "{error}");
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "first");
    assert_eq!(scene.refs(), "refs/heads/main\nrefs/palisade/box/heads/main");
    scene.inside("git reset -q --hard HEAD~1 && echo sane > code && git commit -qam sane");
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
}

#[tokio::test]
async fn files_that_are_large_in_the_tree_and_small_in_a_pack_are_weighed_first() {
    let mut scene = Scene::new();
    scene.most = 1 << 20;
    scene.send().await;
    scene.inside("truncate -s 4M zeros && git add -A && git commit -qm zeros");
    scene.plain("git pull -q ../inside main; wc -c < zeros > ../plain-size; du -sk .git/objects >&2");
    assert_eq!(scene.read("plain-size").trim(), "4194304", "the control");

    let error = scene.try_sync(Divergence::Wait).await.unwrap_err();
    assert!(matches!(error, GitError::TooLarge { bytes: 4_194_304, most: 1_048_576 }), "{error}");
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "first");
    scene.most = 8 << 20;
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
}
