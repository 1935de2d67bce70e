//! Work that only a sandbox has, and commands that end or remove it: nothing is lost, whichever command it is.

use crate::agent::{git, repository, without_archive};
use palisade_testing::{Instance, Outcome};

contracts!(
    unapplied_work_stops_every_command_that_would_remove_it,
    forced_removal_archives_everything_and_says_where,
    work_on_no_branch_a_stash_and_a_tag_are_work,
    a_working_agent_is_not_ended_unasked,
    a_worktree_with_work_is_not_removed_unasked,
    what_cannot_be_archived_is_given_up_by_name_only,
    stop_archives_and_a_stopped_sandbox_can_be_synced,
    archives_are_listed_and_restored_when_the_sandbox_is_gone,
    files_are_saved_when_git_inside_is_broken,
);

fn task(instance: &Instance, options: &[&str], script: &str) -> Outcome {
    let words = ["agent", "start", "shell", "--name", "box"];
    instance.run(words.iter().chain(options).copied().chain(["--task", script]))
}

#[track_caller]
fn inside(instance: &Instance, script: &str) {
    instance.run(["agent", "exec", "box", "--", "sh", "-c", script]).ok();
}

fn unapplied_work_stops_every_command_that_would_remove_it(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo x > code && git commit -qam 'never seen' && echo y > loose").ok();
    let fresh = ["agent", "start", "shell", "--name", "box", "--fresh", "--task", "true"];
    for words in [&["agent", "rm", "box"][..], &["rm", "box"], &fresh] {
        let refused = instance.run(words);
        assert_eq!(refused.code, 7, "{words:?}: {}", refused.stderr);
        for expected in
            ["\n  branch main: 1 commit\n", "loose (not committed)\n", "hint: ", "palisade agent sync box"]
        {
            assert!(refused.stderr.contains(expected), "{words:?}: {}", refused.stderr);
        }
    }
    // Also when it is stopped: it is looked at, and stopped again.
    instance.run(["stop", "box"]).ok();
    assert_eq!(instance.run(["rm", "box"]).code, 7);
    assert_eq!(instance.run(["ls", "--json"]).ok().json()[0]["state"], "stopped");

    assert_eq!(instance.run(["agent", "sync", "box"]).code, 0);
    instance.run(["agent", "rm", "box"]).ok();
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
    assert_eq!(git(&instance, "log -1 --format=%s"), "never seen");
}

fn forced_removal_archives_everything_and_says_where(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo x > code && git commit -qam precious && echo y > loose && echo '*.o' > .gitignore && echo z > a.o").ok();
    let removed = instance.run(["rm", "--force", "box"]).ok();
    let archive = git(&instance, "for-each-ref --format=%(refname) refs/palisade/archive");
    assert!(removed.stderr.contains(&format!("its work is archived as {archive}\n")), "{}", removed.stderr);
    assert!(removed.stderr.contains("1 file that git ignores"), "{}", removed.stderr);
    assert_eq!(git(&instance, &format!("show {archive}:files/loose")), "y");
    assert_eq!(git(&instance, "status --porcelain"), "");
    // A namesake does not touch it.
    task(&instance, &[], "echo other > code").ok();
    instance.run(["agent", "rm", "--force", "box"]).ok();
    assert_eq!(git(&instance, &format!("show {archive}:files/loose")), "y");
    assert_eq!(git(&instance, "for-each-ref refs/palisade/archive").lines().count(), 2);
}

fn work_on_no_branch_a_stash_and_a_tag_are_work(method: &'static str) {
    let instance = repository(method);
    task(
        &instance,
        &[],
        "echo s > code && git stash -q && git commit -q --allow-empty -m tagged && git tag only && \
         git reset -q --hard HEAD~1 && git checkout -q --detach && git commit -q --allow-empty -m detached",
    )
    .ok();
    let refused = instance.run(["agent", "rm", "box"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    for expected in ["commits on no branch, at ", "stash entry: WIP on main", "tag only\n"] {
        assert!(refused.stderr.contains(expected), "{}", refused.stderr);
    }
    let synced = instance.run(["agent", "sync", "box"]);
    assert_eq!(synced.code, 7, "{}", synced.stderr);
    assert!(synced.stderr.contains("which is on no branch\n  next: git branch NAME "), "{}", synced.stderr);
    assert!(
        synced.stderr.contains("1 tag of the agent's: only; create them with --tags\n"),
        "{}",
        synced.stderr
    );
    inside(&instance, "git switch -qc found");
    let synced = instance.run(["agent", "sync", "--tags", "box"]).ok();
    assert!(synced.stderr.contains("created tag: only\n"), "{}", synced.stderr);
    assert_eq!(git(&instance, "log -1 --format=%s found"), "detached");
    assert_eq!(git(&instance, "log -1 --format=%s only"), "tagged");
    instance.run(["agent", "rm", "--force", "box"]).ok();
}

fn a_working_agent_is_not_ended_unasked(method: &'static str) {
    let instance = repository(method);
    task(&instance, &["--detach"], "exec sleep 1000").ok();
    let fresh = ["agent", "start", "shell", "--name", "box", "--fresh", "--task", "true"];
    for words in [&["agent", "rm", "box"][..], &["rm", "box"], &fresh] {
        let refused = instance.run(words);
        assert_eq!(refused.code, 7, "{words:?}: {}", refused.stderr);
        assert!(
            refused.stderr.contains("an agent is working in sandbox 'box' (session 'agent')"),
            "{}",
            refused.stderr
        );
    }
    let sessions = instance.run(["sessions", "box", "--json"]).ok().json();
    assert_eq!(sessions[0]["state"], "running", "nothing was ended");
    // Its files are not moved under it either.
    git(&instance, "commit --quiet --allow-empty -m newer");
    let started = task(&instance, &["--worktree", "side"], "true").ok();
    assert!(
        started.stderr.contains("an agent is working in /workspace, so its files stay"),
        "{}",
        started.stderr
    );
    instance.run(["agent", "rm", "--force", "box"]).ok();
}

fn a_worktree_with_work_is_not_removed_unasked(method: &'static str) {
    let instance = repository(method);
    task(&instance, &["--worktree", "exp"], "echo 'a day' > work.txt").ok();
    let remove = ["agent", "worktree", "rm", "exp", "--name", "box"];
    let refused = instance.run(remove);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stderr.contains(".worktrees/exp: "), "{}", refused.stderr);
    let removed = instance.run(remove.iter().chain(&["--force"])).ok();
    let archive = removed.stderr.lines().find_map(|line| line.strip_prefix("archived as "));
    let archive = archive
        .map(str::to_owned)
        .unwrap_or_else(|| git(&instance, "for-each-ref --format=%(refname) refs/palisade/archive"));
    assert_eq!(git(&instance, &format!("show {archive}:files-1/work.txt")), "a day");

    task(&instance, &["--worktree", "busy", "--detach"], "exec sleep 1000").ok();
    let refused = instance.run(["agent", "worktree", "rm", "busy", "--name", "box"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stderr.contains("(session 'agent-busy')"), "{}", refused.stderr);
}

fn what_cannot_be_archived_is_given_up_by_name_only(method: &'static str) {
    let instance = repository(method);
    task(
        &instance,
        &[],
        "mkdir locked && echo x > locked/x && chmod 000 locked && echo x > code && git commit -qam kept",
    )
    .ok();
    // As root inside nothing is unreadable, and then there is nothing to give up.
    let synced = instance.run(["agent", "sync", "box"]);
    if method == "noop" && palisade_testing::is_root() {
        inside(&instance, "chmod 755 locked");
        return;
    }
    assert_eq!(synced.code, 7, "{}", synced.stderr);
    assert!(synced.stderr.contains("main: 1 commit\n"), "commits come all the same: {}", synced.stderr);
    assert!(synced.stderr.contains("  locked: Permission denied"), "{}", synced.stderr);
    for words in [&["agent", "rm", "box"][..], &["rm", "--force", "box"]] {
        let refused = instance.run(words);
        assert_eq!(refused.code, 7, "{words:?}: {}", refused.stderr);
        assert!(refused.stderr.contains("locked: Permission denied"), "{}", refused.stderr);
    }
    let other = instance.run(["agent", "rm", "box", "--discard", "other"]);
    assert_eq!(other.code, 2, "{}", other.stderr);
    instance.run(["agent", "rm", "box", "--discard", "box"]).ok();
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
    assert!(!git(&instance, "for-each-ref refs/palisade/archive").is_empty(), "earlier archives stay");
}

fn stop_archives_and_a_stopped_sandbox_can_be_synced(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo x > code && git commit -qam work && echo y > loose").ok();
    assert_eq!(instance.run(["stop", "box"]).ok().stderr, "");
    let archive = git(&instance, "for-each-ref --format=%(refname) refs/palisade/archive");
    assert_eq!(git(&instance, &format!("show {archive}:files/loose")), "y");
    assert!(instance.run(["agent", "diff", "box"]).ok().stdout.contains("+y"));
    assert!(instance.run(["agent", "log", "box"]).ok().stdout.contains("    work\n"));
    let synced = without_archive(instance.run(["agent", "sync", "box"])).ok();
    assert_eq!(synced.stderr, "main: 1 commit\nmain: changes in loose\n");
    assert_eq!(instance.run(["ls", "--json"]).ok().json()[0]["state"], "stopped", "as it was before");
}

fn archives_are_listed_and_restored_when_the_sandbox_is_gone(method: &'static str) {
    let instance = repository(method);
    task(
        &instance,
        &[],
        "git checkout -qb idea && echo x > code && git commit -qam idea && echo loose > code",
    )
    .ok();
    instance.run(["rm", "--force", "box"]).ok();
    let listed = instance.run(["agent", "history", "--json"]).ok().json();
    let entries: Vec<&str> = listed[0]["entries"]
        .as_array()
        .unwrap()
        .iter()
        .map(|entry| entry["what"].as_str().unwrap())
        .collect();
    assert_eq!(entries.len(), 2, "{listed}");
    assert!(entries.contains(&"branch idea"), "{listed}");
    let shown = instance.run(["agent", "history", "box"]).ok().stdout;
    assert!(shown.starts_with("box/1  2"), "{shown}");
    let restored = instance.run(["agent", "history", "restore", "box/1"]).ok();
    assert!(restored.stderr.contains("branch idea: branch idea\n"), "{}", restored.stderr);
    assert_eq!(git(&instance, "log -1 --format=%s idea"), "idea");
    assert_eq!(git(&instance, "status --porcelain"), "", "no file is touched");
    git(&instance, "checkout --quiet idea");
    git(&instance, "stash pop --quiet");
    assert_eq!(std::fs::read_to_string(instance.work().join("code")).unwrap(), "loose\n");
    assert_eq!(instance.run(["agent", "history", "restore", "box/9"]).code, 6);

    let kept = instance.run(["agent", "history", "prune", "--older-than", "1d"]).ok();
    assert_eq!(kept.stderr, "no archive is that old\n");
    assert_eq!(instance.run(["agent", "history", "--json"]).ok().json().as_array().unwrap().len(), 1);
    assert_eq!(instance.run(["agent", "history", "prune", "--older-than", "soon"]).code, 2);
}

fn files_are_saved_when_git_inside_is_broken(method: &'static str) {
    let instance = repository(method);
    task(&instance, &[], "echo precious > precious && rm -rf .git/HEAD .git/objects").ok();
    assert_ne!(instance.run(["rm", "box"]).code, 0);
    let removed = instance.run(["rm", "--force", "box"]).ok();
    let path = removed.stderr.lines().find_map(|line| line.split_once("its files are saved in ")).unwrap().1;
    let listed = std::process::Command::new("tar").args(["tf", path]).output().unwrap();
    let listed = String::from_utf8(listed.stdout).unwrap();
    assert!(listed.lines().any(|name| name.ends_with("precious")), "{listed}");
}
