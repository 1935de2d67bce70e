//! The skill that lets an agent onboard a project, walked through as an agent would: its own command lines, in order.

use crate::support::{Project, repository};
use palisade_testing::{Instance, requires};
use std::process::Command;

#[test]
fn the_onboarding_skill_walks_a_project_from_its_gaps_to_none() {
    requires!(git, bwrap);
    let project = Project::shop();
    let skill = std::fs::read_to_string(repository().join("skills/palisade-onboard/SKILL.md")).unwrap();
    let blocks = skill.split("```sh\n").skip(1).map(|rest| rest.split("```").next().unwrap());
    let lines: Vec<&str> = blocks.flat_map(str::lines).collect();
    let plain = project.instance.command(["init"]);
    let directory = project.link("palisade");
    let ran: Vec<(i32, String)> = lines
        .iter()
        .map(|line| {
            let mut command = Command::new("sh");
            command.args(["-c", line]).env_clear().current_dir(project.root());
            command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
            let path = format!("{}:/usr/bin:/bin:/usr/sbin:/sbin", directory.parent().unwrap().display());
            let told = Instance::finish(command.env("PATH", path));
            (told.code, told.stdout)
        })
        .collect();
    let codes: Vec<i32> = ran.iter().map(|(code, _)| *code).collect();
    assert_eq!(codes, [1, 0, 0], "{lines:#?}\n{ran:#?}");
    let report: serde_json::Value = serde_json::from_str(&ran[0].1).unwrap();
    // Every field that the skill tells of is there.
    for field in
        ["variables", "optional", "files", "ports", "services", "collisions", "remarks", "suggestion"]
    {
        assert!(skill.contains(&format!("`{field}")) && report.get(field).is_some(), "{field}");
    }
    assert_eq!(
        project.text(".devops-ai/infra.toml"),
        "\
[project]
name = \"my-project\"
prefix = \"my-project\"

[sandbox]
compose_file = \"docker-compose.yml\"
method = \"bwrap\"

[sandbox.health]
endpoint = \"/health\"
port_var = \"MY_PROJECT_API_PORT\"

[sandbox.ports]
MY_PROJECT_API_PORT = 8080
MY_PROJECT_POSTGRES_PORT = 5432

[sandbox.env]
DATABASE_URL = \"postgres://dev:dev@postgres:5432/app\"

[sandbox.secrets]
API_SECRET_KEY = \"$API_SECRET_KEY\"

[sandbox.files]
\".env\" = \".env.example\"
"
    );
}
