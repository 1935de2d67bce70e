//! Where a secret that a sandbox was given can be seen: each line of docs/guides/secrets.md, tried with a canary.

use crate::agent::repository;
use crate::support::{argument_lists_with, files_with, unique_sleep};
use palisade_testing::{Instance, eventually, is_root};
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;

contracts!(
    a_variable_is_with_the_command_it_was_given_to_and_nowhere_else,
    an_agents_login_is_nowhere_and_its_env_files_are_in_its_workspace_until_it_is_removed,
);

/// The names of the processes on this machine whose environment has this text, as far as this user may look.
fn environments_with(text: &str) -> Vec<String> {
    let processes = std::fs::read_dir("/proc").unwrap().flatten().map(|entry| entry.path());
    let mut names: Vec<String> = processes
        .filter(|path| {
            let variables = std::fs::read(path.join("environ")).unwrap_or_default();
            String::from_utf8_lossy(&variables).contains(text)
        })
        .filter_map(|path| std::fs::read_to_string(path.join("comm")).ok())
        .map(|name| name.trim().to_owned())
        .collect();
    names.sort();
    names
}

#[track_caller]
fn assert_untold(instance: &Instance, secret: &str) {
    for words in [
        &["inspect", "box", "--json"][..],
        &["ls", "--json"],
        &["sessions", "box", "--json"],
        &["logs", "box"],
        &["config", "show", "--json"],
    ] {
        let told = instance.run(words);
        assert!(!format!("{told:?}").contains(secret), "{words:?}: {told:?}");
    }
    assert_eq!(argument_lists_with(secret), Vec::<String>::new());
}

fn a_variable_is_with_the_command_it_was_given_to_and_nowhere_else(method: &'static str) {
    let instance = Instance::with_method(method);
    instance.run(["create", "box"]).ok();
    Instance::finish(instance.command(["start", "box"]).env("PALISADE_LOG", "trace")).ok();
    let (secret, seconds) = (format!("canary-{}", unique_sleep()), unique_sleep());
    let words = ["exec", "--session", "s", "--detach", "-e", "SECRET", "box", "--", "sleep", &seconds];
    Instance::finish(instance.command(words).env("SECRET", &secret)).ok();
    // The command itself has it, which root sees on every method; an ordinary user not on an engine of root's.
    let seen = || environments_with(&secret);
    let engine_of_root = method == "docker" && !is_root();
    eventually("only the command has it", || match seen().as_slice() {
        [one] => one == "sleep",
        none => none.is_empty() && engine_of_root,
    });
    // Another command inside finds it there, since everything inside is one user, and not with the first process.
    let script = "cat /proc/1/environ 2>/dev/null | tr '\\0' '\\n' | grep -c canary- ; true";
    if method != "noop" {
        assert_eq!(instance.shell("box", script).ok().stdout, "0\n");
    }
    assert_untold(&instance, &secret);
    assert_eq!(files_with(&instance.state(), secret.as_bytes()), Vec::<PathBuf>::new());
    instance.run(["stop", "box"]).ok();
    assert_eq!(seen(), Vec::<String>::new());
}

/// An agent of the user's own, whose login is one variable.
const PROFILE: &str = r#"
name = "mine"
description = "an agent with a login"
program = "bash"
interactive = ["bash", "-l"]
task = ["bash", "-lc", "{task}"]
unattended = "it asks for nothing"
[login]
variables = ["MY_KEY"]
"#;

fn an_agents_login_is_nowhere_and_its_env_files_are_in_its_workspace_until_it_is_removed(
    method: &'static str,
) {
    let instance = repository(method);
    let place = instance.user_config().with_file_name("agents");
    std::fs::create_dir_all(&place).unwrap();
    std::fs::write(place.join("mine.toml"), PROFILE).unwrap();
    let (login, line) = (format!("login-{}", unique_sleep()), format!("line-{}", unique_sleep()));
    std::fs::write(instance.work().join(".git/info/exclude"), ".env\n").unwrap();
    let env_file = instance.work().join(".env");
    std::fs::write(&env_file, format!("TOKEN={line}\n")).unwrap();
    std::fs::set_permissions(&env_file, std::fs::Permissions::from_mode(0o600)).unwrap();
    let task = "test -n \"$MY_KEY\" && test -n \"$TOKEN\" && stat -c %a .env && git status --porcelain";
    let words =
        ["--log-level", "trace", "agent", "start", "--agent", "mine", "--name", "box", "--task", task];
    let started = Instance::finish(instance.command(words).env("MY_KEY", &login)).ok();
    assert_eq!(started.stdout, "600\n", "the file has its mode, and git does not see it");
    for secret in [&login, &line] {
        assert!(!started.stderr.contains(secret.as_str()), "{}", started.stderr);
        assert_untold(&instance, secret);
    }
    assert_eq!(files_with(&instance.state(), login.as_bytes()), Vec::<PathBuf>::new());
    let found = files_with(&instance.state(), line.as_bytes());
    match method {
        // In a volume, where the engine keeps it.
        "docker" | "podman" => assert_eq!(found, Vec::<PathBuf>::new()),
        _ => assert!(found.len() == 1 && found[0].ends_with("workspace/.env"), "{found:?}"),
    }
    let mode = std::fs::metadata(instance.state()).unwrap().permissions().mode();
    assert_eq!(mode & 0o777, 0o700, "nobody else comes near it");
    instance.run(["rm", "--force", "box"]).ok();
    assert_eq!(files_with(&instance.state(), line.as_bytes()), Vec::<PathBuf>::new());
}
