//! Stacks on a real engine with the real Compose: up, looked at, failed, given up, taken down.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod support;

use palisade_config::infra::{CodeMount, MountAccess, Otel};
use palisade_core::{Diagnostic as _, ExitCode, GuestPath, ProjectPath, Secret, VariableName};
use palisade_provision::{
    CollisionChoice, ComposeEnvironment, ContainerState, HealthGate, LogRange, OverrideInput, Progress,
    Redactor, ScopedSecret, SlotPort, StackError, plan_override,
};
use palisade_testing::{eventually, requires};
use support::{Project, docker, processes, run};

const SHOP: &str = "\
services:
  api:
    image: palisade-services
    command: [sh, -c, 'echo listening; exec httpd -f -p 80 -h /www']
    stop_grace_period: 0s
    volumes: ['data:/data']
  job:
    image: palisade-services
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
fn an_image_that_was_built_for_a_stack_goes_with_it_and_another_stays() {
    requires!(docker, compose);
    let project = Project::new(
        "\
services:
  api: {build: ., command: [sleep, '1000'], stop_grace_period: 0s}
  db: {image: palisade-services, command: [sleep, '1000'], stop_grace_period: 0s}
",
    );
    project.write("worktree/Dockerfile", "FROM palisade-services\nCOPY Dockerfile /made\n");
    project.up().0.unwrap();
    let images = || docker(&["image", "ls", "--format", "{{.Repository}}"]);
    let (built, known) = (format!("{}-api\n", project.stack.project), "palisade-services\n");
    assert!(images().contains(&built) && images().contains(known), "{}", images());
    project.down().unwrap();
    assert!(!images().contains(&built) && images().contains(known), "{}", images());
}

#[test]
fn a_service_that_fails_is_named_with_what_it_said_and_without_its_secrets() {
    requires!(docker, compose);
    let mut project = Project::new(
        "\
services:
  db:
    image: palisade-services
    command: [sh, -c, 'echo no room for $$TOKEN; exit 3']
    environment: {TOKEN: '${TOKEN}'}
  api:
    image: palisade-services
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
    image: palisade-services
    command: [sleep, '1000']
    stop_grace_period: 0s
    healthcheck: {test: [CMD, 'false'], interval: 1s, retries: 1000}
  api:
    image: palisade-services
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

/// Everything that two sandboxes of one project cannot both have, and everything that an override adds.
const FIXED: &str = "\
services:
  api:
    image: palisade-services
    container_name: one-of-a-kind-@MARK@
    command: [sh, -c, 'echo $$HOSTNAME > /data/who; echo ok > /www/health; exec httpd -f -p 80 -h /www']
    stop_grace_period: 0s
    ports: ['127.0.0.1:@BASE@:80', '127.0.0.1:${OTHER_PORT}:81']
    volumes: ['.:/app', 'data:/data']
    networks: [back]
  db:
    image: palisade-services
    command: [sleep, '1000']
    stop_grace_period: 0s
    environment: [A=b]
  side: {image: palisade-services, command: [sleep, '1000'], stop_grace_period: 0s, network_mode: 'service:db'}
  off: {image: nowhere.invalid/none, profiles: [never]}
volumes: {data: {name: 'data-@MARK@'}}
networks: {back: {name: 'back-@MARK@'}}
";

fn slot(mark: &str, base: u16, port: u16) -> Project {
    let mut project = Project::new(&FIXED.replace("@MARK@", mark).replace("@BASE@", &base.to_string()));
    project.write("worktree/.git", "gitdir: elsewhere\n");
    project.write("worktree/code/main", "");
    project.env_file("sandbox", &format!("OTHER_PORT='{}'\n", port + 1));
    project.env_file("secrets", "TOKEN='for the database'\n");
    let base_model = project.render().unwrap();
    let mount = CodeMount {
        service: "db".into(),
        source: ProjectPath::new("code").unwrap(),
        target: GuestPath::new("/code").unwrap(),
        access: MountAccess::ReadOnly,
    };
    let name = VariableName::new("TOKEN").unwrap();
    let text = plan_override(&OverrideInput {
        model: &base_model,
        inactive: &["off".into()],
        worktree: &project.stack.worktree,
        mounts: &[mount],
        otel: Some(&Otel { endpoint: Some("http://otel:4317".into()), network: Some(mark.into()) }),
        secrets: &[ScopedSecret { name, services: vec!["db".into()] }],
        ports: &[SlotPort { base, port }, SlotPort { base: base + 1, port: port + 1 }],
        collisions: CollisionChoice::Override,
    })
    .unwrap();
    project.override_file(&text);
    project
}

#[test]
fn two_slots_of_a_project_that_fixes_everything_run_side_by_side() {
    requires!(docker, compose);
    let mark = format!("palisade-{}", std::process::id());
    // Nobody else's, as far as one can know without holding them.
    let held: Vec<_> = (0..6).map(|_| std::net::TcpListener::bind("127.0.0.1:0").unwrap()).collect();
    let free = |at: usize| held[at].local_addr().unwrap().port();
    let (base, first, second) = (free(0), free(1), free(2));
    drop(held);
    docker(&["network", "create", &mark]);
    let projects = [slot(&mark, base, first), slot(&mark, base, second)];
    for project in &projects {
        project.up().0.unwrap();
    }
    for (project, port) in projects.iter().zip([first, second]) {
        let gate = HealthGate { port, endpoint: "/health".into(), timeout: palisade_testing::PATIENCE };
        run(gate.wait(&project.stack, |_| ())).unwrap();
        let container = |service: &str| format!("{}-{service}-1", project.stack.project);
        let inside = |service: &str, script: &str| {
            let script = format!("{script} 2>&1 || echo refused");
            docker(&["exec", &container(service), "sh", "-c", &script])
        };
        // Each has its own volume, and the engine's name for its own container in it.
        assert_eq!(inside("api", "cat /data/who"), inside("api", "hostname"));
        // It writes the worktree, but not what the user's git believes.
        assert_eq!(inside("api", "touch /app/made"), "");
        assert!(project.root().join("worktree/made").exists());
        for harm in ["echo x > /app/.git", "rm /app/.git"] {
            assert!(inside("api", harm).contains("refused"), "{harm}");
        }
        assert_eq!(
            std::fs::read_to_string(project.root().join("worktree/.git")).unwrap(),
            "gitdir: elsewhere\n"
        );
        assert_eq!(
            inside("db", "echo $TOKEN $A $OTEL_EXPORTER_OTLP_ENDPOINT"),
            "for the database b http://otel:4317\n"
        );
        assert_eq!(inside("api", "echo ${TOKEN-none}"), "none\n");
        assert!(inside("db", "touch /code/x").contains("refused"));
        let networks =
            docker(&["inspect", "--format", "{{json .NetworkSettings.Networks}}", &container("db")]);
        let networks: std::collections::BTreeMap<String, serde_json::Value> =
            serde_json::from_str(&networks).unwrap();
        let own = format!("{}_default", project.stack.project);
        assert_eq!(networks.into_keys().collect::<Vec<_>>(), [mark.clone(), own]);
    }
    for project in &projects {
        project.down().unwrap();
        assert_eq!(project.left(), Vec::<String>::new());
    }

    // The control: as it is written, the second cannot come up beside the first.
    let [mut one, mut other] = projects;
    one.stack.override_file = None;
    other.stack.override_file = None;
    one.up().0.unwrap();
    assert_eq!(other.up().0.unwrap_err().code(), "stack-not-up");
    one.down().unwrap();
    other.down().unwrap();
    docker(&["network", "rm", &mark]);
}

#[test]
fn a_project_finds_itself_where_its_worktree_is() {
    requires!(compose);
    let project = Project::new(
        "services: {a: {image: x, volumes: ['${PWD}/one:/one', './two:/two'], env_file: own.env}}\n",
    );
    project.write("worktree/own.env", "OWN=x\n");
    let model = project.render().unwrap();
    let sources: Vec<_> = model.services["a"].volumes.iter().filter_map(|it| it.source.clone()).collect();
    assert_eq!(sources, ["one", "two"].map(|it| project.stack.worktree.join(it).to_string()));
    assert!(model.services["a"].environment.contains("OWN"));
}

#[test]
fn what_was_rendered_is_what_is_started_whatever_becomes_of_the_files() {
    requires!(docker, compose);
    let compose = "\
services:
  api:
    image: palisade-services
    command: ['sh', '-c', 'exec sleep 1000 # $${ODD} ${ODD}']
    stop_grace_period: 0s
    env_file: [own.env]
    environment: {A: 'x$$y'}
    ports: ['80']
";
    let mut project = Project::new(compose);
    project.write("worktree/own.env", "OWN=as rendered\n");
    project.env_file(".env.secrets", "ODD='o$d\"d'\n");
    let rendered = project.render().unwrap().rendered().clone();
    project.write(
        "worktree/docker-compose.yml",
        "services: {api: {image: palisade-services, privileged: true}}\n",
    );
    project.write("worktree/own.env", "OWN=another\n");
    project.override_file("services: {api: {ports: !override [], environment: {ODD: null}}}\n");
    project.stack.rendered = Some(rendered);
    project.up().0.unwrap();
    let container = format!("{}-api-1", project.stack.project);
    let format = "{{.HostConfig.Privileged}} {{json .Config.Cmd}} {{json .HostConfig.PortBindings}}";
    let told = docker(&["inspect", "--format", format, &container]);
    assert_eq!(told.trim(), r#"false ["sh","-c","exec sleep 1000 # ${ODD} o$d\"d"] {}"#);
    let inside = docker(&["exec", &container, "cat", "/proc/1/environ"]);
    for variable in ["A=x$y\0", "OWN=as rendered\0", "ODD=o$d\"d\0"] {
        assert!(inside.contains(variable), "{inside:?}");
    }
}
