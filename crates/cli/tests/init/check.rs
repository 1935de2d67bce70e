//! `init --check` and `--apply`: the gaps of a project that is there already.

use crate::support::Project;
use palisade_testing::requires;
use serde_json::json;

/// The specification's second scenario: onboarded with ports and health, before there were secrets and files.
const INFRA: &str = "\
# What khealth's sandboxes need.
[project]
name = \"wellness-agent\"
prefix = \"wellness-agent\"   # WELLNESS_AGENT_…

[sandbox]
compose_file = 'docker-compose.yml'

[sandbox.health]
endpoint = \"/api/v1/health\"
port_var = \"WELLNESS_AGENT_WELLNESS_AGENT_PORT\"

[sandbox.ports]
WELLNESS_AGENT_WELLNESS_AGENT_PORT = 8080
";
const COMPOSE: &str = "\
services:
  wellness-agent:
    build: .
    ports: ['${WELLNESS_AGENT_WELLNESS_AGENT_PORT:-8080}:8080']
    environment:
      - TELEGRAM_BOT_TOKEN=${TELEGRAM_BOT_TOKEN}
      - OTEL_EXPORTER_OTLP_ENDPOINT=${OTEL_EXPORTER_OTLP_ENDPOINT}
      - COMPOSE_PROJECT_NAME=${COMPOSE_PROJECT_NAME}
    volumes:
      - ./config.yaml:/app/config.yaml:ro
      - ./src:/app/src
";
const SCENARIO_2: &str = "\
Project: wellness-agent (already onboarded)

⚠ Undeclared environment variables in compose:
  TELEGRAM_BOT_TOKEN (wellness-agent service)

⚠ Gitignored volume mounts without [sandbox.files]:
  config.yaml → wellness-agent (./config.yaml:/app/config.yaml:ro)

Suggested additions to .devops-ai/infra.toml:

  [sandbox.secrets]
  TELEGRAM_BOT_TOKEN = \"$TELEGRAM_BOT_TOKEN\"   # or op://vault/item/field

  [sandbox.files]
  \"config.yaml\" = \"config.yaml\"
";

fn khealth() -> Project {
    let files = [
        (".devops-ai/infra.toml", INFRA),
        ("docker-compose.yml", COMPOSE),
        ("config.yaml", "a: 1\n"),
        ("src/main.py", ""),
    ];
    Project::new(&files, "config.yaml\n")
}

#[test]
fn scenario_2_a_project_of_before_is_told_what_it_lacks_and_nothing_is_changed() {
    requires!(git);
    let project = khealth();
    let told = project.init(&["--check"]);
    assert_eq!((told.code, told.stdout.as_str()), (1, SCENARIO_2));
    assert_eq!(told.stderr, "\nWrite them with: palisade init --apply\n");
    assert_eq!(
        (project.text(".devops-ai/infra.toml").as_str(), project.text("docker-compose.yml").as_str()),
        (INFRA, COMPOSE)
    );
}

#[test]
fn what_check_suggests_is_what_apply_writes_and_then_nothing_is_missing() {
    requires!(git);
    let project = khealth();
    project.init(&["--apply"]).ok();
    let expected = format!(
        "{INFRA}\n[sandbox.secrets]\nTELEGRAM_BOT_TOKEN = \"$TELEGRAM_BOT_TOKEN\"\n\n[sandbox.files]\n\"config.yaml\" = \"config.yaml\"\n"
    );
    assert_eq!(
        (project.text(".devops-ai/infra.toml"), project.text("docker-compose.yml").as_str()),
        (expected.clone(), COMPOSE)
    );
    let told = project.init(&["--check"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (
            0,
            "Project: wellness-agent (already onboarded)\n\n✓ Everything that the compose file needs is declared.\n"
        )
    );
    project.init(&["--apply"]).ok();
    assert_eq!(project.text(".devops-ai/infra.toml"), expected);
}

#[test]
fn a_variable_that_cannot_be_declared_is_not_passed_over() {
    requires!(git);
    let project = khealth();
    project.init(&["--apply"]).ok();
    let more = "      - GIT_DIR=${GIT_DIR}\n    volumes:\n";
    project.put("docker-compose.yml", &COMPOSE.replace("    volumes:\n", more));
    let told = project.init(&["--check"]);
    assert_eq!(
        (told.code, told.stdout.as_str()),
        (
            0,
            "Project: wellness-agent (already onboarded)\n\n\
             ✓ Everything that can be declared is; what cannot follows.\n\n\
             Worth knowing:\n  docker-compose.yml needs GIT_DIR, a name that steers programs of the host and \
             cannot be declared; take another one\n"
        )
    );
}

#[test]
fn scenario_6_a_new_variable_of_the_compose_file_is_one_line_more() {
    requires!(git);
    let project = khealth();
    project.init(&["--apply"]).ok();
    project.put(
        "docker-compose.yml",
        &COMPOSE.replace("    volumes:\n", "      - STRIPE_API_KEY=${STRIPE_API_KEY}\n    volumes:\n"),
    );
    let told = project.init(&["--check", "--json"]);
    assert_eq!(
        (told.code, told.json()["suggestion"]["infra"].clone()),
        (1, json!("[sandbox.secrets]\nSTRIPE_API_KEY = \"$STRIPE_API_KEY\"   # or op://vault/item/field"))
    );
    let before = project.text(".devops-ai/infra.toml");
    project.init(&["--apply", "--secret", "STRIPE_API_KEY=op://dev-vault/stripe/test-key"]).ok();
    let line = "TELEGRAM_BOT_TOKEN = \"$TELEGRAM_BOT_TOKEN\"\n";
    let more = format!("{line}STRIPE_API_KEY = \"op://dev-vault/stripe/test-key\"\n");
    assert_eq!(project.text(".devops-ai/infra.toml"), before.replace(line, &more));
}

#[test]
fn the_gaps_of_a_new_project_as_json() {
    requires!(git);
    let project = Project::shop();
    project.put("docker-compose.override.yml", "services: {}\n");
    let told = project.init(&["--check", "--json"]);
    let report = told.json();
    assert_eq!((told.code, told.stderr.as_str()), (1, ""));
    assert_eq!(
        report["project"],
        json!({
            "root": project.root().canonicalize().unwrap(), "name": "my-project", "prefix": "my-project",
            "language": "Python", "onboarded": false
        })
    );
    assert_eq!(
        report["ports"],
        json!([
            {"service": "api", "variable": "MY_PROJECT_API_PORT", "base": 8080, "declared": false, "fixed": true},
            {"service": "postgres", "variable": "MY_PROJECT_POSTGRES_PORT", "base": 5432, "declared": false, "fixed": true},
        ])
    );
    assert_eq!(
        report["files"],
        json!([{
            "path": ".env",
            "uses": [{"service": "api", "kind": "mount", "written": "./.env:/app/.env:ro"}],
            "sources": [".env", ".env.example"]
        }])
    );
    assert_eq!(
        report["remarks"],
        json!(["docker-compose.override.yml is not used in sandboxes, which have an override of their own"])
    );
    assert!(!project.has(".devops-ai"));
}

#[test]
fn a_new_project_takes_every_suggestion_and_its_services_own_check() {
    requires!(git, bwrap);
    let compose = "\
services:
  web:
    image: site
    container_name: site
    ports: ['3000:80']
    environment: {MODE: '${MODE:-dev}'}
    healthcheck: {test: [CMD, curl, -f, 'http://localhost/up']}
    volumes: ['./cache:/cache', './local.conf:/conf']
";
    let project =
        Project::new(&[("compose.yaml", compose), ("cache/x", "")], "cache/\nlocal.conf\n.devops-ai\n");
    let told = project.init(&["--apply", "--name", "site", "--env", "MODE=sandbox"]).ok();
    assert_eq!(
        project.text(".devops-ai/infra.toml"),
        "\
[project]
name = \"site\"
prefix = \"site\"

[sandbox]
compose_file = \"compose.yaml\"
method = \"bwrap\"

[sandbox.health]
endpoint = \"/up\"
port_var = \"SITE_WEB_PORT\"

[sandbox.ports]
SITE_WEB_PORT = 3000

[sandbox.env]
MODE = \"sandbox\"

[sandbox.files]
\"local.conf\" = \"local.conf\"
"
    );
    let notes: Vec<&str> = told.stderr.lines().filter(|line| line.starts_with("Note: ")).collect();
    assert_eq!(
        notes,
        [
            "Note: local.conf is not there yet; make it before the first sandbox",
            "Note: git ignores .devops-ai/infra.toml, so that nobody else would get it",
            "Note: compose.yaml has a default for MODE: no declaration is needed",
            "Note: git ignores the directory cache; it begins empty in a sandbox",
            "Note: web: container_name site can be had once only; two sandboxes would collide",
            "Note: commit .devops-ai/infra.toml and compose.yaml: a sandbox is made from what is committed",
        ]
    );
}

#[test]
fn services_taken_from_another_file_are_looked_into_and_their_ports_changed_there() {
    requires!(git);
    let main = "services:\n  api: {extends: {file: shared/base.yml, service: web}, ports: ['8080:80']}\n  db: {extends: {file: ../gone.yml, service: db}}\n";
    let base =
        "services:\n  web:\n    image: shop\n    ports: [\"9000:90\"] # metrics\n    environment: [TOKEN]\n";
    let project = Project::new(&[("compose.yaml", main), ("shared/base.yml", base)], "");
    let report = project.init(&["--check", "--json", "--name", "shop"]).json();
    assert_eq!(
        (&report["variables"][0]["name"], &report["ports"][1]["variable"], &report["remarks"]),
        (
            &json!("TOKEN"),
            &json!("SHOP_WEB_PORT"),
            &json!(["compose.yaml takes services from ../gone.yml, which was not looked into"])
        )
    );
    let told = project.init(&["--apply", "--name", "shop", "--method", "bwrap"]).ok();
    assert!(told.stderr.contains("\nUpdated:  shared/base.yml (ports parameterized)\n"), "{}", told.stderr);
    assert_eq!(project.text("shared/base.yml"), base.replace("9000:90", "${SHOP_WEB_PORT:-9000}:90"));
    assert_eq!(project.init(&["--check"]).code, 0);
}
