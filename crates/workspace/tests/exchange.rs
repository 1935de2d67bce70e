//! Code goes in, work comes back, and nothing of either side is lost on the way.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{Arrival, CommitsOutcome, TreeReport, WhyWaiting};
use support::{Scene, paths};

#[tokio::test]
async fn commits_and_uncommitted_work_come_back() {
    let scene = Scene::new();
    assert_eq!(scene.start().await.arrival, Arrival::Cloned);
    assert_eq!(
        scene.inside("git log --format='%an %s' && git status --short --branch"),
        "Ada first\n## main...host/main"
    );
    scene.inside("echo four >> readme && git commit --quiet -am second && echo 6 >> code && mkdir d && echo new > d/n && git rm --quiet readme");

    let synced = scene.sync().await;

    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.written(), paths(&["code", "d/n", "readme"]));
    assert!(!synced.0.sync.needs_user());
    assert_eq!(scene.host("git log --format=%s"), "second\nfirst");
    assert_eq!(scene.host("git status --porcelain --untracked-files=all"), " M code\n D readme\n?? d/n");
    assert_eq!((scene.read("host/code").lines().last(), scene.exists("host/readme")), (Some("6"), false));

    let again = scene.sync().await;
    assert!(again.is_nothing(), "{again:?}");
}

#[tokio::test]
async fn a_second_sync_replaces_what_the_first_wrote() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo draft > code && echo x > extra");
    scene.sync().await;
    scene.inside("echo better > code && rm extra");

    let synced = scene.sync().await;
    let TreeReport { written, taken_back, conflicts, .. } = synced.files();
    assert_eq!((written, taken_back, conflicts), (paths(&["code"]), paths(&["extra"]), paths(&[])));
    assert_eq!((scene.read("host/code").as_str(), scene.exists("host/extra")), ("better\n", false));

    scene.inside("git commit --quiet -am done");
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&[]))
    );
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn a_file_may_become_a_directory_and_a_directory_a_file() {
    let scene = Scene::new();
    scene.host("mkdir d && echo 1 > d/n && git add -A && git commit --quiet -m directory");
    scene.start().await;
    scene.inside("git rm --quiet -r code d && mkdir code && echo 1 > code/n && echo 2 > d && git add -A && git commit --quiet -m swap");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!((scene.read("host/code/n").as_str(), scene.read("host/d").as_str()), ("1\n", "2\n"));
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn a_change_of_the_users_stays_and_commits_that_would_go_past_it_wait() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > code && git commit --quiet -am second && echo more > readme");
    scene.write("host/code", "the user's\n");

    let synced = scene.sync().await;
    let waiting = synced.waiting();
    assert_eq!((waiting.count, waiting.branch.as_str()), (1, "palisade/box/main"));
    assert_eq!(waiting.why, WhyWaiting::HostChanges(paths(&["code"])));
    assert_eq!(synced.written(), paths(&["readme"]), "an unrelated file comes all the same");
    assert!(synced.0.sync.needs_user());
    assert_eq!(
        scene.host("git log --format=%s main; git log --format=%s palisade/box/main"),
        "first\nsecond\nfirst"
    );
    assert_eq!(scene.read("host/code"), "the user's\n");

    scene.host("git checkout --quiet code");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/main"]);
    assert_eq!(scene.host("git branch --format='%(refname:short)'"), "main");
}

#[tokio::test]
async fn the_daily_loop_goes_on_when_the_user_commits_what_was_brought() {
    let scene = Scene::new();
    scene.start().await;
    for round in ["one", "two", "three"] {
        scene.inside(&format!("echo {round} >> readme; echo {round} > {round}"));
        scene.sync().await;
        scene.host(&format!("git add -A; git commit --quiet -m {round}"));
        let report = scene.start().await;
        assert_eq!(report.arrival, Arrival::Followed { moved: true }, "{round}");
        assert_eq!(scene.inside("git status --porcelain; git log -1 --format=%s"), round);
    }
}

#[tokio::test]
async fn what_a_sync_wrote_does_not_stop_a_start_and_stays_inside() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo more >> readme; echo n > new");
    scene.sync().await;
    let report = scene.start().await;
    assert_eq!((report.arrival, report.left_behind), (Arrival::Followed { moved: false }, 0));
    assert_eq!(scene.inside("git status --porcelain"), " M readme\n?? new");
}

/// The contents of an archive's entry, by its kind.
fn archived(scene: &Scene, what: &str) -> String {
    let list = scene.host("git for-each-ref --format='%(objectname)' refs/palisade/archive");
    let shown = list.lines().map(|id| scene.host(&format!("git show {id}:manifest.json")));
    shown.filter(|manifest| manifest.contains(what)).collect()
}

#[tokio::test]
async fn staged_changes_stay_when_the_agent_takes_its_own_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo fix >> readme; echo n > n.txt; echo m > m.txt");
    scene.sync().await;
    scene.host("git add readme n.txt");
    scene.inside("git stash --quiet -u");
    let synced = scene.sync().await;
    assert_eq!(synced.files().taken_back, paths(&["m.txt"]), "what was left alone goes, and is named");
    assert_eq!(scene.host("git status --porcelain"), "A  n.txt\nM  readme");
    assert_eq!(synced.0.sync.stashes.len(), 1);
    assert!(archived(&scene, "\"kind\": \"stash\"").contains("WIP on main"));
}

#[tokio::test]
async fn commits_on_a_branch_that_is_not_checked_out_come_too() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git checkout --quiet -b fix-123; echo x > x; git add x; git commit --quiet -m fix; git checkout --quiet main");
    let synced = scene.sync().await;
    let report = synced.branch("fix-123").unwrap();
    assert_eq!(report.commits, CommitsOutcome::Created { count: 1, name: "fix-123".into() });
    assert!(!synced.0.sync.needs_user());
    assert_eq!(
        scene.host("git log --format=%s fix-123; git branch --format='%(refname:short)'"),
        "fix\nfirst\nfix-123\nmain"
    );
}

#[tokio::test]
async fn the_users_commits_on_a_waiting_branch_are_not_thrown_away() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m one");
    scene.host("git commit --quiet --allow-empty -m own");
    assert_eq!(scene.sync().await.waiting().branch, "palisade/box/main");
    scene.host("git switch --quiet palisade/box/main; git commit --quiet --allow-empty -m review; git switch --quiet main");
    scene.inside("echo 2 > two; git add two; git commit --quiet -m two");
    assert_eq!(scene.sync().await.waiting().branch, "palisade/box/main-2");
    assert_eq!(scene.host("git log --format=%s palisade/box/main"), "review\none\nfirst");
    assert_eq!(scene.host("git log --format=%s palisade/box/main-2"), "two\none\nfirst");
}

#[tokio::test]
async fn each_diverged_branch_waits_under_its_own_name() {
    let scene = Scene::new();
    scene.host("git branch f1; git branch f2");
    scene.start().await;
    for branch in ["f1", "f2", "main"] {
        scene.inside(&format!("git checkout --quiet {branch}; echo {branch} > a-{branch}; git add -A; git commit --quiet -m agent-{branch}"));
        scene.host(&format!("git checkout --quiet {branch}; echo {branch} > h-{branch}; git add -A; git commit --quiet -m host-{branch}"));
    }
    scene.inside("git checkout --quiet main");
    let synced = scene.sync().await;
    for branch in ["f1", "f2", "main"] {
        let CommitsOutcome::Waiting(waiting) = &synced.branch(branch).unwrap().commits else {
            panic!("{synced:?}")
        };
        assert_eq!((waiting.branch.as_str(), waiting.count), (format!("palisade/box/{branch}").as_str(), 1));
        assert_eq!(waiting.why, WhyWaiting::Diverged { hosts: 1 });
        assert_eq!(
            scene.host(&format!("git log -1 --format=%s palisade/box/{branch}")),
            format!("agent-{branch}")
        );
    }
    // The hint is followed, and then there is nothing left to wait.
    scene.host("git merge --quiet --no-edit palisade/box/main");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Nothing);
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/main"]);
    assert!(synced.branch("f1").is_some(), "the others still wait");
    // One that the user decides against does not come back.
    scene.host("git branch -D palisade/box/f1 palisade/box/f2");
    let synced = scene.sync().await;
    assert!(!synced.0.sync.needs_user() && synced.0.sync.branches.is_empty(), "{synced:?}");
}

#[tokio::test]
async fn an_amended_commit_stays_amended_and_the_agent_follows() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m one");
    scene.sync().await;
    scene.host("git commit --quiet --amend -m better");
    assert!(scene.sync().await.is_nothing());
    scene.inside("echo 2 > two; git add two; git commit --quiet -m two");
    let waiting = scene.sync().await.waiting();
    assert_eq!((waiting.why, waiting.replayed, waiting.count), (WhyWaiting::HostRewrote, true, 1));
    assert_eq!(scene.host("git log --format=%s palisade/box/main"), "two\nbetter\nfirst");
    scene.host("git merge --quiet --ff-only palisade/box/main");
    let synced = scene.sync().await;
    assert_eq!(synced.0.sync.removed_branches, ["palisade/box/main"]);
    let report = scene.start().await;
    assert_eq!(report.arrival, Arrival::Followed { moved: true });
    assert_eq!(scene.inside("git log --format=%s; git status --porcelain"), "two\nbetter\nfirst");
}

#[tokio::test]
async fn a_rejected_commit_does_not_come_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m rejected");
    scene.sync().await;
    scene.host("git reset --quiet --hard HEAD~1");
    assert!(scene.sync().await.is_nothing());
    scene.inside("echo 2 > two; git add two; git commit --quiet -m wanted");
    scene.merge().await;
    assert_eq!(
        scene.host("git log --topo-order --format=%s --no-merges; ls"),
        "wanted\nfirst\ncode\nreadme\ntwo"
    );
}

#[tokio::test]
async fn a_start_after_a_rejection_takes_the_agent_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m rejected");
    scene.sync().await;
    scene.host("git reset --quiet --hard HEAD~1");
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: true });
    assert_eq!(scene.inside("git log --format=%s; ls"), "first\ncode\nreadme");
}

#[tokio::test]
async fn a_branch_switch_and_a_deleted_branch_of_the_host_are_followed() {
    let scene = Scene::new();
    scene.host("git branch feature; git switch --quiet feature");
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m one");
    scene.sync().await;
    scene.host("git switch --quiet main; git merge --quiet --squash feature; git commit --quiet -m squashed; git branch --quiet -D feature");
    let synced = scene.sync().await;
    assert!(synced.is_nothing(), "{synced:?}");
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: true });
    assert_eq!(
        scene.inside("git status --short --branch; git log --format=%s"),
        "## main...host/main\nsquashed\nfirst"
    );
    assert_eq!(scene.host("git branch --format='%(refname:short)'"), "main");
}

#[tokio::test]
async fn the_agent_may_rewrite_what_is_its_own_and_nothing_else() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m one");
    scene.sync().await;
    scene.inside("git commit --quiet --amend -m better");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 1 });
    assert_eq!(scene.host("git log --format=%s; git status --porcelain"), "better\nfirst");
    // What a remote has is not the agent's alone any more.
    scene.host("git update-ref refs/remotes/origin/main HEAD");
    scene.inside("git commit --quiet --amend -m again");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::SandboxRewrote);
    assert_eq!(scene.host("git log --format=%s"), "better\nfirst");
    // Nor is the user's own commit.
    scene.inside("git reset --quiet --hard HEAD~1; git commit --quiet --amend --allow-empty -m mine-now");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::SandboxRewrote);
    assert_eq!(scene.host("git log --format=%s"), "better\nfirst");
}

#[tokio::test]
async fn what_git_cannot_take_is_left_out_by_name_and_blocks_nothing() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 1 > one; git add one; git commit --quiet -m one; echo n > new; git init --quiet scratch; touch 'GIT~1'");
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&["new"]))
    );
    let left_out: Vec<&str> =
        synced.0.archived.left_out.iter().map(|left_out| left_out.path.as_str()).collect();
    assert_eq!(left_out, ["GIT~1"]);
    assert!(!synced.0.archived.is_complete());
}

#[tokio::test]
async fn a_sparse_checkout_gets_what_it_shows_and_loses_nothing() {
    let scene = Scene::new();
    scene.host("mkdir src docs; echo 1 > src/core; echo 1 > docs/index; git add -A; git commit --quiet -m tree; git sparse-checkout set docs");
    scene.start().await;
    scene.inside("echo 2 > src/core; echo 2 > docs/index; git commit --quiet -am both; echo 3 > src/core; echo n > src/newf");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(synced.written(), paths(&["src/core", "src/newf"]));
    assert_eq!(
        (scene.read("host/docs/index").as_str(), scene.read("host/src/core").as_str()),
        ("2\n", "3\n")
    );
    assert_eq!(scene.host("git status --porcelain --untracked-files=all"), " M src/core\n?? src/newf");
    assert!(scene.sync().await.is_nothing());
}

#[tokio::test]
async fn git_stash_works_after_a_sync() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo more >> readme; echo n > new");
    scene.sync().await;
    scene.host("git stash --quiet -u && git stash pop --quiet");
    assert_eq!(scene.host("git status --porcelain"), " M readme\n?? new");
}

#[tokio::test]
async fn a_renamed_branch_stands_in_no_others_way() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git branch a; git branch zz");
    scene.sync().await;
    scene.inside("git branch -m a a/b; git checkout --quiet a/b; echo 1 > one; git add one; git commit --quiet -m one; git checkout --quiet zz; git commit --quiet --allow-empty -m last; git checkout --quiet main");
    let synced = scene.sync().await;
    let CommitsOutcome::Created { name, .. } = &synced.branch("a/b").unwrap().commits else {
        panic!("{synced:?}")
    };
    assert_eq!(scene.host(&format!("git log -1 --format=%s {name}; git log -1 --format=%s zz")), "one\nlast");
    assert!(name.starts_with("palisade/box/"), "{name}");
}

#[tokio::test]
async fn branches_and_tags_of_the_host_are_inside() {
    let scene = Scene::new();
    scene.host("git tag v1; git tag -a -m annotated v2; git branch dev; git update-ref refs/remotes/origin/main HEAD; git switch --quiet -c feature; git commit --quiet --allow-empty -m more");
    let report = scene.start().await;
    assert_eq!((report.branches, report.tags), (3, 2));
    assert_eq!(scene.inside("git describe --tags; git diff --stat main...HEAD; git cat-file -t v2; git log -1 --format=%s origin/main").lines().last(), Some("first"));
    assert_eq!(
        scene.inside("git for-each-ref --format='%(refname)'"),
        "refs/heads/dev\nrefs/heads/feature\nrefs/heads/main\nrefs/remotes/host/dev\nrefs/remotes/host/feature\n\
         refs/remotes/host/main\nrefs/remotes/origin/main\nrefs/tags/v1\nrefs/tags/v2"
    );
    // The host goes on, and so do the branches that the agent has left alone.
    scene.host("git switch --quiet dev; git commit --quiet --allow-empty -m newer; git switch --quiet feature; git branch --quiet -D main; git tag v3");
    scene.inside(
        "git checkout --quiet main; git commit --quiet --allow-empty -m own; git checkout --quiet feature",
    );
    scene.start().await;
    assert_eq!(scene.inside("git log -1 --format=%s dev; git log -1 --format=%s main; git tag; git for-each-ref --format='%(refname)' refs/remotes/host"), "newer\nown\nv1\nv2\nv3\nrefs/remotes/host/dev\nrefs/remotes/host/feature");
}

#[tokio::test]
async fn everything_that_can_hold_a_commit_is_archived() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("
        echo 1 > f; git add f; git stash push --quiet -m first-stash; echo 2 > f; git add f; git stash push --quiet -m second-stash
        git commit --quiet --allow-empty -m tagged; git tag only-tag; git reset --quiet --hard HEAD~1
        git commit --quiet --allow-empty -m dropped; git reset --quiet --hard HEAD~1
        git checkout --quiet --detach; git commit --quiet --allow-empty -m detached; git worktree add --quiet -b wt .worktrees/wt main; echo w > .worktrees/wt/w
        git notes add -m note main");
    let report = scene.archive().await;
    let archive = report.archive().unwrap();
    let mut found: Vec<String> = archive.entries.iter().map(|entry| entry.kind.describe()).collect();
    found.sort();
    let workspace = scene.path("inside").canonicalize().unwrap();
    assert_eq!(
        found,
        [
            format!("commits at the detached HEAD of {}", workspace.display()),
            "commits that only a reflog holds".into(),
            "refs/notes/commits".into(),
            "stash entry 0: On main: second-stash".into(),
            "stash entry 1: On main: first-stash".into(),
            "tag only-tag".into(),
            format!("uncommitted files in {}/.worktrees/wt", workspace.display()),
        ]
    );
    assert_eq!(
        scene.host(&format!(
            "git fsck --strict 2>&1; git show --no-patch --format=%s {}",
            scene.archive_ref(1)
        )),
        "Archive 1 of sandbox box (shell), made for stop"
    );
    assert_eq!(scene.archive().await.archive(), None, "nothing is new");
}

#[tokio::test]
async fn an_unmerged_index_and_the_stash_of_a_rebase_are_archived() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git checkout --quiet -b other; echo theirs > code; git commit --quiet -am theirs; git checkout --quiet main; echo ours > code; git commit --quiet -am ours; git merge --quiet other || true; echo loose > readme");
    let report = scene.archive().await;
    let snapshot = report
        .archive()
        .unwrap()
        .entries
        .iter()
        .find(|entry| entry.kind.describe().starts_with("uncommitted"))
        .unwrap()
        .id
        .clone();
    assert_eq!(scene.host(&format!("git ls-tree -r --name-only {snapshot}^4; git show {snapshot}^4:3/code; git show {snapshot}:readme")), "1/code\n2/code\n3/code\ntheirs\nloose");
    assert!(scene.host(&format!("git show {}:files/code", scene.archive_ref(1))).contains("<<<<<<< HEAD"));

    scene.inside("git merge --abort; git config rebase.autoStash true; echo precious > readme; git rebase --quiet other || true");
    let report = scene.archive().await;
    let stash =
        report.archive().unwrap().entries.iter().find(|entry| entry.kind.describe().contains("autostash"));
    assert_eq!(scene.host(&format!("git show {}:readme", stash.unwrap().id)), "precious");
}

#[tokio::test]
async fn a_namesake_touches_nothing_of_the_one_before() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside("echo precious > code");
    scene.host("echo mine > code");
    assert_eq!(scene.sync_with(|_| {}).await.unwrap().files().conflicts, paths(&["code"]));
    scene.inside("rm -rf .git * && ls -A");
    scene.replace_sandbox();
    scene.host("git checkout --quiet code");
    scene.start().await;
    scene.inside("echo other > readme");
    scene.sync().await;
    let archives = scene.host("git for-each-ref --format='%(refname)' refs/palisade/archive");
    let shown: Vec<String> =
        archives.lines().map(|name| scene.host(&format!("git show {name}:files/code"))).collect();
    assert_eq!(shown[0], "precious");
    assert_eq!(archives.lines().count(), 2);
}

#[tokio::test]
async fn a_nested_repository_is_archived_beside_and_its_directory_is_not_made() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("mkdir sub; git init --quiet -b trunk sub/nested; cd sub/nested; echo deep > deep; git add -A; git commit --quiet -m deep; echo loose > loose; cd ../..; echo plain > plain");
    let synced = scene.sync().await;
    assert_eq!(synced.written(), paths(&["plain"]));
    assert!(!scene.exists("host/sub"));
    let nested = &synced.0.archived.nested[0];
    assert_eq!((nested.path.as_str(), nested.is_on_host), ("sub/nested", false));
    let place = nested.place.as_path().display().to_string();
    let archive = scene.archive_ref(1);
    assert_eq!(
        scene.host(&format!("cd {place}; git show {archive}:files/loose; git log --format=%s {archive} | grep deep; git fsck --strict 2>&1")),
        "loose\ndeep\nnotice: HEAD points to an unborn branch (master)"
    );
    // The user takes it up, and then there is nothing to say about it.
    scene.host(&format!("git clone --quiet {place} sub/nested 2>&1; cd sub/nested; git fetch --quiet origin 'refs/palisade/*:refs/palisade/*'"));
    assert!(scene.sync().await.0.archived.nested[0].is_on_host);
}

#[tokio::test]
async fn submodules_go_in_and_their_commits_are_archived() {
    let scene = Scene::new();
    scene.host(
        "git init --quiet ../lib; cd ../lib; git config user.name L; git config user.email l@x; echo 1 > l; git add -A; git commit --quiet -m lib; \
         cd ../host; git -c protocol.file.allow=always submodule --quiet add ../lib vendor/lib; git commit --quiet -m submodule",
    );
    scene.start().await;
    assert_eq!(
        scene.inside("git status --porcelain; cat vendor/lib/l; git -C vendor/lib log --format=%s"),
        "1\nlib"
    );
    assert!(scene.sync().await.is_nothing());
    scene.inside("cd vendor/lib; echo 2 > l; git commit --quiet -am newer; cd ../..; git add vendor/lib; git commit --quiet -m bump");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    let nested = &synced.0.archived.nested[0];
    assert_eq!((nested.path.as_str(), nested.is_on_host), ("vendor/lib", false));
    let place = nested.place.as_path().display().to_string();
    scene.host(&format!(
        "git -C vendor/lib fetch --quiet {place} 'refs/palisade/archive/*:refs/palisade/archive/*'; git submodule --quiet update"
    ));
    assert_eq!(scene.host("cat vendor/lib/l; git status --porcelain"), "2");
    assert!(scene.sync().await.0.archived.nested.iter().all(|nested| nested.is_on_host));
}

#[tokio::test]
async fn files_that_both_sides_have_changed_are_merged_on_request_and_the_users_version_is_kept() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("sed -i s/1/one/ code; echo agent > readme");
    scene.host("sed -i s/5/five/ code; echo user > readme");
    let files = scene.sync().await.files();
    assert_eq!((files.conflicts, files.written), (paths(&["code", "readme"]), paths(&[])));
    let files = scene.merge().await.files();
    assert_eq!((files.merged, files.conflicts), (paths(&["code"]), paths(&["readme"])));
    assert_eq!(
        (scene.read("host/code").as_str(), scene.read("host/readme").as_str()),
        ("one\n2\n3\n4\nfive\n", "user\n")
    );
    assert_eq!(scene.host(&format!("git show {}:yours/code", scene.archive_ref(2))), "1\n2\n3\n4\nfive");
    let files = scene.sync().await.files();
    assert_eq!(files.conflicts, paths(&["readme"]), "what was merged is settled");
}

/// A repository may have thousands of branches.
#[tokio::test]
async fn branches_that_neither_side_touches_leave_no_trace_in_a_sync() {
    let scene = Scene::new();
    scene.host("for i in $(seq 40); do git branch topic-$i; done");
    scene.start().await;
    let refs = "git for-each-ref --format='%(refname)' refs/palisade/base | grep -c topic || true";
    scene.inside("echo agent > code; git commit -qam agents");
    assert!(!scene.sync().await.0.sync.needs_user());
    assert_eq!(scene.host(refs), "0");
    // Each is still decided for itself afterwards.
    scene.inside("git switch -q topic-1; git commit -q --allow-empty -m one; git switch -q topic-2; git commit -q --allow-empty -m two; git switch -q main");
    scene.host("git branch -q -D topic-2 topic-3");
    let synced = scene.sync_with(|_| {}).await.unwrap();
    assert_eq!(synced.branch("topic-1").unwrap().commits, CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert!(matches!(synced.branch("topic-2").unwrap().commits, CommitsOutcome::Waiting(_)), "{synced:?}");
    assert_eq!(scene.host("git branch --list topic-2 topic-3"), "");
}
