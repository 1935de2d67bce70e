//! The method that `infra.toml` names counts for the project's agents, and never makes them weaker.

use crate::support::Project;
use palisade_testing::requires;
use std::process::Command;

/// A project with a commit, whose file names this method.
fn project(method: &str) -> Project {
    let infra = format!("[project]\nname = \"shop\"\n\n[sandbox]\nmethod = \"{method}\"\n");
    let project = Project::new(&[(".devops-ai/infra.toml", &infra)], "");
    for line in ["add --all", "-c user.name=A -c user.email=a@b commit -qm first"] {
        let git = Command::new("git").args(line.split(' ')).current_dir(project.root()).status();
        assert!(git.unwrap().success());
    }
    project
}

const START: [&str; 8] = ["agent", "start", "--agent", "shell", "--name", "agent", "--task", "true"];

#[test]
fn agents_run_with_the_method_of_infra_toml_unless_somebody_says_otherwise() {
    requires!(git, bwrap);
    let project = project("kubernetes");
    let told = project.instance.run(START);
    assert_eq!((told.code, told.stderr.contains("kubernetes")), (4, true), "{}", told.stderr);
    let said = project.instance.run(START.iter().chain(&["--method", "bwrap"]));
    assert_eq!(said.code, 0, "{}", said.stderr);
}

#[test]
fn a_method_of_infra_toml_that_is_weaker_than_the_users_own_does_not_count() {
    requires!(git, bwrap);
    let project = project("noop");
    project.instance.run(START).ok();
    assert_eq!(project.instance.run(["inspect", "agent", "--json"]).ok().json()["method"], "bwrap");
}
