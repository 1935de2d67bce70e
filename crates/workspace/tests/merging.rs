//! Both sides have commits: they wait on a branch of their own, or are merged when that is asked for.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{CommitsOutcome, WhyWaiting};
use support::{Scene, paths};

#[tokio::test]
async fn when_both_sides_have_commits_they_wait_or_are_merged() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo four >> readme && git commit -qam agents && echo w > work");
    scene.host("sed -i s/1/one/ code && git commit -qam users");

    let synced = scene.sync().await;
    assert_eq!(synced.waiting().why, WhyWaiting::Diverged { hosts: 1 });
    assert_eq!(synced.written(), paths(&["work"]), "what is not committed does not depend on it");
    assert_eq!(
        scene.host("git status --porcelain; git log -1 --format=%s palisade/box/main"),
        "?? work\nagents"
    );

    let synced = scene.merge().await;
    assert_eq!(synced.commits(), CommitsOutcome::Merged { count: 1 });
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/main"]);
    assert_eq!(
        scene.host(
            "git log --format=%s --no-merges | sort && git log -1 --format='%an %s' && git status --porcelain"
        ),
        "agents\nfirst\nusers\nAda Merge the work of box on main\n?? work"
    );
    assert_eq!(scene.host("head -n1 code; tail -n1 readme"), "one\nfour");
}

#[tokio::test]
async fn a_merge_that_conflicts_leaves_ordinary_conflicts() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > readme && git commit -qam agents");
    scene.host("echo user > readme && git commit -qam users");

    let synced = scene.merge().await;
    assert_eq!(synced.waiting().why, WhyWaiting::Conflicts(paths(&["readme"])));
    assert!(synced.0.sync.needs_user());
    assert_eq!(scene.host("git status --porcelain"), "UU readme");
    assert!(scene.read("host/readme").contains("<<<<<<< HEAD\nuser\n=======\nagent\n"));
    // Until that is resolved, nothing else happens to the working tree.
    scene.inside("echo more > more; git add more; git commit -qm more");
    let before = scene.read("host/readme");
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::HostBusy("merge"));
    assert_eq!(scene.read("host/readme"), before);
    // Then it is done, as after any merge.
    scene.host("echo both > readme; git add readme; git commit -q --no-edit");
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    assert_eq!(
        scene.host("cat readme more; git status --porcelain; git branch --format='%(refname:short)'"),
        "both\nmore\nmain"
    );
}

/// A merge that would be clean must not move the branch that the user is in the middle of something on.
#[tokio::test]
async fn nothing_is_merged_while_the_user_is_in_the_middle_of_something() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > new && git add new && git commit -qm agents");
    scene.host(
        "git checkout -q -b other; echo other > code; git commit -qam other; git checkout -q main
         echo own > code; git commit -qam own; git cherry-pick other >/dev/null 2>&1 || true",
    );
    let before = scene.host("git rev-parse HEAD; git status --porcelain; git diff");
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::HostBusy("cherry-pick"));
    assert_eq!(scene.host("git rev-parse HEAD; git status --porcelain; git diff"), before);
    scene.host("git cherry-pick --abort");
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    assert_eq!(scene.host("git status --porcelain; cat new code"), "agent\nown");
}

#[tokio::test]
async fn changes_of_the_users_are_not_stashed_for_a_merge() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > code && git commit -qam agents");
    scene.host("echo user > code && git commit -qam users && git config merge.autoStash true && echo precious >> readme");
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::Conflicts(paths(&["code"])));
    assert_eq!(
        scene.host("git status --porcelain; tail -n1 readme; ls .git/MERGE_AUTOSTASH 2>/dev/null || true"),
        "UU code\n M readme\nprecious"
    );
}

/// What would be overwritten keeps the merge from beginning.
#[tokio::test]
async fn a_merge_does_not_begin_over_changes_of_the_users() {
    for conflicts in [true, false] {
        let scene = Scene::new();
        scene.start().await;
        scene.inside("echo agent > code && echo agent >> readme && git commit -qam agents");
        let own = if conflicts { "echo user > code" } else { "echo user > own; git add own" };
        scene.host(&format!("{own} && git commit -qam users; echo precious > readme"));
        assert_eq!(scene.merge().await.waiting().why, WhyWaiting::HostChanges(paths(&["readme"])));
        assert_eq!(
            scene.host("git status --porcelain; cat readme; git log -1 --format=%s"),
            " M readme\nprecious\nusers"
        );
    }
}

/// `git merge` would reset the working tree and put the user's change back from a stash.
#[tokio::test]
async fn a_merge_that_cannot_begin_changes_nothing() {
    let scene = Scene::new();
    scene.host(
        "mkdir d; echo 1 > d/one; git add d; git commit -qm d; git sparse-checkout set --no-cone '/*' '!/d/'",
    );
    scene.start().await;
    scene.inside("echo agent > code && echo agent >> readme && git commit -qam agents");
    scene.host(
        "echo user > code && git commit -qam users; echo precious > readme; touch -d 2001-01-01 code readme",
    );
    let look = "git status --porcelain; git ls-files -t; find . -path ./.git -prune -o -type f -printf '%p %T@\\n' | sort";
    let before = scene.host(look);
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::HostChanges(paths(&["readme"])));
    assert_eq!(scene.host(look), before);
    assert_eq!(scene.host("git fsck --unreachable --no-reflogs | grep commit || true"), "", "no stash");
}

/// Also over one that git does not know.
#[tokio::test]
async fn a_merge_with_conflicts_does_not_begin_over_an_untracked_file() {
    for sparse in ["true", "git sparse-checkout set --no-cone '/*' '!/u/'"] {
        let scene = Scene::new();
        scene.start().await;
        scene.inside("echo agent > code; mkdir u; echo agent > u/1; git add -A; git commit -qm agents");
        scene.host(&format!(
            "echo user > code; git commit -qam users; {sparse}; mkdir -p u; echo precious > u/1"
        ));
        assert_eq!(scene.merge().await.waiting().why, WhyWaiting::HostChanges(paths(&["u/1"])), "{sparse}");
        assert_eq!(scene.host("cat u/1; git status --porcelain"), "precious\n?? u/", "{sparse}");
    }
}

#[tokio::test]
async fn a_conflict_is_seen_where_a_sparse_checkout_leaves_the_file_out() {
    let scene = Scene::new();
    scene.host("mkdir d; echo 1 > d/one; echo 2 > d/two; echo 3 > d/three; git add d; git commit -qm d");
    scene.start().await;
    scene.inside("echo agent > d/one; echo agent > d/two; git commit -qam agents");
    scene.host("echo user > d/one; git commit -qam users; git sparse-checkout set --no-cone '/*' '!/d/'");
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::Conflicts(paths(&["d/one"])));
    assert_eq!(scene.host("git status --porcelain; ls d"), "UU d/one\nM  d/two\none");
    assert!(scene.read("host/d/one").contains("<<<<<<< HEAD\nuser\n=======\nagent\n"));
    scene.host("echo both > d/one; git add --sparse d/one; git commit -q --no-edit");
    assert_eq!(
        scene.host("git show HEAD:d/one HEAD:d/two HEAD:d/three; git log -1 --format=%P | wc -w"),
        "both\nagent\n3\n2"
    );
}

#[tokio::test]
async fn every_kind_of_conflict_is_left_as_git_leaves_it() {
    let scene = Scene::new();
    scene.host("mkdir d; for f in edited removed kept-here kept-there d/f; do seq 9 > $f; done; git add -A; git commit -qm more");
    scene.start().await;
    scene.inside(
        "sed -i s/5/agent/ edited code; rm kept-here; sed -i s/5/agent/ kept-there; echo agent > added; rm -r d; echo agent > d
         git mv removed renamed-there; git add -A; git commit -qm agents",
    );
    scene.host(
        "sed -i s/5/user/ edited; sed -i s/5/user/ kept-here; rm kept-there; echo user > added; sed -i s/5/user/ d/f
         git mv removed renamed-here; git add -A; git commit -qm users",
    );
    let look = "git status --porcelain; git ls-files --stage; git ls-files -z | xargs -0 -n1 sh -c 'cat \"$0\" 2>/dev/null || true' | sort | uniq -c";
    let synced = scene.merge().await;
    assert!(matches!(synced.waiting().why, WhyWaiting::Conflicts(_)), "{:?}", synced.waiting());
    let ours = scene.host(look);
    assert_eq!(scene.host("cat .git/MERGE_HEAD"), scene.inside("git rev-parse HEAD"));
    scene.host("cp -a . ../git; cd ../git; git merge --abort || git reset -q --hard; git clean -qfd; git merge -q --no-ff $(git rev-parse palisade/box/main) >/dev/null 2>&1 || true");
    let gits = scene.host(&format!("cd ../git; {look}"));
    assert_eq!(ours, gits);
    // An abort brings back what was there.
    scene.host("git merge --abort");
    assert_eq!(scene.host("git status --porcelain; git diff HEAD --stat"), "");
}

#[tokio::test]
async fn a_branch_that_is_checked_out_nowhere_is_merged_without_a_working_tree() {
    let scene = Scene::new();
    scene.host("git branch side");
    scene.start().await;
    scene.inside("git checkout -q side; echo s > s; git add s; git commit -qm agents; git checkout -q main");
    scene.host("git checkout -q side; echo t > t; git add t; git commit -qm users; git checkout -q main; echo mine > code");
    let synced = scene.merge().await;
    assert_eq!(synced.branch("side").unwrap().commits, CommitsOutcome::Merged { count: 1 });
    assert_eq!(
        scene.host("git ls-tree --name-only side; git status --porcelain; cat code"),
        "code\nreadme\ns\nt\n M code\nmine"
    );
}

#[tokio::test]
async fn two_branches_that_wait_at_the_same_commit_are_told_apart() {
    let scene = Scene::new();
    scene.host("git branch f1; git branch f2");
    scene.start().await;
    scene.inside("git checkout -q f1; echo 1 > one; git add one; git commit -qm one; git branch -f f2 f1; git checkout -q main");
    for name in ["f1", "f2"] {
        scene.host(&format!("git checkout -q {name}; git commit -q --allow-empty -m host-{name}"));
    }
    scene.sync().await;
    scene.host("git checkout -q f2; git merge -q --no-edit palisade/box/f2; git checkout -q main");
    let synced = scene.sync().await;
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/f2"]);
    assert!(synced.branch("f1").is_some(), "the other still waits");
    // The user decides against it, and it does not come back by the other's name.
    scene.host("git branch -D -q palisade/box/f1");
    assert!(scene.sync().await.is_nothing());
    assert_eq!(scene.host("git branch --format='%(refname:short)'"), "f1\nf2\nmain");
}

#[tokio::test]
async fn a_waiting_branch_that_is_checked_out_stays_when_its_work_is_taken() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit -qm one");
    scene.host("git commit -q --allow-empty -m own");
    scene.sync().await;
    scene.host("git merge -q --no-edit palisade/box/main; git switch -q palisade/box/main");
    let synced = scene.sync().await;
    assert_eq!(synced.0.sync.removed_branches, Vec::<String>::new());
    assert_eq!(
        scene.host("git status --porcelain --branch; git log -1 --format=%s"),
        "## palisade/box/main\none"
    );
    // What comes later has a branch beside it.
    scene.inside("echo 2 > two; git add two; git commit -qm two");
    assert_eq!(scene.sync().await.waiting().branch, "palisade/box/main-2");
    assert_eq!(scene.host("git log -1 --format=%s; git status --porcelain"), "one");
}

#[tokio::test]
async fn a_branch_whose_name_is_taken_is_reported_once() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git branch a");
    scene.sync().await;
    scene.inside("git branch -m a a/b; git checkout -q a/b; echo 1 > one; git add one; git commit -qm one; git checkout -q main");
    let synced = scene.sync().await;
    let made = CommitsOutcome::Created { count: 1, name: "palisade/box/a/b".into() };
    assert_eq!(synced.branch("a/b").unwrap().commits, made);
    assert!(scene.sync().await.is_nothing());
    assert!(scene.unapplied().await.is_nothing());
    scene.inside("git checkout -q a/b; echo 2 > one; git commit -qam two; git checkout -q main");
    assert!(scene.sync().await.branch("a/b").is_some());
    assert_eq!(scene.host("git log --format=%s palisade/box/a/b"), "two\none\nfirst");
}

/// Both sides have made their first commit another one, each for itself.
#[tokio::test]
async fn histories_that_have_nothing_in_common_wait() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git commit -q --amend -m agents; echo agent > new; git add new; git commit -qm more");
    scene.host("git commit -q --amend -m mine; echo mine > own; git add own; git commit -qm own");
    scene.host(
        "git checkout -q --orphan other; git commit -qm orphan; git branch -f main; git checkout -q main",
    );
    let synced = scene.merge().await;
    assert_eq!(scene.host(&format!("git log -1 --format=%s {}", synced.waiting().branch)), "more");
    assert_eq!(scene.host("git log --format=%s; git status --porcelain"), "orphan");
}

/// The file is in the host's commit, and not in its working tree.
#[tokio::test]
async fn files_that_a_sparse_checkout_leaves_out_are_merged_as_the_commit_has_them() {
    let scene = Scene::new();
    scene.host("mkdir d; seq 9 > d/one; git add d; git commit -qm d");
    scene.start().await;
    scene.inside("sed -i 1s/^/agents/ d/one");
    scene
        .host("sed -i 9s/^/mine/ d/one; git commit -qam mine; git sparse-checkout set --no-cone '/*' '!/d/'");
    assert_eq!(scene.merge().await.files().merged, paths(&["d/one"]));
    assert_eq!(scene.host("sed -n '1p;9p' d/one"), "agents1\nmine9");
}
