//! A sandbox's content cannot make host git run anything, though the user's own configuration names programs. Each has a
//! control: plain git on the same content would have run it.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{BranchName, Commits, Divergence, Work};
use support::Scene;

/// The user's own filters, hooks, drivers and monitor, each of which leaves a mark when it runs.
fn with_programs(scene: &Scene) {
    let mark = |name: &str| format!("touch {}; cat", scene.path(&format!("ran-{name}")).display());
    for (setting, value) in [
        ("filter.tool.clean", mark("clean")),
        ("filter.tool.smudge", mark("smudge")),
        ("filter.tool.required", "true".into()),
        ("merge.tool.driver", mark("merge")),
        ("diff.tool.textconv", mark("textconv")),
        ("core.fsmonitor", mark("fsmonitor")),
        ("core.hooksPath", scene.path("home/hooks").display().to_string()),
    ] {
        scene.host(&format!("git config {setting} '{value}'"));
    }
    for hook in [
        "post-checkout",
        "post-merge",
        "pre-push",
        "reference-transaction",
        "post-index-change",
        "pre-merge-commit",
    ] {
        let path = scene.path("home/hooks").join(hook);
        scene.write(
            &format!("home/hooks/{hook}"),
            &format!("#!/bin/sh\ntouch {}\n", scene.path("ran-hook").display()),
        );
        std::fs::set_permissions(path, std::os::unix::fs::PermissionsExt::from_mode(0o755)).unwrap();
    }
}

fn ran(scene: &Scene) -> Vec<&'static str> {
    let all = ["clean", "smudge", "merge", "textconv", "fsmonitor", "hook"];
    all.into_iter().filter(|name| scene.exists(&format!("ran-{name}"))).collect()
}

#[tokio::test]
async fn the_users_own_programs_do_not_run_on_a_sandboxs_content() {
    let scene = Scene::new();
    scene.send().await;
    with_programs(&scene);
    scene.inside("echo '* filter=tool merge=tool diff=tool' > .gitattributes && echo agent >> readme && git add -A && git commit --quiet -m attributes && echo w > work");

    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied.commits, Commits::Forwarded(1));
    assert!(matches!(applied.work, Work::Laid { .. }));
    scene.inside("git reset --quiet --hard HEAD~1 && sed -i s/1/one/ code && git commit --quiet -am other && echo x > work");
    let applied = scene.sync(Divergence::Merge).await;
    assert_eq!(applied.commits, Commits::Merged(1));
    assert_eq!(ran(&scene), Vec::<&str>::new());
}

#[tokio::test]
async fn plain_git_runs_them_on_the_same_content() {
    let scene = Scene::new();
    scene.send().await;
    with_programs(&scene);
    scene.inside("echo '* filter=tool merge=tool diff=tool' > .gitattributes && echo agent >> readme && git add -A && git commit --quiet -m attributes");
    scene.host("git pull --quiet --no-rebase ../inside main && touch readme code && git status --porcelain && git diff HEAD~1");
    assert_eq!(ran(&scene), ["clean", "smudge", "textconv", "fsmonitor", "hook"]);
}

/// A stranger's answers are taken only as names and numbers.
#[test]
fn a_branch_that_is_an_option_or_a_path_is_no_branch() {
    for name in ["--upload-pack=touch x", "../../heads/main", "main:refs/heads/main", "a b", "x\u{1b}[2J"] {
        assert!(BranchName::new(name).is_err(), "{name}");
    }
}

#[tokio::test]
async fn objects_that_would_write_into_the_git_directory_are_refused_and_refs_stay() {
    for name in [".git", ".GIT", "git~1", ".g\u{200c}it"] {
        let scene = Scene::new();
        scene.send().await;
        let script = format!(
            "blob=$(echo '[core] fsmonitor=x' | git hash-object -w --stdin)
             inner=$(printf '100644 blob %s\tconfig\n' $blob | git mktree)
             tree=$(printf '040000 tree %s\t{name}\n' $inner | git mktree)
             commit=$(git commit-tree $tree -p HEAD -m evil)
             git update-ref refs/heads/main $commit"
        );
        scene.inside(&script);
        let error = scene.try_fetch("main", false).await.unwrap_err().to_string();
        assert!(error.contains("hasDotgit"), "{name}: {error}");
        assert_eq!(scene.host("git for-each-ref --format='%(refname)' && git fsck 2>&1"), "refs/heads/main");
    }
}
