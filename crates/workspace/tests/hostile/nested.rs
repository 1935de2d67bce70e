//! Repositories in the sandbox's working tree: only their names are the sandbox's to choose, and not all of those.

use crate::assert_refs;
use crate::support::Scene;
use palisade_workspace::CommitsOutcome;
use std::time::{Duration, Instant};

async fn with_work() -> Scene {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo work > code && git commit -qam work && git init -q nested && cd nested && echo deep > deep && git add -A && git commit -qm deep");
    scene
}

#[tokio::test]
async fn paths_that_lead_elsewhere_are_left_out_by_name() {
    let mut scene = with_work().await;
    let deep = scene.inside("git -C nested rev-parse HEAD");
    let names =
        ["../outside", "/abs", "a/../../b", "..", ".", "", ".git", ".GIT/hooks", "x/.git/y", "new\nline"];
    scene.plain("git init -q --bare ../outside");
    assert!(scene.exists("outside"), "the control: a plain tool that takes such a path");
    std::fs::remove_dir_all(scene.path("outside")).unwrap();

    let words =
        names.iter().flat_map(|name| ["repository", *name, "nested", "ref", "refs/heads/main", &deep]);
    scene.add_to_survey(&words.collect::<Vec<_>>());
    let synced = scene.sync().await;
    let left_out: Vec<&str> = synced.0.archived.left_out.iter().map(|it| it.path.as_str()).collect();
    assert_eq!(
        left_out,
        ["../outside", "/abs", "a/../../b", "..", ".", "", ".git", ".GIT/hooks", "x/.git/y", "new\\u{a}line"]
    );
    let nested: Vec<&str> = synced.0.archived.nested.iter().map(|nested| nested.path.as_str()).collect();
    assert_eq!(nested, ["nested"], "the one that is there");
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("ls .git/palisade/nested/*; ls -d ../outside 2>/dev/null || true"), "nested.git");
    assert_refs(&scene, &["refs/heads/main"]);
}

#[tokio::test]
async fn thousands_of_repositories_are_counted_and_not_made() {
    let mut scene = with_work().await;
    let names: Vec<String> = (0..5000).map(|number| format!("n{number}")).collect();
    scene.add_to_survey(&names.iter().flat_map(|name| ["repository", name, "nested"]).collect::<Vec<_>>());
    let began = Instant::now();
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.0.archived.left_out.len(), 5001 - 64, "each is named");
    assert_eq!(scene.host("ls .git/palisade/nested/* | wc -l"), "64");
    assert!(began.elapsed() < Duration::from_secs(30));
}

/// Work may hold the files of a repository, as long as no part of it is called `.git`.
#[tokio::test]
async fn the_files_of_a_repository_in_the_work_are_not_taken_for_a_repository_of_the_users() {
    let mut scene = with_work().await;
    let trap = scene.trap("bare");
    let deep = scene.inside("git -C nested rev-parse HEAD");
    scene.inside(&format!(
        "cp -r nested/.git evil; rm -rf nested evil/hooks evil/logs; cd evil; git config -f config core.bare false; git config -f config core.worktree .
         git config -f config core.fsmonitor '{trap}'; git config -f config alias.status '!{trap}'; touch refs/heads/.keep"
    ));
    scene.sync().await;
    assert!(scene.exists("host/evil/HEAD"));
    scene.plain("cd evil && git status");
    assert_eq!(scene.sprung(), ["bare"], "the control: plain git takes it for one");

    scene.replace_host_git(&format!(
        "case $PWD in */evil) touch {};; esac",
        scene.path("ran-in-evil").display()
    ));
    scene.add_to_survey(&["repository", "evil", "nested", "ref", "refs/heads/main", &deep]);
    scene.replace_inside_git("pack-objects", "cd ../inside/evil 2>/dev/null; git \"$@\"; exit");
    let archived = scene.sync().await.0.archived;
    assert!(archived.nested.iter().all(|nested| !nested.is_on_host), "{archived:?}");
    assert_eq!(scene.sprung(), Vec::<String>::new(), "host git did not run there");
}

/// A nested repository's objects are looked at like all others.
#[tokio::test]
async fn wrong_objects_of_a_nested_repository_are_left_out_by_name() {
    let scene = with_work().await;
    scene.inside(
        "cd nested; B=$(echo x | git hash-object -w --stdin)
         entry() { printf '%s %b\\0' \"$1\" \"$2\"; printf %s \"$3\" | perl -pe '$_ = pack(\"H*\", $_)'; }
         T=$(entry 40000 .GIT $(entry 100644 config $B | git hash-object -t tree -w --literally --stdin) | git hash-object -t tree -w --literally --stdin)
         git update-ref refs/heads/forged $(git commit-tree $T -m forged)",
    );
    let synced = scene.sync().await;
    let [nested] = synced.0.archived.nested.as_slice() else { panic!("{synced:?}") };
    let refused: Vec<String> = nested.outcome.refused.iter().map(|refused| refused.what.describe()).collect();
    assert_eq!(refused, ["branch forged"]);
    let entries = &nested.outcome.archive.as_ref().unwrap().entries;
    assert!(entries.iter().any(|entry| entry.kind.describe().starts_with("branch m")), "{entries:?}");
    let place = nested.place.as_path().display().to_string();
    assert!(!scene.host(&format!("git -C {place} fsck --strict --no-dangling 2>&1")).contains("error"));
}
