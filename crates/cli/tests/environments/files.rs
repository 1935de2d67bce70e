//! `palisade env` and the files it looks at; nothing is started here.

use crate::support::{RUBY, outcome, plugin, project_plugin, redacted};
use palisade_testing::Instance;

const LISTED: &str = "\
NAME         FROM                           METHODS                                      DESCRIPTION
bash         built in                       bwrap docker podman noop  A shell, with git
node         built in                       bwrap docker podman noop  A shell, with Node.js and npm
python       built in                       bwrap docker podman noop  A shell, with Python, pip and venv
node-repl    built in                       bwrap docker podman noop  Node.js at its own prompt
python-venv  built in                       bwrap docker podman noop  A shell in a virtual environment of Python's
";

/// The lines of a table without the padding that depends on the length of temporary names.
fn cells(text: &str) -> Vec<String> {
    text.lines().map(|line| line.split_whitespace().collect::<Vec<_>>().join(" ")).collect()
}

#[test]
fn the_environments_are_listed_with_where_they_come_from() {
    let instance = Instance::new();
    plugin(&instance, "ruby", RUBY);
    let listed = redacted(&instance, instance.run(["env", "ls"]).ok());
    let own = "ruby CONFIG/environments/ruby.toml bwrap noop Ruby, as far as this test needs it";
    let expected: Vec<String> = cells(LISTED).into_iter().chain([own.to_owned()]).collect();
    assert_eq!((cells(&listed.stdout), listed.stderr.as_str()), (expected, ""));
}

#[test]
fn an_unknown_environment_is_told_with_all_there_are() {
    let instance = Instance::new();
    let told = "error: Environment 'ruby' not found. Available: bash, node, python, node-repl, python-venv\n\
                hint: write one of your own: docs/guides/environments.md\n";
    for command in [
        vec!["env", "show", "ruby"],
        vec!["run", "--environment", "ruby"],
        vec!["create", "--environment", "ruby", "box"],
        vec!["agent", "start", "--environment", "ruby", "--task", "x"],
    ] {
        assert_eq!(instance.run(&command), outcome("", told, 6), "{command:?}");
    }
    let near = instance.run(["env", "show", "bahs"]);
    assert!(near.stderr.contains("hint: did you mean 'bash'?\n") && near.code == 6, "{near:?}");
}

#[test]
fn a_plugin_is_checked_whole_with_line_numbers() {
    let instance = Instance::new();
    let text = "name = \"Ruby\"\ndescrption = \"x\"\nroot = \"host\"\n[security]\nmemory = \"lots\"\n";
    std::fs::write(instance.work().join("ruby.toml"), text).unwrap();
    let told = "error: 4 problems in the configuration:\n  \
                ruby.toml:1: name: an environment name has only a-z, 0-9 and '-'; R is not allowed\n  \
                ruby.toml:2: unknown key 'descrption'; did you mean 'description'?\n  \
                ruby.toml:5: security.memory: 'lots' is not a size; write a number of bytes, or one with K, M, G or T, \
                such as 512M\n  \
                ruby.toml: description: is missing; write one line of text\n";
    assert_eq!(instance.run(["env", "check", "ruby.toml"]), outcome("", told, 3));
    let json = instance.run(["env", "check", "ruby.toml", "--json"]);
    assert_eq!((json.json()["problems"].as_array().unwrap().len(), json.code), (4, 3));

    std::fs::write(instance.work().join("ruby.toml"), RUBY).unwrap();
    assert_eq!(instance.run(["env", "check", "ruby.toml"]), outcome("environment 'ruby' is good\n", "", 0));
    let told = "error: none.toml: cannot be read: there is no such file\n";
    assert_eq!(instance.run(["env", "check", "none.toml"]), outcome("", told, 3));
}

#[test]
fn init_commands_are_refused_with_the_message_of_the_environment() {
    let instance = Instance::new();
    let rules = "[[init.denied]]\npatterns = [\"npm *\"]\nmessage = \"use yarn or pnpm\"\n";
    std::fs::write(instance.work().join("ruby.toml"), format!("{RUBY}{rules}")).unwrap();
    let check = |commands: &[&str]| {
        let init = commands.iter().flat_map(|command| ["--init", command]);
        instance.run(["env", "check", "ruby.toml"].into_iter().chain(init))
    };
    assert_eq!(check(&["git init", "yarn add x"]), outcome("environment 'ruby' is good\n", "", 0));
    let told = "error: cd app && npm install: use yarn or pnpm\n";
    assert_eq!(check(&["git init", "cd app && npm install"]), outcome("", told, 3));
}

#[test]
fn a_broken_plugin_is_told_and_keeps_nobody_from_the_others() {
    let instance = Instance::new();
    plugin(&instance, "ruby", "name = \n");
    plugin(&instance, "shell", &RUBY.replace("\"ruby\"", "\"bash\""));
    let listed = redacted(&instance, instance.run(["env", "ls"]));
    assert_eq!((cells(&listed.stdout), listed.code), (cells(LISTED), 3));
    assert!(listed.stderr.contains("CONFIG/environments/ruby.toml:1: not valid TOML"), "{}", listed.stderr);
    let taken = "CONFIG/environments/shell.toml:1: name: 'bash' is taken by a built-in environment";
    assert!(listed.stderr.contains(taken), "{}", listed.stderr);

    instance.run(["env", "show", "node"]).ok();
    for name in ["ruby", "bash"] {
        assert_eq!(instance.run(["env", "show", name]).code, 3, "{name}");
    }
}

#[test]
fn a_projects_environment_needs_the_users_trust_in_its_very_bytes() {
    let instance = Instance::new();
    project_plugin(&instance, "ruby", RUBY);
    let listed = redacted(&instance, instance.run(["env", "ls"]));
    let left_out = "warning: environment 'ruby' of this project is left out: WORK/.palisade/environments/ruby.toml is not \
                    trusted as it is now; read it, then: palisade trust\n";
    assert_eq!((listed.stderr.as_str(), listed.code), (left_out, 0));
    let told = "error: environment 'ruby' comes with this project, and WORK/.palisade/environments/ruby.toml is not trusted \
                as it is now\nhint: read the file, and if you agree with it, allow exactly this version with: palisade trust\n";
    let refused = |command: &[&str]| {
        assert_eq!(redacted(&instance, instance.run(command)), outcome("", told, 3), "{command:?}");
    };
    refused(&["env", "show", "ruby"]);
    refused(&["run", "--environment", "ruby"]);

    let trusted = redacted(&instance, instance.run(["trust"]));
    assert_eq!(trusted, outcome("", "trusted as it is now: WORK/.palisade/environments/ruby.toml\n", 0));
    instance.run(["env", "show", "ruby"]).ok();
    project_plugin(&instance, "ruby", &format!("{RUBY}timeout = 5\n"));
    refused(&["env", "show", "ruby"]);
    instance.run(["trust"]).ok();
    instance.run(["env", "show", "ruby"]).ok();
    instance.run(["trust", "--revoke"]).ok();
    refused(&["env", "show", "ruby"]);
}
