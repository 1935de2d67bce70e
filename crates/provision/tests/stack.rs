//! Stacks on a real engine with the real Compose: up, looked at, failed, given up, taken down.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod support;

use palisade_core::{Diagnostic as _, ExitCode, Secret, VariableName};
use palisade_provision::{ComposeEnvironment, ContainerState, LogRange, Progress, Redactor, StackError};
use palisade_testing::{eventually, requires};
use support::{Project, run};

const SHOP: &str = "\
services:
  api:
    image: @IMAGE@
    command: [sh, -c, 'echo listening; exec httpd -f -p 80 -h /www']
    stop_grace_period: 0s
    volumes: ['data:/data']
  job:
    image: @IMAGE@
    command: ['true']
    depends_on: [api]
volumes:
  data:
";

#[test]
fn a_stack_comes_up_is_looked_at_and_leaves_nothing() {
    requires!(docker, compose);
    let project = Project::new(SHOP);
    let (up, told) = project.up();
    up.unwrap();
    let api = format!("Container {}-api-1", project.stack.project);
    assert!(told.contains(&Progress::Step { what: api, state: "Started".into() }), "{told:?}");

    let ended = || {
        run(project.stack.states()).unwrap().iter().all(|it| it.service != "job" || it.exit_code == Some(0))
    };
    eventually("the job ends", ended);
    let states = run(project.stack.states()).unwrap();
    let seen: Vec<_> = states.iter().map(|it| (it.service.as_str(), it.state)).collect();
    assert_eq!(seen, [("api", ContainerState::Running), ("job", ContainerState::Exited)]);
    let mut lines = Vec::new();
    run(project.stack.logs(&["api".into()], LogRange::Last(5), |line| lines.push(line))).unwrap();
    assert_eq!(lines, ["listening"]);

    // Again is as good as once.
    project.up().0.unwrap();
    project.down().unwrap();
    assert_eq!(project.left(), Vec::<String>::new());
    project.down().unwrap();
}

#[test]
fn a_service_that_fails_is_named_with_what_it_said_and_without_its_secrets() {
    requires!(docker, compose);
    let mut project = Project::new(
        "\
services:
  db:
    image: @IMAGE@
    command: [sh, -c, 'echo no room for $$TOKEN; exit 3']
    environment: {TOKEN: '${TOKEN}'}
  api:
    image: @IMAGE@
    command: [sleep, '1000']
    depends_on: {db: {condition: service_completed_successfully}}
",
    );
    project.env_file("secrets", "TOKEN='canary-of-the-stack'\n");
    project.stack.redactor = Redactor::new(&[Secret::new("canary-of-the-stack")]);
    let error = project.up().0.unwrap_err();
    assert_eq!((error.code(), error.exit()), ("stack-not-up", ExitCode::Provisioning));
    assert!(!format!("{error} {error:?}").contains("canary"), "{error:?}");
    let StackError::NotUp { services, .. } = error else { panic!("{error:?}") };
    let seen: Vec<_> =
        services.iter().map(|it| (it.service.as_str(), it.state.as_str(), it.lines.join("\n"))).collect();
    assert_eq!(seen, [("db", "exited with code 3", "no room for [redacted]".into())]);
}

#[test]
fn an_image_that_cannot_be_had_is_the_reason() {
    requires!(docker, compose);
    let project = Project::new("services: {api: {image: 'nowhere.invalid/none:1', pull_policy: never}}\n");
    let error = project.up().0.unwrap_err();
    assert_eq!(error.code(), "stack-not-up");
    assert!(error.to_string().contains("nowhere.invalid/none:1"), "{error}");
}

#[test]
fn a_call_that_is_dropped_ends_compose_and_the_next_one_goes_on() {
    requires!(docker, compose);
    let project = Project::new(
        "\
services:
  slow:
    image: @IMAGE@
    command: [sleep, '1000']
    stop_grace_period: 0s
    healthcheck: {test: [CMD, 'false'], interval: 1s, retries: 1000}
  api:
    image: @IMAGE@
    command: [sleep, '1000']
    stop_grace_period: 0s
    depends_on: {slow: {condition: service_healthy}}
",
    );
    // It never comes up, so it is given up as soon as a container has started.
    run(async {
        let started = tokio::sync::Notify::new();
        let up = project.stack.up(|step| {
            if matches!(&step, Progress::Step { state, .. } if state == "Started") {
                started.notify_one();
            }
        });
        tokio::select! {
            result = up => panic!("{result:?}"),
            () = started.notified() => {}
        }
    });
    let mark = format!("--project-name\0{}\0", project.stack.project);
    eventually("Compose is gone", || !processes().iter().any(|line| line.contains(&mark)));
    assert!(!project.left().is_empty());
    project.down().unwrap();
    assert_eq!(project.left(), Vec::<String>::new());
}

/// The command line of every process, its words ended by NULs.
fn processes() -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten();
    let lines = processes.filter_map(|process| std::fs::read(process.path().join("cmdline")).ok());
    lines.map(|line| String::from_utf8_lossy(&line).into_owned()).collect()
}

#[test]
fn what_is_missing_or_wrong_is_told_with_its_remedy() {
    requires!(compose);
    let mut project = Project::new("services: {api: {image: x, bogus: 1}}\n");
    let error = project.render().unwrap_err();
    assert_eq!((error.code(), error.exit()), ("compose-file-invalid", ExitCode::Configuration));
    assert!(error.to_string().contains("Additional property bogus is not allowed"), "{error}");

    project.write("worktree/docker-compose.yml", "services: {api: {image: x}}\n");
    project.stack.environment = ComposeEnvironment::of(
        [
            ("PATH".into(), std::env::var_os("PATH").unwrap()),
            ("DOCKER_HOST".into(), "unix:///nonexistent".into()),
        ],
        &[],
        &[],
    );
    let error = project.up().0.unwrap_err();
    assert_eq!((error.code(), error.exit()), ("engine-unreachable", ExitCode::Preflight));

    project.stack.docker = project.root().join("none");
    let error = project.render().unwrap_err();
    assert_eq!((error.code(), error.exit()), ("docker-missing", ExitCode::Preflight));
    let program = |text: &str| {
        use std::os::unix::fs::PermissionsExt as _;
        let path = project.write("docker", text);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(0o755)).unwrap();
        path.as_path().to_owned()
    };
    let old = program("#!/bin/sh\necho 2.17.3\n");
    let mut stack = project.stack.clone();
    stack.docker = old;
    let error = run(stack.render()).unwrap_err();
    assert_eq!(error.to_string(), "Docker Compose 2.17.3 is too old; 2.24.4 is needed");
    program("#!/bin/sh\nexit 1\n");
    assert_eq!(run(stack.render()).unwrap_err().code(), "compose-missing");
    program("#!/bin/sh\nexec sleep 1000\n");
    stack.patience.answer = std::time::Duration::from_millis(200);
    assert_eq!(run(stack.render()).unwrap_err().exit(), ExitCode::Timeout);
}

#[test]
fn the_projects_own_env_file_and_the_hosts_variables_stay_out() {
    requires!(compose);
    let mut project = Project::new(
        "services: {api: {image: 'x:${TAG:-none}-${PALISADE_TEST_HOST:-none}', env_file: [mine]}}\n",
    );
    project.write(
        "worktree/.env",
        "TAG=from-the-repository\nCOMPOSE_FILE=/nowhere\nDOCKER_HOST=tcp://nowhere\n",
    );
    project.write("worktree/mine", "CARRIED=${PALISADE_TEST_HOST}\nPALISADE_TEST_HOST\n");
    let host = || std::env::vars_os().chain([("PALISADE_TEST_HOST".into(), "canary".into())]);
    let image = |project: &Project| {
        let model = project.render().unwrap();
        let service = &model.services["api"];
        (service.image.clone().unwrap(), service.environment.iter().cloned().collect::<Vec<_>>())
    };
    project.stack.environment = ComposeEnvironment::of(host(), &[], &[]);
    assert_eq!(image(&project).0, "x:none-none");
    // The control: what is granted arrives.
    let granted = [VariableName::new("PALISADE_TEST_HOST").unwrap()];
    project.stack.environment = ComposeEnvironment::of(host(), &[], &granted);
    assert_eq!(image(&project).0, "x:none-canary");
}
