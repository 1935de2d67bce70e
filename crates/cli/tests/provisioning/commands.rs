//! What the commands do besides the scenarios: reuse, conflicts, refusals, refreshing, collecting.

use crate::scenarios::{WELLNESS, WELLNESS_SERVICES, wellness};
use crate::support::{Project, docker, fetch, left_of};
use palisade_testing::{Instance, Pty, requires};
use std::net::TcpListener;
use std::path::PathBuf;

fn tree(project: &Project) -> PathBuf {
    project.worktree("wellness-agent-impl-ux-M1")
}

#[test]
fn a_branch_that_exists_is_taken_as_it_is() {
    requires!(docker, compose, git);
    let project = wellness();
    project.git("git checkout --quiet -b impl/ux-M1 && echo work > work && git add work && git commit --quiet -m work && git checkout --quiet main");
    let outcome = project.run(["impl", "ux/M1"]).ok();
    assert!(
        outcome.stderr.starts_with(
            "Created worktree: ../wellness-agent-impl-ux-M1\n  Branch: impl/ux-M1 (was there before)\n"
        ),
        "{}",
        outcome.stderr
    );
    assert_eq!(std::fs::read_to_string(tree(&project).join("work")).unwrap(), "work\n");
    let refused = project.run(["done", "ux/M1"]);
    let commit = project.git("git rev-parse --short=10 impl/ux-M1");
    let expected = format!(
        "error: {} holds work that nobody else has:\n  unmerged: {commit} work\n\
         hint: commit it, and merge or push the branch\n\
         hint: or give up what is not committed; the branch stays: palisade done ux/M1 --force\n",
        tree(&project).display()
    );
    assert_eq!((refused.code, refused.stderr), (7, expected));
    project.git("git merge --quiet impl/ux-M1");
    project.run(["done", "ux/M1"]).ok();
}

#[test]
fn without_an_engine_nothing_is_removed_and_the_hint_is_to_repeat_the_command() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux/M1"]).ok();
    let mut command = project.command(&project.root(), ["done", "ux/M1"]);
    let refused = Instance::finish(command.env("DOCKER_HOST", "unix:///nowhere/engine"));
    assert_eq!(refused.code, 4, "{refused:?}");
    assert!(
        refused.stderr.ends_with("hint: nothing was removed; once that is mended, repeat the command\n"),
        "{}",
        refused.stderr
    );
    assert!(!refused.stderr.contains("sandbox start"), "{}", refused.stderr);
    assert!(tree(&project).is_dir() && !project.taken().is_empty());
    project.run(["done", "ux/M1"]).ok();
}

#[test]
fn what_is_in_the_way_is_a_conflict_and_stays() {
    requires!(git);
    let project = wellness();
    std::fs::create_dir(tree(&project)).unwrap();
    std::fs::write(tree(&project).join("mine"), "mine").unwrap();
    let refused = project.run(["impl", "ux/M1"]);
    let expected = format!(
        "error: {} exists, and is no worktree of this repository\nhint: move it away, or choose another name or milestone\n",
        tree(&project).display()
    );
    assert_eq!((refused.code, refused.stderr), (7, expected));
    assert_eq!(std::fs::read_to_string(tree(&project).join("mine")).unwrap(), "mine");

    project.git("git checkout --quiet -b impl/ux-M2");
    let refused = project.run(["impl", "ux/M2"]);
    let expected = format!(
        "error: impl/ux-M2 is checked out at {} already\nhint: work there, or choose another name or milestone\n",
        project.root().display()
    );
    assert_eq!((refused.code, refused.stderr), (7, expected));
    assert_eq!(project.taken(), [""; 0]);
}

#[test]
fn an_existing_worktree_is_offered_to_be_started() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux/M1"]).ok();
    let running = project.run(["impl", "ux/M1"]);
    assert_eq!(running.code, 7);
    assert!(
        running.stderr.starts_with("error: the services of ux/M1 run already, from "),
        "{}",
        running.stderr
    );

    assert_eq!(
        project.run_in(&tree(&project), ["sandbox", "stop"]).ok().stderr,
        "Services stopped. Their data stays.\n"
    );
    let status = project.run_in(&tree(&project), ["sandbox", "status", "--json"]).ok().json();
    assert_eq!((status["state"].as_str(), status["stage"].as_str()), (Some("stopped"), Some("stopped")));
    let unasked = project.run(["impl", "ux/M1"]);
    assert_eq!(unasked.code, 7);
    assert!(
        unasked.stderr.contains("hint: or have them started by the same command: --start\n"),
        "{}",
        unasked.stderr
    );

    let mut person = Pty::start(&mut project.command(&project.root(), ["impl", "ux/M1"]), 40, 200);
    person.wait_for("? ../wellness-agent-impl-ux-M1 exists. Start its services? [Y/n] ");
    person.type_keys("n\r");
    assert_eq!(person.wait(), 7);
    let mut person = Pty::start(&mut project.command(&project.root(), ["impl", "ux/M1"]), 40, 200);
    person.wait_for("[Y/n] ");
    person.type_keys("\r");
    person.wait_for("Sandbox:");
    assert_eq!(person.wait(), 0);
    assert_eq!(fetch(project.base + 1, "/api/v1/health"), "mine\n");
}

#[test]
fn work_that_is_not_committed_is_never_removed_unasked() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux/M1"]).ok();
    std::fs::write(tree(&project).join("new"), "new").unwrap();
    std::fs::write(tree(&project).join("docker-compose.yml"), "changed").unwrap();
    let refused = project.run_in(&tree(&project), ["done"]);
    let expected = format!(
        "error: {} holds work that nobody else has:\n  uncommitted: docker-compose.yml\n  untracked: new\n",
        tree(&project).display()
    );
    assert_eq!(refused.code, 7);
    assert!(refused.stderr.starts_with(&expected), "{}", refused.stderr);
    assert_eq!(fetch(project.base + 1, "/api/v1/health"), "mine\n");
    let stack = project.stacks().remove(0);
    let done = project.run_in(&tree(&project), ["done", "--force"]).ok();
    assert!(done.stderr.ends_with("note: the directory you are in is gone\n"), "{}", done.stderr);
    assert_eq!(left_of(&stack), [""; 0]);
    assert!(!tree(&project).exists());
    assert_eq!(project.run(["done", "ux/M1"]).code, 6);
}

#[test]
fn a_directory_that_git_knows_nothing_of_is_not_removed_unasked() {
    requires!(git);
    let project = wellness();
    project.op("echo '[ERROR] You are not currently signed in.' >&2; exit 1");
    assert_eq!(project.run(["impl", "ux/M1"]).code, 5);
    std::fs::write(tree(&project).join("notes"), "mine").unwrap();
    let refused = project.run_in(&tree(&project), ["sandbox", "refresh-secrets"]);
    assert_eq!(refused.code, 7);
    assert!(refused.stderr.ends_with("hint: start them: palisade sandbox start\n"), "{}", refused.stderr);
    project.git("rm -r .git/worktrees");
    let refused = project.run(["done", "ux/M1"]);
    let told = format!(
        "error: {} is no worktree that git knows of, so nobody knows what would be lost with it\n\
         hint: move it away, or have it removed with all that is in it: palisade done ux/M1 --force\n",
        tree(&project).display()
    );
    assert_eq!((refused.code, refused.stderr), (7, told));
    assert!(tree(&project).join("notes").exists());
    project.run(["done", "ux/M1", "--force"]).ok();
    assert!(!tree(&project).exists());
}

#[test]
fn a_file_that_was_changed_in_the_worktree_is_kept_until_asked() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux/M1"]).ok();
    let copy = tree(&project).join("config.yaml");
    // What nobody touched follows the main working tree.
    project.write("config.yaml", "second\n");
    project.run_in(&tree(&project), ["sandbox", "start"]).ok();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "second\n");
    std::fs::write(&copy, "tweaked\n").unwrap();
    let kept = project.run_in(&tree(&project), ["sandbox", "start"]).ok();
    assert!(
        kept.stderr.contains(
            "  config.yaml ← config.yaml kept: it was changed in the worktree (--refresh-files replaces it)\n"
        ),
        "{}",
        kept.stderr
    );
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "tweaked\n");
    project.run_in(&tree(&project), ["sandbox", "refresh", "--refresh-files"]).ok();
    assert_eq!(std::fs::read_to_string(&copy).unwrap(), "second\n");
    assert_eq!(fetch(project.base + 1, "/api/v1/health"), "second\n");
}

#[test]
fn worktreeinclude_brings_ignored_files_along() {
    requires!(git);
    let project = wellness();
    project.op("exit 1");
    project.write(".worktreeinclude", "*.local\nsub/\n!not.local\n");
    for (path, text) in
        [("a.local", "a"), ("sub/b.local", "b"), ("not.local", "x"), ("sub/tracked", "t"), (".env", "no")]
    {
        project.write(path, text);
    }
    project.git("ln -s /etc/passwd link.local && git add sub/tracked .worktreeinclude && git commit --quiet -m include");
    let outcome = project.run(["impl", "ux/M1"]);
    let expected = "note: 1 that .worktreeinclude names are no plain files, and stay behind\n\
                    Provisioned files:\n  config.yaml ← config.yaml ✓\n  a.local ← a.local ✓\n  sub/b.local ← sub/b.local ✓\n";
    assert!(outcome.stderr.contains(expected), "{}", outcome.stderr);
    let there = |name: &str| tree(&project).join(name).exists();
    assert_eq!(
        [there("a.local"), there("sub/b.local"), there("not.local"), there(".env"), there("link.local")],
        [true, true, false, false, false]
    );
}

const TWO: &str = r#"
[project]
name = "two"

[sandbox.secrets]
ONE = "op://v/one/f"
OTHER = "op://v/other/f"
"#;

const TWO_SERVICES: &str = r#"
services:
  one:
    image: palisade-services
    command: sh -c "echo got $$ONE; sleep 1000000"
    stop_grace_period: 0s
    environment: {ONE: "${ONE}"}
  other:
    image: palisade-services
    command: sleep 1000000
    stop_grace_period: 0s
    environment: {OTHER: "${OTHER}"}
"#;

#[test]
fn refreshing_secrets_recreates_the_services_that_get_another_one() {
    requires!(docker, compose, git);
    let project = Project::new(TWO, TWO_SERVICES);
    project.op("printf 'first %s' \"$3\"");
    project.run(["impl", "ux/M1"]).ok();
    let (worktree, stack) = (project.worktree("two-impl-ux-M1"), project.stacks().remove(0));
    let filter = format!("label=com.docker.compose.project={stack}");
    let containers = || docker(&["ps", "--no-trunc", "--filter", &filter, "--format", "{{.Names}} {{.ID}}"]);
    let id = |service: &str| {
        let line =
            containers().lines().find(|line| line.contains(&format!("-{service}-"))).unwrap().to_owned();
        line.split(' ').nth(1).unwrap().to_owned()
    };
    let (one, other) = (id("one"), id("other"));
    let same = project.run_in(&worktree, ["sandbox", "refresh-secrets"]).ok();
    assert!(same.stderr.ends_with("No secret changed.\n"), "{}", same.stderr);
    assert_eq!((id("one"), id("other")), (one.clone(), other.clone()));

    project.op("case $3 in *one*) printf second ;; *) printf 'first %s' \"$3\" ;; esac");
    let changed = project.run_in(&worktree, ["sandbox", "refresh-secrets"]).ok();
    assert!(changed.stderr.ends_with("Recreated: one\n"), "{}", changed.stderr);
    assert_ne!(id("one"), one);
    assert_eq!(id("other"), other);
    assert_eq!(project.variable(&stack, "one", "ONE").as_deref(), Some("second"));
    // What a service says is shown without the secret that it was given.
    palisade_testing::eventually("the service says something", || {
        project.run_in(&worktree, ["sandbox", "logs", "one"]).ok().stdout == "got [redacted]\n"
    });
    let unknown = project.run_in(&worktree, ["sandbox", "logs", "won"]);
    let told = "error: there is no service 'won' here\nhint: the services are: one, other\n";
    assert_eq!((unknown.code, unknown.stderr.as_str()), (6, told));
    project.run_in(&worktree, ["sandbox", "refresh"]).ok();
    assert_ne!(id("other"), other);
}

#[test]
fn a_port_that_somebody_has_is_left_to_them() {
    requires!(docker, compose, git);
    let project = wellness();
    let _listener = TcpListener::bind(("::1", project.base + 1)).unwrap();
    let outcome = project.run(["impl", "ux/M1"]).ok();
    let expected =
        format!("Sandbox:\n  Slot: 2\n  WELLNESS_AGENT_WELLNESS_AGENT_PORT: {}\n", project.base + 2);
    assert!(outcome.stderr.contains(&expected), "{}", outcome.stderr);
    assert_eq!(project.taken(), ["wellness-agent-2"]);
}

#[test]
fn gc_gives_back_the_slot_of_a_worktree_that_somebody_removed() {
    requires!(docker, compose, git);
    let project = Project::new(TWO, TWO_SERVICES);
    project.op("printf secret");
    project.run(["impl", "ux/M1"]).ok();
    project.run(["impl", "ux/M2"]).ok();
    let stacks = project.stacks();
    project.git("git worktree remove --force ../two-impl-ux-M1");
    assert_eq!(project.run(["gc", "--dry-run"]).ok().stdout, "slot two-1: would be removed\n");
    assert_eq!(project.run(["gc"]).ok().stdout, "slot two-1: removed\n");
    assert_eq!(left_of(&stacks[0]), [""; 0]);
    assert_eq!(project.taken(), ["two-2"]);
    assert_eq!(left_of(&stacks[1]).len(), 3, "two containers and a network of the other");
}

/// Whether a service's volume still holds what was written into it.
fn data(stack: &str) -> String {
    docker(&[
        "run",
        "--rm",
        "--volume",
        &format!("{stack}_data:/data"),
        "palisade-services",
        "cat",
        "/data/row",
    ])
}

#[test]
fn gc_never_removes_the_data_of_services_and_follows_a_worktree_that_was_moved() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux/M1"]).ok();
    let stack = project.stacks().remove(0);
    docker(&["exec", &format!("{stack}-wellness-agent-1"), "sh", "-c", "echo precious > /data/row"]);

    // Moved: git knows where to, and everything goes on there.
    project.git("git worktree move ../wellness-agent-impl-ux-M1 ../moved");
    let moved = project.worktree("moved");
    let told = format!("slot wellness-agent-1, whose worktree was moved to {}: recovered\n", moved.display());
    let would = told.replace(": recovered", ": would be recovered");
    assert_eq!(project.run(["gc", "--dry-run"]).ok().stdout, would);
    assert_eq!(project.run(["gc"]).ok().stdout, told);
    assert_eq!(project.run(["gc"]).ok().stderr, "nothing to clean up\n");
    let status = project.run_in(&moved, ["sandbox", "status", "--json"]).ok().json();
    assert_eq!((status["state"].as_str(), status["slot"].as_u64()), (Some("running"), Some(1)));
    assert_eq!(data(&stack), "precious\n");

    // Not there, and git says nothing of it being gone: as with a disk that is not mounted.
    let hidden = project.worktree("hidden");
    std::fs::rename(&moved, &hidden).unwrap();
    let kept = project.run(["gc", "--json"]).ok().json();
    assert_eq!(kept[0]["action"], "kept", "{kept}");
    assert!(kept[0]["what"].as_str().unwrap().contains("git still lists it at"), "{kept}");
    assert_eq!(kept[0]["hint"], "remove it with all that is in it: palisade done ux/M1");
    assert_eq!(project.taken(), ["wellness-agent-1"]);
    assert_eq!(fetch(project.base + 1, "/api/v1/health"), "mine\n", "its services run on");
    std::fs::rename(&hidden, &moved).unwrap();
    assert_eq!(project.run(["gc"]).ok().stderr, "nothing to clean up\n");

    // Gone: the services stop, and their data, the slot and its number stay until `done`.
    project.git("git worktree remove --force ../moved");
    for _ in 0..2 {
        let kept = project.run(["gc"]).ok().stdout;
        let expected = format!(
            "slot wellness-agent-1, whose worktree is gone, with data in {stack}_data: kept; \
             remove it with all that is in it: palisade done ux/M1\n"
        );
        assert_eq!(kept, expected);
    }
    assert_eq!(data(&stack), "precious\n");
    assert!(!project.slots().join("wellness-agent-1/.env.secrets").exists());
    project.run(["impl", "ux/M2"]).ok();
    assert_eq!(project.taken(), ["wellness-agent-1", "wellness-agent-2"], "its number stays taken");
    project.run(["done", "ux/M1"]).ok();
    assert_eq!(left_of(&stack), [""; 0]);
    assert_eq!(project.taken(), ["wellness-agent-2"]);
}

#[test]
fn gc_believes_nothing_to_be_gone_where_git_cannot_be_asked() {
    requires!(git);
    let project = wellness();
    project.op("echo '[ERROR] You are not currently signed in.' >&2; exit 1");
    assert_eq!(project.run(["impl", "ux/M1"]).code, 5);
    std::fs::rename(tree(&project), project.worktree("hidden")).unwrap();
    std::fs::rename(project.root().join(".git"), project.root().join("git")).unwrap();
    let kept = project.run(["gc", "--json"]).ok().json();
    std::fs::rename(project.root().join("git"), project.root().join(".git")).unwrap();
    std::fs::rename(project.worktree("hidden"), tree(&project)).unwrap();
    assert_eq!(kept[0]["action"], "kept", "{kept}");
    assert!(kept[0]["what"].as_str().unwrap().contains("git cannot be asked in"), "{kept}");
    assert_eq!(project.taken(), ["wellness-agent-1"]);
}

#[test]
fn done_follows_a_worktree_that_was_moved_and_loses_no_work_in_it() {
    requires!(git);
    let project = wellness();
    project.op("echo '[ERROR] You are not currently signed in.' >&2; exit 1");
    assert_eq!(project.run(["impl", "ux/M1"]).code, 5);
    project.git("git worktree move ../wellness-agent-impl-ux-M1 ../moved");
    let moved = project.worktree("moved");
    std::fs::write(moved.join("new"), "new").unwrap();
    let refused = project.run(["done", "ux/M1"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stderr.contains("untracked: new"), "{}", refused.stderr);
    std::fs::remove_file(moved.join("new")).unwrap();
    project.run(["done", "ux/M1"]).ok();
    assert!(!moved.exists());
    assert_eq!(project.git("git worktree list --porcelain | grep -c ^worktree"), "1");
}

#[test]
fn what_the_worktree_says_about_secrets_does_not_count() {
    requires!(git);
    let project = wellness();
    project.op("echo '[ERROR] You are not currently signed in.' >&2; exit 1");
    assert_eq!(project.run(["impl", "ux/M1"]).code, 5);
    // A service with the worktree mounted could write this.
    let more = "[sandbox.secrets]\nSTOLEN = \"$CANARY_OF_THE_HOST\"\n";
    let infra = WELLNESS.replace("[sandbox.secrets]\n", more).replace("@BASE@", &project.base.to_string());
    std::fs::write(tree(&project).join(".devops-ai/infra.toml"), infra).unwrap();
    let outcome = project.run_in(&tree(&project), ["sandbox", "start"]);
    assert!(!outcome.stderr.contains("STOLEN"), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains(
            "note: .devops-ai/infra.toml of the worktree differs; the main working tree's counts\n"
        ),
        "{}",
        outcome.stderr
    );
}

#[test]
fn commands_outside_of_a_sandbox_say_so() {
    requires!(git);
    let project = Project::new(WELLNESS, WELLNESS_SERVICES);
    for words in [
        &["sandbox", "start"][..],
        &["sandbox", "stop"],
        &["sandbox", "status"],
        &["sandbox", "logs"],
        &["done"],
    ] {
        let outcome = project.run(words.iter().copied());
        let expected = format!(
            "error: {} is in no worktree of a sandbox\nhint: list them: palisade slots\n\
             hint: a worktree that was moved is found again by: palisade gc\n",
            project.root().display()
        );
        assert_eq!((outcome.code, outcome.stderr), (6, expected), "{words:?}");
    }
}
