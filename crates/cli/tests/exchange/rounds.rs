//! Task, sync, commit, next task: situations in which a next round once was not possible.

use crate::{clean_repository, host, inside, sync, task};

#[test]
fn after_a_sync_and_a_commit_the_next_task_starts_from_it() {
    let instance = clean_repository();
    for round in 1..=3 {
        task(&instance, &[], &format!("echo {round} >> code && echo {round} > new{round}")).ok();
        sync(&instance, &[], 0);
        // What sync wrote is no reason to refuse, committed or not.
        task(&instance, &[], &format!("grep -q {round} code && cat new{round}")).ok();
        host(&instance, &format!("git add -A; git commit -qm 'round {round}'"));
    }
    let started = task(&instance, &[], "git log -1 --format=%s && git status --porcelain").ok();
    assert_eq!(started.stdout, "round 3\n");
}

#[test]
fn an_amended_or_rebased_host_reaches_the_agent() {
    let instance = clean_repository();
    task(&instance, &[], "echo agent > agents && git add -A && git commit -qm agents").ok();
    sync(&instance, &[], 0);
    host(&instance, "git commit -q --amend -m 'agents, amended'");
    assert_eq!(task(&instance, &[], "git log -1 --format=%s").ok().stdout, "agents, amended\n");
    inside(&instance, "echo again > again && git add -A && git commit -qm again");
    sync(&instance, &[], 0);
    host(
        &instance,
        "git switch -qc base HEAD~2; git commit -q --allow-empty -m base; git switch -q main; git rebase -q base",
    );
    assert_eq!(
        task(&instance, &[], "git log --format=%s").ok().stdout,
        "again\nagents, amended\nbase\nfirst\n"
    );
}

#[test]
fn a_rejected_commit_does_not_come_back() {
    let instance = clean_repository();
    task(&instance, &[], "echo bad > bad && git add -A && git commit -qm bad").ok();
    sync(&instance, &[], 0);
    host(&instance, "git reset -q --hard HEAD~1");
    task(&instance, &[], "echo good > good && git add -A && git commit -qm good").ok();
    sync(&instance, &[], 0);
    assert_eq!(host(&instance, "git log --format=%s; ls"), "good\nfirst\ncode\ngood");
}

#[test]
fn the_users_branch_switch_is_followed() {
    let instance = clean_repository();
    task(&instance, &[], "true").ok();
    host(&instance, "git switch -qc feature; echo f > f; git add -A; git commit -qm feature");
    let started = task(&instance, &[], "git branch --show-current && cat f").ok();
    assert_eq!(started.stdout, "feature\nf\n");
}

#[test]
fn an_untracked_env_file_stops_nothing_and_a_stash_works_after_a_sync() {
    let instance = clean_repository();
    host(&instance, "echo KEY=1 > .env");
    task(&instance, &[], "echo new > new && echo more >> code").ok();
    sync(&instance, &[], 0);
    host(&instance, "git stash -q --include-untracked; test ! -e new; git stash pop -q; cat new");
    task(&instance, &[], "cat new").ok();
}

#[test]
fn a_sparse_checkout_gets_what_it_shows_and_commits_the_rest() {
    let instance = clean_repository();
    host(
        &instance,
        "mkdir a b; echo 1 > a/a; echo 1 > b/b; git add -A; git commit -qm dirs; git sparse-checkout set --cone a",
    );
    task(&instance, &[], "ls b && echo 2 > a/a && echo 2 > b/b && git commit -qam both && echo 3 > a/a").ok();
    sync(&instance, &[], 0);
    assert_eq!(
        host(&instance, "git log -1 --format=%s; git show HEAD:b/b; cat a/a; git status --porcelain; ls"),
        "both\n2\n3\n M a/a\na\ncode"
    );
}

#[test]
fn a_partial_clone_starts_where_its_remote_can_be_reached() {
    for remote in ["reachable", "gone"] {
        let instance = clean_repository();
        host(
            &instance,
            "git config uploadpack.allowFilter true; git config uploadpack.allowAnySHA1InWant true
             echo 2 > code; git commit -qam second; mkdir ../origin; mv .git ../origin; rm code
             git clone -q --no-local --filter=blob:none ../origin ../partial; mv ../partial/.git ../partial/* .",
        );
        if remote == "gone" {
            host(&instance, "rm -r ../origin");
        }
        let started = task(&instance, &[], "git show HEAD~1:code");
        match remote {
            "gone" => {
                assert_eq!(started.code, 7, "{}", started.stderr);
                assert!(started.stderr.contains("this is a partial clone"), "{}", started.stderr);
                assert!(started.stderr.contains("hint: "), "{}", started.stderr);
            }
            _ => assert_eq!(started.ok().stdout, "1\n2\n3\n"),
        }
    }
}

#[test]
fn a_moved_repository_is_found_again() {
    let instance = clean_repository();
    task(&instance, &[], "echo more >> code && git commit -qam more").ok();
    let work = instance.work();
    let moved = work.with_file_name("moved");
    std::fs::rename(&work, &moved).unwrap();
    std::fs::create_dir(&work).unwrap();
    let mut command = instance.command(["agent", "sync", "box"]);
    let synced = palisade_testing::Instance::finish(command.current_dir(&moved));
    assert_eq!(synced.code, 0, "{}", synced.stderr);
    assert!(std::fs::read_to_string(moved.join("code")).unwrap().contains("more"));
}
