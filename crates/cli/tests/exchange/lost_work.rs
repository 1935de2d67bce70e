//! Situations in which work was once lost, tried with the whole program.

use crate::{clean_repository, host, inside, sync, task};

#[test]
fn commits_of_a_nested_repository_survive_the_sandbox() {
    let instance = clean_repository();
    task(
        &instance,
        &[],
        "mkdir -p sub/nested && cd sub/nested && git init -q && echo deep > deep && git add -A && git commit -qm deep",
    )
    .ok();
    let refused = instance.run(["agent", "rm", "box"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stderr.contains("nested repository sub/nested"), "{}", refused.stderr);
    let synced = sync(&instance, &[], 7);
    assert!(synced.contains("nested repository sub/nested: its work is archived"), "{synced}");
    instance.run(["agent", "rm", "--force", "box"]).ok();
    let found = host(
        &instance,
        "for git in $(find .git/palisade -name HEAD -printf '%h\n'); do \
         git --git-dir=$git log --all --format=%s; done",
    );
    assert!(found.lines().any(|subject| subject == "deep"), "{found}");
}

#[test]
fn archives_of_nested_repositories_are_listed_restored_and_pruned() {
    let instance = clean_repository();
    task(
        &instance,
        &[],
        "git init -q 'sub/a b' && cd 'sub/a b' && echo deep > deep && git add -A && git commit -qm deep && echo loose > deep",
    )
    .ok();
    instance.run(["agent", "rm", "--force", "box"]).ok();
    let history = || instance.run(["agent", "history", "--json"]).ok().json();
    let archive = history().as_array().unwrap().iter().find(|it| it["nested"] == "sub/a b").cloned().unwrap();
    let command = |what: &str| {
        let entry = archive["entries"]
            .as_array()
            .unwrap()
            .iter()
            .find(|it| it["what"].as_str().unwrap().starts_with(what));
        entry.unwrap_or_else(|| panic!("{archive:#}"))["command"].as_str().unwrap().replace("NAME", "brought")
    };
    // The printed commands work in a repository of the user's.
    let fetch = (command("branch"), command("uncommitted"));
    let files = host(
        &instance,
        &format!(
            "git init -q -b own ../own && cd ../own && {} && git switch -q brought && cat deep && {} && cat deep",
            fetch.0, fetch.1
        ),
    );
    assert!(files.starts_with("deep\n") && files.trim_end().ends_with("loose"), "{files}");
    assert!(instance.run(["agent", "history"]).ok().stdout.contains("box/1:sub/a b  "));
    let restored = instance.run(["agent", "history", "restore", "box/1:sub/a b"]).ok().stderr;
    let clone =
        restored.lines().find_map(|line| line.split_once("working tree: ")).expect("how to clone it").1;
    let subject = host(&instance, &format!("{clone} && git -C 'sub/a b' log --format=%s"));
    assert_eq!(subject.trim_end(), "deep", "{restored}");
    // What the user has made of it in the meantime keeps the bare repository; without that it goes with its last archive.
    instance.run(["agent", "history", "prune", "--older-than", "0h"]).ok();
    assert_eq!(history(), serde_json::json!([]));
    let bare = archive["repository"].as_str().unwrap();
    assert!(std::path::Path::new(bare).exists());
}

#[test]
fn the_repository_of_a_nested_one_goes_with_its_last_archive() {
    let instance = clean_repository();
    task(
        &instance,
        &[],
        "git init -q sub && cd sub && echo deep > deep && git add -A && git commit -qm deep",
    )
    .ok();
    sync(&instance, &[], 7);
    let listed = instance.run(["agent", "history", "--json"]).ok().json();
    let bare =
        listed.as_array().unwrap().iter().find_map(|it| it["repository"].as_str()).expect("it").to_owned();
    assert!(std::path::Path::new(&bare).exists());
    instance.run(["agent", "history", "prune", "--older-than", "1h"]).ok();
    assert!(std::path::Path::new(&bare).exists(), "it is not that old");
    let pruned = instance.run(["agent", "history", "prune", "--older-than", "0h"]).ok().stdout;
    assert!(pruned.lines().any(|line| line == "box/1:sub"), "{pruned}");
    assert!(!std::path::Path::new(&bare).exists());
}

#[test]
fn commits_of_a_submodule_survive_the_sandbox() {
    let instance = clean_repository();
    host(
        &instance,
        "git init -q ../library; cd ../library; echo 1 > lib; git add -A; git commit -qm lib; cd ../work; \
         git -c protocol.file.allow=always submodule add -q ../library lib; git commit -qm submodule",
    );
    task(
        &instance,
        &[],
        "cd lib && echo 2 > lib && git commit -qam 'in the library' && cd .. && git commit -qam bump",
    )
    .ok();
    instance.run(["agent", "rm", "--force", "box"]).ok();
    let found = host(
        &instance,
        "for git in $(find .git/palisade .git/modules -name HEAD -printf '%h\n'); do \
         git --git-dir=$git log --all --format=%s 2>/dev/null || :; done",
    );
    assert!(found.lines().any(|subject| subject == "in the library"), "{found}");
}

#[test]
fn waiting_work_survives_the_sandbox_and_a_namesake() {
    let instance = clean_repository();
    task(&instance, &[], "echo agent > agents && git add -A && git commit -qm agents").ok();
    host(&instance, "git commit -q --allow-empty -m users");
    let synced = sync(&instance, &[], 7);
    assert!(synced.contains("waits on branch palisade/box/main"), "{synced}");
    let waiting = host(&instance, "git rev-parse palisade/box/main");
    instance.run(["rm", "--force", "box"]).ok();
    task(&instance, &[], "echo other > other && git add -A && git commit -qm other").ok();
    host(&instance, "git commit -q --allow-empty -m 'users again'");
    sync(&instance, &[], 7);
    let kept = host(&instance, &format!("git for-each-ref --contains {waiting} --format='%(refname)'"));
    assert!(kept.contains("refs/palisade/archive/"), "{kept}");
}

#[test]
fn the_users_commits_on_a_waiting_branch_are_not_moved_away() {
    let instance = clean_repository();
    task(&instance, &[], "echo agent > agents && git add -A && git commit -qm agents").ok();
    host(&instance, "git commit -q --allow-empty -m users");
    sync(&instance, &[], 7);
    host(
        &instance,
        "git switch -q palisade/box/main; echo mine > mine; git add -A; git commit -qm mine; git switch -q main",
    );
    let mine = host(&instance, "git rev-parse palisade/box/main");
    inside(&instance, "echo more > more && git add -A && git commit -qm more");
    let synced = sync(&instance, &[], 7);
    assert_eq!(host(&instance, "git rev-parse palisade/box/main"), mine, "{synced}");
}

#[test]
fn what_the_user_staged_after_a_sync_is_not_taken_back() {
    let instance = clean_repository();
    task(&instance, &[], "echo agent >> code; echo new > new").ok();
    sync(&instance, &[], 0);
    host(&instance, "git add code");
    inside(&instance, "git checkout -q -- code; rm new");
    let synced = sync(&instance, &[], 0);
    assert!(synced.contains("taken back") && synced.contains("new"), "{synced}");
    assert_eq!(host(&instance, "git diff --cached --name-only; tail -n1 code; ls"), "code\nagent\ncode");
}

#[test]
fn a_removed_sandbox_without_an_agent_names_repositories_with_commits_of_their_own() {
    let instance = clean_repository();
    instance.run(["create", "plain"]).ok();
    instance.run(["start", "plain"]).ok();
    let script =
        "git init -q idea && cd idea && git -c user.name=a -c user.email=a@b commit -q --allow-empty -m idea";
    instance.run(["exec", "plain", "--", "sh", "-c", script]).ok();
    instance.run(["stop", "plain"]).ok();
    let removed = instance.run(["rm", "plain"]).ok();
    assert!(
        removed.stderr.contains(
            "removed with it: the repository /workspace/idea, with commits that no remote of it had"
        ),
        "{}",
        removed.stderr
    );
}
