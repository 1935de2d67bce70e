//! Every way a configuration can be wrong, and the whole text that tells it.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_config::{Flags, KEYS, MAX_SIZE, ProjectSource, Sources, find_project, load};
use palisade_core::{Diagnostic, ExitCode};
use proptest::prelude::*;
use std::fs;
use std::os::unix::fs::symlink;
use support::Scene;

#[test]
fn what_is_too_long_is_told_in_short_and_costs_no_time() {
    let scene = Scene::new();
    let key = "k".repeat(500_000);
    let value = "v".repeat(100_000);
    let elements: String = (0..40_000).map(|number| format!("'/{number}',")).collect();
    let text = format!("{key} = 1\nmethod = '{value}'\ntools = [{elements}]\n");
    assert_eq!(
        scene.refusal(&scene.system(&text)),
        format!(
            "3 problems in the configuration:\n  \
             etc/config.toml:1: unknown key '{}…'\n  \
             etc/config.toml:2: method: is longer than 10000 bytes; write one of bwrap, docker, podman, microvm, \
             kubernetes, noop\n  \
             etc/config.toml:3: tools: has more than 1000 elements",
            "k".repeat(200)
        )
    );
}

#[test]
fn nesting_without_end_is_refused() {
    let scene = Scene::new();
    for text in
        ["a.".repeat(100_000) + "a = 1", "a = ".to_owned() + &"[".repeat(200_000), "a = {".repeat(100_000)]
    {
        let told = scene.refusal(&scene.system(&text));
        assert!(told.starts_with("etc/config.toml:1: not valid TOML: "), "{told}");
    }
}

#[test]
fn all_problems_of_a_file_are_told_at_once_with_file_line_and_what_is_possible() {
    let scene = Scene::new();
    let sources = scene.system(
        "metod = 'bwrap'\n\
         network = 'some'\n\
         opt = 1\n\
         tools = ['relative', '/proc', 5]\n\
         mounts = '/a:/b'\n\
         \"resources.memory\" = '1G'\n\
         colour = true\n\
         [resources]\n\
         memory = '8 gigs'\n\
         cpus = 0\n\
         pids = '10'\n\
         tmp = -1\n\
         [log]\n\
         level = 'loud'\n\
         format = ''\n\
         [root]\n\
         uid_base = 1000\n\
         [resorces]\n\
         memory = '1G'\n",
    );
    let error = load(&sources).unwrap_err();
    assert_eq!(
        scene.told(&error),
        "17 problems in the configuration:\n  \
         etc/config.toml:1: unknown key 'metod'; did you mean 'method'?\n  \
         etc/config.toml:2: network.mode: unknown network mode 'some'; possible are none, allowlist, open\n  \
         etc/config.toml:3: opt: is a whole number; write true or false\n  \
         etc/config.toml:4: tools: 'relative' cannot be shown inside: a host path must be absolute: relative\n  \
         etc/config.toml:4: tools: '/proc' cannot be shown inside: mount '/proc:/proc:ro': /proc belongs to the sandbox itself\n  \
         etc/config.toml:4: tools: is a whole number; write an absolute path\n  \
         etc/config.toml:5: mounts: is a string; write a list of HOST:GUEST or HOST:GUEST:ro\n  \
         etc/config.toml:6: unknown key '\"resources.memory\"'; did you mean 'resources.memory'?\n  \
         etc/config.toml:7: unknown key 'colour'\n  \
         etc/config.toml:9: resources.memory: '8 gigs' is not a size; write a number of bytes, or one with K, M, G or T, such as 512M\n  \
         etc/config.toml:10: resources.cpus: '0' is not a number of processors between 0.01 and 1024, such as 2 or 0.5\n  \
         etc/config.toml:11: resources.pids: is a string; write a whole number from 1 to 4194304\n  \
         etc/config.toml:12: resources.tmp: '-1' is not a size; write a number of bytes, or one with K, M, G or T, such as 512M\n  \
         etc/config.toml:14: log.level: unknown log level 'loud'; possible are off, error, warn, info, debug, trace\n  \
         etc/config.toml:15: log.format: is empty; write one of text, json\n  \
         etc/config.toml:17: root.uid_base: is out of range; write a whole number from 65536 to 4000000000\n  \
         etc/config.toml:18: unknown key 'resorces'; did you mean 'resources'?"
    );
    assert_eq!((error.code(), error.exit()), ("config-unknown-key", ExitCode::Configuration));
    assert_eq!(error.hints(), ["see every key with: palisade config show"]);
}

#[test]
fn what_an_agent_is_given_stays_in_the_repository_and_no_refusal_repeats_a_secret() {
    let scene = Scene::new();
    let sources = scene.system(
        "[agent]\n\
         env_files = ['/etc/passwd', '../.env', '.git/config', 5]\n\
         env_load = ['.env.*']\n\
         max_fetch = 'much'\n\
         max_fetch_time = 5\n\
         env_fles = []\n\
         [agent.login]\n\
         A-B = 'canary'\n\
         C = '$canary-secret'\n\
         D = 7\n",
    );
    assert_eq!(
        scene.refusal(&sources),
        "11 problems in the configuration:\n  \
         etc/config.toml:2: agent.env_files: '/etc/passwd' is absolute; write it from the top of the repository\n  \
         etc/config.toml:2: agent.env_files: '../.env' has a part that is empty, '.' or '..'\n  \
         etc/config.toml:2: agent.env_files: '.git/config' is in git's own directory\n  \
         etc/config.toml:2: agent.env_files: is a whole number; write a list of patterns from the top of the \
         repository, such as \"apps/*/.env\"\n  \
         etc/config.toml:3: agent.env_load: '.env.*' is a pattern; write a list of files from the top of the repository\n  \
         etc/config.toml:4: agent.max_fetch: 'much' is not a size; write a number of bytes, or one with K, M, G or T, \
         such as 512M\n  \
         etc/config.toml:5: agent.max_fetch_time: is a whole number; write a span of time such as \"30m\"\n  \
         etc/config.toml:6: unknown key 'agent.env_fles'; did you mean 'agent.env_files'?\n  \
         etc/config.toml:8: agent.login: 'A-B' is not the name of a variable\n  \
         etc/config.toml:9: agent.login: C: it begins with '$' but is not the name of a variable; a value that begins \
         with '$' is written with '$$'\n  \
         etc/config.toml:10: agent.login: D: is a whole number; write a table of NAME = \"$VARIABLE\", one for each \
         variable of an agent's login"
    );
}

#[test]
fn a_single_problem_is_told_in_one_line() {
    let scene = Scene::new();
    for (text, told) in [
        ("\n[resources\n", "etc/config.toml:2: not valid TOML: unclosed table, expected `]`"),
        (
            "method = 'auto'",
            "etc/config.toml:1: method: unknown method 'auto'; possible are bwrap, docker, podman, microvm, kubernetes, noop",
        ),
        (
            "method = ''",
            "etc/config.toml:1: method: is empty; write one of bwrap, docker, podman, microvm, kubernetes, noop",
        ),
        (
            "method = []",
            "etc/config.toml:1: method: is a list; write one of bwrap, docker, podman, microvm, kubernetes, noop",
        ),
        ("resources = 5", "etc/config.toml:1: resources: is a whole number; write a table"),
        ("[[resources]]\nmemory = '1G'", "etc/config.toml:1: resources: is a list of tables; write a table"),
        (
            "resources.cpus = nan",
            "etc/config.toml:1: resources.cpus: 'NaN' is not a number of processors between 0.01 and 1024, such as 2 or 0.5",
        ),
        (
            "resources.pids = 0",
            "etc/config.toml:1: resources.pids: is out of range; write a whole number from 1 to 4194304",
        ),
        (
            "mounts = ['/a:/usr/bin']",
            "etc/config.toml:1: mounts: mount '/a:/usr/bin': /usr/bin belongs to the sandbox itself",
        ),
        (
            "mounts = ['/a']",
            "etc/config.toml:1: mounts: '/a' is not a mount; write HOST:GUEST or HOST:GUEST:ro",
        ),
        ("\"\\u001b[31m\" = 1", "etc/config.toml:1: unknown key '\"\\u{1b}[31m\"'"),
        (
            "method = 'docker'\nkeystone.backend = 'noop'",
            "etc/config.toml:2: method: is given twice and differently, as method and as keystone.backend: docker (system etc/config.toml:1) and noop",
        ),
    ] {
        assert_eq!(scene.refusal(&scene.system(text)), told, "{text}");
    }
}

#[test]
fn bytes_that_are_not_text_are_told_with_their_line() {
    let scene = Scene::new();
    let path = scene.write("etc/config.toml", b"opt = true\n# \xff\n");
    let sources = Sources { system: Some(path), ..Sources::default() };
    assert_eq!(scene.refusal(&sources), "etc/config.toml:2: not valid TOML: it is not UTF-8");
}

#[test]
fn very_many_problems_are_counted() {
    let scene = Scene::new();
    let text: String = (0..30).map(|number| format!("zz{number} = 1\n")).collect();
    let told = scene.refusal(&scene.system(&text));
    assert!(
        told.starts_with("30 problems in the configuration:\n  etc/config.toml:1: unknown key 'zz0'\n"),
        "{told}"
    );
    assert!(told.ends_with("\n  etc/config.toml:20: unknown key 'zz19'\n  and 10 more"), "{told}");
}

#[test]
fn a_variable_that_is_set_but_empty_is_an_error_and_not_unset() {
    let scene = Scene::new();
    for doc in KEYS {
        let Some(variable) = doc.environment else { continue };
        let sources = Sources {
            environment: vec![(variable.into(), String::new())],
            ..scene.system("method = 'docker'")
        };
        let told = scene.refusal(&sources);
        let expected = if variable == "PALISADE_PIDS" { "is out of range" } else { "is empty" };
        assert_eq!(told, format!("{variable}: {}: {expected}; write {}", doc.key, doc.kind));
    }
}

#[test]
fn problems_of_files_variables_and_flags_are_told_together() {
    let scene = Scene::new();
    let sources = Sources {
        environment: vec![("SANDBOX_METHOD".into(), "Docker".into())],
        flags: Flags { pids: Some("+5".into()), mounts: vec!["/a".into()], ..Flags::default() },
        ..scene.system("network = 'wide'")
    };
    assert_eq!(
        scene.refusal(&sources),
        "4 problems in the configuration:\n  \
         etc/config.toml:1: network.mode: unknown network mode 'wide'; possible are none, allowlist, open\n  \
         SANDBOX_METHOD: method: unknown method 'Docker'; possible are bwrap, docker, podman, microvm, kubernetes, noop\n  \
         --pids: resources.pids: is out of range; write a whole number from 1 to 4194304\n  \
         --mount: mounts: '/a' is not a mount; write HOST:GUEST or HOST:GUEST:ro"
    );
}

#[test]
fn a_file_that_cannot_be_read_is_an_error() {
    let scene = Scene::new();
    let directory = scene.path("etc");
    fs::create_dir(&directory).unwrap();
    let sources = Sources { user: Some(directory), ..Sources::default() };
    let error = load(&sources).unwrap_err();
    assert_eq!(scene.told(&error), "etc: refused: it is not a regular file");
    assert_eq!(error.code(), "config-refused");

    let looping = scene.path("loop.toml");
    symlink(&looping, &looping).unwrap();
    let error = load(&Sources { user: Some(looping), ..Sources::default() }).unwrap_err();
    assert_eq!(
        scene.told(&error),
        "loop.toml: cannot be read: Too many levels of symbolic links (os error 40)"
    );
    assert_eq!(error.code(), "config-unreadable");
}

#[test]
fn the_users_own_file_may_be_a_link() {
    let scene = Scene::new();
    scene.write("dotfiles/palisade.toml", "opt = true");
    let link = scene.path("config.toml");
    symlink(scene.path("dotfiles/palisade.toml"), &link).unwrap();
    assert!(load(&Sources { user: Some(link), ..Sources::default() }).unwrap().opt.value);
}

fn project(scene: &Scene) -> Sources {
    let path = scene.project_path();
    Sources { project: Some(ProjectSource { path, trusted_digest: None }), ..Sources::default() }
}

#[test]
fn a_project_file_that_is_not_a_regular_file_is_refused() {
    let link =
        "repo/.palisade/config.toml: refused: it is a symbolic link, or lies in a directory that is one";
    let irregular = "repo/.palisade/config.toml: refused: it is not a regular file";

    let linked = Scene::new();
    linked.write("elsewhere/config.toml", "opt = false");
    fs::create_dir_all(linked.path("repo/.palisade")).unwrap();
    symlink(linked.path("elsewhere/config.toml"), linked.project_path()).unwrap();
    assert_eq!(linked.refusal(&project(&linked)), link);

    let dangling = Scene::new();
    fs::create_dir_all(dangling.path("repo/.palisade")).unwrap();
    symlink("/nowhere", dangling.project_path()).unwrap();
    assert_eq!(find_project(&dangling.path("repo")), Some(dangling.project_path()));
    assert_eq!(dangling.refusal(&project(&dangling)), link);

    let linked_directory = Scene::new();
    linked_directory.write("elsewhere/config.toml", "opt = false");
    fs::create_dir_all(linked_directory.path("repo")).unwrap();
    symlink(linked_directory.path("elsewhere"), linked_directory.path("repo/.palisade")).unwrap();
    assert_eq!(linked_directory.refusal(&project(&linked_directory)), link);

    let directory = Scene::new();
    fs::create_dir_all(directory.project_path()).unwrap();
    assert_eq!(directory.refusal(&project(&directory)), irregular);

    let pipe = Scene::new();
    fs::create_dir_all(pipe.path("repo/.palisade")).unwrap();
    let mode = rustix::fs::Mode::RUSR;
    rustix::fs::mknodat(rustix::fs::CWD, pipe.project_path(), rustix::fs::FileType::Fifo, mode, 0).unwrap();
    assert_eq!(pipe.refusal(&project(&pipe)), irregular);

    let socket = Scene::new();
    fs::create_dir_all(socket.path("repo/.palisade")).unwrap();
    let _listener = std::os::unix::net::UnixListener::bind(socket.project_path()).unwrap();
    assert_eq!(socket.refusal(&project(&socket)), irregular);
}

#[test]
fn a_file_of_more_than_a_mebibyte_is_refused() {
    let scene = Scene::new();
    let full = "#".repeat(MAX_SIZE as usize);
    load(&scene.system(&full)).unwrap();
    let error = load(&scene.system(&format!("{full}#"))).unwrap_err();
    assert_eq!(scene.told(&error), "etc/config.toml: refused: it is larger than 1 MiB");
    assert_eq!(error.hints(), ["replace it by a regular file of its own, of at most 1 MiB"]);
}

/// Text that looks enough like a configuration to reach behind the parser.
fn almost_toml() -> impl Strategy<Value = String> {
    let key = prop::sample::select(vec![
        "method",
        "image",
        "network",
        "opt",
        "tools",
        "mounts",
        "resources",
        "resources.memory",
        "resources.cpus",
        "log.level",
        "keystone.backend",
        "root.uid_base",
        "attach.detach_keys",
        "\"a.b\"",
        "''",
        "x.y.z",
    ]);
    let value = prop::sample::select(vec![
        "'bwrap'",
        "''",
        "1",
        "-9223372036854775808",
        "1e308",
        "inf",
        "true",
        "[]",
        "['/a', 1, [{}]]",
        "{}",
        "{ memory = 1 }",
        "1979-05-27",
        "\"\\u0000\"",
        "[",
        "'/a:/b:ro'",
    ]);
    let line = prop_oneof![
        (key.clone(), value).prop_map(|(key, value)| format!("{key} = {value}\n")),
        key.clone().prop_map(|key| format!("[{key}]\n")),
        key.prop_map(|key| format!("[[{key}]]\n")),
    ];
    prop::collection::vec(line, 0..8).prop_map(|lines| lines.concat())
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop_oneof![
        prop::collection::vec(any::<u8>(), 0..200),
        almost_toml().prop_map(String::into_bytes),
    ]) {
        let scene = Scene::new();
        scene.write("repo/.palisade/config.toml", &bytes);
        let path = scene.write("etc/config.toml", &bytes);
        let sources = Sources { system: Some(path), ..project(&scene) };
        if let Err(error) = load(&sources) {
            let text = error.to_string();
            prop_assert!(!text.is_empty() && !text.chars().any(|c| c.is_control() && c != '\n'), "{:?}", text);
        }
    }
}
