//! Files of the user's in the way of work that comes back: they stay, and the work waits or is a conflict.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{CommitsOutcome, FilesOutcome, WhyFilesWait, WhyWaiting};
use support::{Scene, paths};

/// The look at the user's files is moments old when they are written.
#[tokio::test]
async fn a_change_that_the_user_makes_while_work_comes_back_is_not_overwritten() {
    // Of a commit's file; of a file that was brought before; at a path that is new; of one that a commit removes.
    for (before, agent, path, edit) in [
        ("true", "echo agent > readme && git commit -qam second", "readme", "echo users > readme"),
        ("echo brought > readme", "echo again > readme", "readme", "echo users > readme"),
        ("true", "echo theirs > new", "new", "echo users > new"),
        ("true", "echo theirs > new && git add new && git commit -qm second", "new", "echo users > new"),
        ("true", "git rm -q readme && git commit -qm second", "readme", "echo users > readme"),
        // The same size, and the time of the file before.
        (
            "true",
            "echo agent > readme && git commit -qam second",
            "readme",
            "touch -r readme ../time; printf 'ONE\\ntwo\\nthree\\n' > ../new; touch -r ../time ../new; mv ../new readme; cp -p readme ../expected",
        ),
    ] {
        let mut scene = Scene::new();
        scene.start().await;
        if before != "true" {
            scene.inside(before);
            scene.sync().await;
        }
        scene.inside(agent);
        let is_commit = agent.contains("commit");
        scene.interrupt(if is_commit { "read-tree -m -u" } else { "checkout-index" }, edit);

        let outcome = scene.sync().await;
        assert!(scene.was_interrupted(), "{agent}");
        let expected = if edit.contains("expected") { scene.read("expected") } else { "users\n".into() };
        assert_eq!(scene.read(&format!("host/{path}")), expected, "{agent}");
        assert_eq!(scene.host("git log --format=%s main"), "first", "{agent}");
        match is_commit {
            true => assert_eq!(outcome.waiting().why, WhyWaiting::HostChanges(paths(&[path])), "{agent}"),
            false => assert_eq!(outcome.files().conflicts, paths(&[path]), "{agent}"),
        }
        // All of a commit's files or none: whatever was written before is as it was.
        assert_eq!(
            scene
                .host("git diff --name-only; git ls-files --others")
                .lines()
                .filter(|name| *name != path)
                .count(),
            0
        );
    }
}

#[tokio::test]
async fn one_file_that_changes_meanwhile_takes_back_all_of_its_commit() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.inside("for n in a b c; do echo new > $n; done; echo agent > code; git rm -q readme; echo z > z; git add -A; git commit -qm second; echo loose > loose");
    scene.interrupt("read-tree -m -u", "echo users > z");
    let synced = scene.sync().await;
    assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["z"])));
    assert_eq!(synced.written(), paths(&["loose"]), "what is not committed comes all the same");
    assert_eq!(
        scene.host("git status --porcelain; cat z code readme"),
        "?? loose\n?? z\nusers\n1\n2\n3\n4\n5\none\ntwo\nthree"
    );
    scene.host("rm z");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain"), "?? loose");
}

#[tokio::test]
async fn untracked_and_ignored_files_stay_and_block_only_where_they_stand_in_the_way() {
    let scene = Scene::new();
    scene.host("echo '*.log' > .gitignore && git add -A && git commit --quiet -m ignore");
    scene.start().await;
    scene.write("host/notes", "mine\n");
    scene.write("host/run.log", "mine\n");
    scene.inside("echo theirs > other && git add -A && git commit --quiet -m other");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });

    scene.inside("echo theirs > run.log && git add -f run.log && git commit --quiet -m log");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::HostChanges(paths(&["run.log"])));
    scene.inside("git reset --quiet --hard HEAD~1 && echo theirs > notes");
    assert_eq!(scene.sync().await.files().conflicts, paths(&["notes"]));
    assert_eq!(
        (scene.read("host/notes").as_str(), scene.read("host/run.log").as_str()),
        ("mine\n", "mine\n")
    );
}

/// What git was told not to look at is the user's all the same.
#[tokio::test]
async fn files_that_git_does_not_look_at_stay() {
    for flag in ["--assume-unchanged", "--skip-worktree"] {
        let scene = Scene::new();
        scene.start().await;
        scene.host(&format!("git update-index {flag} readme code; echo mine > readme; git diff --exit-code"));
        scene.inside("echo agent > readme; git commit -qam second; echo loose > code");
        let synced = scene.sync().await;
        assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["readme"])), "{flag}");
        assert_eq!(scene.host("cat readme; git log --format=%s"), "mine\nfirst", "{flag}");
        assert_eq!(scene.read("host/code"), "loose\n", "{flag}: a file that is as it was is written");
        // As soon as it is what git has, the commit comes.
        scene.host("git show HEAD:readme > readme");
        assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 }, "{flag}");
        assert_eq!(scene.read("host/readme"), "agent\n", "{flag}");
    }
}

#[tokio::test]
async fn staged_changes_of_the_users_stay_staged() {
    let scene = Scene::new();
    scene.start().await;
    scene.host("echo mine > code; git add code; echo n > own; git add own");
    scene.inside("echo agent > readme; git commit -qam second");
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 });
    assert_eq!(scene.host("git status --porcelain; git log -1 --format=%s"), "M  code\nA  own\nsecond");
    scene.inside("echo agent > code; git commit -qam third");
    assert_eq!(scene.sync().await.waiting().why, WhyWaiting::HostChanges(paths(&["code"])));
    assert_eq!(scene.host("git status --porcelain; cat code"), "M  code\nA  own\nmine");
}

/// `git add --intent-to-add`, which earlier versions did for new files.
#[tokio::test]
async fn a_file_that_was_only_announced_is_no_reason_to_wait() {
    for (announce, moves) in
        [("touch soon", false), ("touch soon; git add -N soon; rm soon", true), ("echo theirs > soon", true)]
    {
        let scene = Scene::new();
        scene.start().await;
        scene.host(&format!("{announce}; [ ! -e soon ] || git add -N soon"));
        scene.inside("echo theirs > soon; git add soon; git commit -qm soon");
        let synced = scene.sync().await;
        if moves {
            assert_eq!(synced.commits(), CommitsOutcome::Moved { count: 1, dropped: 0 }, "{announce}");
            assert_eq!(scene.host("git status --porcelain; cat soon"), "theirs", "{announce}");
        } else {
            assert_eq!(synced.waiting().why, WhyWaiting::HostChanges(paths(&["soon"])), "it is another file");
        }
    }
}

#[tokio::test]
async fn a_user_who_is_in_the_middle_of_something_is_left_alone() {
    for (begin, name) in [
        (
            "git checkout -q -b other; echo other > code; git commit -qam other; git checkout -q main; echo own > code; git commit -qam own; git merge -q other || true",
            "merge",
        ),
        (
            "git checkout -q -b other; echo other > code; git commit -qam other; git checkout -q main; echo own > code; git commit -qam own; git cherry-pick other >/dev/null 2>&1 || true",
            "cherry-pick",
        ),
    ] {
        let scene = Scene::new();
        scene.start().await;
        scene.inside("echo agent > readme; git commit -qam second; echo loose > new");
        scene.host(begin);
        let before = scene.host("git status --porcelain; cat code");
        let synced = scene.sync().await;
        assert!(
            matches!(&synced.0.sync.trees[0].files, FilesOutcome::Waiting(WhyFilesWait::HostBusy(busy)) if *busy == name)
        );
        assert!(synced.0.sync.needs_user());
        assert_eq!(scene.host("git status --porcelain; cat code"), before, "{name}");
    }
}

#[tokio::test]
async fn uncommitted_work_comes_onto_the_users_newer_commits_or_is_a_conflict() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 6 >> code; echo new > new");
    scene.host("sed -i s/one/ONE/ readme && git commit -qam users");
    assert_eq!(scene.sync().await.written(), paths(&["code", "new"]));
    assert_eq!(scene.read("host/code"), "1\n2\n3\n4\n5\n6\n");

    scene.host("git add -A; git commit -qm taken; echo user > code; git commit -qam again");
    scene.inside("echo 7 >> code");
    let synced = scene.sync().await;
    assert_eq!(synced.files().conflicts, paths(&["code"]));
    assert_eq!(scene.read("host/code"), "user\n");
    // In an archive all of it is there.
    assert_eq!(scene.host(&format!("git show {}:files/code | tail -n1", scene.archive_ref(2))), "7");
}

#[tokio::test]
async fn only_some_paths_may_be_asked_for() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > readme; git commit -qam second; mkdir d; echo 1 > d/one; echo 2 > two");
    let synced = scene.sync_with(|options| options.only = paths(&["d", "readme"])).await.unwrap();
    assert_eq!(synced.waiting().why, WhyWaiting::NotAsked);
    assert_eq!(
        scene.host("git status --porcelain --untracked-files=all; git log --format=%s"),
        " M readme\n?? d/one\nfirst"
    );
    let synced = scene.sync().await;
    assert_eq!(
        (synced.commits(), synced.written()),
        (CommitsOutcome::Moved { count: 1, dropped: 0 }, paths(&["two"]))
    );
}

#[tokio::test]
async fn a_branch_that_a_rebase_or_a_bisect_holds_does_not_move() {
    for (begin, abort) in [
        (
            "git switch -qc other HEAD~1; echo other > code; git commit -qam other; git switch -q main; \
             git rebase other >/dev/null 2>&1 || :",
            "git rebase --abort",
        ),
        ("git bisect start -q HEAD HEAD~2 >/dev/null", "git bisect reset 2>/dev/null"),
    ] {
        let scene = Scene::new();
        scene.host("for i in 1 2 3; do echo $i > code; git commit -qam $i; done");
        scene.start().await;
        scene.inside("echo agent > agents; git add -A; git commit -qm agents; git switch -qc idea; git commit -q --allow-empty -m idea; git switch -q main");
        scene.host(begin);
        let before = scene.host("git rev-parse main");
        let synced = scene.sync().await;
        assert!(synced.0.sync.needs_user(), "{synced:?}");
        assert_eq!(scene.host("git rev-parse main"), before, "{synced:?}");
        assert_eq!(scene.host("git branch --list idea"), "", "everything waits: {synced:?}");
        scene.host(abort);
        let synced = scene.sync().await;
        assert!(!synced.0.sync.needs_user(), "{synced:?}");
        assert_eq!(
            scene.host(
                "git log -1 --format=%s main; git log -1 --format=%s idea; git branch --list 'palisade/*'"
            ),
            "agents\nidea"
        );
    }
}

#[tokio::test]
async fn a_branch_that_another_worktree_rebases_does_not_move() {
    let scene = Scene::new();
    scene.host("git branch side; for i in 1 2; do echo $i > code; git commit -qam $i; done");
    scene.start().await;
    scene.inside(
        "git switch -q side; echo agent > agents; git add -A; git commit -qm agents; git switch -q main",
    );
    scene.host(
        "git worktree add -q ../linked side; cd ../linked; echo mine > code; git commit -qam mine; \
         git rebase main >/dev/null 2>&1 || :",
    );
    let before = scene.host("git rev-parse side");
    scene.sync().await;
    assert_eq!(scene.host("git rev-parse side"), before);
}

#[tokio::test]
async fn a_new_branch_that_waited_because_only_some_files_were_asked_for_is_made_later() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git switch -qc idea; git commit -q --allow-empty -m idea; git switch -q main; echo x > x");
    let synced = scene.sync_with(|options| options.only = vec!["x".into()]).await.unwrap();
    assert!(synced.0.sync.needs_user(), "{synced:?}");
    assert_eq!(scene.host("git branch --list idea"), "");
    let synced = scene.sync().await;
    assert!(!synced.0.sync.needs_user(), "{synced:?}");
    assert_eq!(scene.host("git log -1 --format=%s idea; git branch --list 'palisade/*'"), "idea");
}

#[tokio::test]
async fn the_waiting_branch_of_an_earlier_version_makes_room() {
    for checked_out in [false, true] {
        let scene = Scene::new();
        let name = scene.refs.name().to_string();
        scene.host(&format!(
            "git switch -qc palisade/{name}; git commit -q --allow-empty -m earlier; git switch -q main"
        ));
        if checked_out {
            scene.host(&format!("git worktree add -q ../linked palisade/{name}"));
        }
        scene.start().await;
        scene.inside("git commit -q --allow-empty -m agents");
        scene.host("git commit -q --allow-empty -m users");
        scene.sync().await;
        let listed = scene.host(
            "git for-each-ref --format='%(refname:short) %(subject)' refs/heads/palisade refs/palisade/base",
        );
        let lines: Vec<&str> =
            listed.lines().filter(|line| line.starts_with("palisade/") && !line.contains("/base/")).collect();
        assert_eq!(
            lines,
            [format!("palisade/{name}/before earlier"), format!("palisade/{name}/main agents")],
            "{listed}"
        );
        if checked_out {
            assert_eq!(
                scene.host("git -C ../linked branch --show-current"),
                format!("palisade/{name}/before")
            );
        }
    }
}

/// Both sides have these files in common, and yet no sync has written them: they are changes of the user's.
#[tokio::test]
async fn files_of_a_commit_that_the_user_has_undone_are_never_taken_back() {
    // What the agent and the user do, and what the agent does after a sync.
    for (agent, user, agent_later) in [
        ("git reset -q --hard HEAD~1", "git reset -q HEAD~1", "true"),
        ("git reset -q HEAD~1", "git reset -q HEAD~1", "git checkout -q -- readme"),
        ("echo 9 >> readme; git commit -qam agents", "git reset -q HEAD~1", "true"),
    ] {
        let scene = Scene::new();
        scene.host("echo more >> readme; git commit -qam more");
        scene.start().await;
        scene.inside(agent);
        scene.host(user);
        let files = scene.read("host/readme");
        for round in ["first", "second", "third"] {
            let synced = scene.sync_with(|_| {}).await.unwrap();
            assert_eq!(scene.read("host/readme"), files, "{agent}; {round}: {synced:?}");
            assert_eq!(scene.host("git status --porcelain"), " M readme", "{agent}; {round}");
            if round == "first" {
                scene.host("git branch -q -D palisade/box/main 2>/dev/null || true");
                scene.inside(agent_later);
            }
        }
    }
}

#[tokio::test]
async fn what_a_sync_wrote_is_taken_back_also_after_another_start() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 9 >> readme; echo new > new; rm code");
    assert_eq!(scene.sync().await.written(), paths(&["code", "new", "readme"]));
    scene.start().await;
    scene.inside("git checkout -q -- readme code; rm new");
    let taken_back = scene.sync().await.files().taken_back;
    assert_eq!(taken_back, paths(&["code", "new", "readme"]));
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn without_the_note_of_what_was_written_nothing_is_taken_back() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo 9 >> readme");
    scene.sync().await;
    scene.host("rm -r .git/palisade/written");
    scene.inside("git checkout -q -- readme");
    assert_eq!(scene.sync().await.files().taken_back, paths(&[]));
    assert_eq!(scene.host("tail -n1 readme"), "9");
}

/// The branch is checked out on the host, and another one inside: only its commits come, and here they wait.
#[tokio::test]
async fn what_a_sync_wrote_stays_when_commits_of_a_branch_that_is_not_checked_out_inside_wait() {
    let scene = Scene::new();
    scene.host("for i in 1 2; do echo $i >> readme; git commit -qam $i; done");
    scene.start().await;
    scene.host("git reset -q --soft HEAD~2; git commit -qm squashed");
    scene.inside("echo agent >> readme");
    scene.sync().await;
    let written = scene.read("host/readme");
    scene.inside("git reset -q --soft HEAD~2; git commit -qm again; git switch -qc two; git commit -q --allow-empty -m two");
    scene.host("git reset -q HEAD~1");
    let synced = scene.sync_with(|_| {}).await.unwrap();
    assert_eq!(scene.read("host/readme"), written, "{synced:?}");
}
