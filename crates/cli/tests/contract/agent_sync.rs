//! An agent's work that is archived by itself: what the keeper notices, and what it never touches.

use crate::agent::{git, repository, without_archive};
use crate::support::inspect;
use palisade_testing::{Instance, Outcome, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::process::Command;
use std::time::Duration;

contracts!(
    a_commit_is_archived_by_itself_and_nothing_else_moves,
    work_is_archived_when_nothing_moves_any_more,
    what_was_archived_by_itself_is_still_unapplied,
    a_repository_that_is_gone_is_reported_and_found_again,
    commits_without_end_are_archived_no_more_often_than_is_good,
    a_keeper_killed_while_it_archives_leaves_refs_old_or_new,
    a_mode_can_be_changed_and_a_policy_cannot,
);

fn start(instance: &Instance, options: &[&str], task: &str) -> Outcome {
    let words = ["agent", "start", "--agent", "shell", "--name", "box"];
    instance.run(words.iter().chain(options).copied().chain(["--task", task]))
}

#[track_caller]
fn inside(instance: &Instance, script: &str) -> String {
    instance.run(["agent", "exec", "box", "--", "sh", "-c", script]).ok().stdout.trim_end().to_owned()
}

const COMMIT: &str = "echo more >> code && git commit -qam more && git rev-parse HEAD";

/// The archives, the newest last.
fn archives(instance: &Instance) -> Vec<String> {
    let refs = git(instance, "for-each-ref --sort=version:refname --format=%(refname) refs/palisade/archive");
    refs.lines().map(str::to_owned).collect()
}

/// Whether an archive leads to a commit.
fn is_archived(instance: &Instance, commit: &str) -> bool {
    let list = Command::new("git")
        .args(["for-each-ref", "--contains", commit, "refs/palisade/archive"])
        .current_dir(instance.work())
        .env("HOME", instance.home())
        .output()
        .unwrap();
    list.status.success() && !list.stdout.is_empty()
}

/// Whether the newest archive holds a file that is not committed.
fn holds(instance: &Instance, name: &str) -> bool {
    let newest = archives(instance).pop();
    newest.is_some_and(|newest| {
        git(instance, &format!("ls-tree -r --name-only {newest}")).contains(&format!("files/{name}"))
    })
}

fn syncs(instance: &Instance) -> Vec<Value> {
    let listed = instance.run(["agent", "log", "box", "--sync", "--json"]).ok().json();
    listed.as_array().unwrap().clone()
}

fn by(syncs: &[Value], trigger: &str) -> usize {
    syncs.iter().filter(|sync| sync["trigger"] == trigger).count()
}

fn a_commit_is_archived_by_itself_and_nothing_else_moves(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let first = git(&instance, "rev-parse HEAD");
    let second = inside(&instance, COMMIT);
    eventually("the commit is on the host", || is_archived(&instance, &second));
    // A look right before the commit may have archived the file that it is about.
    let reported = || {
        let with_commit = |sync: &Value| sync["trigger"] == "commit" && sync["refs"][0]["commits"] == 1;
        syncs(&instance).into_iter().find(with_commit)
    };
    eventually("and reported", || reported().is_some());
    let reported = reported().unwrap();
    let archive = archives(&instance).pop().unwrap();
    let commit = git(&instance, &format!("rev-parse {archive}"));
    assert_eq!(
        reported["refs"],
        serde_json::json!([{ "name": archive, "from": null, "to": commit, "commits": 1 }])
    );
    assert_eq!(
        (git(&instance, "rev-parse HEAD"), git(&instance, "status --porcelain")),
        (first, String::new())
    );

    // A branch of a worktree that the host has never heard of.
    let side = inside(
        &instance,
        "git worktree add -q .worktrees/side -b feature/side && cd .worktrees/side && \
         git commit -q --allow-empty -m side && git pack-refs --all && git rev-parse HEAD",
    );
    eventually("the worktree's commit is on the host", || is_archived(&instance, &side));
    let listed = instance.run(["agent", "ls", "--json"]).ok().json();
    assert_eq!(listed[0]["sync"], "on-commit");
    assert!(listed[0]["synced_at"].is_i64(), "{listed}");
    let synced = without_archive(instance.run(["agent", "sync", "box"])).ok();
    assert_eq!(synced.stderr, "feature/side: new branch with 1 commit\nmain: 1 commit\n");
    instance.run(["agent", "rm", "box"]).ok();
}

fn work_is_archived_when_nothing_moves_any_more(method: &'static str) {
    let instance = repository(method);
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[agent]\nidle = \"1s\"\nsync = \"on-idle\"\n").unwrap();
    start(&instance, &[], "true").ok();
    inside(&instance, "echo loose > loose");
    eventually("loose work is on the host", || holds(&instance, "loose"));
    assert_eq!(git(&instance, "status --porcelain"), "");
    eventually("and reported", || by(&syncs(&instance), "idle") == 1);

    // The end of a session is not waited out, however long idle is.
    std::fs::write(instance.user_config(), "[agent]\nidle = \"24h\"\nsync = \"on-idle\"\n").unwrap();
    start(&instance, &["--detach"], "echo last > last").ok();
    eventually("what the session did is on the host", || holds(&instance, "last"));
    let synced = without_archive(instance.run(["agent", "sync", "box"])).ok();
    assert_eq!(synced.stderr, "main: changes in last, loose\n");
    instance.run(["agent", "rm", "box"]).ok();
}

fn what_was_archived_by_itself_is_still_unapplied(method: &'static str) {
    let instance = repository(method);
    start(
        &instance,
        &["--sync", "on-idle"],
        "echo x > code && git commit -qam 'never seen' && echo y > loose",
    )
    .ok();
    assert!(holds(&instance, "loose"));
    let refused = instance.run(["agent", "rm", "box"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("branch main: 1 commit") && refused.stderr.contains("loose (not committed)"),
        "{}",
        refused.stderr
    );
    instance.run(["agent", "sync", "box"]).ok();
    instance.run(["agent", "rm", "box"]).ok();
}

fn a_repository_that_is_gone_is_reported_and_found_again(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let (hidden, there) = (instance.work().join(".hidden"), instance.work().join(".git"));
    std::fs::rename(&there, &hidden).unwrap();
    let commit = instance.run(["agent", "exec", "box", "--", "sh", "-c", COMMIT]).ok().stdout;
    // One that was under way meanwhile may have found half of it.
    let is_told = |sync: &Value| {
        let reason = sync["error"].as_str().unwrap_or_default();
        reason.contains("the repository of sandbox 'box' is not at")
    };
    eventually("the failure is reported", || syncs(&instance).iter().any(is_told));
    std::fs::rename(&hidden, &there).unwrap();
    eventually("it is tried again", || is_archived(&instance, commit.trim_end()));
}

fn commits_without_end_are_archived_no_more_often_than_is_good(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let last = inside(
        &instance,
        "end=$(($(date +%s) + 8)); i=0; while [ $(date +%s) -lt $end ]; do i=$((i + 1)); \
         git commit -q --allow-empty -m flood && git update-ref refs/heads/x/$((i % 50)) HEAD; done; \
         git rev-parse HEAD",
    );
    eventually("the last one is on the host", || is_archived(&instance, &last));
    let moments = syncs(&instance).into_iter().filter(|sync| sync["trigger"] == "commit");
    let moments: Vec<i64> = moments.map(|sync| sync["at"].as_i64().unwrap()).collect();
    assert!(!moments.is_empty());
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] >= 2000), "{moments:?}");
}

fn a_keeper_killed_while_it_archives_leaves_refs_old_or_new(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let killed_after = |pause: u64| {
        let script = format!("head -c 3000000 /dev/urandom > noise && git add -A && {COMMIT}");
        let new = inside(&instance, &script);
        std::thread::sleep(Duration::from_millis(pause));
        let keeper = inspect(&instance, "box")["keeper_pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
        // What it had started to archive the work may have found the sandbox another one already, where that outlives a keeper.
        eventually("the keeper is gone", || inspect(&instance, "box")["keeper_pid"].as_i64() != Some(keeper));
        git(&instance, "fsck --no-progress --connectivity-only");
        instance.run(["start", "box"]).ok();
        new
    };
    for pause in [350, 600] {
        let new = killed_after(pause);
        instance.run(["agent", "sync", "box"]).ok();
        assert_eq!(git(&instance, "rev-parse HEAD"), new);
    }
    let new = killed_after(450);
    eventually("what was left from before is archived after a while", || is_archived(&instance, &new));
}

fn a_mode_can_be_changed_and_a_policy_cannot(method: &'static str) {
    let instance = repository(method);
    start(&instance, &[], "true").ok();
    inside(&instance, COMMIT);
    let told = start(&instance, &["--opt", "--tmp", "1G", "--sync", "on-commit"], "true").ok().stderr;
    assert!(told.contains("warning: --opt has no effect: the sandbox was made before\n"), "{told}");
    assert!(told.contains("--fresh makes another one") && !told.contains("--tmp"), "{told}");
    assert!(told.contains("its work is archived by itself: on-commit\n"), "{told}");
    let second = inside(&instance, COMMIT);
    eventually("the commit is on the host", || is_archived(&instance, &second));

    // It stays as it is until somebody says otherwise.
    assert!(start(&instance, &[], "true").ok().stderr.contains("archived by itself: on-commit\n"));
    start(&instance, &["--sync", "manual"], "true").ok();
    assert_eq!(instance.run(["agent", "ls", "--json"]).ok().json()[0]["sync"], "manual");
    let wrong = start(&instance, &["--sync", "always"], "true");
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("manual, on-commit, on-idle"), "{}", wrong.stderr);
}
