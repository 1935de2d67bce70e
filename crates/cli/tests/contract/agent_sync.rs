//! An agent's work that comes into refs of the host by itself: what the keeper notices, and what it never touches.

use crate::agent::{git, repository};
use crate::support::inspect;
use palisade_testing::{Instance, Outcome, eventually};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;
use std::time::Duration;

contracts!(
    a_commit_comes_into_refs_by_itself_and_nothing_else_moves,
    work_comes_when_nothing_moves_any_more,
    what_was_committed_right_before_a_stop_is_on_the_host,
    what_came_by_itself_is_not_thrown_away_before_its_user_saw_it,
    a_repository_that_is_gone_is_told_and_found_again,
    commits_without_end_are_brought_no_more_often_than_is_good,
    a_keeper_killed_while_it_brings_leaves_refs_old_or_new,
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

/// What a ref of the sandbox's is at; empty when there is none.
fn at(instance: &Instance, name: &str) -> String {
    git(instance, &format!("for-each-ref --format=%(objectname) refs/palisade/box/{name}"))
}

fn syncs(instance: &Instance) -> Vec<Value> {
    let listed = instance.run(["agent", "log", "box", "--sync", "--json"]).ok().json();
    listed.as_array().unwrap().clone()
}

fn by(syncs: &[Value], trigger: &str) -> usize {
    syncs.iter().filter(|sync| sync["trigger"] == trigger).count()
}

fn a_commit_comes_into_refs_by_itself_and_nothing_else_moves(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let first = git(&instance, "rev-parse HEAD");
    let second = inside(&instance, COMMIT);
    eventually("the commit is on the host", || at(&instance, "heads/main") == second);
    eventually("and told", || by(&syncs(&instance), "commit") == 1);
    let told = syncs(&instance).pop().unwrap();
    assert_eq!(
        told["refs"],
        serde_json::json!([
            { "name": "refs/palisade/box/heads/main", "from": first, "to": second, "commits": 1 }
        ])
    );
    assert_eq!(
        (git(&instance, "rev-parse HEAD"), git(&instance, "status --porcelain")),
        (first, String::new())
    );

    // A branch of a worktree, of which the host has never heard.
    let side = inside(
        &instance,
        "git worktree add -q .worktrees/side -b feature/side && cd .worktrees/side && \
         git commit -q --allow-empty -m side && git pack-refs --all && git rev-parse HEAD",
    );
    eventually("the worktree's commit is on the host", || at(&instance, "heads/feature/side") == side);
    let listed = instance.run(["agent", "ls", "--json"]).ok().json();
    assert_eq!(listed[0]["sync"], "on-commit");
    assert!(listed[0]["synced_at"].is_i64(), "{listed}");
    assert_eq!(instance.run(["agent", "sync", "box"]).ok().stderr, "main: 1 commit\n");
    instance.run(["agent", "rm", "box"]).ok();
}

fn work_comes_when_nothing_moves_any_more(method: &'static str) {
    let instance = repository(method);
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), "[agent]\nidle = \"1s\"\nsync = \"on-idle\"\n").unwrap();
    start(&instance, &[], "true").ok();
    inside(&instance, "echo loose > loose");
    eventually("loose work is on the host", || !at(&instance, "work/main").is_empty());
    assert_eq!(git(&instance, "show refs/palisade/box/work/main:loose"), "loose");
    assert_eq!(git(&instance, "status --porcelain"), "");
    eventually("and told", || by(&syncs(&instance), "idle") == 1);

    // The end of a session is not waited out, however long idle is.
    std::fs::write(instance.user_config(), "[agent]\nidle = \"24h\"\nsync = \"on-idle\"\n").unwrap();
    start(&instance, &["--detach"], "echo last > last").ok();
    eventually("what the session did is on the host", || {
        git(&instance, "ls-tree --name-only refs/palisade/box/work/main").contains("last")
    });
    let home = instance.run(["agent", "sync", "box"]).ok().stderr;
    assert_eq!(home, "main: changes in last, loose (see git diff)\n");
    instance.run(["agent", "rm", "box"]).ok();
}

fn what_was_committed_right_before_a_stop_is_on_the_host(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-idle"], "true").ok();
    let last = inside(&instance, &format!("echo loose > loose && {COMMIT}"));
    assert_eq!(instance.run(["stop", "box"]).ok().stderr, "");
    assert_eq!((at(&instance, "heads/main"), by(&syncs(&instance), "stop")), (last, 1));
    assert_eq!(git(&instance, "show refs/palisade/box/work/main:loose"), "loose");
}

fn what_came_by_itself_is_not_thrown_away_before_its_user_saw_it(method: &'static str) {
    let instance = repository(method);
    start(
        &instance,
        &["--sync", "on-idle"],
        "echo x > code && git commit -qam 'never seen' && echo y > loose",
    )
    .ok();
    assert_eq!((at(&instance, "heads/main").len(), at(&instance, "work/main").len()), (40, 40));
    let refused = instance.run(["agent", "rm", "box"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("never seen") && refused.stderr.contains("not committed: loose"),
        "{}",
        refused.stderr
    );
    instance.run(["agent", "sync", "box"]).ok();
    instance.run(["agent", "rm", "box"]).ok();
}

fn a_repository_that_is_gone_is_told_and_found_again(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let (hidden, there) = (instance.work().join(".hidden"), instance.work().join(".git"));
    std::fs::rename(&there, &hidden).unwrap();
    let commit = instance.run(["agent", "exec", "box", "--", "sh", "-c", COMMIT]).ok().stdout;
    let failures = || syncs(&instance).into_iter().filter(|sync| sync["error"].is_string());
    eventually("the failure is told", || failures().next().is_some());
    let reason = failures().next().unwrap()["error"].as_str().unwrap().to_owned();
    assert!(reason.contains("a git repository"), "{reason}");
    std::fs::rename(&hidden, &there).unwrap();
    eventually("it is tried again", || at(&instance, "heads/main") == commit.trim_end());
}

fn commits_without_end_are_brought_no_more_often_than_is_good(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let last = inside(
        &instance,
        "end=$(($(date +%s) + 8)); i=0; while [ $(date +%s) -lt $end ]; do i=$((i + 1)); \
         git commit -q --allow-empty -m flood && git update-ref refs/heads/x/$((i % 50)) HEAD; done; \
         git rev-parse HEAD",
    );
    eventually("the last one is on the host", || at(&instance, "heads/main") == last);
    let moments = syncs(&instance).into_iter().filter(|sync| sync["trigger"] == "commit");
    let moments: Vec<i64> = moments.map(|sync| sync["at"].as_i64().unwrap()).collect();
    assert!(!moments.is_empty());
    assert!(moments.windows(2).all(|pair| pair[1] - pair[0] >= 2000), "{moments:?}");
}

fn a_keeper_killed_while_it_brings_leaves_refs_old_or_new(method: &'static str) {
    let instance = repository(method);
    start(&instance, &["--sync", "on-commit"], "true").ok();
    let killed_after = |pause: u64| {
        let old = at(&instance, "heads/main");
        let script = format!("head -c 3000000 /dev/urandom > noise && git add -A && {COMMIT}");
        let new = inside(&instance, &script);
        std::thread::sleep(Duration::from_millis(pause));
        let keeper = inspect(&instance, "box")["keeper_pid"].as_i64().unwrap();
        kill_process(Pid::from_raw(keeper as i32).unwrap(), Signal::KILL).unwrap();
        // What it had sent to bring the work may have found the sandbox another one already, where that outlives a keeper.
        eventually("the keeper is gone", || inspect(&instance, "box")["keeper_pid"].as_i64() != Some(keeper));
        let found = at(&instance, "heads/main");
        assert!(found == old || found == new, "{found} is neither {old} nor {new}");
        git(&instance, "fsck --no-progress --connectivity-only");
        instance.run(["start", "box"]).ok();
        new
    };
    for pause in [350, 600] {
        let new = killed_after(pause);
        instance.run(["agent", "sync", "box"]).ok();
        assert_eq!(at(&instance, "heads/main"), new);
    }
    let new = killed_after(450);
    eventually("what was left from before is brought after a while", || at(&instance, "heads/main") == new);
}

fn a_mode_can_be_changed_and_a_policy_cannot(method: &'static str) {
    let instance = repository(method);
    start(&instance, &[], "true").ok();
    inside(&instance, COMMIT);
    let told = start(&instance, &["--opt", "--tmp", "1G", "--sync", "on-commit"], "true").ok().stderr;
    assert!(told.contains("warning: --opt has no effect: the sandbox was made before\n"), "{told}");
    assert!(told.contains("--fresh makes another one") && !told.contains("--tmp"), "{told}");
    assert!(told.contains("its work comes into refs by itself: on-commit\n"), "{told}");
    let second = inside(&instance, COMMIT);
    eventually("the commit is on the host", || at(&instance, "heads/main") == second);

    // It stays as it is until somebody says otherwise.
    assert!(start(&instance, &[], "true").ok().stderr.contains("by itself: on-commit\n"));
    start(&instance, &["--sync", "manual"], "true").ok();
    assert_eq!(instance.run(["agent", "ls", "--json"]).ok().json()[0]["sync"], "manual");
    let wrong = start(&instance, &["--sync", "always"], "true");
    assert_eq!(wrong.code, 3, "{}", wrong.stderr);
    assert!(wrong.stderr.contains("manual, on-commit, on-idle"), "{}", wrong.stderr);
}
