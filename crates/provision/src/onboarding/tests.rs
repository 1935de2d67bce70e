use super::*;
use crate::suggestion::Additions;
use std::fs;
use std::os::unix::fs::{PermissionsExt, symlink};

const COMPOSE: &str = "\
services:
  db: {image: 'postgres:16', ports: ['5432:5432']}
  api:
    image: shop
    ports: ['8080:80'] # web
    env_file: .env
";

fn project(files: &[(&str, &str)]) -> (tempfile::TempDir, HostPath) {
    let directory = tempfile::tempdir().unwrap();
    for (path, text) in files {
        let path = directory.path().join(path);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }
    let root = HostPath::new(directory.path()).unwrap();
    (directory, root)
}

fn open(root: &HostPath) -> Onboarding {
    Onboarding::open(root, &Given::default()).unwrap()
}

fn heading(project: &Onboarding) -> Heading {
    Heading {
        name: project.name.clone(),
        prefix: project.prefix.clone(),
        compose_file: project.compose_file.clone(),
        method: None,
        health: None,
    }
}

fn plan(project: &Onboarding) -> Vec<Change> {
    let findings = project.findings(&HashSet::from([".env".to_owned()]));
    project.plan(&findings, &Additions::proposed(&findings), &heading(project)).unwrap()
}

#[test]
fn a_project_is_found_by_what_its_tools_and_compose_look_for() {
    let (_kept, root) = project(&[
        ("docker-compose.yml", COMPOSE),
        ("compose.yml", COMPOSE),
        ("package.json", "{\"name\": \"tools\"}"),
        ("pyproject.toml", "[project]\nname = \"my.shop\"\n"),
    ]);
    let found = open(&root);
    let kind = ProjectKind { language: "Python", file: "pyproject.toml", name: Some("my.shop".into()) };
    assert_eq!(
        (found.name.as_str(), found.prefix.as_str(), found.kind.clone()),
        ("my.shop", "my-shop", Some(kind))
    );
    assert_eq!(found.compose_file.as_str(), "compose.yml");
    let health = ProposedHealth { service: "api".into(), port: "MY_SHOP_API_PORT".into(), endpoint: None };
    assert_eq!(found.health(&found.findings(&HashSet::new())), Some(health));
}

#[test]
fn what_might_be_meant_is_named_when_there_is_no_compose_file() {
    let (_kept, root) = project(&[("docker-compose.dev.yml", COMPOSE), ("deploy/compose.yaml", COMPOSE)]);
    let error = Onboarding::open(&root, &Given::default()).unwrap_err();
    use palisade_core::Diagnostic;
    assert_eq!(
        (error.code(), error.hints()),
        (
            "no-compose-file",
            vec!["name the one that is meant with --compose-file: docker-compose.dev.yml or deploy/compose.yaml".into()]
        )
    );
}

#[test]
fn a_planned_project_is_written_and_has_nothing_left_to_do() {
    let (kept, root) = project(&[("compose.yaml", COMPOSE), (".env.example", "A=1\n")]);
    fs::set_permissions(kept.path().join("compose.yaml"), fs::Permissions::from_mode(0o640)).unwrap();
    write(&root, &plan(&open(&root))).unwrap();
    let again = open(&root);
    assert_eq!(again.declared().unwrap().sandbox.files[0].source.as_str(), ".env.example");
    assert_eq!(plan(&again), []);
    let mode = fs::metadata(kept.path().join("compose.yaml")).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o640);
    let mut names: Vec<String> =
        fs::read_dir(&root).unwrap().map(|it| it.unwrap().file_name().into_string().unwrap()).collect();
    names.sort();
    assert_eq!(names, [".devops-ai", ".env.example", "compose.yaml"]);
}

#[test]
fn a_file_that_changed_meanwhile_is_left_alone_and_so_are_the_others() {
    let (kept, root) = project(&[("compose.yaml", COMPOSE)]);
    let changes = plan(&open(&root));
    fs::write(kept.path().join("compose.yaml"), "services: {other: {image: x}}\n").unwrap();
    assert!(matches!(write(&root, &changes), Err(OnboardingError::Changed { .. })));
    assert!(!kept.path().join(".devops-ai").exists());
}

#[test]
fn nothing_is_written_or_read_through_a_link() {
    let (kept, root) = project(&[("compose.yaml", COMPOSE)]);
    let elsewhere = tempfile::tempdir().unwrap();
    symlink(elsewhere.path(), kept.path().join(".devops-ai")).unwrap();
    assert!(matches!(Onboarding::open(&root, &Given::default()), Err(OnboardingError::Config(_))));
    fs::remove_file(kept.path().join(".devops-ai")).unwrap();
    let changes = plan(&open(&root));
    symlink(elsewhere.path(), kept.path().join(".devops-ai")).unwrap();
    assert!(write(&root, &changes).is_err());
    assert_eq!(fs::read_dir(elsewhere.path()).unwrap().count(), 0);
    fs::remove_file(kept.path().join(".devops-ai")).unwrap();
    fs::rename(kept.path().join("compose.yaml"), elsewhere.path().join("c.yaml")).unwrap();
    symlink(elsewhere.path().join("c.yaml"), kept.path().join("compose.yaml")).unwrap();
    assert!(matches!(Onboarding::open(&root, &Given::default()), Err(OnboardingError::Link { .. })));
}

#[test]
fn files_that_services_are_taken_from_are_looked_into_and_changed_too() {
    let main = "\
include: [shared/queue.yml, ../outside.yml, gone.yml]
services:
  api: {extends: {file: shared/base.yml, service: web}, ports: ['8080:80']}
  worker: {extends: {file: shared/base.yml, service: job}}
";
    let base = "\
services:
  web: {extends: common, env_file: ../web.env, environment: {A: '${A}'}}
  job: {environment: {B: '${B}'}, ports: ['9000:90']}
  common: {environment: {C: '${C}'}, extends: {file: base.yml, service: job}}
  unused: {ports: ['1:1'], environment: {D: '${D}'}}
";
    let queue = "services:\n  queue:\n    ports:\n      - 5672:5672 # amqp\n";
    let (_kept, root) =
        project(&[("compose.yaml", main), ("shared/base.yml", base), ("shared/queue.yml", queue)]);
    let found = Onboarding::open(&root, &Given { name: Some("shop".into()), ..Given::default() }).unwrap();
    assert_eq!(found.unread, ["../outside.yml", "gone.yml"]);
    let findings = found.findings(&HashSet::from(["web.env".to_owned()]));
    let mut variables: Vec<&str> = findings.variables.iter().map(|it| it.name.as_str()).collect();
    variables.sort_unstable();
    assert_eq!((variables, findings.files[0].path.as_str()), (vec!["A", "B", "C"], "web.env"));
    let changes = found.plan(&findings, &Additions::proposed(&findings), &heading(&found)).unwrap();
    let mut changed: Vec<(&str, bool)> =
        changes.iter().map(|change| (change.path.as_str(), change.after.contains("'1:1'"))).collect();
    changed.sort_unstable();
    assert_eq!(
        changed,
        [
            (".devops-ai/infra.toml", false),
            ("compose.yaml", false),
            ("shared/base.yml", true),
            ("shared/queue.yml", false)
        ]
    );
    write(&root, &changes).unwrap();
    let again = open(&root);
    let findings = again.findings(&HashSet::from(["web.env".to_owned()]));
    assert!(findings.is_complete(), "{findings:#?}");
}
