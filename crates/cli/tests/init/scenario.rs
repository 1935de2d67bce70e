//! The specification's scenarios on a terminal, its output compared line by line.

use crate::support::{COMPOSE, Project};
use palisade_testing::{Pty, requires};
use std::process::Command;

/// As the specification has it, but that it writes `./env` where it means `./.env`. `<` is where somebody types.
const SCENARIO_1: &str = "\
Inspecting project...
  Found: docker-compose.yml (2 services: api, postgres)
  Found: Python project (pyproject.toml, name: my-project)

Services and ports:
  api: 8080 (API)
  postgres: 5432 (database)

? Health check endpoint? [/health] <

Environment variables detected in compose (not ports):
  DATABASE_URL (api service)
  API_SECRET_KEY (api service)

? How should DATABASE_URL be provided?
  1. Literal value (safe for dev)
  2. Host environment variable ($DATABASE_URL)
  3. 1Password reference (op://vault/item/field)
  > <1: postgres://dev:dev@postgres:5432/mydb

? How should API_SECRET_KEY be provided?
  > <3: op://dev-vault/my-project/api-secret

Gitignored files mounted as volumes:
  .env → api service (./.env:/app/.env:ro)

? Source for .env in sandboxes?
  1. Copy from main repo (.env — exists)
  2. Copy from template (.env.example — exists)
  > <1
";

/// Not in the specification: what is about to be written.
const DIFFERENCE: &str = "
--- /dev/null
+++ b/.devops-ai/infra.toml
@@ -0,0 +1,24 @@
+[project]
+name = \"my-project\"
+prefix = \"my-project\"
+
+[sandbox]
+compose_file = \"docker-compose.yml\"
+method = \"bwrap\"
+
+[sandbox.health]
+endpoint = \"/health\"
+port_var = \"MY_PROJECT_API_PORT\"
+
+[sandbox.ports]
+MY_PROJECT_API_PORT = 8080
+MY_PROJECT_POSTGRES_PORT = 5432
+
+[sandbox.env]
+DATABASE_URL = \"postgres://dev:dev@postgres:5432/mydb\"
+
+[sandbox.secrets]
+API_SECRET_KEY = \"op://dev-vault/my-project/api-secret\"
+
+[sandbox.files]
+\".env\" = \".env\"

--- a/docker-compose.yml
+++ b/docker-compose.yml
@@ -3,7 +3,7 @@
   api:
     build: .
     ports:
-      - \"8080:80\"   # web
+      - \"${MY_PROJECT_API_PORT:-8080}:80\"   # web
     environment:
       DATABASE_URL: ${DATABASE_URL}
       API_SECRET_KEY: ${API_SECRET_KEY}
@@ -12,4 +12,4 @@
 
   postgres:
     image: postgres:16
-    ports: ['5432:5432']
+    ports: ['${MY_PROJECT_POSTGRES_PORT:-5432}:5432']

? Write these changes? [Y/n] <y
";

const CONCLUSION: &str = "
Generated: .devops-ai/infra.toml
Updated:  docker-compose.yml (ports parameterized)

Note: commit .devops-ai/infra.toml and docker-compose.yml: a sandbox is made from what is committed

Ready! Try: kinfra impl my-feature/M1
";

/// Types at every `<` what stands behind it, and gives what was on the screen in the end.
fn walk(project: &Project, command: &mut Command, script: &str) -> (i32, String) {
    command.env("NO_COLOR", "1").current_dir(project.root());
    let mut terminal = Pty::start(command, 50, 120);
    for part in script.split('<').collect::<Vec<_>>().windows(2) {
        let question = part[0].lines().last().unwrap();
        terminal.wait_for(question);
        terminal.type_keys(&format!("{}\n", part[1].lines().next().unwrap()));
    }
    let code = terminal.wait();
    (code, terminal.screen().replace("\r\n", "\n"))
}

/// The program called as `name` on a terminal, with the test's surroundings.
fn called(project: &Project, name: &str, arguments: &[&str]) -> Command {
    let plain = project.instance.command(arguments);
    let mut command = Command::new(project.link(name));
    command.args(arguments).env_clear();
    command.envs(plain.get_envs().filter_map(|(name, value)| Some((name, value?))));
    command
}

#[test]
fn scenario_1_a_new_project_is_onboarded_in_the_specifications_words() {
    requires!(git);
    let project = Project::shop();
    let script = format!("{SCENARIO_1}{DIFFERENCE}{CONCLUSION}");
    let mut command = called(&project, "kinfra", &["init", "--method", "bwrap"]);
    let (code, screen) = walk(&project, &mut command, &script);
    assert_eq!((code, screen), (0, script.replace('<', "")));
    let expected = COMPOSE
        .replace("\"8080:80\"", "\"${MY_PROJECT_API_PORT:-8080}:80\"")
        .replace("'5432:5432'", "'${MY_PROJECT_POSTGRES_PORT:-5432}:5432'");
    assert_eq!(project.text("docker-compose.yml"), expected);

    let again = project.init(&[]).ok();
    assert_eq!(
        again.stderr,
        "Project: my-project (already onboarded)\n\n\
         Nothing to do: everything that the compose file needs is declared.\n"
    );
    assert_eq!(project.text("docker-compose.yml"), expected);
}

#[test]
fn whoever_declines_or_leaves_in_the_middle_has_changed_nothing() {
    requires!(git);
    let project = Project::shop();
    let declined = format!("{SCENARIO_1}{DIFFERENCE}").replace("[Y/n] <y", "[Y/n] <n");
    let mut command = called(&project, "declining", &["init", "--method", "bwrap"]);
    let (code, screen) = walk(&project, &mut command, &declined);
    assert_eq!((code, screen.ends_with("error: nothing was written\n")), (1, true), "{screen}");
    // The key Ctrl-D instead of an answer.
    let left = "? Health check endpoint? [/health] <\x04";
    let mut command = called(&project, "leaving", &["init", "--method", "bwrap"]);
    let (code, screen) = walk(&project, &mut command, left);
    assert_eq!((code, screen.ends_with("error: nothing was written\n")), (1, true), "{screen}");
    assert_eq!((project.text("docker-compose.yml").as_str(), project.has(".devops-ai")), (COMPOSE, false));
}

#[test]
fn an_answer_that_makes_no_sense_is_asked_for_again() {
    requires!(git);
    let project = Project::shop();
    project.put("compose.dev.yml", COMPOSE);
    std::fs::remove_file(project.root().join("docker-compose.yml")).unwrap();
    std::fs::remove_file(project.root().join(".env")).unwrap();
    let script = "\
There is no compose file of the usual names, but there is:
  1. compose.dev.yml
? Compose file? [compose.dev.yml] <7
? Compose file? [compose.dev.yml] <1
? Health check endpoint? [/health] <health
? Health check endpoint? [/health] <none
? How should DATABASE_URL be provided?
  3. 1Password reference (op://vault/item/field)
  > <what?
  3. 1Password reference (op://vault/item/field)
  > <3: vault/item
  3. 1Password reference (op://vault/item/field)
  > <2: $OTHER
? How should API_SECRET_KEY be provided?
  > <1
  Value: <a b
? Source for .env in sandboxes?
  2. Copy from template (.env.example — exists)
  > <9
  > <
? Write these changes? [Y/n] <what
? Write these changes? [Y/n] <yes
";
    let mut command = called(&project, "palisade", &["init", "--method", "docker", "--prefix", "shop"]);
    let (code, screen) = walk(&project, &mut command, script);
    assert_eq!(code, 0, "{screen}");
    assert_eq!(
        project.text(".devops-ai/infra.toml"),
        "\
[project]
name = \"my-project\"
prefix = \"shop\"

[sandbox]
compose_file = \"compose.dev.yml\"
method = \"docker\"

[sandbox.ports]
SHOP_API_PORT = 8080
SHOP_POSTGRES_PORT = 5432

[sandbox.secrets]
DATABASE_URL = \"$OTHER\"

[sandbox.env]
API_SECRET_KEY = \"a b\"

[sandbox.files]
\".env\" = \".env.example\"
"
    );
}

#[test]
fn a_project_that_is_onboarded_is_asked_only_for_what_it_lacks() {
    requires!(git);
    let project = Project::shop();
    let declared =
        "[project]\nname = \"my-project\" # ours\n\n[sandbox.secrets]\nDATABASE_URL = \"$DATABASE_URL\"\n";
    project.put(".devops-ai/infra.toml", declared);
    let script = "\
Project: my-project (already onboarded)
? How should API_SECRET_KEY be provided?
  3. 1Password reference (op://vault/item/field)
  > <2
? Source for .env in sandboxes?
  2. Copy from template (.env.example — exists)
  > <2
? Write these changes? [Y/n] <
Updated:  .devops-ai/infra.toml
Updated:  docker-compose.yml (ports parameterized)
";
    let (code, screen) = walk(&project, &mut called(&project, "palisade", &["init"]), script);
    assert_eq!(code, 0, "{screen}");
    assert_eq!(
        project.text(".devops-ai/infra.toml"),
        format!(
            "{declared}API_SECRET_KEY = \"$API_SECRET_KEY\"\n\n[sandbox.ports]\nMY_PROJECT_API_PORT = 8080\n\
             MY_PROJECT_POSTGRES_PORT = 5432\n\n[sandbox.files]\n\".env\" = \".env.example\"\n"
        )
    );
}
