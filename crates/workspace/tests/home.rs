//! Code goes in, work comes home, and nothing of the user's is lost on the way.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_core::GuestPath;
use palisade_workspace::{Applied, Arrival, Commits, Divergence, GitError, Waits, Work};
use support::{Here, Scene, branch, paths};

#[tokio::test]
async fn commits_and_uncommitted_work_come_home() {
    let scene = Scene::new();
    assert_eq!(scene.send().await, Arrival::Cloned);
    assert_eq!(
        scene.inside("git log --format='%an %s' && git status --short --branch"),
        "Ada first\n## main...origin/main"
    );
    scene.inside("echo four >> readme && git commit --quiet -am second && echo 6 >> code && mkdir d && echo new > d/n && git rm --quiet readme");

    let applied = scene.sync(Divergence::Wait).await;

    let laid = Work::Laid { paths: paths(&["code", "d/n", "readme"]) };
    assert_eq!(applied, Applied { commits: Commits::Forwarded(1), work: laid });
    assert_eq!(scene.host("git log --format=%s"), "second\nfirst");
    assert_eq!(scene.host("git diff --name-status"), "M\tcode\nA\td/n\nD\treadme");
    assert_eq!((scene.read("host/code").lines().last(), scene.exists("host/readme")), (Some("6"), false));
}

#[tokio::test]
async fn a_second_sync_replaces_what_the_first_laid() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo draft > code && echo x > extra");
    scene.sync(Divergence::Wait).await;
    scene.inside("echo better > code && rm extra");

    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied, Applied { commits: Commits::Same, work: Work::Laid { paths: paths(&["code"]) } });
    assert_eq!((scene.read("host/code").as_str(), scene.exists("host/extra")), ("better\n", false));

    scene.inside("git commit --quiet -am done");
    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied, Applied { commits: Commits::Forwarded(1), work: Work::None });
    assert_eq!(
        scene.host("git status --porcelain && git for-each-ref --format='%(refname)'"),
        "refs/heads/main\nrefs/palisade/box/heads/main"
    );
}

#[tokio::test]
async fn a_file_may_come_home_as_a_directory_and_a_directory_as_a_file() {
    let scene = Scene::new();
    scene.host("mkdir d && echo 1 > d/n && git add -A && git commit --quiet -m directory");
    scene.send().await;
    scene.inside("git rm --quiet -r code d && mkdir code && echo 1 > code/n && echo 2 > d && git add -A && git commit --quiet -m swap");
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    assert_eq!((scene.read("host/code/n").as_str(), scene.read("host/d").as_str()), ("1\n", "2\n"));
    assert_eq!(scene.host("git status --porcelain"), "");
}

#[tokio::test]
async fn what_an_ended_sync_has_left_is_in_nobodys_way() {
    let scene = Scene::new();
    scene.send().await;
    scene.write("host/.git/palisade-index.lock", "");
    scene.write("host/.git/palisade-index", "half of one");
    scene.host("ln .git/palisade-index .git/index.lock");
    // An older pack is somebody else's; a newer one is what came of the fetch that was ended.
    scene.write("host/.git/objects/pack/tmp_pack_old", "");
    scene.host(
        "touch -d '1 hour ago' .git/objects/pack/tmp_pack_old && touch -d '1 minute ago' .git/palisade-fetch",
    );
    scene.write("host/.git/objects/pack/tmp_pack_new", "half of one");
    scene.inside("echo four >> readme && git commit --quiet -am second && echo 6 >> code");
    let work = Work::Laid { paths: paths(&["code"]) };
    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied, Applied { commits: Commits::Forwarded(1), work });
    assert_eq!(
        scene.host(
            "git status --porcelain; ls .git | grep -e palisade- -e lock; ls .git/objects/pack | grep tmp_"
        ),
        " M code\npalisade.lock\ntmp_pack_old"
    );
}

#[tokio::test]
async fn an_index_that_somebody_works_on_is_left_to_git() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo four >> readme && git commit --quiet -am second");
    scene.write("host/.git/index.lock", "");
    let error = scene.try_sync(Divergence::Wait).await.unwrap_err().to_string();
    assert!(error.contains("index.lock"), "{error}");
    std::fs::remove_file(scene.path("host/.git/index.lock")).unwrap();
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    assert_eq!(scene.host("git status --porcelain; git log --format=%s"), "second\nfirst");
}

#[tokio::test]
async fn a_change_of_the_users_blocks_and_is_never_overwritten() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo agent > code && git commit --quiet -am second && echo more > readme");
    scene.write("host/readme", "the user's\n");

    let applied = scene.sync(Divergence::Wait).await;

    let why = Waits::HostChanges(paths(&["readme"]));
    let expected =
        Applied { commits: Commits::Waiting { count: 1, why: why.clone() }, work: Work::Waiting { why } };
    assert_eq!(applied, expected);
    assert_eq!(
        scene.host("git log --format=%s main; git log --format=%s palisade/box"),
        "first\nsecond\nfirst"
    );
    assert_eq!(scene.read("host/readme"), "the user's\n");

    scene.host("git checkout --quiet readme");
    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(
        applied,
        Applied { commits: Commits::Forwarded(1), work: Work::Laid { paths: paths(&["readme"]) } }
    );
}

/// The look at the user's files is moments old when they are written.
#[tokio::test]
async fn a_change_that_the_user_makes_while_work_comes_home_is_not_overwritten() {
    // Of a commit's file; of a file that was laid by us before; at a path that is new.
    for (before, agent, path) in [
        ("", "echo agent > readme && git commit --quiet -am second", "readme"),
        ("echo laid > readme", "echo again > readme", "readme"),
        ("", "echo theirs > new", "new"),
    ] {
        let scene = Scene::new();
        scene.send().await;
        scene.inside(&format!("true; {before}"));
        scene.sync(Divergence::Wait).await;
        scene.inside(agent);
        let place = format!("host/{path}");

        let outcome = scene.try_sync_while(|| scene.write(&place, "users\n")).await;

        // Git refuses to write over it, or it was seen in time.
        let why = Waits::HostChanges(paths(&[path]));
        let waits = Applied { commits: Commits::Same, work: Work::Waiting { why } };
        match outcome {
            Err(GitError::Failed { what, .. }) => assert!(what.contains("read-tree"), "{agent}: {what}"),
            other => assert_eq!(other.unwrap(), waits, "{agent}"),
        }
        assert_eq!(scene.read(&place), "users\n", "{agent}");
        assert_eq!(scene.host("git log --format=%s"), "first", "{agent}");
    }
}

#[tokio::test]
async fn untracked_and_ignored_files_stay_and_block_only_where_they_stand_in_the_way() {
    let scene = Scene::new();
    scene.host("echo '*.log' > .gitignore && git add -A && git commit --quiet -m ignore");
    scene.send().await;
    scene.write("host/notes", "mine\n");
    scene.write("host/run.log", "mine\n");
    scene.inside("echo theirs > other && git add -A && git commit --quiet -m other");
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));

    scene.inside("echo theirs > run.log && git add -f run.log && git commit --quiet -m log");
    let why = Waits::HostChanges(paths(&["run.log"]));
    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Waiting { count: 1, why });
    scene.inside("git reset --quiet --hard HEAD~1 && echo theirs > notes");
    let why = Waits::HostChanges(paths(&["notes"]));
    assert_eq!(scene.sync(Divergence::Wait).await.work, Work::Waiting { why });
    assert_eq!(
        (scene.read("host/notes").as_str(), scene.read("host/run.log").as_str()),
        ("mine\n", "mine\n")
    );
}

#[tokio::test]
async fn when_both_sides_have_commits_they_wait_or_are_merged() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo four >> readme && git commit --quiet -am agents && echo w > work");
    scene.host("sed -i s/1/one/ code && git commit --quiet -am users");

    let applied = scene.sync(Divergence::Wait).await;
    let why = Waits::Diverged { hosts: 1 };
    assert_eq!(
        applied,
        Applied { commits: Commits::Waiting { count: 1, why }, work: Work::Waiting { why: Waits::Commits } }
    );
    assert_eq!(scene.host("git status --porcelain; git log -1 --format=%s palisade/box"), "agents");

    let applied = scene.sync(Divergence::Merge).await;
    assert_eq!(
        applied,
        Applied { commits: Commits::Merged(1), work: Work::Laid { paths: paths(&["work"]) } }
    );
    assert_eq!(
        scene.host("git log --format=%s --no-merges | sort && git status --porcelain"),
        "agents\nfirst\nusers\n A work"
    );
}

#[tokio::test]
async fn a_merge_that_conflicts_leaves_ordinary_conflicts() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo agent > readme && git commit --quiet -am agents");
    scene.host("echo user > readme && git commit --quiet -am users");

    let applied = scene.sync(Divergence::Merge).await;

    let why = Waits::Conflicts(paths(&["readme"]));
    assert_eq!(applied, Applied { commits: Commits::Waiting { count: 1, why }, work: Work::None });
    assert_eq!(scene.host("git status --porcelain"), "UU readme");
    assert!(scene.read("host/readme").contains("<<<<<<< HEAD\nuser\n=======\nagent\n"));
}

#[tokio::test]
async fn uncommitted_work_fits_onto_the_users_newer_commits_or_waits() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo 6 >> code");
    scene.host("sed -i s/1/one/ code && git commit --quiet -am users");
    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied, Applied { commits: Commits::Same, work: Work::Laid { paths: paths(&["code"]) } });
    assert_eq!(scene.read("host/code"), "one\n2\n3\n4\n5\n6\n");

    scene.host("git commit --quiet -am taken && echo user > code && git commit --quiet -am again");
    let applied = scene.sync(Divergence::Wait).await;
    assert_eq!(applied.work, Work::Waiting { why: Waits::Overlaps(paths(&["code"])) });
    assert_eq!(scene.read("host/code"), "user\n");
}

#[tokio::test]
async fn a_sync_that_was_ended_half_way_is_finished_by_the_next() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo agent > code && git commit --quiet -am second && echo work > readme && echo n > new");
    // As a kill leaves it: the fetch is done, the intent recorded, one of three files written, no branch moved.
    let half = scene.sync(Divergence::Wait).await;
    assert_eq!(half.commits, Commits::Forwarded(1));
    scene.host("git update-ref refs/palisade/box/applying/x refs/palisade/box/applied && git update-ref -d refs/palisade/box/applied");
    scene.host("git reset --quiet --soft HEAD~1 && git checkout --quiet HEAD -- readme && git rm --quiet --cached new && rm new && git reset --quiet");
    assert_eq!(scene.host("git status --porcelain"), " M code");

    let applied = scene.sync(Divergence::Wait).await;

    assert_eq!(
        applied,
        Applied { commits: Commits::Forwarded(1), work: Work::Laid { paths: paths(&["new", "readme"]) } }
    );
    assert_eq!(
        scene.host("git status --porcelain && git for-each-ref --format='%(refname:lstrip=3)' refs/palisade"),
        " A new\n M readme\napplied\nheads/main\nwork/main"
    );
}

#[tokio::test]
async fn a_branch_that_is_not_checked_out_only_moves_its_ref() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("git switch --quiet -c feature && echo f > f && git add -A && git commit --quiet -m feature && echo g > g");
    let applied = scene.sync(Divergence::Wait).await;
    let why = Waits::OtherBranch(branch("main"));
    assert_eq!(applied, Applied { commits: Commits::Forwarded(1), work: Work::Waiting { why } });
    assert_eq!(scene.host("git log --format=%s feature && git status --porcelain"), "feature\nfirst");
}

#[tokio::test]
async fn a_second_start_brings_the_hosts_commits_where_nothing_is_in_the_way() {
    let scene = Scene::new();
    scene.send().await;
    assert_eq!(scene.send().await, Arrival::Same);
    scene.host("echo more >> readme && git commit --quiet -am more");
    assert_eq!(scene.send().await, Arrival::Forwarded);
    assert_eq!(scene.inside("git log -1 --format=%s && git status --porcelain"), "more");

    scene.inside("echo agent > code && git commit --quiet -am agents");
    assert_eq!(scene.send().await, Arrival::Ahead { own: 1 });
    scene.host("echo again >> readme && git commit --quiet -am again");
    assert_eq!(scene.send().await, Arrival::Diverged { own: 1, hosts: 1, dirty: false });
    scene.inside("git reset --quiet --hard HEAD~1 && echo dirt >> readme");
    assert_eq!(scene.send().await, Arrival::Diverged { own: 0, hosts: 1, dirty: true });
    assert_eq!(scene.inside("tail -n1 readme"), "dirt");
}

#[tokio::test]
async fn branches_and_worktrees_inside_are_listed_and_made() {
    let scene = Scene::new();
    scene.send().await;
    let place = GuestPath::new(scene.path("inside/.worktrees/side").display().to_string()).unwrap();
    let tree = scene.tree(&Here);
    tree.add_worktree(&branch("side"), &place).await.unwrap();

    let trees = tree.trees().await.unwrap();
    let names: Vec<&str> = trees.branches.iter().map(|(name, _)| name.as_str()).collect();
    assert_eq!(names, ["main", "side"]);
    let inside = GuestPath::new(scene.path("inside").display().to_string()).unwrap();
    assert_eq!(trees.trees, [(inside, branch("main")), (place.clone(), branch("side"))]);
    assert_eq!(scene.inside("git status --porcelain"), "");

    tree.remove_worktree(&place).await.unwrap();
    assert_eq!(tree.trees().await.unwrap().trees.len(), 1);
}

#[tokio::test]
async fn what_would_be_lost_is_described_by_commits_and_files() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside(
        "echo x > code && git commit --quiet -am 'rewrite \u{1b}[31m' && echo y > readme && echo z > new",
    );
    let tree = scene.tree(&Here);
    tree.snapshot().await.unwrap();
    let description = tree.describe(&branch("main"), None).await.unwrap();
    let id = scene.inside("git rev-parse --short HEAD");
    assert_eq!(description.commits, [format!("{id} rewrite \\u{{1b}}[31m")]);
    assert_eq!(description.files, ["new", "readme"]);
}

/// Git knows files by second and size; a change right after a commit has neither.
#[tokio::test]
async fn a_change_within_the_same_second_and_of_the_same_size_comes_home() {
    let scene = Scene::new();
    scene.send().await;
    for round in ["a", "b", "c"] {
        scene.inside(&format!("echo {round}1 > readme && git commit -qam {round} && echo {round}2 > readme"));
        let applied = scene.sync(Divergence::Wait).await;
        assert_eq!(applied.work, Work::Laid { paths: paths(&["readme"]) });
        assert_eq!(scene.read("host/readme"), format!("{round}2\n"));
    }
}

#[tokio::test]
async fn several_that_come_home_at_once_take_turns() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("echo work > code && echo more > new");
    scene.sync(Divergence::Wait).await;
    let syncs = (0..4).map(|_| scene.sync(Divergence::Wait));
    let mut syncs: Vec<_> = syncs.map(Box::pin).collect();
    let (first, rest) = syncs.split_at_mut(2);
    let (one, two) = first.split_at_mut(1);
    let (three, four) = rest.split_at_mut(1);
    let expected = Applied { commits: Commits::Same, work: Work::Laid { paths: paths(&["code", "new"]) } };
    let all = tokio::join!(&mut one[0], &mut two[0], &mut three[0], &mut four[0]);
    assert_eq!(all, (expected.clone(), expected.clone(), expected.clone(), expected));
}
