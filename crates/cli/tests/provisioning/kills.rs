//! `kill -9` at and during every step of `impl` and `done`: the next command goes on, and nothing is left.

use crate::scenarios::wellness;
use crate::support::{Project, docker, fetch, left_of};
use palisade_host::fault::Step;
use palisade_testing::{Instance, Outcome, eventually, requires};
use std::path::Path;
use std::process::{Child, Stdio};

/// Of `impl`, in the order in which they are passed.
const BEGIN: [Step; 9] = [
    Step::ProvisionClaimed,
    Step::ProvisionWorktree,
    Step::ProvisionFiles,
    Step::ProvisionSecrets,
    Step::ProvisionEnvironment,
    Step::ProvisionSecretsWritten,
    Step::ProvisionOverride,
    Step::ProvisionUp,
    Step::ProvisionHealthy,
];
const FINISH: [Step; 3] = [Step::FinishDown, Step::FinishSecrets, Step::FinishWorktree];

const TREE: &str = "wellness-agent-impl-ux-M1";

/// Runs a command that dies at a step.
fn killed(project: &Project, words: &[&str], step: Step) -> Outcome {
    let marker = project.instance.home().join("marker");
    let _ = std::fs::remove_file(&marker);
    let mut command = project.command(&project.root(), words.iter().copied());
    command.env("PALISADE_FAULT", format!("kill:{}@{}", step.name(), marker.display()));
    let outcome = Instance::finish(&mut command);
    assert_eq!(outcome.code, -9, "{}: {}", step.name(), outcome.stderr);
    outcome
}

#[track_caller]
fn nothing_is_left(project: &Project, stacks: &[String], step: &str) {
    for stack in stacks {
        assert_eq!(left_of(stack), [""; 0], "{step}");
    }
    assert_eq!(project.taken(), [""; 0], "{step}");
    assert!(!project.worktree(TREE).exists(), "{step}");
    assert_eq!(project.git("git worktree list --porcelain | grep -c ^worktree"), "1", "{step}");
}

/// `sandbox start` where there is a worktree to stand in, else the same `impl` again.
fn goes_on(project: &Project, step: &str) {
    let worktree = project.worktree(TREE);
    let outcome = match worktree.is_dir() {
        true => project.run_in(&worktree, ["sandbox", "start"]),
        false => project.run(["impl", "ux/M1"]),
    };
    assert_eq!(outcome.code, 0, "{step}: {}", outcome.stderr);
    assert_eq!(fetch(project.base + 1, "/api/v1/health"), "mine\n", "{step}");
    assert_eq!(in_worktree(&worktree, "status --porcelain"), "", "{step}");
}

fn in_worktree(worktree: &Path, command: &str) -> String {
    let git =
        std::process::Command::new("git").args(command.split(' ')).current_dir(worktree).output().unwrap();
    String::from_utf8(git.stdout).unwrap()
}

#[test]
fn every_step_of_provisioning_is_tried_here() {
    let ours = |step: &&Step| step.name().starts_with("provision.") || step.name().starts_with("finish.");
    let all: Vec<Step> = Step::ALL.iter().filter(ours).copied().collect();
    assert_eq!(all, [&BEGIN[..], &FINISH].concat());
}

#[test]
fn killed_at_any_step_a_start_goes_on() {
    requires!(docker, compose, git);
    let project = wellness();
    for step in BEGIN {
        killed(&project, &["impl", "ux/M1"], step);
        goes_on(&project, step.name());
        let stacks = project.stacks();
        project.run(["done", "ux/M1"]).ok();
        nothing_is_left(&project, &stacks, step.name());
    }
}

#[test]
fn killed_at_any_step_done_removes_everything() {
    requires!(docker, compose, git);
    let project = wellness();
    for step in BEGIN {
        killed(&project, &["impl", "ux/M1"], step);
        let stacks = project.stacks();
        project.run(["done", "ux/M1"]).ok();
        nothing_is_left(&project, &stacks, step.name());
    }
}

#[test]
fn a_removal_that_was_killed_is_finished_by_the_next() {
    requires!(docker, compose, git);
    let project = wellness();
    for (step, next) in FINISH.into_iter().zip([&["done", "ux/M1"][..], &["done", "ux/M1"], &["gc"]]) {
        project.run(["impl", "ux/M1"]).ok();
        let stacks = project.stacks();
        killed(&project, &["done", "ux/M1"], step);
        project.run(next.iter().copied()).ok();
        nothing_is_left(&project, &stacks, step.name());
    }
}

#[test]
fn secrets_of_a_killed_impl_are_gone_after_gc() {
    requires!(git);
    let project = wellness();
    killed(&project, &["impl", "ux/M1"], Step::ProvisionSecretsWritten);
    let secrets = project.slots().join("wellness-agent-1/.env.secrets");
    assert!(secrets.exists());
    let told = project.run(["gc"]).ok().stdout;
    assert_eq!(told, "secrets of slot wellness-agent-1, which never started: removed\n");
    assert!(!secrets.exists());
    assert!(project.worktree(TREE).exists());
}

/// A command under way, to be killed in the middle.
fn under_way(project: &Project) -> Child {
    let mut command = project.command(&project.root(), ["impl", "ux/M1"]);
    command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap()
}

fn kill(mut child: Child) {
    child.kill().unwrap();
    child.wait().unwrap();
}

#[test]
fn killed_while_git_lays_the_files() {
    requires!(docker, compose, git);
    let project = wellness();
    // Git waits in the middle of its checkout for a filter of the user's.
    let (here, go) = (project.instance.home().join("here"), project.instance.home().join("go"));
    project.write("slow.txt", "slow\n");
    project.write(".gitattributes", "slow.txt filter=slow\n");
    project.commit("slow");
    let smudge =
        format!("touch {}; while [ ! -e {} ]; do sleep 0.05; done; cat", here.display(), go.display());
    project.git(&format!("git config filter.slow.smudge '{smudge}'"));
    let child = under_way(&project);
    eventually("git waits", || here.exists());
    kill(child);
    // Git itself goes on, and whoever comes next waits for it.
    std::fs::write(go, "").unwrap();
    goes_on(&project, "git");
    assert_eq!(std::fs::read_to_string(project.worktree(TREE).join("slow.txt")).unwrap(), "slow\n");
}

#[test]
fn killed_while_op_waits_for_a_fingerprint() {
    requires!(docker, compose, git);
    let project = wellness();
    let here = project.instance.home().join("here");
    project.op(&format!("touch {}; exec sleep 1000", here.display()));
    let child = under_way(&project);
    eventually("op waits", || here.exists());
    kill(child);
    project.op("printf later");
    goes_on(&project, "op");
}

#[test]
fn killed_while_services_start_and_while_their_health_is_waited_for() {
    requires!(docker, compose, git);
    let project = wellness();
    let good = std::fs::read_to_string(project.root().join("docker-compose.yml")).unwrap();
    let slow_start = good.replace("services:\n", "services:\n  first:\n    image: palisade-services\n    command: sleep 1000000\n    stop_grace_period: 0s\n    healthcheck: {test: \"false\", interval: 1s, retries: 1000}\n")
        .replace("    stop_grace_period: 0s\n    environment", "    stop_grace_period: 0s\n    depends_on: {first: {condition: service_healthy}}\n    environment");
    let never_healthy = good.replace("cp /app/config.yaml /www/api/v1/health", "true");
    for (service, file) in [("first", slow_start), ("wellness-agent", never_healthy)] {
        project.write("docker-compose.yml", &file);
        project.commit("slow");
        let child = under_way(&project);
        eventually("a service runs", || {
            let stacks = project.stacks();
            stacks.first().is_some_and(|stack| {
                let (project, service) = (
                    format!("label=com.docker.compose.project={stack}"),
                    format!("label=com.docker.compose.service={service}"),
                );
                !docker(&["ps", "--quiet", "--filter", &project, "--filter", &service]).is_empty()
            })
        });
        kill(child);
        std::fs::write(project.worktree(TREE).join("docker-compose.yml"), &good).unwrap();
        project.run_in(&project.worktree(TREE), ["sandbox", "start"]).ok();
        assert_eq!(fetch(project.base + 1, "/api/v1/health"), "mine\n");
        let stacks = project.stacks();
        project.run(["done", "--force", "ux/M1"]).ok();
        nothing_is_left(&project, &stacks, service);
        project.git("git branch --quiet -D impl/ux-M1");
    }
}
