//! A hostile repository against the real Compose: every way out is named, and nothing happens before it was agreed to.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod support;

use palisade_core::{Diagnostic as _, ExitCode};
use palisade_provision::{
    CollisionChoice, ComposeEnvironment, HostVariables, OverrideInput, Redactor, RemoteFiles, StackError,
    VariableValue, host_requests, scan_sources,
};
use palisade_testing::requires;
use std::ffi::OsString;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::time::Duration;
use support::{Project, processes, run};

fn requests(project: &Project) -> Vec<String> {
    let model = project.render().unwrap();
    let input = OverrideInput {
        model: &model,
        inactive: &[],
        worktree: &project.stack.worktree,
        mounts: &[],
        otel: None,
        secrets: &[],
        ports: &[],
        collisions: CollisionChoice::Override,
    };
    let root = project.root().canonicalize().unwrap();
    let told = host_requests(&input, &Redactor::default());
    told.iter().map(|it| it.to_string().replace(&*root.to_string_lossy(), "ROOT")).collect()
}

#[test]
fn every_way_out_of_a_hostile_file_is_named() {
    requires!(compose);
    let project = Project::new(
        "\
services:
  a:
    image: x
    privileged: true
    cap_add: [SYS_ADMIN]
    pid: host
    ipc: host
    uts: host
    userns_mode: host
    cgroup: host
    cgroup_parent: /mine
    devices: ['/dev/fuse:/dev/fuse']
    device_cgroup_rules: ['c 1:3 mr']
    security_opt: ['apparmor:unconfined', 'no-new-privileges:true']
    sysctls: {net.ipv4.ip_forward: 1}
    runtime: other
    oom_kill_disable: true
    labels: {ofelia.job-local.x.command: id}
    logging: {driver: syslog, options: {syslog-address: 'udp://host:1'}}
    volumes:
      - /nonexistent-palisade/engine.sock:/engine.sock
      - ~/.ssh:/ssh:ro
      - ./link:/link
      - ../beside:/beside
      - ${WHERE:-/nonexistent-palisade/default}:/default
      - ./fine:/fine
      - {type: bind, source: ./fine, target: /shared, bind: {propagation: rshared}}
      - data:/data
    secrets: [s]
    configs: [c]
    deploy: {resources: {reservations: {devices: [{capabilities: [gpu]}]}}}
  b:
    image: y
    network_mode: host
    volumes_from: ['container:other']
    build:
      context: ..
      dockerfile: /nonexistent-palisade/Dockerfile
      ssh: [default]
      network: host
      privileged: true
      additional_contexts: {more: ../more}
      cache_to: ['type=local,dest=../cache']
  c: {image: x, network_mode: 'container:other', external_links: [db]}
  d: {image: x, networks: [theirs, wire]}
volumes: {data: {driver_opts: {type: none, o: bind, device: /nonexistent-palisade/data}}}
networks: {theirs: {external: true, name: bridge}, wire: {driver: macvlan, driver_opts: {parent: eth0}}}
secrets: {s: {file: ../secret}}
configs: {c: {file: ./fine/link}}
",
    );
    project.write("worktree/fine/x", "");
    symlink("/etc", project.root().join("worktree/link")).unwrap();
    symlink("../../hidden", project.root().join("worktree/fine/link")).unwrap();
    let home = std::env::var("HOME").unwrap();
    let told: Vec<String> = requests(&project).into_iter().map(|it| it.replace(&home, "HOME")).collect();
    insta::assert_snapshot!(told.join("\n"));
}

#[test]
fn a_file_that_keeps_to_itself_asks_for_nothing() {
    requires!(compose);
    let project = Project::new(
        "\
x-common: &common {image: x, restart: unless-stopped, init: true, read_only: true, tmpfs: [/tmp], ulimits: {nofile: 9}}
services:
  api:
    <<: *common
    image: !reset null
    build: {context: ., args: {A: b}, target: dev}
    command: run
    environment: {A: b}
    env_file: [{path: .env.dev, required: false}]
    ports: ['127.0.0.1:8080:80']
    volumes: ['./src:/app', '.:/whole:ro', 'data:/data', '/anonymous', {type: tmpfs, target: /t}]
    networks: {default: {aliases: [x]}, back: }
    depends_on: {db: {condition: service_healthy}}
    extra_hosts: ['host.docker.internal:host-gateway']
    develop: {watch: [{path: ./src, action: sync, target: /src}]}
    deploy: {resources: {limits: {cpus: '1', memory: 1g}}, replicas: 2}
    secrets: [s]
    labels: {my.label: x}
    logging: {driver: json-file, options: {max-size: 1m}}
    cap_drop: [ALL]
    security_opt: ['no-new-privileges:true']
    stop_grace_period: 1s
    ipc: shareable
  db:
    <<: *common
    healthcheck: {test: [CMD, 'true'], interval: 1s}
    shm_size: 64m
    user: '1000'
  side: {image: x, network_mode: 'service:api', pid: 'service:api', ipc: 'service:api'}
volumes: {data: {labels: {a: b}}}
networks: {back: {internal: true, driver: bridge, ipam: {config: [{subnet: 10.99.0.0/24}]}}}
secrets: {s: {file: ./secret}}
",
    );
    project.write("worktree/secret", "");
    assert_eq!(requests(&project), Vec::<String>::new());
}

/// Nothing is declared, nothing is withheld.
struct Nothing;

impl HostVariables for Nothing {
    fn value(&self, _name: &str) -> VariableValue {
        VariableValue::Unset
    }

    fn is_withheld(&self, _name: &str) -> bool {
        false
    }
}

#[test]
fn compose_fetches_nothing_until_the_user_has_agreed() {
    requires!(compose);
    let mut project =
        Project::new("include: ['https://127.0.0.1:1/hostile.git']\nservices: {a: {image: x}}\n");
    let scan = scan_sources(&project.stack.compose_file, &project.stack.worktree, &Nothing);
    assert_eq!(scan.remote, RemoteFiles::Some);
    let told: Vec<String> = scan.requests.iter().map(ToString::to_string).collect();
    assert_eq!(told, ["the compose file takes its services from https://127.0.0.1:1/hostile.git"]);

    // A stand-in for git, which tells that it was started.
    let canary = project.root().join("canary");
    let git = project.write("bin/git", &format!("#!/bin/sh\ntouch {}\nexit 1\n", canary.display()));
    std::fs::set_permissions(&git, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", project.root().join("bin").display(), std::env::var("PATH").unwrap());
    let host = || {
        let set =
            [("PATH".into(), path.clone().into()), ("COMPOSE_EXPERIMENTAL_GIT_REMOTE".into(), "true".into())];
        let own = std::env::vars_os().filter(|(name, _)| name != "PATH");
        own.chain(set).collect::<Vec<(OsString, OsString)>>()
    };
    project.stack.environment = ComposeEnvironment::of(host(), &[], &[]);
    let error = project.render().unwrap_err();
    assert_eq!(error.exit(), ExitCode::Configuration);
    assert!(!canary.exists(), "{error}");

    // The control: agreed to, it is fetched.
    project.stack.environment = ComposeEnvironment::of(host(), &[], &[]).with_remote_files();
    project.render().unwrap_err();
    assert!(canary.exists());
}

#[test]
fn a_file_that_never_ends_is_given_up_and_nothing_goes_on_reading_it() {
    requires!(compose);
    let mut project = Project::new("services: {a: {image: x, env_file: [endless]}}\n");
    let endless = project.root().join("worktree/endless");
    let made = std::process::Command::new("mkfifo").arg(&endless).status().unwrap();
    assert!(made.success());
    project.stack.patience.answer = Duration::from_secs(2);
    let error = run(project.stack.render()).unwrap_err();
    assert!(matches!(error, StackError::TimedOut { .. }), "{error:?}");
    let mark = format!("--project-name\0{}\0", project.stack.project);
    palisade_testing::eventually("Compose is gone", || !processes().iter().any(|line| line.contains(&mark)));
    // So that the stack can be taken down.
    std::fs::remove_file(&endless).unwrap();
    project.write("worktree/endless", "");
}
