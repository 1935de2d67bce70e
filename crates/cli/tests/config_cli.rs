//! Settings as a user meets them: where a value comes from, what is wrong with a file, and what a project may ask for.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

use palisade_testing::{Instance, Outcome, requires};
use std::path::PathBuf;

fn write_user(instance: &Instance, text: &str) {
    std::fs::create_dir_all(instance.user_config().parent().unwrap()).unwrap();
    std::fs::write(instance.user_config(), text).unwrap();
}

/// The project's file in the directory where the commands run.
fn write_project(instance: &Instance, text: &str) -> PathBuf {
    let directory = instance.work().join(".palisade");
    std::fs::create_dir_all(&directory).unwrap();
    let file = directory.join("config.toml");
    std::fs::write(&file, text).unwrap();
    file
}

/// Without the names of this test's own directories.
fn redacted(instance: &Instance, outcome: Outcome) -> Outcome {
    let redact = |text: String| {
        text.replace(instance.work().to_str().unwrap(), "WORK")
            .replace(instance.user_config().to_str().unwrap(), "USER-FILE")
    };
    Outcome { stdout: redact(outcome.stdout), stderr: redact(outcome.stderr), code: outcome.code }
}

fn outcome(stdout: &str, stderr: &str, code: i32) -> Outcome {
    Outcome { stdout: stdout.into(), stderr: stderr.into(), code }
}

const TRUST_HINT: &str = "hint: read the project's file, and if you agree with it, allow exactly this version with: palisade trust\n";

#[test]
fn every_unknown_key_is_told_with_its_line_and_a_guess() {
    let instance = Instance::new();
    write_user(&instance, "metod = \"bwrap\"\n");
    let told = "error: USER-FILE:1: unknown key 'metod'; did you mean 'method'?\n";
    assert_eq!(redacted(&instance, instance.run(["ls"])), outcome("", told, 3));

    write_user(&instance, "quux = 1\n\n[resources]\nmemry = \"1G\"\n");
    let told = "error: 2 problems in the configuration:\n  \
                USER-FILE:1: unknown key 'quux'\n  \
                USER-FILE:4: unknown key 'resources.memry'; did you mean 'resources.memory'?\n\
                hint: see every key with: palisade config show\n";
    assert_eq!(redacted(&instance, instance.run(["run", "--", "true"])), outcome("", told, 3));
}

#[test]
fn a_value_of_the_wrong_kind_and_a_broken_file_name_their_line() {
    let instance = Instance::new();
    write_user(&instance, "method = bwrap\n");
    let broken = redacted(&instance, instance.run(["ls"]));
    assert!(broken.stderr.starts_with("error: USER-FILE:1: not valid TOML: "), "{}", broken.stderr);
    assert_eq!((broken.stdout.as_str(), broken.code), ("", 3));

    write_user(&instance, "[resources]\nmemory = \"lots\"\n");
    let told = "error: USER-FILE:2: resources.memory: 'lots' is not a size; write a number of bytes, or one with K, M, G \
                or T, such as 512M\n";
    assert_eq!(redacted(&instance, instance.run(["ls"])), outcome("", told, 3));
}

#[test]
fn each_layer_wins_over_the_one_before_and_is_named() {
    let instance = Instance::new();
    let origin_of = |arguments: &[&str], variable: Option<&str>| {
        let mut command = instance.command(arguments);
        if let Some(value) = variable {
            command.env("SANDBOX_METHOD", value);
        }
        let entries = Instance::finish(&mut command).ok().json();
        let method =
            entries.as_array().unwrap().iter().find(|entry| entry["key"] == "method").unwrap().clone();
        (method["value"].as_str().unwrap().to_owned(), method["origin"]["kind"].as_str().unwrap().to_owned())
    };
    let show: &[&str] = &["config", "show", "--json"];
    let is = |value: &str, kind: &str| (value.to_owned(), kind.to_owned());
    assert_eq!(origin_of(show, None), is("bwrap", "default"));
    write_user(&instance, "[keystone]\nbackend = \"docker\"\n");
    assert_eq!(origin_of(show, None), is("docker", "user"));
    write_project(&instance, "method = \"microvm\"\n");
    assert_eq!(origin_of(show, None), is("microvm", "project"));
    assert_eq!(origin_of(show, Some("podman")), is("podman", "environment"));
    assert_eq!(
        origin_of(&["config", "show", "--json", "--method", "noop"], Some("podman")),
        is("noop", "flag")
    );
}

#[test]
fn config_show_is_a_table_with_or_without_origins() {
    let instance = Instance::new();
    write_project(&instance, "[resources]\npids = 99\n");
    let values = [
        ("method", "bwrap"),
        ("image", "palisade-bash:latest"),
        ("network.mode", "none"),
        ("network.allow", "[]"),
        ("network.host_ports", "[]"),
        ("resources.memory", "8G"),
        ("resources.cpus", "4"),
        ("resources.pids", "99"),
        ("resources.tmp", "1G"),
        ("opt", "false"),
        ("tools", "[]"),
        ("mounts", "[]"),
        ("environments.max_network", "same"),
        ("environments.max_memory", "same"),
        ("environments.max_cpus", "same"),
        ("environments.max_pids", "same"),
        ("environments.writable_root", "false"),
        ("environments.roots", "[]"),
        ("log.level", "warn"),
        ("log.format", "text"),
        ("attach.detach_keys", "ctrl-\\,d"),
        ("agent.env_files", "[\".env\", \".env.*\"]"),
        ("agent.env_load", "[\".env\", \".env.local\"]"),
        ("agent.login", "{}"),
        ("agent.max_fetch", "8G"),
        ("agent.max_fetch_time", "30m"),
        ("agent.sync", "manual"),
        ("agent.idle", "30s"),
        ("agent.refs", "all"),
        ("copy.max_size", "8G"),
        ("copy.max_files", "1000000"),
        ("root.uid_base", "1910000000"),
    ];
    let width = |cells: &mut dyn Iterator<Item = &str>| cells.map(str::len).max().unwrap();
    let (first, second) =
        (width(&mut values.iter().map(|(key, _)| *key)), width(&mut values.iter().map(|(_, value)| *value)));
    let mut plain = format!("{:<first$}  VALUE\n", "KEY");
    let mut with_origin = format!("{:<first$}  {:<second$}  ORIGIN\n", "KEY", "VALUE");
    for (key, value) in values {
        plain.push_str(&format!("{key:<first$}  {value}\n"));
        let origin = if key == "resources.pids" { "project WORK/.palisade/config.toml:2" } else { "default" };
        with_origin.push_str(&format!("{key:<first$}  {value:<second$}  {origin}\n"));
    }
    assert_eq!(redacted(&instance, instance.run(["config", "show"])), outcome(&plain, "", 0));
    assert_eq!(
        redacted(&instance, instance.run(["config", "show", "--origin"])),
        outcome(&with_origin, "", 0)
    );
}

#[test]
fn a_project_narrows_freely_and_widens_only_while_it_is_trusted_as_it_is() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let shared = instance.work().join("shared");
    std::fs::create_dir(&shared).unwrap();
    std::fs::write(shared.join("file"), "shared text").unwrap();
    let cat = ["run", "--", "cat", "/mnt/shared/file"];

    write_project(&instance, "[resources]\ntmp = \"1M\"\n");
    let size = instance.run(["run", "--", "stat", "-f", "-c", "%b %S", "/tmp"]).ok().stdout;
    assert_eq!(size, "256 4096\n");

    let mount = format!("mounts = [\"{}:/mnt/shared:ro\"]\n", shared.display());
    write_project(&instance, &mount);
    let told = format!(
        "error: WORK/.palisade/config.toml:1: mounts = WORK/shared:/mnt/shared:ro widens the policy: it shows a part of \
         the host\n{TRUST_HINT}"
    );
    assert_eq!(redacted(&instance, instance.run(cat)), outcome("", &told, 3));

    let trusted = redacted(&instance, instance.run(["trust"]));
    assert_eq!(trusted, outcome("", "trusted as it is now: WORK/.palisade/config.toml\n", 0));
    assert_eq!(instance.run(cat).ok().stdout, "shared text");
    let listed = redacted(&instance, instance.run(["trust", "--list"]));
    assert_eq!(listed, outcome("WORK/.palisade/config.toml\n", "", 0));

    // One more blank is another file.
    write_project(&instance, &format!("{mount} "));
    assert_eq!(redacted(&instance, instance.run(cat)), outcome("", &told, 3));
    write_project(&instance, &mount);
    assert_eq!(instance.run(cat).ok().stdout, "shared text");

    instance.run(["trust", "--revoke"]).ok();
    assert_eq!(redacted(&instance, instance.run(cat)), outcome("", &told, 3));
}

#[test]
fn every_way_to_widen_is_told_at_once() {
    let instance = Instance::new();
    write_project(
        &instance,
        "method = \"noop\"\nnetwork = \"open\"\nopt = true\ntools = [\"/srv/tools\"]\n[resources]\nmemory = \"100G\"\n",
    );
    let told = format!(
        "error: 5 problems in the configuration:\n  \
         WORK/.palisade/config.toml:1: method = noop widens the policy: it is weaker than bwrap (default)\n  \
         WORK/.palisade/config.toml:2: network.mode = open widens the policy: it reaches further than none (default)\n  \
         WORK/.palisade/config.toml:6: resources.memory = 100G widens the policy: it is more than 8G (default)\n  \
         WORK/.palisade/config.toml:3: opt = true widens the policy: it shows the host's /opt\n  \
         WORK/.palisade/config.toml:4: tools = /srv/tools widens the policy: it shows a part of the host\n{TRUST_HINT}"
    );
    assert_eq!(redacted(&instance, instance.run(["run", "--", "true"])), outcome("", &told, 3));
}

#[test]
fn some_settings_are_never_a_projects_even_when_trusted() {
    let instance = Instance::new();
    write_project(&instance, "[root]\nuid_base = 100000\n");
    instance.run(["trust"]).ok();
    let told = "error: WORK/.palisade/config.toml:2: root.uid_base cannot be set by a project, only in the system's or the \
                user's file\n";
    assert_eq!(redacted(&instance, instance.run(["run", "--", "true"])), outcome("", told, 3));
}

#[test]
fn trust_needs_a_project() {
    let instance = Instance::new();
    let told = "error: there is neither a .palisade/config.toml nor a .palisade/environments in WORK or above\n\
                hint: a project's settings are in .palisade/config.toml, its environments in .palisade/environments\n";
    assert_eq!(redacted(&instance, instance.run(["trust"])), outcome("", told, 6));
}
