//! Refs: whatever a sandbox calls its own, only refs below ours move, and branches where the user would expect it.

use crate::support::{Here, Scene, branch};
use palisade_core::BoxFuture;
use palisade_protocol::client::{ExecError, Output};
use palisade_protocol::{ExecRequest, Exit};
use palisade_workspace::{BranchName, Commits, Divergence, Inside, InsideError, Tree, Waits};

/// Git inside that says whatever it likes.
struct Liar(Vec<u8>);

impl Inside for Liar {
    fn run(&self, _: ExecRequest) -> BoxFuture<'_, Result<Output, ExecError>> {
        Box::pin(async { Ok(Output { stdout: self.0.clone(), stderr: Vec::new(), exit: Exit::Code(0) }) })
    }
}

#[tokio::test]
async fn a_liars_names_are_taken_as_names_or_not_at_all() {
    let id = "1".repeat(40);
    let trees = async |words: &[&str]| {
        let liar = Liar(words.iter().flat_map(|word| [word.as_bytes(), b"\0"].concat()).collect());
        Tree::new(&liar, Vec::new(), "/workspace").trees().await
    };
    for name in [
        "../../heads/main",
        "--upload-pack=touch x",
        "main:refs/heads/main",
        "a b",
        "x\u{1b}[2J",
        "a\nb",
        "@{-1}",
        "x.lock",
        "*",
    ] {
        assert!(BranchName::new(name).is_err(), "{name}");
        let found = trees(&["branch", name, &id, "tree", "/workspace", name]).await.unwrap();
        assert_eq!((found.branches.len(), found.trees.len(), found.unnameable), (0, 0, 2), "{name}");
    }
    assert!(matches!(trees(&["branch", "a", "HEAD"]).await, Err(InsideError::Answer { .. })));
    assert!(matches!(trees(&["branch", "a"]).await, Err(InsideError::Answer { .. })));
    assert_eq!(trees(&["tree", "../relative", "a"]).await.unwrap().unnameable, 1);
    let many: Vec<String> = (0..300).map(|number| format!("b{number}")).collect();
    let many: Vec<&str> = many.iter().flat_map(|name| ["branch", name, &id]).collect();
    assert!(matches!(trees(&many).await, Err(InsideError::TooMany { .. })));
}

#[tokio::test]
async fn no_ref_of_the_users_is_overwritten_by_one_of_the_sandboxs() {
    let scene = Scene::new();
    scene.host("git branch kept && git tag v1 && git update-ref refs/remotes/origin/main HEAD");
    scene.send().await;
    scene.inside(
        "echo x > code && git commit -qam evil
         for ref in refs/heads/kept refs/heads/Main refs/tags/v1 refs/tags/new refs/remotes/origin/main refs/stash \
                    refs/palisade/other/heads/main refs/heads/palisade/other refs/replace/$(git rev-parse HEAD~1); do
            git update-ref $ref HEAD; done
         git symbolic-ref refs/heads/symbolic refs/tags/v1",
    );
    let before = scene.host("git for-each-ref");
    scene.plain("git fetch -q --update-head-ok ../inside '+refs/*:refs/*'; git for-each-ref > ../refs-after");
    assert_ne!(scene.read("refs-after").trim_end(), before, "the control");

    assert_eq!(scene.sync(Divergence::Wait).await.commits, Commits::Forwarded(1));
    let after = scene.host("git for-each-ref refs/heads/kept refs/tags refs/remotes refs/stash refs/replace");
    assert!(!after.is_empty() && after.lines().all(|line| before.contains(line)), "{after}");
    for name in ["Main", "palisade/other", "symbolic"] {
        scene.try_sync_of(name, false, Divergence::Wait).await.unwrap();
    }
    let ours = "refs/palisade/box/heads/";
    assert_eq!(
        scene.refs(),
        format!(
            "refs/heads/Main\nrefs/heads/kept\nrefs/heads/main\nrefs/heads/symbolic\n{ours}Main\n{ours}main\n\
             {ours}palisade/other\n{ours}symbolic\nrefs/remotes/origin/main\nrefs/tags/v1"
        )
    );
    let reserved = scene.try_sync_of("palisade/other", false, Divergence::Wait).await.unwrap();
    assert_eq!(reserved.commits, Commits::Waiting { count: 0, why: Waits::OurName });
}

#[tokio::test]
async fn a_head_that_leads_elsewhere_is_at_no_branch() {
    let scene = Scene::new();
    scene.send().await;
    for target in
        ["refs/palisade/work/main", "refs/tags/../heads/main", "refs/heads/gone", "refs/remotes/origin/main"]
    {
        scene.write("inside/.git/HEAD", &format!("ref: {target}\n"));
        let survey = scene.tree(&Here).survey().await;
        assert!(survey.is_err() || survey.as_ref().is_ok_and(|survey| survey.main.is_none()), "{survey:?}");
    }
    assert_eq!(scene.refs(), "refs/heads/main");
}

/// `feature` is renamed to `feature/one`, and back: refs are files, and neither may stand in the other's way.
#[tokio::test]
async fn a_branch_that_becomes_a_directory_of_branches_comes_home_and_nothing_is_lost() {
    let scene = Scene::new();
    scene.send().await;
    scene.inside("git branch feature && git checkout -q feature && echo x > code && git commit -qam work");
    scene.try_sync_of("feature", false, Divergence::Wait).await.unwrap();
    scene.host("git branch -D -q feature");
    scene.inside("git checkout -q main && git branch -D -q feature && git branch feature/one");
    scene.plain("git fetch -q ../inside '+refs/heads/*:refs/palisade/box/heads/*' || touch ../ran-failed");
    assert_eq!(scene.sprung(), ["failed"], "the control");

    scene.try_fetch("feature/one", false).await.unwrap();
    assert_eq!(
        scene.host("git log -1 --format=%s $(git for-each-ref --format='%(refname)' refs/palisade/box/gone)"),
        "work"
    );
    scene.inside("git branch -m feature/one feature");
    assert_eq!(scene.try_fetch("feature", false).await.unwrap().branch, branch("feature"));
}
