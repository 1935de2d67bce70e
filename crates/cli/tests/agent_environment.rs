//! What an agent's sessions find in their environment: the `.env` files of the project, whoever loads them, and the login,
//! which is seen nowhere on the way.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

use palisade_testing::{Instance, Outcome, requires};
use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Command, Stdio};

const FILES: [(&str, &str); 3] = [
    (".env", "A=from-env\nB=from-env\n# a comment\n"),
    (".env.local", "B=from-local\nC=\"${A}-again\"\n"),
    (".env.production", "A=from-production\n"),
];

/// A repository with files beside its code.
fn scene() -> Instance {
    let instance = Instance::with_method("bwrap");
    let settings = "[user]\nname = Ada\nemail = ada@example.org\n";
    std::fs::write(instance.home().join(".gitconfig"), settings).unwrap();
    std::fs::create_dir(instance.work().join("project")).unwrap();
    write(&instance, ".gitignore", ".env*\n");
    for line in ["init --quiet --initial-branch=main", "add -A", "commit --quiet -m first"] {
        git(&instance, line);
    }
    for (name, text) in FILES {
        write(&instance, name, text);
    }
    instance
}

fn write(instance: &Instance, name: &str, text: &str) {
    std::fs::write(instance.work().join("project").join(name), text).unwrap();
}

#[track_caller]
fn git(instance: &Instance, line: &str) -> String {
    let mut command = Command::new("git");
    command.args(line.split(' ')).current_dir(instance.work().join("project")).env("HOME", instance.home());
    Outcome::from(command.output().unwrap()).ok().stdout
}

fn settings(instance: &Instance, text: &str) {
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), text).unwrap();
}

/// `agent start` with a script for the agent.
fn start(instance: &Instance, script: &str, rest: &[&str]) -> Command {
    let project = instance.work().join("project");
    let words = ["agent", "start", project.to_str().unwrap(), "--agent", "shell", "--task", script];
    instance.command(words.iter().chain(rest))
}

/// A program of that name which the sandbox finds before the real one.
fn in_the_way(instance: &Instance, script: &str) -> String {
    let directory = instance.work().join("tools/bin");
    std::fs::create_dir_all(&directory).unwrap();
    let program = directory.join("direnv");
    std::fs::write(&program, format!("#!/bin/sh\n{script}\n")).unwrap();
    let open = |path: &Path| std::fs::set_permissions(path, PermissionsExt::from_mode(0o755)).unwrap();
    [
        program.as_path(),
        &directory,
        directory.parent().unwrap(),
        &instance.work(),
        instance.work().parent().unwrap(),
    ]
    .into_iter()
    .for_each(open);
    directory.to_str().unwrap().to_owned()
}

const SHOW: &str = "echo $A $B $C";

#[test]
fn direnv_loads_the_files_for_the_agent_for_commands_and_in_worktrees() {
    requires!(bwrap, git, direnv);
    let instance = scene();
    let outcome =
        Instance::finish(&mut start(&instance, &format!("{SHOW}; git status --porcelain"), &[])).ok();
    assert_eq!(outcome.stdout, "from-env from-local from-env-again\n");
    for line in [
        "3 env files sent: .env, .env.local, .env.production",
        "direnv loads 3 variables from .env, .env.local",
    ] {
        assert!(outcome.stderr.lines().any(|told| told == line), "{}", outcome.stderr);
    }
    assert!(!outcome.stderr.contains("from-"), "{}", outcome.stderr);
    assert_eq!(instance.shell("project", SHOW).ok().stdout, "from-env from-local from-env-again\n");
    // A shell finds them by itself, and changes as they change: direnv knows that by the second.
    let change = "echo A=changed > .env; touch --date='+1 minute' .env; eval \"$(direnv export bash 2>/dev/null)\"; echo $A";
    let typed = instance.run(["exec", "project", "--", "bash", "-lic", change]).ok();
    assert_eq!(typed.stdout, "changed\n");
    // A worktree has the files, too, and keeps them out of its commits.
    let there = format!("pwd; {SHOW}; git status --porcelain");
    let outcome = Instance::finish(&mut start(&instance, &there, &["--worktree", "other"])).ok();
    assert_eq!(outcome.stdout, "/workspace/.worktrees/other\nfrom-env from-local from-env-again\n");
}

#[test]
fn without_a_direnv_that_can_the_session_loads_the_files_and_says_so() {
    requires!(bwrap, git);
    let instance = scene();
    let tools = in_the_way(&instance, "exit 1");
    // Nothing that direnv could read.
    write(&instance, ".env", "A=two words\nB='x'\nnonsense\n");
    let outcome = Instance::finish(&mut start(&instance, SHOW, &["--tool", &tools])).ok();
    assert_eq!(outcome.stdout, "two words from-local two words-again\n");
    for line in [
        "warning: direnv inside could not load the working tree's files; without it the session loads .env (2 variables), .env.local (2 variables)",
        "warning: .env:3 is left out: there is no '=' behind the name",
    ] {
        assert!(outcome.stderr.lines().any(|told| told == line), "{}", outcome.stderr);
    }
    assert_eq!(instance.shell("project", SHOW).ok().stdout, "two words from-local two words-again\n");
    let given = ["exec", "-e", "A=given", "project", "--", "sh", "-c", SHOW];
    assert_eq!(instance.run(given).ok().stdout, "given from-local two words-again\n");
}

/// Without isolation, what is found inside is what the PATH has.
#[test]
fn where_there_is_no_direnv_the_session_says_that_it_loads_the_files_itself() {
    requires!(git);
    let instance = scene();
    let programs = instance.work().join("programs");
    std::fs::create_dir(&programs).unwrap();
    for entry in
        std::fs::read_dir("/usr/bin").unwrap().flatten().filter(|entry| entry.file_name() != "direnv")
    {
        std::os::unix::fs::symlink(entry.path(), programs.join(entry.file_name())).unwrap();
    }
    let mut command = start(&instance, SHOW, &[]);
    let outcome = Instance::finish(command.env("SANDBOX_METHOD", "noop").env("PATH", &programs)).ok();
    assert_eq!(outcome.stdout, "from-env from-local from-env-again\n");
    let line =
        "there is no direnv inside: the session itself loads .env (2 variables), .env.local (2 variables)";
    assert!(outcome.stderr.lines().any(|told| told == line), "{}", outcome.stderr);
}

#[test]
fn the_settings_say_which_files_go_in_and_which_are_loaded() {
    requires!(bwrap, git);
    let instance = scene();
    settings(&instance, "[agent]\nenv_files = ['.env.production']\nenv_load = ['.env.production']\n");
    let outcome = Instance::finish(&mut start(&instance, "echo $A; ls -A | grep -x '.env.*'", &[])).ok();
    let mut listed: Vec<&str> = outcome.stdout.lines().filter(|line| *line != ".envrc").collect();
    listed.sort_unstable();
    assert_eq!(listed, [".env.production", "from-production"]);

    // A project that nobody trusts sends nothing more.
    std::fs::create_dir(instance.work().join("project/.palisade")).unwrap();
    write(&instance, ".palisade/config.toml", "[agent]\nenv_files = ['.env.production', '.env']\n");
    let refused = Instance::finish(&mut start(&instance, SHOW, &["--allow-dirty"]));
    assert_eq!(refused.code, 3, "{}", refused.stderr);
    assert!(refused.stderr.contains("agent.env_files = .env widens the policy"), "{}", refused.stderr);
}

const PROFILE: &str = r#"
name = "mine"
description = "a script with a login"
program = "bash"
interactive = ["bash"]
task = ["bash", "-c", "{task}"]
unattended = "it asks for nothing"
[login]
variables = ["MY_KEY"]
[[home]]
path = ".mine"
text = "{tail:MY_KEY}"
"#;

fn with_login(instance: &Instance, reference: &str) {
    settings(instance, &format!("[agent.login]\nMY_KEY = '{reference}'\n"));
    let place = instance.user_config().with_file_name("agents");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("mine.toml"), PROFILE).unwrap();
}

#[test]
fn a_login_that_is_named_and_not_there_ends_before_anything_is_made() {
    requires!(bwrap, git);
    let instance = scene();
    with_login(&instance, "$WORK_KEY");
    let project = instance.work().join("project");
    let refused =
        instance.run(["agent", "start", project.to_str().unwrap(), "--agent", "mine", "--task", "true"]);
    assert_eq!(
        (refused.code, refused.stderr.as_str()),
        (
            5,
            "error: the login of mine cannot be had: MY_KEY: the environment variable WORK_KEY is not set\n\
             hint: export what is missing, or change agent.login in the settings or [login.from] in the profile\n"
        )
    );
    assert_eq!(instance.run(["ls", "--json"]).ok().json(), serde_json::json!([]));
}

/// Every command line on the machine, as often as can be, until the command has ended.
fn watched(command: &mut Command, canary: &str) -> (Outcome, Vec<String>) {
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let ended = std::thread::spawn(move || child.wait_with_output().unwrap());
    let (mut seen, mut looks) = (Vec::new(), 0);
    while !ended.is_finished() {
        for entry in std::fs::read_dir("/proc").unwrap().flatten() {
            let words = std::fs::read(entry.path().join("cmdline")).unwrap_or_default();
            let words = String::from_utf8_lossy(&words).into_owned();
            if words.contains(canary) {
                seen.push(words);
            }
        }
        looks += 1;
    }
    assert!(looks > 3, "the command ended before anybody could look");
    (Outcome::from(ended.join().unwrap()), seen)
}

#[test]
fn a_login_reaches_the_agent_and_is_seen_nowhere_else() {
    requires!(bwrap, git);
    let canary = "canary-7f3a9c1e5b2d-login";
    let instance = scene();
    with_login(&instance, "$WORK_KEY");
    // The project's own word for the key is weaker than the user's reference.
    write(&instance, ".env", "MY_KEY=the-projects\nTOKEN=canary-7f3a9c1e5b2d-file\n");
    let project = instance.work().join("project");
    let script = "test \"$MY_KEY\" = \"$(cat .expected)\" && test -n \"$TOKEN\" && cat ~/.mine";
    settings(&instance, "[agent]\nenv_files = ['.env', '.expected']\n[agent.login]\nMY_KEY = '$WORK_KEY'\n");
    write(&instance, ".expected", canary);
    let words = ["agent", "start", project.to_str().unwrap(), "--agent", "mine", "--log-level", "trace"];
    let mut command = instance.command(words.iter().chain(&["--allow-dirty", "--task", script]));
    let (outcome, seen) = watched(command.env("WORK_KEY", canary), "7f3a9c1e5b2d");
    assert_eq!(seen, Vec::<String>::new());
    // The last twenty characters are what a profile may ask for, and the agent printed them itself.
    assert_eq!(
        (outcome.code, outcome.stdout.as_str()),
        (0, &canary[canary.len() - 20..]),
        "{}",
        outcome.stderr
    );
    assert!(!outcome.stderr.contains("canary"), "{}", outcome.stderr);
    let (outcome, seen) = watched(&mut instance.command(["exec", "project", "--", "true"]), "7f3a9c1e5b2d");
    assert_eq!((outcome.ok().stderr.as_str(), seen), ("", Vec::new()));

    let shown = [
        &["inspect", "project", "--json"][..],
        &["config", "show", "--json"],
        &["logs", "project"],
        &["agent", "ls", "--json"],
    ];
    for words in shown {
        let outcome = Instance::finish(instance.command(words).env("WORK_KEY", canary)).ok();
        assert!(!format!("{}{}", outcome.stdout, outcome.stderr).contains("canary-"), "{words:?}");
    }
    assert_eq!(
        kept(&instance.state(), b"canary-7f3a9c1e5b2d-login", &["home", "workspace"]),
        Vec::<String>::new()
    );
}

/// Files below a directory that hold these bytes, but for directories of these names.
fn kept(directory: &Path, bytes: &[u8], but: &[&str]) -> Vec<String> {
    let mut found = Vec::new();
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let (path, kind) = (entry.path(), entry.file_type().unwrap());
        if kind.is_dir() && !but.iter().any(|name| entry.file_name() == *name) {
            found.extend(kept(&path, bytes, but));
        } else if kind.is_file() {
            let text = std::fs::read(&path).unwrap_or_default();
            if text.windows(bytes.len()).any(|window| window == bytes) {
                found.push(path.display().to_string());
            }
        }
    }
    found
}
