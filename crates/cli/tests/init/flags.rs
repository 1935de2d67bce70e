//! Every answer is also an option, and what is missing is told at once.

use crate::support::{COMPOSE, Project};
use palisade_testing::requires;

const ANSWERS: [&str; 9] = [
    "--yes",
    "--health",
    "/up",
    "--env",
    "DATABASE_URL=postgres://dev:dev@postgres:5432/mydb",
    "--secret",
    "API_SECRET_KEY=op://dev-vault/my-project/api-secret",
    "--file",
    ".env=.env.example",
];

#[test]
fn without_a_terminal_every_missing_answer_is_named_at_once() {
    requires!(git);
    let project = Project::shop();
    let told = project.init(&[]);
    assert_eq!(told.code, 2);
    let (_, error) = told.stderr.split_once("error: ").unwrap();
    assert_eq!(
        error,
        "there is no terminal to ask on, and these answers are missing:\n\
         \x20 --health ENDPOINT or --no-health\n\
         \x20 --env DATABASE_URL=VALUE, --secret DATABASE_URL=REFERENCE or --skip DATABASE_URL\n\
         \x20 --env API_SECRET_KEY=VALUE, --secret API_SECRET_KEY=REFERENCE or --skip API_SECRET_KEY\n\
         \x20 --file .env=SOURCE or --skip .env\n\
         \x20 --yes\n\
         hint: give them, or take what `palisade init --check` suggests with --apply\n"
    );
    assert_eq!((project.text("docker-compose.yml").as_str(), project.has(".devops-ai")), (COMPOSE, false));
}

#[test]
fn with_every_answer_given_nothing_is_asked() {
    requires!(git);
    let project = Project::shop();
    project.put("deploy/.keep", "");
    let mut words = vec!["deploy", "--method", "podman"];
    words.extend(ANSWERS);
    project.init(&words).ok();
    assert_eq!(
        project.text(".devops-ai/infra.toml"),
        "\
[project]
name = \"my-project\"
prefix = \"my-project\"

[sandbox]
compose_file = \"docker-compose.yml\"
method = \"podman\"

[sandbox.health]
endpoint = \"/up\"
port_var = \"MY_PROJECT_API_PORT\"

[sandbox.ports]
MY_PROJECT_API_PORT = 8080
MY_PROJECT_POSTGRES_PORT = 5432

[sandbox.env]
DATABASE_URL = \"postgres://dev:dev@postgres:5432/mydb\"

[sandbox.secrets]
API_SECRET_KEY = \"op://dev-vault/my-project/api-secret\"

[sandbox.files]
\".env\" = \".env.example\"
"
    );
    assert_eq!(project.init(&["--check"]).code, 0);
}

#[test]
fn what_is_skipped_stays_a_gap() {
    requires!(git);
    let project = Project::shop();
    let words = [
        "--yes",
        "--no-health",
        "--skip",
        "DATABASE_URL",
        "--skip",
        ".env",
        "--secret",
        "API_SECRET_KEY=$KEY",
    ];
    project.init(&words).ok();
    assert!(!project.text(".devops-ai/infra.toml").contains("health"));
    let report = project.init(&["--check", "--json"]).json();
    assert_eq!(
        (&report["variables"][0]["name"], &report["files"][0]["path"]),
        (&"DATABASE_URL".into(), &".env".into())
    );
    assert_eq!(report["variables"].as_array().unwrap().len(), 1);
}

#[test]
fn an_answer_to_what_was_not_asked_is_refused() {
    requires!(git);
    let project = Project::shop();
    let told = project.init(&["--apply", "--env", "TYPO=1", "--skip", "other", "--file", "x=y"]);
    assert_eq!(
        (told.code, told.stderr.split_once("error: ").unwrap().1),
        (
            2,
            "nothing is missing that is called TYPO, x, other\nhint: see what is missing with: palisade init --check\n"
        )
    );
    project.init(&["--apply"]).ok();
    let told = project.init(&["--name", "other", "--no-health"]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (
            2,
            "error: the project has an infra.toml already, so --name, --no-health would have no effect\n\
             hint: change it in .devops-ai/infra.toml\n"
        )
    );
}

#[test]
fn an_option_that_cannot_be_is_told_before_anything_is_looked_at() {
    requires!(git);
    let project = Project::shop();
    for (option, value, reason) in [
        ("--env", "A-B=1", "'A-B' is not the name of a variable"),
        ("--env", "A", "write NAME=VALUE"),
        ("--secret", "A=$B-C", "it begins with '$' but is not the name of a variable"),
        ("--file", "../x=y", "a path of the project must be relative and stay within it"),
        ("--compose-file", "/etc/x.yml", "a path of the project must be relative and stay within it"),
    ] {
        let told = project.init(&[option, value]);
        assert_eq!((told.code, told.stderr.contains(reason)), (2, true), "{option} {value}: {}", told.stderr);
    }
    let told = project.init(&["--apply", "--name", "My Shop"]);
    assert_eq!((told.code, told.stderr.contains("name 'My Shop' does not do")), (3, true), "{}", told.stderr);
    assert!(!project.has(".devops-ai"));
}
