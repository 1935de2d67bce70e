//! Overrides as the real Compose merges them, and secrets for some services in real containers.
#![allow(
    clippy::unwrap_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod support;

use palisade_config::infra::{CodeMount, MountAccess, Otel};
use palisade_core::{GuestPath, ProjectPath, VariableName};
use palisade_provision::{
    CollisionChoice, Model, OverrideInput, ScopeCheckError, ScopedSecret, SlotPort, plan_override,
    slot_collisions,
};
use palisade_testing::requires;
use support::{Project, docker, run};

/// Services of every shape that has a network, names, ports and mounts.
const SHAPES: &str = "\
services:
  plain: {image: x}
  mapped:
    image: x
    container_name: one-of-a-kind
    environment: {A: b}
    networks: {default: {aliases: [m]}}
    ports: ['8080:80', '${P}:81', '3000-3001:3000-3001', '7000']
    volumes: ['./src:/old', './src:/app']
  listed:
    image: x
    environment: [A=b]
    networks: [front, back]
    ports: [{target: 53, published: '53', protocol: udp, host_ip: 127.0.0.1}]
  host: {image: x, network_mode: host}
  none: {image: x, network_mode: none}
  shared: {image: x, network_mode: 'service:plain'}
  extended: {extends: {service: listed}, ports: !reset []}
  off: {image: x, profiles: [never]}
volumes: {named: {name: shared-by-all}}
networks: {front: {}, back: {name: backbone}}
";

const PORTS: &[SlotPort] = &[SlotPort { base: 8080, port: 8081 }, SlotPort { base: 9000, port: 9001 }];

fn with_override(project: &mut Project, input: &OverrideInput<'_>) -> Model {
    let text = plan_override(input).unwrap();
    project.override_file(&text);
    project.render().unwrap()
}

#[test]
fn compose_merges_the_override_into_services_of_every_shape() {
    requires!(compose);
    let mut project = Project::new(SHAPES);
    project.env_file("sandbox", "P='9001'\n");
    let worktree = project.stack.worktree.clone();
    let otel = Otel { endpoint: Some("http://otel:4317".into()), network: Some("telemetry".into()) };
    let mounts = [CodeMount {
        service: "mapped".into(),
        source: ProjectPath::new("code").unwrap(),
        target: GuestPath::new("/app").unwrap(),
        access: MountAccess::ReadWrite,
    }];
    let inactive = ["off".to_owned()];
    let base = project.render().unwrap();
    let merged = with_override(
        &mut project,
        &OverrideInput {
            model: &base,
            inactive: &inactive,
            worktree: &worktree,
            mounts: &mounts,
            otel: Some(&otel),
            secrets: &[],
            ports: PORTS,
            collisions: CollisionChoice::Override,
        },
    );
    let networks = |name: &str| merged.services[name].networks.keys().map(String::as_str).collect::<Vec<_>>();
    assert_eq!(networks("plain"), ["default", "palisade-telemetry"]);
    assert_eq!(networks("mapped"), ["default", "palisade-telemetry"]);
    assert_eq!(merged.services["mapped"].networks["default"]["aliases"], serde_json::json!(["m"]));
    for name in ["listed", "extended"] {
        assert_eq!(networks(name), ["back", "front", "palisade-telemetry"], "{name}");
    }
    for name in ["host", "none", "shared"] {
        assert_eq!(networks(name), [""; 0], "{name}");
    }
    assert!(merged.networks["palisade-telemetry"].external);
    assert!(merged.services.values().all(|it| it.environment.contains("OTEL_EXPORTER_OTLP_ENDPOINT")));
    assert_eq!(merged.services["mapped"].container_name, None);
    let published = |name: &str| {
        let ports = merged.services[name].ports.iter();
        ports.map(|port| (port.target, port.published.clone().unwrap_or_default())).collect::<Vec<_>>()
    };
    assert_eq!(
        published("mapped"),
        [
            (80, "8081".into()),
            (81, "9001".into()),
            (3000, String::new()),
            (3001, String::new()),
            (7000, String::new())
        ]
    );
    assert_eq!(published("listed"), [(53, String::new())]);
    assert_eq!(merged.services["listed"].ports[0].host_ip.as_deref(), Some("127.0.0.1"));
    let mounts: Vec<_> = merged.services["mapped"]
        .volumes
        .iter()
        .map(|mount| (mount.source.clone().unwrap(), mount.target.clone().unwrap()))
        .collect();
    let place = |path: &str| worktree.join(path).to_string();
    assert_eq!(mounts, [(place("src"), "/old".into()), (place("code"), "/app".into())]);
    // Nothing is left to undo but what cannot be.
    let left: Vec<_> = slot_collisions(&merged, PORTS).into_iter().filter(|it| it.can_be_undone()).collect();
    assert_eq!(left, []);
}

const SCOPED: &str = "\
services:
  api:
    image: palisade-services
    command: [sleep, '1000']
    stop_grace_period: 0s
  other:
    image: palisade-services
    command: [sleep, '1000']
    stop_grace_period: 0s
    environment: {OPEN: '${OPEN}'}
";

fn token(services: &[&str]) -> ScopedSecret {
    let services = services.iter().map(|it| (*it).to_owned()).collect();
    ScopedSecret { name: VariableName::new("TOKEN").unwrap(), services }
}

#[test]
fn a_secret_for_one_service_reaches_no_other() {
    requires!(docker, compose);
    let mut project = Project::new(SCOPED);
    project.env_file("secrets", "TOKEN='canary-for-api $x'\nOPEN='for all'\n");
    let secrets = [token(&["api"])];
    run(project.stack.check_scopes(&secrets)).unwrap();
    let worktree = project.stack.worktree.clone();
    let base = project.render().unwrap();
    with_override(
        &mut project,
        &OverrideInput {
            model: &base,
            inactive: &[],
            worktree: &worktree,
            mounts: &[],
            otel: None,
            secrets: &secrets,
            ports: &[],
            collisions: CollisionChoice::Leave,
        },
    );
    project.up().0.unwrap();
    let inspect = |service: &str| docker(&["inspect", &format!("{}-{service}-1", project.stack.project)]);
    let inside = |service: &str| {
        docker(&["exec", &format!("{}-{service}-1", project.stack.project), "cat", "/proc/1/environ"])
    };
    assert!(inside("api").contains("TOKEN=canary-for-api $x\0"));
    for seen in [inspect("other"), inside("other")] {
        assert!(!seen.contains("canary-for-api") && !seen.contains("TOKEN"), "{seen}");
    }
    assert!(inside("other").contains("OPEN=for all"));
}

#[test]
fn every_way_by_which_another_service_would_get_it_is_refused_at_once() {
    requires!(compose);
    let project = Project::new(
        "\
include: [more.yml]
services:
  api: {image: x, command: 'run ${TOKEN}'}
  direct: {image: x, environment: {A: 'b${TOKEN:-}'}}
  passed: {image: x, environment: [TOKEN]}
  filed: {image: x, env_file: [env]}
  argued: {image: x, build: {context: ., args: {T: $TOKEN}}}
  secret: {image: x, secrets: [s]}
  config: {image: x, configs: [c]}
  labelled: {image: x, labels: {a: '${NOTHING:-${TOKEN}}'}}
  clean: {image: x, environment: {A: '$${TOKEN} ${TOKENS:-}', TOKENISH: TOKEN}}
secrets: {s: {environment: TOKEN}}
configs: {c: {content: 'a ${TOKEN}'}}
",
    );
    project.write("worktree/env", "INSIDE=${TOKEN}\n");
    project.write("worktree/more.yml", "services: {included: {image: 'x:${TOKEN}'}}\n");
    let error = run(project.stack.check_scopes(&[token(&["api"])])).unwrap_err();
    let ScopeCheckError::Scope(error) = error else { panic!("{error:?}") };
    let services: Vec<_> = error.0.iter().map(|it| it.service.as_str()).collect();
    assert_eq!(services, ["argued", "config", "direct", "filed", "included", "labelled", "passed", "secret"]);
    assert_eq!(error.0[0].to_string(), "service argued refers to TOKEN, which is not for it");

    let all = ["api", "argued", "config", "direct", "filed", "included", "labelled", "passed", "secret"];
    run(project.stack.check_scopes(&[token(&all)])).unwrap();
}
