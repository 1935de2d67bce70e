//! Commits that are made inside come to the host's branches, and nothing of the user's moves but these.

use crate::support::{Repository, tree};
use palisade_testing::{Instance, Traces, eventually, requires};
use std::io::{BufRead, BufReader, Write};
use std::process::Stdio;

const AS_AGENT: &str =
    "export GIT_AUTHOR_NAME=a GIT_AUTHOR_EMAIL=a@b GIT_COMMITTER_NAME=a GIT_COMMITTER_EMAIL=a@b\n";

impl Repository {
    fn work(&self, script: &str) -> palisade_testing::Outcome {
        self.inside(&format!("set -e\n{AS_AGENT}{script}"))
    }

    fn out(&self, words: &[&str]) -> String {
        self.git(words).ok().stdout
    }
}

#[test]
fn branches_tags_stashes_and_the_branch_that_is_checked_out_come_back() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository
        .work(
            "echo second >> file; git commit -qam second; git tag v1; git tag -a -m x v2
             git switch -qc topic; echo t > t; git add t; git commit -qm third
             git branch other HEAD~1; echo stashed >> file; git stash -q",
        )
        .ok();
    assert_eq!(repository.out(&["log", "--format=%s", "topic"]), "third\nsecond\nfirst\n");
    assert_eq!(repository.out(&["log", "--format=%s", "main"]), "second\nfirst\n");
    assert_eq!(repository.out(&["log", "-1", "--format=%s", "other"]), "second\n");
    assert_eq!(repository.out(&["branch", "--show-current"]), "topic\n");
    assert_eq!(repository.out(&["tag"]), "v1\nv2\n");
    assert!(repository.out(&["stash", "list"]).contains("WIP on topic"));
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
    repository.git(&["stash", "pop", "-q"]).ok();
    assert!(std::fs::read_to_string(repository.path.join("file")).unwrap().contains("stashed"));
    repository.git(&["fsck", "--strict"]).ok();
    assert_eq!(repository.out(&["for-each-ref", "refs/palisade/base"]), "", "nothing is remembered of a run");
    assert_eq!(std::fs::read_dir(repository.instance.state().join("git")).unwrap().count(), 0);
}

#[test]
fn what_the_user_has_staged_and_not_staged_survives() {
    requires!(bwrap, git);
    let repository = Repository::new();
    for name in ["staged", "unstaged"] {
        std::fs::write(repository.path.join(name), "1\n").unwrap();
    }
    repository.git(&["add", "."]).ok();
    repository.git(&["commit", "-qm", "more"]).ok();
    std::fs::write(repository.path.join("staged"), "2\n").unwrap();
    repository.git(&["add", "staged"]).ok();
    std::fs::write(repository.path.join("unstaged"), "2\n").unwrap();
    let seen = repository.work("git status --porcelain; echo x > file; git commit -qm inside file").ok();
    assert_eq!(seen.stdout, "M  staged\n M unstaged\n");
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "inside\n");
    assert_eq!(repository.out(&["status", "--porcelain"]), "M  staged\n M unstaged\n");
}

#[test]
fn a_commit_of_what_the_user_had_staged_takes_it_along() {
    requires!(bwrap, git);
    let repository = Repository::new();
    std::fs::write(repository.path.join("file"), "staged\n").unwrap();
    repository.git(&["add", "file"]).ok();
    repository.work("git commit -qm inside").ok();
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
    assert_eq!(repository.out(&["show", "HEAD:file"]), "staged\n");
}

#[test]
fn commits_wait_when_the_user_has_committed_or_staged_meanwhile() {
    requires!(bwrap, git);
    for (meanwhile, expected) in [
        ("commit", "your branch has moved meanwhile"),
        ("stage", "you have staged changes of the same files"),
    ] {
        let repository = Repository::new();
        let script = format!("{AS_AGENT}echo up; read go; echo inside > file; git commit -qam inside");
        let words = ["run", "-w", "repo", "--", "sh", "-ec", &script];
        let mut child = repository
            .instance
            .command(words)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        std::fs::write(repository.path.join("file"), "mine\n").unwrap();
        repository.git(&["add", "file"]).ok();
        if meanwhile == "commit" {
            repository.git(&["commit", "-qm", "mine"]).ok();
        }
        let head = repository.out(&["rev-parse", "HEAD"]);
        child.stdin.take().unwrap().write_all(b"go\n").unwrap();
        let ended = child.wait_with_output().unwrap();
        let said = String::from_utf8_lossy(&ended.stderr).into_owned();
        assert_eq!(ended.status.code(), Some(0), "{said}");
        assert!(said.contains(expected), "{said}");
        assert_eq!(repository.out(&["rev-parse", "HEAD"]), head, "{meanwhile}");
        let waiting = repository.out(&["for-each-ref", "--format=%(refname:short)", "refs/heads/palisade"]);
        assert!(waiting.starts_with("palisade/run-") && waiting.trim_end().ends_with("/main"), "{waiting}");
        assert!(said.contains(&format!("git merge {}", waiting.trim_end())), "{said}");
        assert_eq!(repository.out(&["log", "-1", "--format=%s", waiting.trim_end()]), "inside\n");
        assert_eq!(repository.out(&["show", ":file"]), "mine\n", "what is staged stays: {meanwhile}");
    }
}

#[test]
fn a_branch_of_another_worktree_never_moves() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["worktree", "add", "-q", "-b", "topic", "../beside"]).ok();
    let before = repository.out(&["rev-parse", "topic"]);
    let outcome = repository.work("git switch -q topic; echo x > x; git add x; git commit -qm inside").ok();
    assert!(outcome.stderr.contains("another worktree"), "{}", outcome.stderr);
    assert_eq!(repository.out(&["rev-parse", "topic"]), before);
    assert_eq!(repository.out(&["branch", "--show-current"]), "main\n");
}

#[test]
fn a_worktree_has_git_data_of_its_own_as_well() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["worktree", "add", "-q", "-b", "topic", "../beside"]).ok();
    let script = format!("{AS_AGENT}echo x > x; git add x; git commit -qm inside; git branch --show-current");
    let outcome = repository.instance.run(["run", "-w", "beside", "--", "sh", "-ec", &script]).ok();
    assert_eq!(outcome.stdout, "topic\n");
    assert_eq!(repository.out(&["log", "-1", "--format=%s", "topic"]), "inside\n");
    assert_eq!(repository.out(&["-C", "../beside", "status", "--porcelain"]), "");
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
}

#[test]
fn commits_in_a_submodule_come_back_too() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["init", "-q", "--initial-branch=main", "../library"]).ok();
    repository.git(&["-C", "../library", "commit", "-q", "--allow-empty", "-m", "library"]).ok();
    let add = ["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "../library", "lib/sub"];
    repository.git(&add).ok();
    repository.git(&["commit", "-qm", "with a submodule"]).ok();
    repository
        .work(
            "git status --porcelain; git submodule status
             cd lib/sub; echo x > x; git add x; git commit -qm inside; cd ../..
             git add lib/sub; git commit -qm moved",
        )
        .ok();
    assert_eq!(repository.out(&["-C", "lib/sub", "log", "-1", "--format=%s"]), "inside\n");
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "moved\n");
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
}

#[test]
fn a_rebase_in_progress_on_the_host_is_refused_and_one_inside_works() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository
        .work(
            "git switch -qc topic; echo t > t; git add t; git commit -qm topic
             git switch -q main; echo m > m; git add m; git commit -qm main; git rebase -q main topic",
        )
        .ok();
    assert_eq!(repository.out(&["log", "--format=%s", "topic"]), "topic\nmain\nfirst\n");
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
    std::fs::create_dir(repository.path.join(".git/rebase-merge")).unwrap();
    let refused = repository.inside("true");
    assert_eq!(refused.code, 7, "{refused:?}");
    assert!(refused.stderr.contains("a rebase is in progress"), "{}", refused.stderr);
}

#[test]
fn what_the_user_deletes_meanwhile_does_not_break_the_sandbox() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.git(&["switch", "-qc", "gone"]).ok();
    repository.git(&["commit", "-q", "--allow-empty", "-m", "to be deleted"]).ok();
    repository.git(&["switch", "-q", "main"]).ok();
    let words =
        ["run", "-w", "repo", "--", "sh", "-ec", "echo up; read go; git log -1 --format=%s gone; git fsck"];
    let mut child =
        repository.instance.command(words).stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut out = BufReader::new(child.stdout.take().unwrap());
    let mut line = String::new();
    out.read_line(&mut line).unwrap();
    repository.git(&["branch", "-D", "gone"]).ok();
    repository.git(&["reflog", "expire", "--expire=now", "--all"]).ok();
    repository.git(&["gc", "-q", "--prune=now"]).ok();
    child.stdin.take().unwrap().write_all(b"go\n").unwrap();
    line.clear();
    out.read_line(&mut line).unwrap();
    assert!(child.wait().unwrap().success());
    assert_eq!(line, "to be deleted\n");
}

#[test]
fn commits_of_a_run_that_was_killed_are_brought_by_the_next_one() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let script =
        format!("{AS_AGENT}echo x > x; git add x; git commit -qm inside; echo done; exec sleep 1000");
    let words = ["run", "-w", "repo", "--", "sh", "-ec", &script];
    let mut child = repository.instance.command(words).stdout(Stdio::piped()).spawn().unwrap();
    let mut line = String::new();
    BufReader::new(child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
    assert_eq!(line, "done\n");
    child.kill().unwrap();
    child.wait().unwrap();
    eventually("everything inside dies with the run", || {
        Traces::of(&repository.instance).processes.is_empty()
    });
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "first\n");
    let next = repository.inside("git log -1 --format=%s").ok();
    assert_eq!(next.stdout, "inside\n");
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "inside\n");
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
    assert_eq!(std::fs::read_dir(repository.instance.state().join("git")).unwrap().count(), 0);
}

#[test]
fn commits_of_a_named_sandbox_come_back_when_it_stops_and_when_it_is_removed() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    let commit = |name: &str| format!("{AS_AGENT}echo x > {name}; git add {name}; git commit -qm {name}");
    instance.run(["create", "--start", "-w", "repo", "keeper"]).ok();
    instance.shell("keeper", &commit("one")).ok();
    instance.run(["stop", "keeper"]).ok();
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "one\n");
    repository.git(&["commit", "-q", "--allow-empty", "-m", "mine"]).ok();
    instance.run(["start", "keeper"]).ok();
    assert_eq!(
        instance.shell("keeper", "git log -1 --format=%s").ok().stdout,
        "mine\n",
        "it starts from the host"
    );
    instance.shell("keeper", &commit("two")).ok();
    instance.run(["rm", "--force", "keeper"]).ok();
    assert_eq!(repository.out(&["log", "-1", "--format=%s"]), "two\n");
    assert_eq!(repository.out(&["status", "--porcelain"]), "");
    assert_eq!(repository.out(&["for-each-ref", "refs/palisade/base"]), "");
}

#[test]
fn commits_of_a_named_sandbox_come_back_by_themselves_while_it_runs() {
    requires!(bwrap, git);
    let repository = Repository::new();
    let instance = &repository.instance;
    instance.run(["create", "--start", "-w", "repo", "keeper"]).ok();
    for name in ["one", "two"] {
        let script = format!("{AS_AGENT}echo x > {name}; git add {name}; git commit -qm {name}");
        instance.shell("keeper", &script).ok();
        eventually("the commit is on the host", || {
            repository.out(&["log", "-1", "--format=%s"]) == format!("{name}\n")
        });
        assert_eq!(repository.out(&["status", "--porcelain"]), "");
    }
    // The sandbox goes on from there.
    assert_eq!(
        instance.shell("keeper", "git status --porcelain; git log -1 --format=%s").ok().stdout,
        "two\n"
    );
    instance.run(["rm", "--force", "keeper"]).ok();
}

#[test]
fn a_run_that_commits_nothing_leaves_the_git_data_as_it_was() {
    requires!(bwrap, git);
    let repository = Repository::new();
    repository.inside("true").ok();
    let before = tree(&repository.path.join(".git"));
    repository.inside("git status; git log; git branch").ok();
    let after = tree(&repository.path.join(".git"));
    assert_eq!(after.keys().collect::<Vec<_>>(), before.keys().collect::<Vec<_>>());
    let plain = Instance::with_method("bwrap");
    std::fs::create_dir(plain.work().join("plain")).unwrap();
    plain.run(["run", "-w", "plain", "--", "sh", "-c", "echo x > x"]).ok();
    assert_eq!(std::fs::read_dir(plain.work().join("plain")).unwrap().count(), 1);
}
