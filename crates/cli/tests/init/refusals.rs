//! Projects that cannot be onboarded, each told with what is wrong and what to do.

use crate::support::{COMPOSE, Project};
use palisade_testing::{Instance, requires};

#[test]
fn what_is_no_project_is_told_with_the_remedy() {
    requires!(git);
    let outside = Instance::new();
    let told = outside.run(["init", "--check"]);
    assert_eq!((told.code, told.stderr.contains("is not in a git repository")), (7, true), "{}", told.stderr);

    let empty = Project::new(&[], "");
    let told = empty.init(&["--check"]);
    assert_eq!(
        (told.code, told.stderr.contains("error: there is no compose file in ")),
        (6, true),
        "{}",
        told.stderr
    );
    empty.put("deploy/docker-compose.yml", COMPOSE);
    let told = empty.init(&["--check"]);
    let hint = "hint: name the one that is meant with --compose-file: deploy/docker-compose.yml\n";
    assert_eq!((told.code, told.stderr.ends_with(hint)), (6, true), "{}", told.stderr);
    assert_eq!(empty.init(&["--check", "--compose-file", "deploy/docker-compose.yml"]).code, 1);
    assert_eq!(empty.init(&["deploy", "--check", "--compose-file", "docker-compose.yml"]).code, 1);
    let told = empty.init(&["nowhere", "--check"]);
    assert_eq!((told.code, told.stderr.contains("nowhere: No such file")), (6, true), "{}", told.stderr);
}

#[test]
fn files_that_cannot_be_used_are_told_with_their_line() {
    requires!(git);
    let project = Project::shop();
    for (text, reason) in [
        ("services: [\n", "error: docker-compose.yml: line "),
        ("version: '3'\n", "error: docker-compose.yml: it has no services"),
        ("services:\n\tapi: {}\n", "error: docker-compose.yml: line 2"),
    ] {
        project.put("docker-compose.yml", text);
        let told = project.init(&["--check"]);
        assert_eq!((told.code, told.stderr.contains(reason)), (3, true), "{text}: {}", told.stderr);
    }
    project.put("docker-compose.yml", COMPOSE);
    project.put(".devops-ai/infra.toml", "[project]\nname = \"a\"\n[wholly]\n");
    let told = project.init(&["--apply"]);
    assert_eq!(
        (told.code, told.stderr.contains("infra.toml:3: unknown key 'wholly'")),
        (3, true),
        "{}",
        told.stderr
    );
    project.put(".devops-ai/infra.toml", "[project]\nname = \"a\"\n[sandbox]\ncompose_file = \"gone.yml\"\n");
    let told = project.init(&["--check"]);
    assert_eq!(
        (told.code, told.stderr.as_str()),
        (
            6,
            "error: the compose file gone.yml is not there, and infra.toml names it\n\
             hint: write compose_file below [sandbox] in .devops-ai/infra.toml; there is docker-compose.yml\n"
        )
    );
}

#[test]
fn a_compose_file_that_would_drive_the_terminal_is_told_escaped() {
    requires!(git);
    let compose = "services:\n  \"a\\e]0;owned\\a\":\n    image: x\n    ports: ['80:80']\n    environment: {K: '${K}'}\n";
    let project = Project::new(&[("compose.yaml", compose)], "");
    for words in [&["--check"][..], &["--apply", "--name", "x"]] {
        let told = project.init(words);
        assert!(
            !told.stdout.contains('\x1b') && !told.stderr.contains('\x1b'),
            "{}{}",
            told.stdout,
            told.stderr
        );
    }
}
