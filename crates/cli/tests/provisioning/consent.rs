//! What a repository's services ask for that is not theirs to have, and services that do not come up.

use crate::support::{CANARY, MARK, Project, docker, left_of};
use palisade_testing::{Instance, Pty, requires};

const PLAIN: &str = "[project]\nname = \"plain\"\n\n[sandbox.ports]\nPLAIN_PORT = @BASE@\n";

fn services(more: &str) -> String {
    format!(
        "services:\n  web:\n    image: palisade-services\n    command: sleep 1000000\n    stop_grace_period: 0s\n{more}"
    )
}

#[test]
fn what_reaches_the_host_is_agreed_to_by_name_once_and_again_when_it_grows() {
    requires!(docker, compose, git);
    let project = Project::new(PLAIN, &services("    cap_add: [NET_ADMIN]\n"));
    let refused = project.run(["impl", "ux/M1"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    let told = "error: the services reach the host, and you have not agreed to it: service web has the capability NET_ADMIN\n\
                hint: when this is what you want, agree with --allow-host-access; it is asked again only for more\n";
    assert!(refused.stderr.ends_with(told), "{}", refused.stderr);
    assert_eq!(left_of(&project.stacks()[0]), [""; 0]);
    let worktree = project.worktree("plain-impl-ux-M1");
    project.run_in(&worktree, ["sandbox", "start", "--allow-host-access"]).ok();
    // Not asked again, neither here nor in another sandbox of the project.
    project.run_in(&worktree, ["sandbox", "start"]).ok();
    project.run(["impl", "ux/M2"]).ok();

    project.write("docker-compose.yml", &services("    cap_add: [NET_ADMIN, SYS_PTRACE]\n    pid: host\n"));
    project.commit("more");
    let mut person = Pty::start(&mut project.command(&project.root(), ["impl", "ux/M3"]), 40, 200);
    let asked = person.wait_for("? Do you agree? [y/N] ");
    assert!(!asked.contains("NET_ADMIN") && asked.contains("has the capability SYS_PTRACE"), "{asked}");
    person.type_keys("\r");
    assert_eq!(person.wait(), 7);
    let listed = project.run(["trust", "--list"]).ok().stdout;
    assert!(listed.contains("allows: service web has the capability NET_ADMIN\n"), "{listed}");
    project.run(["trust", "--revoke"]).ok();
    assert_eq!(project.run(["trust", "--list"]).ok().stdout, "");
    assert_eq!(project.run_in(&worktree, ["sandbox", "start"]).code, 7);
}

#[test]
fn variables_of_the_user_and_files_beyond_the_worktree_are_asked_for_before_compose_reads_them() {
    requires!(docker, compose, git);
    let project = Project::new(
        PLAIN,
        &services("    environment: [\"STOLEN=${CANARY_OF_THE_USER}\"]\n    volumes: [\"/etc:/host\"]\n"),
    );
    let mut command = project.command(&project.root(), ["impl", "ux/M1"]);
    let refused = Instance::finish(command.env("CANARY_OF_THE_USER", CANARY));
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    assert!(refused.stderr.contains("takes CANARY_OF_THE_USER from your environment"), "{}", refused.stderr);
    assert!(!refused.stderr.contains(MARK));
    // The control: agreed to, it is there.
    let worktree = project.worktree("plain-impl-ux-M1");
    let mut command = project.command(&worktree, ["sandbox", "start", "--allow-host-access"]);
    Instance::finish(command.env("CANARY_OF_THE_USER", CANARY)).ok();
    assert_eq!(project.variable(&project.stacks()[0], "web", "STOLEN").as_deref(), Some(CANARY));
}

#[test]
fn names_and_ports_that_only_one_can_have_become_each_sandboxs_own() {
    requires!(docker, compose, git);
    let project =
        Project::new(PLAIN, &services("    container_name: the-web-@BASE@\n    ports: [\"@BASE@:80\"]\n"));
    let refused = project.run(["impl", "ux/M1"]);
    assert_eq!(refused.code, 7, "{}", refused.stderr);
    let hint = "hint: give each sandbox its own with --fixed override, or leave them as they are with --fixed keep\n";
    assert!(refused.stderr.ends_with(hint), "{}", refused.stderr);
    project.run_in(&project.worktree("plain-impl-ux-M1"), ["sandbox", "start", "--fixed", "override"]).ok();
    project.run(["impl", "ux/M2"]).ok();
    let status =
        |name: &str| project.run_in(&project.worktree(name), ["sandbox", "status", "--json"]).ok().json();
    let port = |name: &str| status(name)["services"][0]["ports"][0]["published"].clone();
    assert_eq!(
        (port("plain-impl-ux-M1"), port("plain-impl-ux-M2")),
        ((project.base + 1).into(), (project.base + 2).into())
    );
}

#[test]
fn a_secret_for_one_service_reaches_no_other() {
    requires!(docker, compose, git);
    let infra = "[project]\nname = \"plain\"\n\n[sandbox.secrets]\nTOKEN = { ref = \"op://v/i/f\", services = [\"web\"] }\n";
    let other =
        "  other:\n    image: palisade-services\n    command: sleep 1000000\n    stop_grace_period: 0s\n";
    let project = Project::new(infra, &services(other));
    project.run(["impl", "ux/M1"]).ok();
    let stack = &project.stacks()[0];
    assert_eq!(project.variable(stack, "web", "TOKEN").as_deref(), Some(CANARY));
    assert_eq!(project.variable(stack, "other", "TOKEN"), None);
    project.write(
        "docker-compose.yml",
        &services(&format!("{other}    environment: {{MINE: \"${{TOKEN}}\"}}\n")),
    );
    project.commit("other wants it, too");
    let refused = project.run(["impl", "ux/M2"]);
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(
        refused.stderr.contains("error: service other refers to TOKEN, which is not for it\n"),
        "{}",
        refused.stderr
    );
}

#[test]
fn a_service_that_fails_is_shown_with_what_it_said_last_and_without_secrets() {
    requires!(docker, compose, git);
    let infra = "[project]\nname = \"plain\"\n\n[sandbox.secrets]\nTOKEN = \"op://v/i/f\"\n";
    let failing = "    environment: {TOKEN: \"${TOKEN}\"}\n    depends_on: {bad: {condition: service_completed_successfully}}\n  \
                   bad:\n    image: palisade-services\n    environment: {TOKEN: \"${TOKEN}\"}\n    command: sh -c 'echo cannot use $$TOKEN; exit 3'\n";
    let project = Project::new(infra, &services(failing));
    project.op("printf s3cr3t-value");
    let outcome = project.run(["impl", "ux/M1"]);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("error: the services did not come up: "), "{}", outcome.stderr);
    assert!(
        outcome.stderr.contains("  bad: exited with code 3\n    | cannot use [redacted]\n"),
        "{}",
        outcome.stderr
    );
    assert!(
        outcome
            .stderr
            .ends_with("hint: once that is mended, go on from the worktree: palisade sandbox start\n"),
        "{}",
        outcome.stderr
    );
    assert!(!project.slots().join("plain-1/.env.secrets").exists());
}

#[test]
fn services_that_never_get_healthy_are_left_up_to_be_looked_at() {
    requires!(docker, compose, git);
    let infra = format!("{PLAIN}\n[sandbox.health]\nendpoint = \"/health\"\ntimeout = 1\n");
    let compose = services("    ports: [\"${PLAIN_PORT}:80\"]\n")
        .replace("command: sleep 1000000", "command: sh -c 'echo not ready; exec httpd -f -p 80 -h /www'");
    let project = Project::new(&infra, &compose);
    let outcome = project.run(["impl", "ux/M1"]);
    assert_eq!(outcome.code, 8, "{}", outcome.stderr);
    let told = format!(
        "error: http://localhost:{}/health was not healthy within 1 seconds: it answers with status 404\n  web: running\n    | not ready\n",
        project.base + 1
    );
    assert!(outcome.stderr.contains(&told), "{}", outcome.stderr);
    let filter = format!("label=com.docker.compose.project={}", project.stacks()[0]);
    assert_eq!(docker(&["ps", "--quiet", "--filter", &filter]).lines().count(), 1);
    let status =
        project.run_in(&project.worktree("plain-impl-ux-M1"), ["sandbox", "status", "--json"]).ok().json();
    assert_eq!(
        (status["state"].as_str(), status["health"]["state"].as_str()),
        (Some("running"), Some("unhealthy"))
    );
}
