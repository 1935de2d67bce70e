//! A guest that is any program at all: what it says of its repositories is checked, has limits, and costs nobody else
//! anything.

use crate::assert_refs;
use crate::support::Scene;
use palisade_core::RefScope;
use palisade_workspace::{ArchiveReport, CommitsOutcome, ExchangeError, SandboxError};
use std::time::{Duration, Instant};

/// A sandbox with a commit on `main` and one on `good`, which are to come whatever else is claimed.
async fn with_work() -> Scene {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "echo work > code && git commit -qam work
         git checkout -q -b good && echo good > good && git add good && git commit -qm good && git checkout -q main",
    );
    scene
}

/// What is left out, by name.
fn refused(archived: &ArchiveReport) -> Vec<String> {
    let mut names: Vec<String> =
        archived.main.refused.iter().map(|refused| refused.what.describe()).collect();
    names.sort();
    names
}

#[tokio::test]
async fn an_answer_that_makes_no_sense_is_an_error_and_changes_nothing() {
    let mut scene = with_work().await;
    let guest = palisade_testing::guest_binary().display().to_string();
    for (script, said) in [
        ("exec head -c 5000 /dev/urandom".to_owned(), "makes no sense"),
        ("exit 0".to_owned(), "makes no sense"),
        (format!("{guest} \"$@\" | head -c 50; exit 0"), "makes no sense"),
        (format!("{guest} \"$@\"; printf 'what\\0'; exit 0"), "makes no sense"),
        (format!("{guest} \"$@\"; printf 'ref\\0refs/heads/x\\0HEAD\\0'; exit 0"), "makes no sense"),
        (
            "printf '\\033]0;title\\007\\033[2Jgone\\n' >&2; exit 3".to_owned(),
            "\\u{1b}]0;title\\u{7}\\u{1b}[2Jgone",
        ),
        ("kill -9 $$".to_owned(), "looking at the work in the sandbox failed"),
    ] {
        scene.replace_guest("survey", &script);
        let error = scene.sync_with(|_| {}).await.unwrap_err().to_string();
        assert!(error.contains(said) && !error.contains('\u{1b}'), "{script}: {error:?}");
    }
    assert_refs(&scene, &["refs/heads/main"]);
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "first");

    scene.restore_inside();
    scene.sync().await;
    assert_eq!(
        scene.host("git log -1 --format=%s"),
        "work",
        "the control: the same sandbox with its own guest"
    );
}

#[tokio::test]
async fn a_guest_that_does_not_answer_or_does_not_end_is_given_up() {
    let mut scene = with_work().await;
    let limits = scene.limits;
    scene.limits.time = Duration::from_millis(500);
    for script in ["exec sleep 1000", "while :; do echo busy >&2; done", "exec yes"] {
        scene.replace_guest("survey", script);
        let began = Instant::now();
        let error = scene.sync_with(|_| {}).await.unwrap_err();
        assert!(matches!(error, ExchangeError::Sandbox(SandboxError::NotRun { .. })), "{script}: {error}");
        assert!(began.elapsed() < Duration::from_secs(20), "{script}");
    }
    assert_refs(&scene, &["refs/heads/main"]);
    scene.limits = limits;
    scene.restore_inside();
    scene.sync().await;
    assert_eq!(scene.host("git log -1 --format=%s"), "work", "the control");
}

/// Refs are files, so a name could lead anywhere.
const STRANGE: [&str; 14] = [
    "refs/heads/../../../../outside",
    "refs/heads/..",
    "refs/../HEAD",
    "HEAD",
    "../outside",
    "/etc/passwd",
    "refs/heads/-x",
    "refs/heads/a b",
    "refs/heads/x.lock",
    "refs/heads/@{-1}",
    "refs/heads/\u{1b}[2J",
    "refs/heads/main^{}",
    "refs/heads/*",
    "refs/heads/x:refs/heads/main",
];

#[tokio::test]
async fn a_name_that_git_reads_as_something_else_becomes_no_ref_and_its_commits_are_archived() {
    let mut scene = with_work().await;
    let commits: Vec<String> = STRANGE
        .iter()
        .map(|name| scene.inside(&format!("git commit-tree -m '{}' HEAD^{{tree}} </dev/null", name.len())))
        .collect();
    let words: Vec<&str> =
        STRANGE.iter().zip(&commits).flat_map(|(name, id)| ["ref", *name, id.as_str()]).collect();
    scene.plain("printf %040d 0 > .git/refs/heads/../../../../outside");
    assert!(scene.exists("outside"), "the control: a plain tool that takes a name for a file's");
    std::fs::remove_file(scene.path("outside")).unwrap();

    scene.add_to_survey(&words);
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_refs(&scene, &["refs/heads/good", "refs/heads/main"]);
    let parents = scene.host(&format!("git log -1 --format=%P {}", scene.archive_ref(1)));
    assert!(commits.iter().all(|id| parents.contains(id)), "{parents}");
    assert!(!scene.exists("outside"));
}

#[tokio::test]
async fn claims_that_are_not_so_are_left_out_by_name_and_all_others_come() {
    let mut scene = with_work().await;
    scene.host("git tag -a -m tag v1");
    let [main, blob, tree] =
        ["main", "good:good", "good^{tree}"].map(|name| scene.inside(&format!("git rev-parse {name}")));
    let tag = scene.host("git rev-parse v1");
    let missing: Vec<String> = (1..=7).map(|digit| digit.to_string().repeat(40)).collect();
    let long = "8".repeat(64);
    let plain = scene.plain(&format!(
        "git fetch -q ../inside good; printf 'update refs/heads/good FETCH_HEAD\\nupdate refs/heads/blob {blob}\\n' | git update-ref --stdin; git branch"
    ));
    assert!(!plain.contains("good\n"), "the control: one wrong claim and nothing comes: {plain}");

    scene.add_to_survey(
        &[
            // Branches that are none.
            &["ref", "refs/heads/missing", &missing[0], "ref", "refs/heads/long", &long][..],
            &[
                "ref",
                "refs/heads/blob",
                &blob,
                "ref",
                "refs/heads/tree",
                &tree,
                "ref",
                "refs/heads/tag",
                &tag,
            ],
            // Other names of nothing.
            &["ref", "refs/tags/missing", &missing[1], "stash", &missing[2], "", "stash", &blob, "WIP"],
            &["tip", "MERGE_HEAD", &missing[3]],
            // Working trees at nothing, and with files that are none.
            &["tree", "/1", "", &missing[4], "", "", ""],
            &["tree", "/2", "one", &main, &missing[5], &tree, ""],
            &["tree", "/3", "two", &main, &blob, &tree, ""],
            &["tree", "/4", "three", &main, &main, &blob, ""],
            &["tree", "/5", "four", &main, &main, &missing[6], ""],
        ]
        .concat(),
    );
    let synced = scene.sync().await;
    assert_eq!(
        refused(&synced.0.archived),
        [
            "branch blob",
            "branch long",
            "branch missing",
            "branch tag",
            "branch tree",
            "commits at MERGE_HEAD",
            "commits at the detached HEAD of /1",
            "stash entry 0",
            "stash entry 1: WIP",
            "tag missing",
            "uncommitted files in /2",
            "uncommitted files in /3",
            "uncommitted files in /4",
            "uncommitted files in /5",
        ]
    );
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_refs(&scene, &["refs/heads/good", "refs/heads/main", "refs/tags/v1"]);
    assert_eq!(
        scene.host("git status --porcelain; cat code; git log --format=%s good"),
        "work\ngood\nwork\nfirst"
    );
}

/// The commit of a working tree that is not the branch's, and none at all.
#[tokio::test]
async fn a_branch_that_is_checked_out_moves_with_its_working_tree_or_not_at_all() {
    for head in ["", "other"] {
        let mut scene = with_work().await;
        let (main, workspace) = (scene.inside("git rev-parse main"), scene.workspace());
        let head = if head.is_empty() { String::new() } else { scene.inside("git rev-parse main~1") };
        scene.plain("git fetch -q ../inside main; git update-ref refs/heads/main FETCH_HEAD; git status --porcelain > ../plain-status");
        assert_eq!(scene.read("plain-status"), "M  code\n", "the control: only the ref");

        scene.forge_survey(&[
            "repository",
            "",
            "main",
            "ref",
            "refs/heads/main",
            &main,
            "tree",
            &workspace,
            "main",
            &head,
            "",
            "",
            "",
        ]);
        assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
        assert_eq!(scene.host("git status --porcelain; cat code"), "work");
    }
}

/// Refs that no repository can have at once would make a transaction fail: the files must not be ahead of it.
#[tokio::test]
async fn refs_that_cannot_be_together_do_not_stop_the_others() {
    let mut scene = with_work().await;
    let main = scene.inside("git rev-parse main");
    let plain = scene.plain(&format!(
        "git fetch -q ../inside main; printf 'update refs/heads/a {main}\\nupdate refs/heads/a/b {main}\\n' | git update-ref --stdin"
    ));
    assert!(plain.contains("refs/heads/a/b"), "the control: {plain}");

    scene.add_to_survey(&[
        "ref",
        "refs/heads/a",
        &main,
        "ref",
        "refs/heads/a/b",
        &main,
        "ref",
        "refs/heads/good/x",
        &main,
    ]);
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_refs(&scene, &["refs/heads/a", "refs/heads/good", "refs/heads/main"]);
    assert_eq!(scene.host("git status --porcelain"), "");
}

/// Whoever knows an object's id can name it, in git's own protocols, too. What is named stays the user's.
#[tokio::test]
async fn the_ids_of_the_users_own_commits_move_nothing_of_the_users() {
    let mut scene = Scene::new();
    scene.host(
        "git checkout -q -b private && echo secret > secret && git add -A && git commit -qm secret && git checkout -q main
         echo stashed > readme && git stash -q",
    );
    scene.start_with(|options| options.scope = RefScope::Branch).await.unwrap();
    let (private, stash) = (scene.host("git rev-parse private"), scene.host("git rev-parse stash"));
    assert_eq!(scene.inside(&format!("git cat-file -e {private} 2>&1 || echo missing")), "missing");
    scene.add_to_survey(&[
        "ref",
        "refs/heads/private",
        &stash,
        "ref",
        "refs/heads/stolen",
        &private,
        "stash",
        &stash,
        "x",
    ]);
    let before = scene.host("git for-each-ref refs/heads/private refs/heads/main refs/stash");
    scene.plain(&format!("git update-ref refs/heads/private {stash}; git for-each-ref refs/heads/private refs/heads/main refs/stash > ../refs-after"));
    assert_ne!(scene.read("refs-after").trim_end(), before, "the control");

    let synced = scene.sync().await;
    assert_eq!(scene.host("git for-each-ref refs/heads/private refs/heads/main refs/stash"), before);
    assert!(synced.branch("stolen").is_some() && synced.branch("private").is_some(), "the report names them");
    assert_eq!(scene.host("git status --porcelain; ls"), "code\nreadme");
}

#[tokio::test]
async fn places_outside_of_the_workspace_are_only_names() {
    let mut scene = with_work().await;
    let (main, root) = (scene.inside("git rev-parse main"), scene.path("host").display().to_string());
    scene.inside("echo evil > evil && git add evil && git stash -q");
    let (commit, tree) = (scene.inside("git rev-parse stash"), scene.inside("git rev-parse stash^{tree}"));
    for first in ["/", "/etc", &root, "relative", "/workspace/../x"] {
        scene.forge_survey(&[
            "repository",
            "",
            "main",
            "ref",
            "refs/heads/main",
            &main,
            "tree",
            first,
            "main",
            &main,
            "",
            "",
            "",
        ]);
        let error = scene.sync_with(|_| {}).await.unwrap_err();
        assert!(matches!(error, ExchangeError::Sandbox(SandboxError::Answer { .. })), "{first}: {error}");
    }
    scene.add_to_survey(
        &["/", "/etc", &root, "relative", "/workspace/../x", "/a b..c", "/x.lock", "/~^:?*[\\"]
            .iter()
            .flat_map(|path| ["tree", *path, "wt", &main, &commit, &tree, ""])
            .collect::<Vec<_>>(),
    );
    scene.host("git worktree add -q -b wt ../wt");
    let synced =
        scene.sync_with(|options| options.selection = palisade_workspace::BranchSelection::All).await;
    assert_eq!(synced.unwrap().commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; cat ../wt/evil"), "evil");
    assert!(!std::path::Path::new("/etc/evil").exists() && !std::path::Path::new("/evil").exists());
}
