//! Worktrees beside a repository: made as by hand, looked at without believing them, and never removed with work in them
//! unseen.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_core::HostPath;
use palisade_workspace::{Checkout, Git, NotUsable, Start, Unfinished, Worktree, Worktrees};
use std::path::PathBuf;
use support::{Scene, branch};

fn git() -> Git {
    Git::new("git", std::env::vars_os())
}

async fn worktrees(scene: &Scene) -> Worktrees {
    Worktrees::of(&git(), &at(scene, "host")).await.unwrap()
}

fn at(scene: &Scene, name: &str) -> HostPath {
    HostPath::new(scene.path("").canonicalize().unwrap().join(name)).unwrap()
}

async fn made(scene: &Scene) -> (Worktrees, Worktree) {
    let trees = worktrees(scene).await;
    trees.add(&at(scene, "tree"), &branch("impl/x-M1"), Start::Head).await.unwrap();
    let tree = trees.at(&at(scene, "tree")).await.unwrap().unwrap();
    (trees, tree)
}

fn told(work: &Unfinished) -> Vec<String> {
    let changes = work.changes.iter().map(|change| format!("{} {}", change.letters, change.path.display()));
    let commits = work.commits.iter().map(|commit| commit.subject.clone());
    changes.chain(commits).collect()
}

#[tokio::test]
async fn a_worktree_is_made_on_a_branch_and_known_from_wherever_one_stands() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    assert_eq!((tree.branch.clone(), tree.checkout), (Some(branch("impl/x-M1")), Checkout::Whole));
    assert_eq!(scene.read("tree/readme"), "one\ntwo\nthree\n");
    assert_eq!(trees.with_main().await.unwrap(), (Some(branch("main")), vec![tree.clone()]));
    std::fs::create_dir(scene.path("tree/below")).unwrap();
    let from_inside = Worktrees::of(&git(), &at(&scene, "tree/below")).await.unwrap();
    assert_eq!(from_inside.main(), trees.main());
    assert_eq!(from_inside.all().await.unwrap(), [tree]);
}

#[tokio::test]
async fn a_branch_that_exists_is_checked_out_as_it_is() {
    let scene = Scene::new();
    scene.host("git checkout --quiet -b impl/x-M1 && echo more >> readme && git commit --quiet -am more && git checkout --quiet main");
    let trees = worktrees(&scene).await;
    assert!(trees.has_branch(&branch("impl/x-M1")).await.unwrap());
    assert!(!trees.has_branch(&branch("impl/x-M2")).await.unwrap());
    trees.add(&at(&scene, "tree"), &branch("impl/x-M1"), Start::Existing).await.unwrap();
    assert_eq!(scene.read("tree/readme"), "one\ntwo\nthree\nmore\n");
}

#[tokio::test]
async fn a_repository_without_a_commit_has_no_worktrees() {
    let scene = Scene::new();
    scene.host("git checkout --quiet --orphan none && git rm --quiet -rf . && git branch --quiet -D main");
    let refused = Worktrees::of(&git(), &at(&scene, "host")).await.unwrap_err();
    assert!(matches!(refused, NotUsable::NoCommit(_)), "{refused}");
}

#[tokio::test]
async fn what_nobody_else_has_is_told() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    assert_eq!(trees.unfinished(&tree).await.unwrap(), Unfinished::default());
    scene.write("tree/readme", "other\n");
    scene.write("tree/new", "new\n");
    scene.host("cd ../tree && git commit --quiet --allow-empty -m 'not merged'");
    let work = trees.unfinished(&tree).await.unwrap();
    assert_eq!(told(&work), [" M readme", "?? new", "not merged"]);
    scene.host("git -C ../tree checkout --quiet -- readme && rm ../tree/new && git merge --quiet impl/x-M1");
    assert_eq!(trees.unfinished(&tree).await.unwrap(), Unfinished::default());
}

#[tokio::test]
async fn a_commit_that_a_remote_has_is_no_unfinished_work() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    scene.host("cd ../tree && git commit --quiet --allow-empty -m pushed && git init --quiet --bare ../remote && git remote add origin ../remote");
    assert_eq!(told(&trees.unfinished(&tree).await.unwrap()), ["pushed"]);
    scene.host("cd ../tree && git push --quiet ../remote impl/x-M1 && git fetch --quiet ../remote '+refs/heads/*:refs/remotes/origin/*'");
    assert_eq!(trees.unfinished(&tree).await.unwrap(), Unfinished::default());
}

#[tokio::test]
async fn a_git_file_that_leads_elsewhere_runs_nothing_and_hides_nothing() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    let trap = format!("touch {}; false", scene.path("ran").display());
    scene.host(&format!(
        "cp -r .git ../tree/evil && git --git-dir=../tree/evil config core.fsmonitor '{trap}'"
    ));
    scene.write("tree/.git", &format!("gitdir: {}\n", scene.path("tree/evil").display()));
    // The control: git that is asked in the worktree does run it.
    scene.host("git -C ../tree status --porcelain");
    assert!(scene.exists("ran"), "the trap does not work");
    std::fs::remove_file(scene.path("ran")).unwrap();
    scene.write("tree/readme", "changed\n");
    let work = trees.unfinished(&tree).await.unwrap();
    assert!(told(&work).contains(&" M readme".to_owned()), "{work:?}");
    assert!(!scene.exists("ran"));
}

#[tokio::test]
async fn a_checkout_that_was_cut_off_is_completed() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    scene.host("rm ../tree/readme ../tree/.git .git/worktrees/tree/index && touch .git/worktrees/tree/index.lock && echo initializing > .git/worktrees/tree/locked");
    let cut_off = trees.at(&tree.path).await.unwrap().unwrap();
    assert_eq!(cut_off.checkout, Checkout::Partial);
    trees.complete(&cut_off).await.unwrap();
    assert_eq!(scene.host("git -C ../tree status --porcelain"), "");
    assert!(!scene.exists("host/.git/worktrees/tree/locked"));
    assert_eq!(trees.at(&tree.path).await.unwrap(), Some(tree));
}

#[tokio::test]
async fn a_forgotten_worktree_leaves_its_branch_and_nothing_else() {
    let scene = Scene::new();
    let (trees, tree) = made(&scene).await;
    std::fs::remove_dir_all(&tree.path).unwrap();
    trees.forget(&tree.path).await.unwrap();
    trees.forget(&tree.path).await.unwrap();
    assert_eq!(trees.all().await.unwrap(), []);
    assert_eq!(
        scene.host("git worktree list | wc -l && git branch --list --format='%(refname:short)'"),
        "1\nimpl/x-M1\nmain"
    );
}

#[tokio::test]
async fn patterns_name_ignored_files_only() {
    let scene = Scene::new();
    scene.write("host/.gitignore", "*.env\nbuild/\n");
    for file in ["a.env", "sub/b.env", "build/out.env", "build/out.txt", "loose.txt"] {
        scene.write(&format!("host/{file}"), "x");
    }
    scene.write("host/patterns", "*.env\n!build/\nloose.txt\nreadme\n");
    let mut found = worktrees(&scene).await.ignored_files(&at(&scene, "host/patterns")).await.unwrap();
    found.sort();
    assert_eq!(found, ["a.env", "build/out.env", "sub/b.env"].map(PathBuf::from));
}
