//! Sandboxes made from an environment.

use crate::support::{RUBY, outcome, plugin, redacted, user_config};
use palisade_testing::{Instance, requires};

#[test]
fn a_run_without_a_command_starts_that_of_its_environment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    plugin(&instance, "ruby", RUBY);
    let run = |arguments: &[&str]| redacted(&instance, instance.run(["run"].iter().chain(arguments)));
    assert_eq!(run(&["--environment", "ruby"]), outcome("ruby in /workspace\n", "", 0));
    assert_eq!(run(&["--environment", "ruby", "--", "echo", "own"]), outcome("own\n", "", 0));
    assert_eq!(run(&[]).code, 2, "without an environment there must be a command");
    let shell = instance.run_with_input(["run", "--environment", "bash"], b"echo $BASH\n");
    assert_eq!((shell.stdout.as_str(), shell.code), ("/bin/bash\n", 0));
}

#[test]
fn commands_start_in_the_directory_of_the_environment() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    plugin(&instance, "ruby", &format!("{RUBY}workdir = \"/workspace/app\"\n"));
    std::fs::create_dir_all(instance.work().join("code/app")).unwrap();
    let bound = instance.run(["run", "--environment", "ruby", "-w", "code", "--", "pwd"]).ok();
    assert_eq!(bound.stdout, "/workspace/app\n");
    let empty = redacted(&instance, instance.run(["run", "--environment", "ruby", "--", "pwd"]));
    let told = "error: cannot enter /workspace/app in the sandbox: No such file or directory\n";
    assert_eq!(empty, outcome("", told, 126));
}

#[test]
fn a_missing_tool_is_told_before_anything_starts() {
    for method in ["bwrap", "noop"] {
        requires!(bwrap);
        let instance = Instance::with_method(method);
        plugin(&instance, "ruby", &RUBY.replace("[\"sh\"]", "[\"sh\", \"no-such-tool\", \"nor-this\"]"));
        for command in [vec!["run", "--environment", "ruby"], vec!["create", "--environment", "ruby", "box"]]
        {
            let refused = instance.run(&command);
            let told = "error: environment 'ruby' needs no-such-tool and nor-this, which this host does not have\n\
                        hint: install no-such-tool and nor-this on this host, or show the directory it is in with --tool \
                        DIR\n";
            assert!(refused.stderr.ends_with(told) && refused.code == 4, "{method}: {refused:?}");
        }
        assert_eq!(instance.run(["ls", "--json"]).ok().stdout, "[]\n", "{method}: nothing was made");
    }
}

#[test]
fn a_tool_that_is_shown_is_not_missing() {
    use std::os::unix::fs::PermissionsExt;
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    plugin(&instance, "ruby", &RUBY.replace("[\"sh\"]", "[\"no-such-tool\"]"));
    let tool = instance.work().join("tools/bin/no-such-tool");
    std::fs::create_dir_all(tool.parent().unwrap()).unwrap();
    std::fs::write(&tool, "#!/bin/sh\necho found\n").unwrap();
    std::fs::set_permissions(&tool, std::fs::Permissions::from_mode(0o755)).unwrap();
    let tools = instance.work().join("tools");
    let tools = tools.to_str().unwrap();
    let run = instance.run(["run", "--environment", "ruby", "--tool", tools, "--", "no-such-tool"]).ok();
    assert_eq!(run.stdout, "found\n");
}

#[test]
fn an_environment_is_narrower_than_the_settings_and_flags_are_wider_than_both() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    user_config(&instance, "[network]\nallow = [\"a.example\"]\n");
    plugin(&instance, "ruby", &format!("{RUBY}[security]\nnetwork = \"none\"\npids = 64\n"));
    let policy = |name: &str, flags: &[&str]| {
        let create = ["create", name, "--environment", "ruby"];
        instance.run(create.iter().chain(flags)).ok();
        let policy = instance.run(["inspect", name, "--json"]).ok().json()["policy"].clone();
        (
            policy["network"].as_str().unwrap().to_owned(),
            policy["resources"]["pids"]["value"].as_i64().unwrap(),
        )
    };
    assert_eq!(policy("plain", &[]), ("none".into(), 64));
    assert_eq!(policy("wide", &["--network", "open", "--pids", "5000"]), ("open".into(), 5000));

    plugin(&instance, "ruby", &format!("{RUBY}[security]\nnetwork = \"open\"\nmemory = \"64G\"\n"));
    let told = "error: 2 problems in the configuration:\n  \
                CONFIG/environments/ruby.toml:9: security.memory = 64G is wider than allowed: your settings allow 8G\n  \
                CONFIG/environments/ruby.toml:8: security.network = open is wider than allowed: your settings allow \
                allowlist\n\
                hint: ask for less in that file, or allow it in your own config.toml, below [environments]: max_memory = \
                \"64G\"\n\
                hint: ask for less in that file, or allow it in your own config.toml, below [environments]: max_network = \
                \"open\"\n";
    let refused = redacted(&instance, instance.run(["run", "--environment", "ruby"]));
    assert_eq!(refused, outcome("", told, 3));
}

#[test]
fn a_sandbox_remembers_its_environment_whatever_becomes_of_the_file() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    let file = plugin(&instance, "ruby", RUBY);
    instance.run(["create", "--start", "--environment", "ruby", "gem"]).ok();
    instance.run(["create", "plain"]).ok();
    std::fs::remove_file(file).unwrap();

    let listed = instance.run(["ls"]).ok().stdout;
    let column: Vec<Vec<&str>> =
        listed.lines().map(|line| line.split_whitespace().take(4).collect()).collect();
    assert_eq!(
        column,
        [
            ["NAME", "STATE", "METHOD", "ENVIRONMENT"],
            ["gem", "running", "bwrap", "ruby"],
            ["plain", "created", "bwrap", "-"]
        ]
    );
    let inspected = instance.run(["inspect", "gem"]).ok().stdout;
    assert!(inspected.contains("\nenvironment ruby\nroot        host\n"), "{inspected}");
    let json = instance.run(["inspect", "gem", "--json"]).ok().json();
    assert_eq!((&json["environment"], &json["foundation"]["environment"]), (&"ruby".into(), &"ruby".into()));
    let stopped = instance.run(["stop", "gem"]);
    assert_eq!(stopped.code, 0);
    instance.run(["start", "gem"]).ok();
}

#[test]
fn an_environment_without_what_the_method_needs_is_refused() {
    let instance = Instance::with_method("bwrap");
    plugin(&instance, "ruby", &RUBY.replace("root = \"host\"", "image = \"ruby:3\""));
    let told = "error: environment 'ruby' cannot be used with method 'bwrap': it has no root\n\
                hint: choose a method that it is for with --method: docker, podman; or another \
                environment\n";
    assert_eq!(instance.run(["run", "--environment", "ruby"]), outcome("", told, 4));

    user_config(&instance, "[environments]\nwritable_root = true\n");
    plugin(&instance, "ruby", &format!("{RUBY}[security]\nread_only_root = false\n"));
    let told = "error: method 'bwrap' cannot do this: a root that programs inside can write; only containers have one\n\
                hint: choose another method with --method, or leave that option out\n";
    assert_eq!(instance.run(["run", "--environment", "ruby"]), outcome("", told, 4));
}

#[test]
fn a_command_that_takes_too_long_is_ended() {
    requires!(bwrap);
    let instance = Instance::with_method("bwrap");
    plugin(&instance, "ruby", &format!("{RUBY}timeout = 1\n"));
    let told =
        "error: the command took longer than 1s and was ended\nhint: give it more time with --timeout\n";
    let sleep = |flags: &[&str]| {
        let words = ["run"].iter().chain(flags).chain(&["--", "sh", "-c", "echo begun; sleep 1000"]).copied();
        redacted(&instance, instance.run(words.collect::<Vec<_>>()))
    };
    assert_eq!(sleep(&["--environment", "ruby"]), outcome("begun\n", told, 8));
    assert_eq!(sleep(&["--timeout", "1s"]), outcome("begun\n", told, 8));
    let enough = instance.run(["run", "--environment", "ruby", "--timeout", "10m", "--", "sleep", "1.5"]);
    assert_eq!(enough.code, 0, "{enough:?}");
}
