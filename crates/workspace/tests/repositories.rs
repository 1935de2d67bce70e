//! Host repositories of every kind: without a name for commits, shallow, with another hash, with several working trees,
//! with submodules.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod support;

use palisade_workspace::{
    Arrival, BranchSelection, CommitsOutcome, ExchangeError, FilesOutcome, Limit, NotUsable, WhyFilesWait,
    WhyWaiting,
};
use support::{Scene, branch, paths};

const MOVED: CommitsOutcome = CommitsOutcome::Moved { count: 1, dropped: 0 };

#[tokio::test]
async fn a_host_without_a_name_for_commits_gets_work_and_merges() {
    let scene = Scene::new();
    scene.host(
        "git config --unset user.name; git config --unset user.email; git config user.useConfigOnly true",
    );
    scene.start().await;
    let agent = "git -c user.name=agent -c user.email=a@b";
    scene.inside(&format!("echo agent > code; {agent} commit -qam one; echo loose > loose"));
    assert_eq!(scene.sync().await.commits(), MOVED);
    scene.inside(&format!("echo two > two; git add two; {agent} commit -qm two"));
    scene.host("echo own > readme; git -c user.name=u -c user.email=u@v commit -qam own");
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    assert_eq!(scene.host("git log -1 --format='%an %cn'"), "palisade palisade");
    // Conflicts are left in the working tree all the same.
    scene.inside(&format!("echo theirs > readme; {agent} commit -qam theirs"));
    assert_eq!(scene.merge().await.waiting().why, WhyWaiting::Conflicts(paths(&["readme"])));
}

#[tokio::test]
async fn a_shallow_host_sends_what_it_has_and_gets_work_back() {
    let scene = Scene::new();
    scene.host("for n in 1 2 3; do git commit -q --allow-empty -m $n; done; cd ..; git clone -q --depth 2 file://$PWD/host shallow 2>/dev/null; rm -rf host; mv shallow host; cd host; git config user.name Ada; git config user.email ada@example.org");
    assert_eq!(scene.start().await.arrival, Arrival::Cloned);
    assert_eq!(scene.inside("git log --format=%s; git fsck --strict --no-dangling 2>&1"), "3\n2");
    scene.inside("echo agent > code; git commit -qam agent; echo loose > loose");
    assert_eq!(scene.sync().await.commits(), MOVED);
    assert_eq!(
        scene.host("git log --format=%s; git status --porcelain; git fsck --strict --no-dangling 2>&1"),
        "agent\n3\n2\n?? loose"
    );
    // Later the host has more of the history, and so has the sandbox.
    scene.host("git remote set-url origin file://$PWD/../full; git init -q --bare ../full; git commit -q --allow-empty -m more");
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: true });
    assert_eq!(scene.inside("git log -1 --format=%s; git status --porcelain"), "more\n?? loose");
}

#[tokio::test]
async fn a_repository_with_the_longer_hash_goes_in_and_comes_back() {
    let scene = Scene::of_format("sha256");
    assert_eq!(scene.start().await.arrival, Arrival::Cloned);
    scene.inside("echo agent > code; git commit -qam agent; echo loose > readme; git stash -q; echo new > new; git tag -a -m tag v1; git init -q nested; cd nested; echo deep > deep");
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.written()), (MOVED, paths(&["new"])));
    assert_eq!(synced.0.archived.nested.len(), 1, "a nested one may have the other hash");
    assert!(scene.sync().await.0.archived.main.archive.is_none());
    scene.host("git commit -q --allow-empty -m host; git fsck --strict --no-dangling 2>&1");
    scene.inside("echo more >> code; git commit -qam more");
    assert_eq!(scene.merge().await.commits(), CommitsOutcome::Merged { count: 1 });
    assert_eq!(scene.start().await.arrival, Arrival::Followed { moved: true });
    assert_eq!(
        scene.inside("git log -1 --format=%s; git status --porcelain").lines().next(),
        Some("Merge the work of box on main")
    );
}

#[tokio::test]
async fn work_on_a_branch_goes_to_the_working_tree_that_has_it() {
    let scene = Scene::new();
    scene.host("git worktree add -q -b feature ../feature; echo mine > ../feature/notes");
    scene.start().await;
    scene.inside(
        "git worktree add -q '.worktrees/a b' feature; cd '.worktrees/a b'; echo f > f; git add f; git commit -qm f; echo loose > loose; cd ../..
         echo m > m; git add m; git commit -qm m",
    );
    // Files of other working trees wait until they are asked for; commits come, with the files that they change.
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.branch("feature").unwrap().commits.clone()), (MOVED, MOVED));
    assert_eq!(
        scene.host("git status --porcelain; ls; git -C ../feature status --porcelain; ls ../feature"),
        "code\nm\nreadme\n?? notes\ncode\nf\nnotes\nreadme"
    );
    let synced = scene
        .sync_with(|options| options.selection = BranchSelection::Worktree(branch("feature")))
        .await
        .unwrap();
    assert_eq!(synced.written(), paths(&["loose"]));
    assert_eq!(
        scene.host("cat ../feature/loose; git -C ../feature status --porcelain"),
        "loose\n?? loose\n?? notes"
    );
    // A change of the user's in that working tree is in the way there, and nowhere else.
    scene.host("echo users > ../feature/f");
    scene.inside("cd '.worktrees/a b'; echo again > f; git commit -qam again; cd ../..; echo more > m; git commit -qam more");
    let synced = scene.sync_with(|options| options.selection = BranchSelection::All).await.unwrap();
    assert_eq!(synced.commits(), MOVED);
    let CommitsOutcome::Waiting(waiting) = &synced.branch("feature").unwrap().commits else {
        panic!("{synced:?}")
    };
    assert_eq!(waiting.why, WhyWaiting::HostChanges(paths(&["f"])));
    assert_eq!(scene.host("cat ../feature/f"), "users");
}

/// The user works in a working tree beside the main one.
#[tokio::test]
async fn a_sandbox_of_another_working_tree_than_the_main_one() {
    let mut scene = Scene::new();
    scene.host("git worktree add -q -b feature ../feature");
    scene.root = "feature".into();
    assert_eq!(scene.start().await.branch, branch("feature"));
    scene.inside("echo agent > code; git commit -qam agent; echo loose > loose; git checkout -q -b side; git commit -q --allow-empty -m side; git checkout -q feature");
    let synced = scene.sync().await;
    assert_eq!(synced.branch("feature").unwrap().commits, MOVED);
    assert_eq!(synced.written(), paths(&["loose"]));
    assert_eq!(scene.host("git status --porcelain; git log --format=%s; cd ../feature; git status --porcelain; git log --format=%s; git log -1 --format=%s side"), "first\n?? loose\nagent\nfirst\nside");
    assert_eq!(
        scene.host(
            "ls .git/worktrees/feature | grep -e lock -e palisade; git fsck --strict --no-dangling 2>&1"
        ),
        "palisade"
    );
    // The sandbox's other branch is checked out in the main one: its files are not the sandbox's.
    scene.inside("git stash -q -u; git checkout -q main 2>/dev/null || git checkout -q -b main host/main; echo m > m; git add m; git commit -qm m; echo loose > readme");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), MOVED);
    assert_eq!(scene.host("git log -1 --format=%s main; git status --porcelain; cat m"), "m\n M readme\nm");
}

#[tokio::test]
async fn a_git_directory_that_lies_elsewhere_is_no_obstacle() {
    let scene = Scene::new();
    scene.host("git init -q --separate-git-dir=../elsewhere");
    scene.start().await;
    scene.inside("echo agent > code; git commit -qam agent; echo loose > loose");
    let synced = scene.sync().await;
    assert_eq!((synced.commits(), synced.written()), (MOVED, paths(&["loose"])));
    assert_eq!(
        scene.host("git status --porcelain; ls -A ../elsewhere | grep -e lock -e palisade"),
        "?? loose\npalisade\npalisade.lock"
    );
}

#[tokio::test]
async fn commits_of_submodules_come_and_go_and_their_directories_stay() {
    let scene = Scene::new();
    scene.host("git init -q ../library; cd ../library; echo 1 > lib; git add -A; git -c user.name=a -c user.email=a@b commit -qm lib; cd ../host; git -c protocol.file.allow=always submodule add -q ../library lib; git commit -qm submodule");
    scene.start().await;
    let before = scene.host("git rev-parse HEAD:lib");
    assert_eq!(scene.inside("git rev-parse HEAD:lib; git status --porcelain"), before);
    // The agent names another commit, which the user's directory does not have.
    let other = "1".repeat(40);
    scene.inside(&format!("git update-index --cacheinfo 160000,{other},lib; git commit -qm bump; echo x > code; git add code; git commit -qm code"));
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 2, dropped: 0 });
    assert_eq!(
        scene.host("git rev-parse HEAD:lib; git status --porcelain; cat lib/lib"),
        format!("{other}\n M lib\n1")
    );
    // A new one gets an empty directory, as by git; one that goes leaves the user's files.
    scene.inside(&format!("git update-index --add --cacheinfo 160000,{other},other; git commit -qm other; git rm -q --cached lib; git commit -qm gone"));
    assert_eq!(scene.sync().await.commits(), CommitsOutcome::Moved { count: 2, dropped: 0 });
    assert_eq!(
        scene.host("ls -A other; cat lib/lib; git ls-files"),
        ".gitmodules\ncode\nother\nreadme".replacen(".git", "1\n.git", 1)
    );
}

#[tokio::test]
async fn a_host_that_cannot_be_worked_from_says_why() {
    let scene = Scene::new();
    scene.host("git checkout -q --detach");
    let error = scene.start_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Host(NotUsable::Detached(_))), "{error}");
    scene.host("git checkout -q --orphan none");
    let error = scene.start_with(|_| {}).await.unwrap_err();
    assert!(matches!(error, ExchangeError::Host(NotUsable::NoCommit(_))), "{error}");
    scene.host("git checkout -q -f main");
    scene.start().await;
    // It may become so later: then work waits.
    scene.inside("echo agent > code; git commit -qam agent; echo loose > loose");
    scene.host("git checkout -q --detach");
    let synced = scene.sync().await;
    assert_eq!(synced.commits(), MOVED, "the branch is checked out nowhere");
    assert!(
        matches!(synced.0.sync.trees[0].files, FilesOutcome::Waiting(WhyFilesWait::OtherBranch(None))),
        "{synced:?}"
    );
    assert_eq!(scene.host("git status --porcelain; cat code | head -n1"), "1");
}

#[tokio::test]
async fn what_does_not_go_in_whole_is_known_before() {
    let scene = Scene::new();
    let limits = async || {
        let root = palisade_core::HostPath::new(scene.path("host").canonicalize().unwrap()).unwrap();
        let tree = palisade_workspace::HostTree::find(&scene.git(), &root).await.unwrap();
        Limit::of(&tree).await.unwrap()
    };
    assert_eq!(limits().await, []);
    scene.host("git rev-parse HEAD > .git/shallow");
    assert_eq!(limits().await, [Limit::Shallow]);
}
