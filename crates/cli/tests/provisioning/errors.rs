//! Every row of the specification's table of errors, alone and together. None of them needs an engine: nothing is
//! started.

use crate::scenarios::{WELLNESS, WELLNESS_SERVICES, wellness};
use crate::support::{CANARY, Project};
use palisade_testing::{Outcome, requires};

/// What is told after the worktree is made.
fn told(outcome: &Outcome) -> &str {
    outcome.stderr.split_once("\n\n").map_or("", |(_, told)| told)
}

fn retry() -> &'static str {
    "\nSandbox not started. To retry after fixing:\n  palisade sandbox start       (from worktree directory)\n"
}

fn only(name: &str, reference: &str, message: &str) -> String {
    format!("✗ Secret resolution failed:\n  {name} ({reference})\n  → {message}\n{}", retry())
}

#[track_caller]
fn refused(project: &Project, expected: &str) {
    let outcome = project.run(["impl", "ux/M1"]);
    assert_eq!((outcome.code, told(&outcome)), (5, expected), "{}", outcome.stderr);
    // The worktree is kept, nothing is started, and no secret is written.
    assert!(project.worktree("wellness-agent-impl-ux-M1").join("docker-compose.yml").exists());
    assert!(!project.slots().join("wellness-agent-1/.env.secrets").exists());
}

const TOKEN: (&str, &str) = ("TELEGRAM_BOT_TOKEN", "op://karl-wellness/telegram-token/password");

#[test]
fn op_that_is_not_signed_in() {
    requires!(git);
    let project = wellness();
    project.op("echo '[ERROR] You are not currently signed in.' >&2; exit 1");
    let message = "1Password not authenticated. Run: eval $(op signin)";
    refused(&project, &only(TOKEN.0, TOKEN.1, message));
}

#[test]
fn op_that_does_not_know_the_item() {
    requires!(git);
    let project = wellness();
    project
        .op("echo '[ERROR] \"telegram-token\" isn'\\''t an item in the \"karl-wellness\" vault' >&2; exit 1");
    let message =
        "Secret not found: op://karl-wellness/telegram-token/password. Check the reference in infra.toml.";
    refused(&project, &only(TOKEN.0, TOKEN.1, message));
}

#[test]
fn op_that_is_not_installed() {
    requires!(git);
    let project = wellness();
    project.without_op();
    let message = "1Password CLI (op) not found. Install it or use $VAR references instead.";
    refused(&project, &only(TOKEN.0, TOKEN.1, message));
}

#[test]
fn op_that_tells_the_secret_in_its_complaint_is_not_repeated() {
    requires!(git);
    let project = wellness();
    project.op("echo \"cannot use $(cat \"$(dirname \"$0\")/canary\")\" >&2; exit 3");
    let message = "1Password CLI (op) failed with code 3. See why with: op read 'op://karl-wellness/telegram-token/password'";
    refused(&project, &only(TOKEN.0, TOKEN.1, message));
    let mut command = project.command(
        &project.worktree("wellness-agent-impl-ux-M1"),
        ["sandbox", "start", "--log-level", "trace"],
    );
    let again = palisade_testing::Instance::finish(&mut command);
    assert_eq!(again.code, 5);
    assert!(!again.stderr.contains(CANARY) && !again.stderr.contains("cannot use"), "{}", again.stderr);
}

#[test]
fn a_variable_that_is_not_set() {
    requires!(git);
    let reference = "\"op://karl-wellness/telegram-token/password\"";
    let project = Project::new(&WELLNESS.replace(reference, "\"$BOT_TOKEN\""), WELLNESS_SERVICES);
    project.write("config.yaml", "mine\n");
    let message = "Environment variable BOT_TOKEN not set. Export it or change to a different resolution type in infra.toml.";
    refused(&project, &only(TOKEN.0, "$BOT_TOKEN", message));
}

#[test]
fn everything_that_is_missing_is_told_at_once() {
    requires!(git);
    let secrets =
        "[sandbox.secrets]\nAPI_KEY = \"$API_KEY\"\nGOOD = \"literal\"\nOTHER = \"op://v/other/field\"\n";
    let files = "[sandbox.files]\n\"certs/dev.pem\" = \"certs/dev.pem\"\n";
    let infra = WELLNESS.replace("[sandbox.secrets]\n", secrets).replace("[sandbox.files]\n", files);
    let project = Project::new(&infra, WELLNESS_SERVICES);
    project.write("config.example.yaml", "example\n");
    project.op(
        "case $3 in *other*) echo '[ERROR] could not find item other' >&2 ;; *) echo odd >&2 ;; esac; exit 1",
    );
    let root = project.root();
    let expected = format!(
        "✗ File provisioning failed:
  certs/dev.pem — source not found at {root}/certs/dev.pem
  Hint: Create it first
  config.yaml — source not found at {root}/config.yaml
  Hint: Create it first: cp config.example.yaml config.yaml

✗ Secret resolution failed:
  API_KEY ($API_KEY)
  → Environment variable API_KEY not set. Export it or change to a different resolution type in infra.toml.
  OTHER (op://v/other/field)
  → Secret not found: op://v/other/field. Check the reference in infra.toml.
  TELEGRAM_BOT_TOKEN (op://karl-wellness/telegram-token/password)
  → 1Password CLI (op) failed with code 1. See why with: op read 'op://karl-wellness/telegram-token/password'
{retry}",
        root = root.display(),
        retry = retry()
    );
    refused(&project, &expected);
}

#[test]
fn sections_that_are_not_there_are_skipped() {
    requires!(docker, compose, git);
    let infra = "[project]\nname = \"plain\"\n\n[sandbox.ports]\nPLAIN_PORT = @BASE@\n";
    let services = "services:\n  web:\n    image: palisade-services\n    command: httpd -f -p 80 -h /www\n    \
                    stop_grace_period: 0s\n    ports: [\"${PLAIN_PORT}:80\"]\n";
    let project = Project::new(infra, services);
    let outcome = project.run(["impl", "ux/M1"]).ok();
    let expected = format!(
        "Created worktree: ../plain-impl-ux-M1\n  Branch: impl/ux-M1\nSandbox:\n  Slot: 1\n  PLAIN_PORT: {}\n",
        project.base + 1
    );
    assert_eq!(outcome.stderr, expected);
}

#[test]
fn a_project_that_was_never_onboarded_is_told_how_to() {
    requires!(git);
    let project = wellness();
    project.git("git rm --quiet -r .devops-ai && git commit --quiet -m none");
    let outcome = project.run(["impl", "ux/M1"]);
    let expected = format!(
        "error: {} has no .devops-ai/infra.toml, which says what its sandboxes need\nhint: write it once: palisade init\n",
        project.root().display()
    );
    assert_eq!((outcome.code, outcome.stderr), (3, expected));
    assert_eq!(project.taken(), [""; 0]);
}

#[test]
fn a_name_without_a_milestone_is_a_usage_error() {
    requires!(git);
    let project = wellness();
    for name in ["ux", "ux/", "../x/M1", "a b/M1", "-x/M1"] {
        assert_eq!(project.run(["impl", "--", name]).code, 2, "{name}");
    }
    assert_eq!(project.taken(), [""; 0]);
}

#[test]
fn files_are_copied_from_nowhere_else_than_the_project() {
    requires!(git);
    let project = wellness();
    std::fs::write(project.instance.home().join("key"), CANARY).unwrap();
    project.git(&format!(
        "rm config.yaml && ln -s {} config.yaml",
        project.instance.home().join("key").display()
    ));
    let outcome = project.run(["impl", "ux/M1"]);
    assert_eq!(outcome.code, 5, "{}", outcome.stderr);
    assert!(outcome.stderr.contains("is a symbolic link, or leads through one, which is not followed"));
    assert!(!project.worktree("wellness-agent-impl-ux-M1").join("config.yaml").exists());
    for bad in [
        "\"/etc/x\" = \"config.yaml\"",
        "\"../x\" = \"config.yaml\"",
        "\"x\" = \"../../x\"",
        "\".git/hooks/x\" = \"x\"",
    ] {
        project.write(".devops-ai/infra.toml", &WELLNESS.replace("\"config.yaml\" = \"config.yaml\"", bad));
        assert_eq!(project.run(["impl", "ux/M2"]).code, 3, "{bad}");
    }
}
