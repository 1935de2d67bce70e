//! Archives hold what a sandbox has and the host has not, once, and give it back.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{EntryKind, Restored, TagMode};
use support::Scene;

/// What the newest archive was made for, for people.
fn entries(scene: &Scene, report: &palisade_workspace::ArchiveReport) -> Vec<String> {
    let workspace = scene.workspace();
    let archive = report.archive().unwrap_or_else(|| panic!("{report:?}"));
    let mut found: Vec<String> =
        archive.entries.iter().map(|entry| entry.kind.describe().replace(&workspace, "W")).collect();
    found.sort();
    found
}

#[tokio::test]
async fn what_is_no_commit_is_archived_once() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "git tag -a -m annotated v1; git tag -a -m nested v2 v1
         blob=$(echo loose | git hash-object -w --stdin); git update-ref refs/odd/blob $blob
         git update-ref refs/odd/tree $(printf '100644 blob %s\\tname\\n' $blob | git mktree)",
    );
    let report = scene.archive().await;
    assert_eq!(entries(&scene, &report), ["refs/odd/blob", "refs/odd/tree", "tag v1", "tag v2"]);
    assert_eq!(scene.archive().await.archive(), None);
    // A later one is for what is new since.
    scene.inside("git tag -a -m another v3");
    assert_eq!(entries(&scene, &scene.archive().await), ["tag v3"]);
    assert_eq!(scene.archive().await.archive(), None);
    // Git may collect the objects that only an archive describes: it makes them again.
    scene.host("git gc -q --prune=now; git fsck --strict --no-dangling 2>&1");
    assert_eq!(scene.archive().await.archive(), None);
    let synced = scene.sync_with(|options| options.tags = TagMode::Create).await.unwrap();
    assert_eq!(synced.0.sync.tags.iter().filter(|tag| tag.made).count(), 3);
    assert_eq!(
        scene.host("git cat-file -p v3 | tail -n1; git tag; git log -1 --format=%s v1"),
        "another\nv1\nv2\nv3\nfirst"
    );
}

#[tokio::test]
async fn names_that_are_not_text_lose_no_commits() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "printf 'Gr\\374n' | git commit -q --allow-empty -F -
         for n in 1 2 3; do echo $n > readme; git stash -q; done
         for name in 'gr\\374n' 'gr\\376n'; do git update-ref $(printf \"refs/heads/$name\") $(printf $name | git commit-tree HEAD^{tree}); done",
    );
    let report = scene.archive().await;
    let found = entries(&scene, &report);
    assert_eq!(
        found.iter().filter(|name| name.starts_with("commits at refs/heads/gr")).count(),
        2,
        "{found:?}"
    );
    assert_eq!(found.iter().filter(|name| name.starts_with("stash entry")).count(), 3, "{found:?}");
    for (position, content) in [(0, "3"), (1, "2"), (2, "1")] {
        let is_entry =
            |kind: &EntryKind| matches!(kind, EntryKind::Stash { position: at, .. } if *at == position);
        let entry = report.archive().unwrap().entries.iter().find(|entry| is_entry(&entry.kind)).unwrap();
        assert_eq!(scene.host(&format!("git show {}:readme", entry.id)), content);
    }
}

#[tokio::test]
async fn one_broken_ref_is_left_out_and_everything_else_is_archived() {
    let scene = Scene::new();
    scene.host("git branch kept");
    scene.start().await;
    let lose = |name: &str| {
        format!(
            "id=$(git rev-parse {name}); rm -f .git/objects/$(echo $id | cut -c1-2)/$(echo $id | cut -c3-)"
        )
    };
    scene.inside(&format!(
        "git checkout -q -b broken; echo b > b; git add b; git commit -qm broken; git checkout -q main
         for n in 1 2 3 4 5; do git branch b$n $(git commit-tree -m $n -p HEAD HEAD^{{tree}}); done
         echo work > code; git commit -qam work; echo loose > loose; {}; echo {} > .git/refs/heads/gone",
        lose("broken:b"),
        "1".repeat(40)
    ));
    let synced = scene.sync().await;
    let mut refused: Vec<String> =
        synced.0.archived.main.refused.iter().map(|it| it.what.describe()).collect();
    refused.sort();
    assert_eq!(refused, ["branch broken", "branch gone"]);
    assert_eq!(
        entries(&scene, &synced.0.archived),
        [
            "branch b1",
            "branch b2",
            "branch b3",
            "branch b4",
            "branch b5",
            "branch main",
            "uncommitted files in W"
        ]
    );
    assert_eq!(
        scene.host("git log -1 --format=%s; cat loose; git fsck --strict --no-dangling 2>&1"),
        "work\nloose"
    );
    assert!(!synced.0.archived.is_complete());
}

#[tokio::test]
async fn a_commit_is_named_by_its_branch_also_during_a_bisection() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("for n in 1 2 3; do git commit -q --allow-empty -m $n; done; git bisect start -q HEAD HEAD~3 >/dev/null");
    let found = entries(&scene, &scene.archive().await);
    assert!(found.contains(&"branch main".to_owned()), "{found:?}");
}

#[tokio::test]
async fn everything_in_an_archive_is_given_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "git tag -a -m annotated v1; git tag lightweight $(git commit-tree -m tagged HEAD^{tree})
         git update-ref refs/odd/tree $(printf '100644 blob %s\\tname\\n' $(echo odd | git hash-object -w --stdin) | git mktree)
         git checkout -q -b topic; echo t > t; git add t; git commit -qm topic; git checkout -q main; git commit -q --allow-empty -m ahead
         echo 1 > readme; git stash -q; echo dirty > code; echo loose > loose
         git notes add -m note HEAD",
    );
    scene.archive().await;
    scene.host("git gc -q --prune=now; echo mine > own");
    let root = palisade_core::HostPath::new(scene.path("host").canonicalize().unwrap()).unwrap();
    let repository = palisade_workspace::Repository::find(&scene.git(), &root).await.unwrap();
    let archives = repository.archives().await.unwrap();
    let known = repository.host_refs(&scene.refs).await.unwrap();
    let restored = repository.restore_archive(&archives[0], &known).await.unwrap();
    let mut became: Vec<(String, Restored)> = restored
        .into_iter()
        .map(|entry| (entry.what.describe().replace(&scene.workspace(), "W"), entry.restored))
        .collect();
    became.sort_by(|a, b| a.0.cmp(&b.0));
    let numbered = |number: usize| format!("palisade/box/restored-1/{number}");
    assert_eq!(
        became,
        [
            ("branch main".into(), Restored::Branch(numbered(0))),
            ("branch topic".into(), Restored::Branch("topic".into())),
            ("refs/notes/commits".into(), Restored::Branch(numbered(4))),
            ("refs/odd/tree".into(), Restored::Tag(numbered(5))),
            (
                "stash entry 0: WIP on main: ".to_owned() + &scene.inside("git log -1 --format='%h %s'"),
                Restored::Stash
            ),
            ("tag lightweight".into(), Restored::Tag("lightweight".into())),
            ("tag v1".into(), Restored::Tag("v1".into())),
            ("uncommitted files in W".into(), Restored::Stash),
        ]
    );
    assert_eq!(
        scene.host("git status --porcelain; git log -1 --format=%s; cat own"),
        "?? own\nfirst\nmine",
        "no file is touched"
    );
    assert_eq!(
        scene.host("git fsck --strict --no-dangling 2>&1; git stash list | wc -l; git stash show -p --include-untracked stash@{0} | grep -c -e '^+1' -e '^+dirty' -e '^+loose' || true; git cat-file -t v1"),
        "2\n1\ntag"
    );
    // A second time there is nothing to make but entries of the stash.
    let known = repository.host_refs(&scene.refs).await.unwrap();
    repository.restore_archive(&archives[0], &known).await.unwrap();
}
