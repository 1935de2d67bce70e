//! The scenarios of the specification that begin at `impl`, with what they show.

use crate::support::{CANARY, Project, fetch, left_of};
use palisade_testing::requires;

/// Scenario 3's project: one service with an HTTP server, a secret and a file.
pub(crate) const WELLNESS: &str = r#"
[project]
name = "wellness-agent"

[sandbox]
compose_file = "docker-compose.yml"

[sandbox.health]
endpoint = "/api/v1/health"
port_var = "WELLNESS_AGENT_WELLNESS_AGENT_PORT"

[sandbox.ports]
WELLNESS_AGENT_WELLNESS_AGENT_PORT = @BASE@

[sandbox.secrets]
TELEGRAM_BOT_TOKEN = "op://karl-wellness/telegram-token/password"

[sandbox.files]
"config.yaml" = "config.yaml"
"#;

pub(crate) const WELLNESS_SERVICES: &str = r#"
services:
  wellness-agent:
    image: palisade-services
    command: sh -c "mkdir -p /www/api/v1 && cp /app/config.yaml /www/api/v1/health && exec httpd -f -p 8080 -h /www"
    stop_grace_period: 0s
    environment:
      TELEGRAM_BOT_TOKEN: ${TELEGRAM_BOT_TOKEN}
    ports:
      - "${WELLNESS_AGENT_WELLNESS_AGENT_PORT:-8080}:8080"
    volumes:
      - ./config.yaml:/app/config.yaml:ro
      - data:/data
volumes:
  data: {}
"#;

pub(crate) fn wellness() -> Project {
    let project = Project::new(WELLNESS, WELLNESS_SERVICES);
    project.write("config.yaml", "mine\n");
    project
}

const CREATED: &str = "Created worktree: ../wellness-agent-impl-ux-v1-1-M3
  Branch: impl/ux-v1-1-M3
";
const PROVISIONED: &str = "Provisioned files:
  config.yaml ← config.yaml ✓
";

#[test]
fn scenario_3_one_command_from_a_name_to_a_running_stack() {
    requires!(docker, compose, git);
    let project = wellness();
    let outcome = project.run(["impl", "ux-v1-1/M3"]).ok();
    let port = project.base + 1;
    let expected = format!(
        "{CREATED}{PROVISIONED}Resolved secrets:
  TELEGRAM_BOT_TOKEN ← op://karl-wellness/telegram-token/password ✓
Sandbox:
  Slot: 1
  WELLNESS_AGENT_WELLNESS_AGENT_PORT: {port}
  Health: http://localhost:{port}/api/v1/health ✓
"
    );
    assert_eq!((outcome.stdout.as_str(), outcome.stderr), ("", expected));
    // Everything works: the file is in the service, and so is the secret, byte for byte.
    assert_eq!(fetch(port, "/api/v1/health"), "mine\n");
    let stacks = project.stacks();
    let token = project.variable(&stacks[0], "wellness-agent", "TELEGRAM_BOT_TOKEN");
    assert_eq!(token.as_deref(), Some(CANARY));
    assert_eq!(project.git("git branch --list 'impl/*' --format='%(refname:short)'"), "impl/ux-v1-1-M3");

    let done = project.run(["done", "ux-v1-1/M3"]).ok();
    let expected = format!(
        "Removed services: {}
Removed slot: wellness-agent-1
Removed worktree: ../wellness-agent-impl-ux-v1-1-M3
  Branch: impl/ux-v1-1-M3 (kept)
",
        stacks[0]
    );
    assert_eq!((done.stdout.as_str(), done.stderr), ("", expected));
    assert_eq!(left_of(&stacks[0]), [""; 0]);
    assert!(!project.worktree("wellness-agent-impl-ux-v1-1-M3").exists());
    assert!(!project.slots().join("wellness-agent-1").exists());
    assert_eq!(project.git("git branch --list 'impl/*' --format='%(refname:short)'"), "impl/ux-v1-1-M3");
}

#[test]
fn scenario_4_a_secret_that_cannot_be_had_keeps_the_worktree_for_the_next_try() {
    requires!(docker, compose, git);
    let project = wellness();
    project
        .op("echo '[ERROR] 2026/11/16 You are not currently signed in. Please run `op signin`' >&2; exit 1");
    let outcome = project.run(["impl", "ux-v1-1/M3"]);
    let expected = format!(
        "{CREATED}{PROVISIONED}
✗ Secret resolution failed:
  TELEGRAM_BOT_TOKEN (op://karl-wellness/telegram-token/password)
  → 1Password not authenticated. Run: eval $(op signin)

Sandbox not started. To retry after fixing:
  palisade sandbox start       (from worktree directory)
"
    );
    assert_eq!((outcome.code, outcome.stderr), (5, expected));
    let worktree = project.worktree("wellness-agent-impl-ux-v1-1-M3");
    assert_eq!(left_of(&project.stacks()[0]), [""; 0]);

    project.op("printf fixed");
    let outcome = project.run_in(&worktree, ["sandbox", "start"]).ok();
    let port = project.base + 1;
    let expected = format!(
        "{PROVISIONED}Resolved secrets:
  TELEGRAM_BOT_TOKEN ← op://karl-wellness/telegram-token/password ✓
Sandbox:
  Slot: 1
  WELLNESS_AGENT_WELLNESS_AGENT_PORT: {port}
  Health: http://localhost:{port}/api/v1/health ✓
"
    );
    assert_eq!(outcome.stderr, expected);
}

#[test]
fn scenario_5_a_file_that_is_missing_is_told_with_how_to_make_it() {
    requires!(docker, compose, git);
    let project = Project::new(WELLNESS, WELLNESS_SERVICES);
    project.write("config.example.yaml", "example\n");
    let outcome = project.run(["impl", "ux-v1-1/M3"]);
    let expected = format!(
        "{CREATED}
✗ File provisioning failed:
  config.yaml — source not found at {}
  Hint: Create it first: cp config.example.yaml config.yaml

Sandbox not started.
",
        project.root().join("config.yaml").display()
    );
    assert_eq!((outcome.code, outcome.stderr), (5, expected));
}

#[test]
fn scenario_6_a_new_secret_is_one_more_line() {
    requires!(docker, compose, git);
    let project = wellness();
    project.run(["impl", "ux-v1-1/M3"]).ok();
    project.write(
        "docker-compose.yml",
        &WELLNESS_SERVICES
            .replace("    environment:\n", "    environment:\n      STRIPE_API_KEY: ${STRIPE_API_KEY}\n"),
    );
    let secrets = "[sandbox.secrets]\nSTRIPE_API_KEY = \"op://dev-vault/stripe/test-key\"\n";
    project.write(".devops-ai/infra.toml", &WELLNESS.replace("[sandbox.secrets]\n", secrets));
    project.commit("pay");
    project.op("printf 'value of %s' \"$3\"");
    let outcome = project.run(["impl", "pay/M1"]).ok();
    assert!(
        outcome.stderr.contains("\n  STRIPE_API_KEY ← op://dev-vault/stripe/test-key ✓\n"),
        "{}",
        outcome.stderr
    );
    assert_eq!(project.taken(), ["wellness-agent-1", "wellness-agent-2"]);
    let stack = &project.stacks()[1];
    let key = project.variable(stack, "wellness-agent", "STRIPE_API_KEY");
    assert_eq!(key.as_deref(), Some("value of op://dev-vault/stripe/test-key"));
}

/// Scenario 7's own file, with ports of the test.
const KTRDR: &str = r#"
[project]
name = "ktrdr"
prefix = "ktrdr"

[sandbox]
compose_file = "docker-compose.yml"

[sandbox.health]
endpoint = "/api/v1/health"
port_var = "KTRDR_API_PORT"
timeout = 120

[sandbox.ports]
KTRDR_API_PORT = @BASE@
KTRDR_DB_PORT = @BASE+20@
KTRDR_WORKER_PORT_1 = @BASE+40@

[sandbox.env]
APP_ENV = "sandbox"
KTRDR_LOG_LEVEL = "DEBUG"

[sandbox.secrets]
ANTHROPIC_API_KEY = "$ANTHROPIC_API_KEY"
KTRDR_DB_PASSWORD = "localdev"
KTRDR_AUTH_JWT_SECRET = "dev-secret-minimum-32-chars-long-enough"

[sandbox.files]
".env" = ".env.dev.example"
"config/local.yaml" = "config/local.yaml"
"#;

/// An HTTP service that waits for a database, the database, and a worker.
const KTRDR_SERVICES: &str = r#"
x-web: &web
  image: palisade-services
  stop_grace_period: 0s
services:
  api:
    <<: *web
    command: sh -c "mkdir -p /www/api/v1 && redis-cli -h db -a $$KTRDR_DB_PASSWORD ping > /www/api/v1/health && exec httpd -f -p 8000 -h /www"
    environment:
      - ANTHROPIC_API_KEY
      - KTRDR_DB_PASSWORD=${KTRDR_DB_PASSWORD:?no password}
      - LEVEL=${APP_ENV}-${KTRDR_LOG_LEVEL:-INFO}
    env_file: .env
    ports: ["${KTRDR_API_PORT:-8000}:8000"]
    volumes:
      - type: bind
        source: ./config/local.yaml
        target: /app/local.yaml
    depends_on:
      db: {condition: service_healthy}
  db:
    <<: *web
    command: redis-server --requirepass ${KTRDR_DB_PASSWORD} --dir /data --bind 0.0.0.0
    ports: ["${KTRDR_DB_PORT:-5432}:6379"]
    volumes: [db:/data]
    healthcheck:
      test: redis-cli -a ${KTRDR_DB_PASSWORD} ping | grep PONG
      interval: 1s
      retries: 30
  worker:
    <<: *web
    command: httpd -f -p 5003 -h /www
    ports: ["${KTRDR_WORKER_PORT_1:-5003}:5003"]
volumes:
  db: {}
"#;

#[test]
fn scenario_7_many_services_many_secrets() {
    requires!(docker, compose, git);
    let project = Project::new(KTRDR, KTRDR_SERVICES);
    project.write(".env.dev.example", "FROM_FILE=yes\n");
    project.write("config/local.yaml", "local\n");
    project.commit("files");
    let mut command = project.command(&project.root(), ["impl", "strategy/M1"]);
    command.env("ANTHROPIC_API_KEY", CANARY).env("KTRDR_LOG_LEVEL", "of the shell");
    let outcome = palisade_testing::Instance::finish(&mut command).ok();
    let port = |from: u16| project.base + from + 1;
    let expected = format!(
        "Created worktree: ../ktrdr-impl-strategy-M1
  Branch: impl/strategy-M1
Provisioned files:
  .env ← .env.dev.example ✓
  config/local.yaml ← config/local.yaml ✓
Resolved secrets:
  ANTHROPIC_API_KEY ← $ANTHROPIC_API_KEY ✓
  KTRDR_DB_PASSWORD ← literal ✓
  KTRDR_AUTH_JWT_SECRET ← literal ✓
Sandbox:
  Slot: 1
  KTRDR_API_PORT: {}
  KTRDR_DB_PORT: {}
  KTRDR_WORKER_PORT_1: {}
  Health: http://localhost:{}/api/v1/health ✓
",
        port(0),
        port(20),
        port(40),
        port(0)
    );
    assert_eq!(outcome.stderr, expected);
    assert_eq!(fetch(port(0), "/api/v1/health"), "PONG\n");
    let stack = &project.stacks()[0];
    let variable = |name: &str| project.variable(stack, "api", name);
    assert_eq!(variable("ANTHROPIC_API_KEY").as_deref(), Some(CANARY));
    assert_eq!(variable("FROM_FILE").as_deref(), Some("yes"));
    // What the project declares wins over the shell that `impl` was called in.
    assert_eq!(variable("LEVEL").as_deref(), Some("sandbox-DEBUG"));
    let status =
        project.run_in(&project.worktree("ktrdr-impl-strategy-M1"), ["sandbox", "status", "--json"]).ok();
    let status = status.json();
    let services = status["services"].as_array().unwrap();
    let names: Vec<&str> = services.iter().map(|service| service["service"].as_str().unwrap()).collect();
    assert_eq!(names, ["api", "db", "worker"]);
    assert_eq!(
        (status["state"].as_str(), status["health"]["state"].as_str()),
        (Some("running"), Some("healthy"))
    );
}
