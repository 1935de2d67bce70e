use super::*;
use crate::infra::Otel;

fn told(text: &str) -> Vec<String> {
    match read("infra.toml", text.as_bytes()) {
        Ok(infra) => panic!("it was read: {infra:?}"),
        Err(error) => error.problems().iter().map(ToString::to_string).collect(),
    }
}

const COMPLEX: &str = r#"
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
KTRDR_API_PORT = 8000
KTRDR_DB_PORT = 5432
KTRDR_WORKER_PORT_1 = 5003

[sandbox.env]
APP_ENV = "sandbox"
KTRDR_LOG_LEVEL = "DEBUG"

[sandbox.secrets]
ANTHROPIC_API_KEY = "$ANTHROPIC_API_KEY"
KTRDR_DB_PASSWORD = "localdev"
TOKEN = { ref = "op://vault/item/field", services = ["api"] }

[sandbox.files]
".env" = ".env.dev.example"
"config/local.yaml" = "config/local.yaml"

[sandbox.mounts]
api = ["src:/app/src", "./config:/app/config:ro"]

[sandbox.otel]
endpoint = "http://collector:4317"
network = "observability"
"#;

#[test]
fn the_specifications_complex_project() {
    let Infra { project, sandbox } = read("infra.toml", COMPLEX.as_bytes()).unwrap();
    assert_eq!(project, InfraProject { name: "ktrdr".into(), prefix: "ktrdr".into() });
    assert_eq!(sandbox.compose_file.as_str(), "docker-compose.yml");
    let health = sandbox.health.unwrap();
    assert_eq!(
        (health.endpoint.as_str(), health.port_var.unwrap().value.as_str(), health.timeout.as_secs()),
        ("/api/v1/health", "KTRDR_API_PORT", 120)
    );
    let ports: Vec<(&str, u16)> = sandbox.ports.iter().map(|(name, port)| (name.as_str(), *port)).collect();
    assert_eq!(ports, [("KTRDR_API_PORT", 8000), ("KTRDR_DB_PORT", 5432), ("KTRDR_WORKER_PORT_1", 5003)]);
    let secrets: Vec<(String, usize, Option<Vec<String>>)> = sandbox
        .secrets
        .iter()
        .map(|secret| {
            (format!("{} ← {}", secret.name, secret.reference), secret.line, secret.services.clone())
        })
        .collect();
    assert_eq!(
        secrets,
        [
            ("ANTHROPIC_API_KEY ← $ANTHROPIC_API_KEY".into(), 24, None),
            ("KTRDR_DB_PASSWORD ← literal".into(), 25, None),
            ("TOKEN ← op://vault/item/field".into(), 26, Some(vec!["api".into()])),
        ]
    );
    assert_eq!(sandbox.files.len(), 2);
    let mounts: Vec<(String, &str, MountAccess)> = sandbox
        .mounts
        .iter()
        .map(|it| (format!("{} {}", it.service, it.source), it.target.as_str(), it.access))
        .collect();
    assert_eq!(
        mounts,
        [
            ("api src".into(), "/app/src", MountAccess::ReadWrite),
            ("api config".into(), "/app/config", MountAccess::ReadOnly)
        ]
    );
    let otel = Otel { endpoint: Some("http://collector:4317".into()), network: Some("observability".into()) };
    assert_eq!(sandbox.otel, Some(otel));
}

#[test]
fn every_section_is_optional() {
    let infra = read("infra.toml", b"[project]\nname = \"shop\"\n").unwrap();
    assert_eq!(infra.project.prefix, "shop");
    assert_eq!(infra.sandbox.compose_file.as_str(), "docker-compose.yml");
    assert!(infra.sandbox.health.is_none() && infra.sandbox.ports.is_empty());
}

#[test]
fn every_field_of_the_table_is_read() {
    for (name, section) in fields::SECTIONS {
        let Section::Fields(known) = section else { continue };
        for field in *known {
            let mut problems = Vec::new();
            let (_, lines) = document::parse("", b"", &mut problems).unwrap();
            let mut reader = Reader { file: "", lines, problems, draft: Draft::default() };
            let item = toml_edit::value("/");
            let read = reader.field(name, field.key, field.kind, &item, 1);
            assert_ne!(read, Err("cannot be read".into()), "{name}.{}", field.key);
        }
    }
}

#[test]
fn everything_wrong_is_told_at_once_with_its_line() {
    let text = "\
[project]
name = \"My Shop\"
prefx = \"shop\"
[sandbox]
compose_file = \"../other.yml\"
[sandbox.helth]
[sandbox.health]
timeout = 0
port_var = \"NONE\"
[sandbox.ports]
API = \"8080\"
\"A B\" = 1
DB = 70000
[sandbox.env]
PATH = \"/evil\"
LD_PRELOAD = \"x\"
COMPOSE_FILE = \"x\"
N = 5
[sandbox.secrets]
T = \"$A-B\"
U = { services = [\"a\"] }
V = { ref = \"x\", service = [\"a\"] }
[sandbox.files]
\"/etc/passwd\" = \"a\"
\"a\" = \"../a\"
\".git/hooks/x\" = \"a\"
[sandbox.mounts]
api = \"src:/app\"
web = [\"src\"]
";
    assert_eq!(
        told(text),
        [
            "infra.toml:2: project: name 'My Shop' does not do; write a name of letters, digits, '-', '_' and '.', at most 40",
            "infra.toml:3: unknown key 'project.prefx'; did you mean 'project.prefix'?",
            "infra.toml:5: sandbox: compose_file a path of the project must be relative and stay within it: ../other.yml",
            "infra.toml:6: unknown key 'sandbox.helth'; did you mean 'sandbox.health'?",
            "infra.toml:8: sandbox.health: timeout is out of range; write seconds, from 1 to 3600",
            "infra.toml:11: sandbox.ports: API is a string; write a port from 1 to 65335",
            "infra.toml:12: sandbox.ports: 'A B' is not the name of a variable",
            "infra.toml:13: sandbox.ports: DB is out of range; write a port from 1 to 65335",
            "infra.toml:15: sandbox.env: PATH steers programs on the host, so a project cannot set it",
            "infra.toml:16: sandbox.env: LD_PRELOAD steers programs on the host, so a project cannot set it",
            "infra.toml:17: sandbox.env: COMPOSE_FILE steers programs on the host, so a project cannot set it",
            "infra.toml:18: sandbox.env: N is a whole number; write a string",
            "infra.toml:20: sandbox.secrets: T it begins with '$' but is not the name of a variable; a value that begins with '$' is written with '$$'",
            "infra.toml:21: sandbox.secrets: U has no ref; write \"op://vault/item/field\", \"$VARIABLE\", a literal, or { ref = \"…\", services = [\"…\"] }",
            "infra.toml:22: sandbox.secrets: V has an unknown key 'service'; write \"op://vault/item/field\", \"$VARIABLE\", a literal, or { ref = \"…\", services = [\"…\"] }",
            "infra.toml:24: sandbox.files: a path of the project must be relative and stay within it: /etc/passwd",
            "infra.toml:25: sandbox.files: a a path of the project must be relative and stay within it: ../a",
            "infra.toml:26: sandbox.files: a path of the project cannot lead into its .git: .git/hooks/x",
            "infra.toml:28: sandbox.mounts: api is not a list; write a list of \"path:/path/inside\" or \"path:/path/inside:ro\"",
            "infra.toml:29: sandbox.mounts: web 'src' does not do; write a list of \"path:/path/inside\" or \"path:/path/inside:ro\"",
            "infra.toml:9: sandbox.health: port_var NONE is not in [sandbox.ports]",
        ]
    );
}

#[test]
fn a_variable_has_one_value_and_a_project_a_name() {
    assert_eq!(
        told("[sandbox.ports]\nA = 1\n[sandbox.secrets]\nA = \"x\"\n"),
        [
            "infra.toml: project: name is missing; write the project's name",
            "infra.toml: sandbox.secrets: A is declared in [sandbox.ports] already",
        ]
    );
}

#[test]
fn a_literal_secret_is_shown_nowhere() {
    let infra = read("infra.toml", b"[project]\nname = \"a\"\n[sandbox.secrets]\nA = \"s3cr3t\"\n").unwrap();
    assert!(!format!("{infra:?}").contains("s3cr3t"));
    let refused = told("[project]\nname = \"a\"\n[sandbox.secrets]\nA = \"$s3cr3t-x\"\n").join("\n");
    assert!(!refused.contains("s3cr3t"), "{refused}");
}

#[test]
fn the_hint_for_an_unknown_key_is_about_this_file() {
    use palisade_core::Diagnostic;
    let error = read("infra.toml", b"[project]\nname = \"a\"\n[wholly_different]\nx = 1\n").unwrap_err();
    assert_eq!(
        (error.code(), error.to_string(), error.hints()),
        (
            "infra-unknown-key",
            "infra.toml:3: unknown key 'wholly_different'".to_owned(),
            vec![
                "the sections of infra.toml are [project], [sandbox], [sandbox.health], [sandbox.ports], \
                  [sandbox.env], [sandbox.secrets], [sandbox.files], [sandbox.mounts], [sandbox.otel]"
                    .to_owned()
            ]
        )
    );
}

/// As the specification shows the file of a project that was onboarded before there were secrets and files.
#[test]
fn a_file_from_before_the_newer_sections_goes_on_working() {
    let text = "\
[project]
name = \"wellness-agent\"
prefix = \"wellness_agent\"

[sandbox]
compose_file = \"docker-compose.yml\"

[sandbox.health]
endpoint = \"/api/v1/health\"
port_var = \"WELLNESS_AGENT_WELLNESS_AGENT_PORT\"

[sandbox.ports]
WELLNESS_AGENT_WELLNESS_AGENT_PORT = 8080
";
    let Infra { project, sandbox } = read("infra.toml", text.as_bytes()).unwrap();
    assert_eq!(project.prefix, "wellness_agent");
    assert_eq!(sandbox.ports.len(), 1);
    assert!(sandbox.env.is_empty() && sandbox.secrets.is_empty() && sandbox.files.is_empty());
    assert!(sandbox.mounts.is_empty() && sandbox.otel.is_none() && sandbox.method.is_none());
}

#[test]
fn no_name_steers_what_compose_starts_on_the_host() {
    let steering =
        ["PATH", "PYTHONPATH", "NODE_OPTIONS", "SSH_ASKPASS", "GNUPGHOME", "XDG_CONFIG_HOME", "PWD"];
    assert_eq!(steering.iter().filter(|name| !is_reserved(name)).count(), 0);
    for free in
        ["PYTHONUNBUFFERED", "NODE_ENV", "APP_PATH", "SSH_PRIVATE_KEY", "AWS_REGION", "CLOUDSDK_CORE_PROJECT"]
    {
        assert!(!is_reserved(free), "{free}");
    }
}
