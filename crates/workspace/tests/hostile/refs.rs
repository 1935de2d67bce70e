//! Refs: whatever a sandbox calls its own, only refs below ours move, and branches where the user would expect it.

use crate::assert_refs;
use crate::support::Scene;
use palisade_workspace::{CommitsOutcome, TagMode};

#[tokio::test]
async fn no_ref_of_the_users_is_overwritten_by_one_of_the_sandboxs() {
    let scene = Scene::new();
    scene.host("git branch kept && git tag v1 && git update-ref refs/remotes/origin/main HEAD && git update-ref refs/notes/commits HEAD");
    scene.start().await;
    scene.inside(
        "echo x > code && git commit -qam evil
         for ref in refs/heads/Main refs/tags/v1 refs/tags/new refs/remotes/origin/main refs/stash refs/notes/commits \
                    refs/palisade/other/heads/main refs/heads/palisade/other refs/replace/$(git rev-parse HEAD~1) \
                    refs/palisade/archive/other/1 refs/bisect/bad refs/worktree/x; do
            git update-ref $ref HEAD; done
         git update-ref refs/heads/kept $(git commit-tree -m unrelated HEAD^{tree})
         git symbolic-ref refs/heads/symbolic refs/tags/v1",
    );
    let before = scene.host("git for-each-ref");
    scene.plain("git fetch -q --update-head-ok ../inside '+refs/*:refs/*'; git for-each-ref > ../refs-after");
    assert_ne!(scene.read("refs-after").trim_end(), before, "the control");

    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    let theirs =
        "refs/heads/kept refs/tags refs/remotes refs/stash refs/replace refs/notes refs/bisect refs/worktree";
    let after = scene.host(&format!("git for-each-ref {theirs}"));
    assert!(!after.is_empty() && after.lines().all(|line| before.contains(line)), "{after}");
    let branches: Vec<String> = synced.0.sync.branches.iter().map(|branch| branch.name.to_string()).collect();
    assert_eq!(branches, ["Main", "kept", "main", "palisade/other", "symbolic"], "the report names them");
    assert_refs(
        &scene,
        &[
            "refs/heads/Main",
            "refs/heads/kept",
            "refs/heads/main",
            "refs/heads/palisade/box/kept",
            "refs/heads/palisade/box/palisade/other",
            "refs/heads/symbolic",
            "refs/notes/commits",
            "refs/remotes/origin/main",
            "refs/tags/v1",
        ],
    );
    // Everything else is archived, and nowhere to be seen.
    let archived: Vec<String> =
        synced.0.archived.archive().unwrap().entries.iter().map(|entry| entry.kind.describe()).collect();
    assert_eq!(archived, ["branch Main", "branch kept"], "the others are at the same commits");
}

/// Names under which git would find the sandbox's commits where the user means something else.
#[tokio::test]
async fn no_branch_or_tag_is_made_that_would_be_taken_for_something_else() {
    let scene = Scene::new();
    scene.host("git tag v1 && git update-ref refs/remotes/origin/topic HEAD && git update-ref refs/remotes/up/HEAD HEAD");
    scene.start().await;
    let long = "x".repeat(230);
    let abbreviated = scene.host("git rev-parse --short=8 HEAD");
    let names = [
        "v1",
        "origin/topic",
        "up",
        "heads/main",
        "tags/v1",
        "remotes/origin/topic",
        "ORIG_HEAD",
        "FETCH_HEAD",
        "AUTO_MERGE",
        &abbreviated,
    ];
    let refs: String = names.iter().map(|name| format!("git update-ref refs/heads/{name} HEAD;")).collect();
    scene.inside(&format!(
        "echo evil > code && git commit -qam evil; {refs}
         for tag in main HEAD MERGE_HEAD ./-x {abbreviated} {long} palisade/other/main good; do
            mkdir -p .git/refs/tags/$(dirname $tag); git rev-parse HEAD > .git/refs/tags/$tag; done"
    ));
    for (name, meant) in
        [("v1", "first"), ("heads/main", "first"), ("ORIG_HEAD", ""), (abbreviated.as_str(), "first")]
    {
        let plain = scene.plain(&format!(
            "git fetch -q ../inside refs/heads/{name}:refs/heads/{name}; git log -1 --format=%s refs/heads/{name}; git rev-parse {name} 2>&1"
        ));
        assert!(
            plain.contains("ambiguous") || plain.starts_with("evil"),
            "the control, {name} ({meant}): {plain}"
        );
    }

    let synced = scene.sync_with(|options| options.tags = TagMode::Create).await.unwrap();
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    let mut expected: Vec<String> =
        names.iter().map(|name| format!("refs/heads/palisade/box/{name}")).collect();
    expected.extend(
        [
            "refs/heads/main",
            "refs/remotes/origin/topic",
            "refs/remotes/up/HEAD",
            "refs/tags/good",
            "refs/tags/v1",
        ]
        .map(str::to_owned),
    );
    expected.sort();
    assert_refs(&scene, &expected.iter().map(String::as_str).collect::<Vec<_>>());
    let made: Vec<&str> =
        synced.0.sync.tags.iter().filter(|tag| tag.made).map(|tag| tag.name.as_str()).collect();
    assert_eq!((made, synced.0.sync.tags.len()), (vec!["good"], 8));
}

/// Where work of another sandbox waits, the user would merge what lies there as that one's.
#[tokio::test]
async fn a_branch_that_shows_another_sandboxs_work_is_not_moved() {
    let scene = Scene::new();
    scene.start().await;
    scene.host("git branch palisade/other/main && git branch palisade/box/topic");
    let before = scene.host("git for-each-ref refs/heads/palisade");
    scene.inside("echo evil > code && git commit -qam evil && git branch palisade/other/main && git branch palisade/box/topic");
    scene.plain("git fetch -q ../inside 'refs/heads/palisade/*:refs/heads/palisade/*'; git for-each-ref refs/heads/palisade > ../refs-after");
    assert_ne!(scene.read("refs-after").trim_end(), before, "the control");

    scene.sync().await;
    assert_eq!(
        scene.host("git for-each-ref refs/heads/palisade/other refs/heads/palisade/box/topic"),
        before
    );
    assert!(scene.sync().await.is_nothing());
    // Also while the user has it checked out.
    scene.host("git switch -q palisade/other/main");
    scene.inside("echo more > code && git commit -qam more && git branch -f palisade/other/main && git checkout -q palisade/other/main && echo loose > loose");
    scene.sync().await;
    assert_eq!(scene.host("git status --porcelain; git log --format=%s; cat code"), "first\n1\n2\n3\n4\n5");
}

#[tokio::test]
async fn a_head_that_leads_elsewhere_moves_nothing() {
    let scene = Scene::new();
    scene.start().await;
    for target in [
        "refs/palisade/work/main",
        "refs/tags/../heads/main",
        "refs/heads/gone",
        "refs/remotes/host/main",
        "../../host/.git/HEAD",
    ] {
        scene.write("inside/.git/HEAD", &format!("ref: {target}\n"));
        let _ = scene.sync_with(|_| {}).await;
        assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "first", "{target}");
    }
    assert_refs(&scene, &["refs/heads/main"]);
}

/// `feature` is renamed to `feature/one`, and back: refs are files, and neither may stand in the other's way.
#[tokio::test]
async fn a_branch_that_becomes_a_directory_of_branches_comes_and_nothing_is_lost() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git branch feature && git checkout -q feature && echo x > code && git commit -qam work && git checkout -q main");
    scene.sync().await;
    scene.inside("git branch -D -q feature && git checkout -q -b feature/one && echo y > code && git commit -qam one && git checkout -q main");
    scene
        .plain("git fetch -q ../inside '+refs/heads/*:refs/heads/*' --update-head-ok || touch ../ran-failed");
    assert_eq!(scene.sprung(), ["failed"], "the control");

    let synced = scene.sync().await;
    let CommitsOutcome::Created { name, .. } = &synced.branch("feature/one").unwrap().commits else {
        panic!("{synced:?}")
    };
    assert_eq!(
        scene.host(&format!("git log -1 --format=%s feature; git log -1 --format=%s {name}")),
        "work\none"
    );
    scene.host("git branch -D -q feature");
    scene.inside("git branch -m feature/one feature");
    scene.sync().await;
    assert_eq!(scene.host(&format!("git log -1 --format=%s {name}")), "one");
    assert!(scene.refs().contains("refs/heads/main"));
}
