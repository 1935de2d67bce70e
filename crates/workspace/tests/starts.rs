//! A start after the first: the sandbox follows the host, unless that would move work that is nowhere else.
#![allow(clippy::unwrap_used, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_core::{GuestPath, RefScope};
use palisade_workspace::{Arrival, ExchangeError, OnUnapplied, OnUncommitted, WhyStayed};
use support::{Scene, branch};

const FOLLOWED: Arrival = Arrival::Followed { moved: true };

#[tokio::test]
async fn a_second_start_brings_the_hosts_commits_where_nothing_is_in_the_way() {
    let scene = Scene::new();
    scene.start().await;
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: false });
    scene.host("echo more >> readme && git commit -qam more");
    assert_eq!(scene.start().await.arrival, FOLLOWED);
    assert_eq!(scene.inside("git log -1 --format=%s && git status --porcelain"), "more");

    scene.inside("echo agent > code && git commit -qam agents");
    assert_eq!(scene.start().await.arrival, Arrival::Stayed(WhyStayed::UnappliedWork));
    scene.host("echo again >> readme && git commit -qam again");
    assert_eq!(scene.start().await.arrival, Arrival::Stayed(WhyStayed::UnappliedWork));
    scene.inside("git reset -q --hard HEAD~1 && echo dirt >> readme");
    assert_eq!(scene.start().await.arrival, Arrival::Stayed(WhyStayed::UnappliedWork));
    assert_eq!(
        scene.inside("tail -n1 readme; git log -1 --format=%s host/main"),
        "dirt\nagain",
        "the host's branch is seen"
    );
}

#[tokio::test]
async fn work_that_must_make_way_is_archived_first() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo agent > code && git commit -qam agents && echo loose > loose && echo dirt >> readme");
    scene.host("echo newer >> readme && git commit -qam newer");
    let report = scene.start_with(|options| options.on_unapplied = OnUnapplied::FollowHost).await.unwrap();
    assert_eq!(report.arrival, FOLLOWED);
    assert_eq!(scene.inside("git log --format=%s; git status --porcelain; ls"), "newer\nfirst\ncode\nreadme");
    let archive = scene.archive_ref(1);
    assert_eq!(
        scene.host(&format!("git show {archive}:files/loose; git show {archive}:files/readme | tail -n1; git log --format=%s {archive} | grep agents")),
        "loose\ndirt\nagents"
    );
    assert_eq!(
        scene.host("git status --porcelain; git log --format=%s"),
        "newer\nfirst",
        "nothing was brought"
    );
}

/// Found by random sequences: the branch that the working tree left stayed where it was inside, was taken for one that the
/// agent had rewritten, and the user's own commit was dropped for it.
#[tokio::test]
async fn a_branch_that_the_working_tree_leaves_follows_what_the_user_made_of_it() {
    let scene = Scene::new();
    scene.host("echo one > one && git add . && git commit -qm one && echo two > two && git add . && git commit -qm two");
    scene.start().await;
    scene.host("git reset -q --soft HEAD~2 && git commit -qm squashed && git switch -qc topic");
    scene.host("echo topic > topic && git add . && git commit -qm topic");
    assert_eq!(scene.start().await.arrival, FOLLOWED);
    assert_eq!(scene.inside("git log --format=%s main; git status --porcelain"), "squashed\nfirst");
    let synced = scene.merge().await;
    assert!(synced.is_nothing(), "{synced:?}");
    assert_eq!(scene.host("git log --format=%s main"), "squashed\nfirst");
    // What the agent does to that commit waits: it is not its own.
    scene.inside("git branch -f main main~1");
    assert!(scene.sync().await.is_nothing());
    scene.inside("git branch -f main $(git commit-tree -p main -m agents main^{tree})");
    scene.sync().await;
    assert_eq!(scene.host("git log --format=%s main"), "squashed\nfirst");
}

/// A branch that is checked out in another worktree inside does not follow, and counts as it is.
#[tokio::test]
async fn a_branch_of_a_worktree_inside_does_not_undo_what_the_user_made_of_it() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git worktree add -q -b topic .worktrees/topic && cd .worktrees/topic && echo t > t && git add . && git commit -qm agents");
    scene.sync().await;
    scene.host("git switch -q topic && git commit -q --amend -m amended && git switch -q main");
    scene.host("echo more >> readme && git commit -qam more");
    scene.start().await;
    assert_eq!(scene.inside("git log -1 --format=%s topic"), "agents", "its working tree is in use");
    let synced = scene.merge().await;
    assert!(synced.is_nothing(), "{synced:?}");
    assert_eq!(scene.host("git log -1 --format=%s topic; git branch --list 'palisade/*'"), "amended");
}

/// Found by random sequences: a branch followed the host although a rebase was at work on it, and what the user dropped
/// afterwards came back, since the start had not remembered that it had followed.
#[tokio::test]
async fn a_branch_that_is_being_rebased_stays_where_it_is() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside(
        "git switch -q -c topic && echo topic > readme && git commit -qam topic && git switch -q main",
    );
    scene.inside("echo main > readme && git commit -qam agents");
    scene.sync().await;
    scene.inside("git rebase -q topic || :");
    scene.host("git commit -q --allow-empty -m users");
    scene.start().await;
    assert_eq!(scene.inside("git log -1 --format=%s main"), "agents");
    scene.host("git reset -q --hard HEAD~1");
    scene.sync().await;
    assert_eq!(scene.host("git log -1 --format=%s"), "agents");
    assert_eq!(scene.inside("echo both > readme; git add readme; GIT_EDITOR=: git rebase --continue >/dev/null 2>&1; git log -1 --format=%s main^"), "topic");
}

/// A branch that followed the host while the working tree stayed is remembered, so that what the user drops stays so.
#[tokio::test]
async fn a_branch_that_follows_while_the_working_tree_stays_is_remembered() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("git switch -q --detach && echo loose > loose");
    scene.host("git commit -q --allow-empty -m users");
    assert_eq!(scene.start().await.arrival, Arrival::Stayed(WhyStayed::UnappliedWork));
    assert_eq!(scene.inside("git log -1 --format=%s main"), "users");
    scene.host("git reset -q --hard HEAD~1");
    scene.sync().await;
    assert_eq!(scene.host("git log -1 --format=%s"), "first");
}

/// The agent goes on while it is looked at.
#[tokio::test]
async fn work_that_appears_during_a_start_is_archived_before_it_makes_way() {
    let mut scene = Scene::new();
    scene.start().await;
    scene.host("echo newer >> readme && git commit -qam newer");
    let late = format!(
        "cd {} && [ -e ../late ] || {{ touch ../late; echo late > late; echo late >> code; }}",
        scene.workspace()
    );
    scene.replace_guest("follow", &format!("({late})"));
    let report = scene.start_with(|options| options.on_unapplied = OnUnapplied::FollowHost).await.unwrap();
    assert_eq!(report.arrival, FOLLOWED);
    assert_eq!(scene.inside("git status --porcelain; ls"), "code\nreadme");
    assert_eq!(scene.host(&format!("git show {}:files/late", scene.archive_ref(1))), "late");
    // And one that never rests is not moved at all.
    scene.host("echo newest >> readme && git commit -qam newest");
    scene.replace_guest("follow", &format!("(cd {} && date +%N > restless)", scene.workspace()));
    let error = scene.start_with(|options| options.on_unapplied = OnUnapplied::FollowHost).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Restless), "{error}");
    assert_eq!(scene.inside("git log -1 --format=%s; ls restless"), "newer\nrestless");
}

#[tokio::test]
async fn a_busy_sandbox_and_one_whose_worktree_has_the_branch_stay() {
    let scene = Scene::new();
    scene.host("git branch side");
    scene.start().await;
    scene.host("echo more >> readme && git commit -qam more");
    let busy = scene.start_with(|options| options.is_busy = true).await.unwrap();
    assert_eq!(busy.arrival, Arrival::Stayed(WhyStayed::Busy));
    scene.inside("git worktree add -q .worktrees/side side");
    scene.host("git checkout -q side");
    assert_eq!(scene.start().await.arrival, Arrival::Stayed(WhyStayed::InWorktree));
    assert_eq!(scene.inside("git log -1 --format=%s; git -C .worktrees/side status --porcelain"), "first");
}

#[tokio::test]
async fn changes_of_the_users_are_refused_left_behind_or_included() {
    let scene = Scene::new();
    scene.host("echo mine > code; echo new > new; rm readme; ln -s code link; chmod +x code");
    let error = scene.start_with(|_| {}).await.unwrap_err();
    let ExchangeError::Uncommitted { changes, .. } = error else { unreachable!("{error}") };
    assert_eq!(changes.len(), 4);
    let left = scene.start_with(|options| options.on_uncommitted = OnUncommitted::LeaveBehind).await.unwrap();
    assert_eq!((left.left_behind, scene.inside("git status --porcelain; ls").as_str()), (4, "code\nreadme"));
    let included = scene.start_with(|options| options.on_uncommitted = OnUncommitted::Include).await.unwrap();
    assert_eq!((included.left_behind, included.arrival), (0, FOLLOWED));
    assert_eq!(
        scene.inside("git status --porcelain; cat code; test -x code; readlink link"),
        " M code\n D readme\n?? link\n?? new\nmine\ncode"
    );
    // They are on both sides now, so nothing is new.
    assert!(!scene.sync().await.0.sync.has_unapplied_work());
    assert_eq!(scene.host("git status --porcelain"), " M code\n D readme\n?? link\n?? new");
}

#[tokio::test]
async fn only_the_branch_goes_in_when_that_is_asked_for() {
    let scene = Scene::new();
    scene.host("git checkout -q -b private; echo secret > secret; git add -A; git commit -qm secret; git tag hidden; git checkout -q main");
    let secret = scene.host("git rev-parse private");
    let report = scene.start_with(|options| options.scope = RefScope::Branch).await.unwrap();
    assert_eq!((report.branches, report.tags), (1, 0));
    assert_eq!(
        scene.inside(&format!(
            "git for-each-ref --format='%(refname)'; git cat-file -e {secret} 2>&1 || echo none"
        )),
        "refs/heads/main\nrefs/remotes/host/main\nnone"
    );
}

#[tokio::test]
async fn worktrees_inside_are_made_and_removed() {
    let scene = Scene::new();
    scene.start().await;
    let place = GuestPath::new(format!("{}/.worktrees/side", scene.workspace())).unwrap();
    let trees = async || {
        scene.exchange(async |exchange| exchange.sandbox.survey().await.unwrap().unwrap().main).await
    };
    let survey = trees().await;
    scene
        .exchange(async |exchange| {
            exchange.sandbox.add_worktree(&survey, &branch("side"), &place).await.unwrap()
        })
        .await;
    let survey = trees().await;
    let found: Vec<_> = survey.trees.iter().map(|tree| (tree.path.clone(), tree.branch.clone())).collect();
    let workspace = GuestPath::new(scene.workspace()).unwrap();
    assert_eq!(found, [(workspace, Some(branch("main"))), (place.clone(), Some(branch("side")))]);
    assert_eq!(scene.inside("git status --porcelain"), "");
    scene.exchange(async |exchange| exchange.sandbox.remove_worktree(&place).await.unwrap()).await;
    assert_eq!(trees().await.trees.len(), 1);
}

#[tokio::test]
async fn what_an_agent_did_is_shown_with_its_escapes_as_text() {
    let scene = Scene::new();
    scene.start().await;
    scene.inside("echo x > code && git commit -qam \"rewrite $(printf '\\033[31m')\" && printf 'y\\033]0;t\\007\\n' > readme && echo z > new");
    let (diff, log) = scene
        .exchange(async |exchange| {
            let survey = exchange.sandbox.survey().await.unwrap().unwrap();
            let tree = survey.main_tree().unwrap();
            let diff = exchange.sandbox.diff(tree).await.unwrap();
            (diff, exchange.sandbox.log(tree.head.as_ref().unwrap()).await.unwrap())
        })
        .await;
    assert!(diff.contains("+y\\u{1b}]0;t\\u{7}") && diff.contains("+++ b/new"), "{diff}");
    assert!(log.contains("rewrite \\u{1b}[31m") && !log.contains("first"), "{log}");
    assert!(!diff.contains('\u{1b}') && !log.contains('\u{1b}'));
}

/// The agent throws away what was not committed when it began: that is no reason to throw away the user's.
#[tokio::test]
async fn changes_that_went_in_stay_the_users() {
    let scene = Scene::new();
    let include = || scene.start_with(|options| options.on_uncommitted = OnUncommitted::Include);
    scene.host("echo mine > readme; echo mine > untracked");
    include().await.unwrap();
    scene.inside("git reset -q --hard; git clean -qfd");
    let synced = scene.sync().await;
    assert_eq!((synced.files().taken_back, synced.written()), (vec![], vec![]));
    assert_eq!(scene.host("cat readme untracked"), "mine\nmine");
    // Also where they go in once more, unasked because both sides knew them.
    include().await.unwrap();
    scene.start().await;
    scene.inside("git reset -q --hard; git clean -qfd");
    scene.sync().await;
    assert_eq!(scene.host("cat readme untracked"), "mine\nmine");
}

#[tokio::test]
async fn changes_that_went_in_and_were_worked_on_are_archived_before_they_are_replaced() {
    let scene = Scene::new();
    scene.host("echo mine > readme; echo mine > code");
    scene.start_with(|options| options.on_uncommitted = OnUncommitted::Include).await.unwrap();
    scene.inside("echo agents > code; git commit -qm agents code; echo agents > readme");
    let synced = scene.sync().await;
    assert_eq!(synced.written(), support::paths(&["readme"]));
    assert_eq!(scene.host("cat readme code; git log -1 --format=%s"), "agents\nagents\nagents");
    let archives = scene.host("git for-each-ref --format='%(refname)' refs/palisade/archive");
    let last = archives.lines().last().unwrap();
    assert_eq!(scene.host(&format!("git show {last}:yours/readme {last}:yours/code")), "mine\nmine");
    // What a sync has written is not the user's.
    scene.inside("git checkout -q readme");
    assert_eq!(scene.sync().await.files().taken_back, support::paths(&["readme"]));
}

#[tokio::test]
async fn a_branch_that_the_user_has_deleted_is_not_made_again_after_a_start() {
    let scene = Scene::new();
    scene.host("git branch topic");
    scene.start().await;
    scene.host("git branch -q -D topic");
    scene.start().await;
    assert!(!scene.sync().await.0.sync.has_unapplied_work());
    assert_eq!(scene.host("git branch --format='%(refname:short)'"), "main");
}

/// What a commit held is the user's change once the user has undone the commit.
#[tokio::test]
async fn files_of_a_commit_that_the_user_has_undone_are_not_taken_back() {
    for starts_again in [false, true] {
        let scene = Scene::new();
        scene.host("echo third > readme; git commit -qam third");
        scene.start().await;
        scene.host("git reset -q HEAD~1");
        if starts_again {
            scene.start().await;
            scene.inside("git reset -q --hard");
        } else {
            scene.inside("git reset -q --hard HEAD~1");
        }
        assert_eq!(scene.sync().await.files().taken_back, support::paths(&[]));
        assert_eq!(scene.host("cat readme; git log -1 --format=%s"), "third\nfirst");
    }
}
