//! Situations that sync once reported wrongly, tried with the whole program.

use crate::{clean_repository, host, inside, sync, task};

#[test]
fn commits_on_a_branch_that_is_not_checked_out_are_reported() {
    let instance = clean_repository();
    task(
        &instance,
        &[],
        "git switch -qc idea && echo x > x && git add -A && git commit -qm idea && git switch -q main",
    )
    .ok();
    let synced = instance.run(["agent", "sync", "box", "--json"]).ok();
    let branches = synced.json()["branches"].clone();
    let idea = branches.as_array().unwrap().iter().find(|branch| branch["name"] == "idea");
    assert!(idea.is_some(), "{branches}");
    assert_eq!(host(&instance, "git log -1 --format=%s idea"), "idea");
}

#[test]
fn json_names_commits_that_left_a_branch_and_a_branch_that_was_made_under_another_name() {
    let instance = clean_repository();
    task(&instance, &[], "echo one > code && git commit -qam one && git branch a/b && git branch other").ok();
    host(&instance, "git branch a");
    let branches = |synced: palisade_testing::Outcome| {
        let branches = synced.json()["branches"].as_array().unwrap().clone();
        let facts = ["name", "commits", "count", "dropped", "from", "to", "created_branch"];
        let facts = branches.iter().map(|branch| facts.map(|fact| branch[fact].clone()));
        serde_json::json!(facts.collect::<Vec<_>>())
    };
    let first = host(&instance, "git rev-parse main");
    let synced = branches(instance.run(["agent", "sync", "box", "--json"]).ok());
    let one = host(&instance, "git rev-parse main");
    assert_eq!(
        synced,
        serde_json::json!([
            ["a/b", "created", 0, 0, null, one, "palisade/box/a/b"],
            ["main", "forwarded", 1, 0, first, one, null],
            ["other", "created", 0, 0, null, one, "other"],
        ])
    );
    inside(&instance, "echo two > code && git commit -q --amend -am two");
    let synced = branches(instance.run(["agent", "sync", "box", "--json"]).ok());
    let two = host(&instance, "git rev-parse main");
    assert_eq!(synced, serde_json::json!([["main", "forwarded", 1, 1, one, two, null]]));
}

#[test]
fn each_diverged_branch_waits_under_its_own_name_and_the_hints_work() {
    let instance = clean_repository();
    host(&instance, "git branch side");
    task(
        &instance,
        &[],
        "echo a > a && git add -A && git commit -qm on-main && git switch -q side && echo b > b && git add -A && \
         git commit -qm on-side && git switch -q main",
    )
    .ok();
    host(
        &instance,
        "git commit -q --allow-empty -m mine; git switch -q side; git commit -q --allow-empty -m mine; git switch -q main",
    );
    let synced = sync(&instance, &["--all"], 7);
    for branch in ["main", "side"] {
        assert!(synced.contains(&format!("waits on branch palisade/box/{branch}")), "{synced}");
        assert_eq!(
            host(&instance, &format!("git log -1 --format=%s palisade/box/{branch}")),
            format!("on-{branch}")
        );
    }
    // The hint is a command, and it merges the right branch.
    let hint = synced.lines().find_map(|line| line.split_once("next: git merge palisade/box/main")).is_some();
    assert!(hint, "{synced}");
    host(&instance, "git merge -q --no-edit palisade/box/main");
    assert_eq!(host(&instance, "git log -1 --format=%s HEAD^2"), "on-main");
}

#[test]
fn a_conflict_ends_with_seven_and_a_command_that_shows_the_agents_file() {
    let instance = clean_repository();
    task(&instance, &[], "echo agent > code").ok();
    host(&instance, "echo user > code");
    let synced = sync(&instance, &[], 7);
    let command = synced.lines().find_map(|line| line.trim().strip_prefix("compare: ")).expect("a command");
    assert!(command.starts_with("git "), "{synced}");
    assert!(host(&instance, &format!("{command} | cat")).contains("agent"), "{command}");
    assert_eq!(host(&instance, "cat code"), "user", "the user's file stays");
}

#[test]
fn a_renamed_branch_does_not_stop_the_others() {
    let instance = clean_repository();
    host(&instance, "git branch side");
    task(
        &instance,
        &[],
        "git branch -m side renamed && git commit -q --allow-empty -m on-main && git switch -q renamed && \
         git commit -q --allow-empty -m on-renamed && git switch -q main",
    )
    .ok();
    sync(&instance, &["--all"], 0);
    assert_eq!(host(&instance, "git log -1 --format=%s main"), "on-main");
    assert_eq!(host(&instance, "git log -1 --format=%s renamed"), "on-renamed");
    assert_eq!(host(&instance, "git log -1 --format=%s side"), "first");
}

#[test]
fn the_hosts_branches_and_tags_are_there_inside() {
    let instance = clean_repository();
    host(&instance, "git tag -a -m one v1; git switch -qc feature; git commit -q --allow-empty -m feature");
    let outcome = task(
        &instance,
        &[],
        "git describe && git diff --stat main...HEAD && git switch -q main && git log -1 --format=%s",
    )
    .ok();
    assert!(
        outcome.stdout.starts_with("v1-1-g") && outcome.stdout.ends_with("first\n"),
        "{}",
        outcome.stdout
    );
}

#[test]
fn one_file_that_git_cannot_add_does_not_stop_the_rest() {
    let instance = clean_repository();
    task(&instance, &[], "git init -q empty; echo x > 'GIT~1'; echo y > locked; chmod 000 locked; echo more >> code; git commit -qam more").ok();
    let synced = sync(&instance, &[], 7);
    assert!(synced.contains("main: 1 commit"), "{synced}");
    assert!(synced.contains("locked") && synced.contains("GIT~1"), "{synced}");
    inside(&instance, "rm -rf empty 'GIT~1' locked");
    sync(&instance, &[], 0);
}
