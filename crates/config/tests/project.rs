//! A project's file: found from anywhere in the project, and never wider than the user unless trusted.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_config::{Project, ProjectSource, Sources, digest, find_project, load, project_digest};
use palisade_core::Diagnostic;
use std::fs;
use std::os::unix::fs::symlink;
use support::Scene;

/// What the user gives in these tests.
const USER: &str = "method = 'docker'\nnetwork = 'allowlist'\n\
                    [resources]\nmemory = '4G'\ncpus = 2\npids = 100\ntmp = '1G'\n";

fn with_user(scene: &Scene, project: ProjectSource) -> Sources {
    let user = Some(scene.write("user.toml", USER));
    Sources { user, project: Some(project), ..Sources::default() }
}

/// (key, what a project writes, what the refusal says; none where it is no widening)
const MATRIX: &[(&str, Option<&str>)] = &[
    ("method = 'noop'", Some("method = noop widens the policy: it is weaker than docker (user user.toml:1)")),
    (
        "keystone.backend = 'noop'",
        Some("method = noop widens the policy: it is weaker than docker (user user.toml:1)"),
    ),
    ("method = 'bwrap'", None),
    ("method = 'podman'", None),
    ("method = 'kubernetes'", None),
    ("method = 'microvm'", None),
    (
        "image = 'palisade-node:latest'",
        Some(
            "image = palisade-node:latest widens the policy: what runs in your sandboxes would come from the project",
        ),
    ),
    (
        "network = 'open'",
        Some("network.mode = open widens the policy: it reaches further than allowlist (user user.toml:2)"),
    ),
    ("network = 'allowlist'", None),
    ("network = 'none'", None),
    ("network.mode = 'none'", None),
    ("network.allow = ['a.org']", Some("network.allow = a.org widens the policy: it reaches further")),
    ("network.host_ports = [8080]", Some("network.host_ports = 8080 widens the policy: it reaches further")),
    (
        "resources.memory = '5G'",
        Some("resources.memory = 5G widens the policy: it is more than 4G (user user.toml:4)"),
    ),
    ("resources.memory = '4G'", None),
    ("resources.memory = '1M'", None),
    (
        "resources.cpus = 2.5",
        Some("resources.cpus = 2.5 widens the policy: it is more than 2 (user user.toml:5)"),
    ),
    ("resources.cpus = '0.5'", None),
    (
        "resources.pids = 101",
        Some("resources.pids = 101 widens the policy: it is more than 100 (user user.toml:6)"),
    ),
    ("resources.pids = 99", None),
    (
        "resources.tmp = '2G'",
        Some("resources.tmp = 2G widens the policy: it is more than 1G (user user.toml:7)"),
    ),
    ("resources.tmp = '1K'", None),
    ("opt = true", Some("opt = true widens the policy: it shows the host's /opt")),
    ("opt = false", None),
    ("tools = ['/srv/tools']", Some("tools = /srv/tools widens the policy: it shows a part of the host")),
    ("tools = []", None),
    (
        "mounts = ['/srv:/srv:ro']",
        Some("mounts = /srv:/srv:ro widens the policy: it shows a part of the host"),
    ),
    ("mounts = []", None),
    ("log.level = 'trace'", None),
    ("log.format = 'json'", None),
    ("agent.env_files = ['.env']", None),
    ("agent.env_files = []", None),
    (
        "agent.env_files = ['.env', 'config/*.key']",
        Some(
            "agent.env_files = config/*.key widens the policy: it sends files that your own list does not have",
        ),
    ),
    ("agent.env_load = ['.env.test']", None),
    (
        "agent.login.OPENAI_API_KEY = '$AWS_SECRET_ACCESS_KEY'",
        Some(
            "agent.login = OPENAI_API_KEY = $AWS_SECRET_ACCESS_KEY widens the policy: it hands a variable of yours to an agent",
        ),
    ),
];

#[test]
fn an_untrusted_project_narrows_and_never_widens() {
    for (text, refusal) in MATRIX {
        let scene = Scene::new();
        let outcome = load(&with_user(&scene, scene.project(text)));
        let told = outcome.as_ref().err().map(|error| scene.told(error));
        assert_eq!(told, refusal.map(|refusal| format!("repo/.palisade/config.toml:1: {refusal}")), "{text}");
        if let Err(error) = outcome {
            assert_eq!(error.code(), "config-widens-policy");
            assert_eq!(
                error.hints(),
                [
                    "read the project's file, and if you agree with it, allow exactly this version with: palisade trust"
                ]
            );
        }
    }
}

#[test]
fn a_trusted_project_may_widen() {
    for (text, _) in MATRIX {
        let scene = Scene::new();
        let settings = load(&with_user(&scene, scene.trusted(text))).unwrap();
        let project = Project { path: scene.project_path(), digest: digest(text.as_bytes()), trusted: true };
        assert_eq!(settings.project, Some(project), "{text}");
    }
}

#[test]
fn the_defaults_are_a_bound_too() {
    let scene = Scene::new();
    let sources = Sources { project: Some(scene.project("resources.memory = '9G'")), ..Sources::default() };
    assert_eq!(
        scene.refusal(&sources),
        "repo/.palisade/config.toml:1: resources.memory = 9G widens the policy: it is more than 8G (default)"
    );
}

#[test]
fn environment_and_flags_do_not_raise_the_bound_for_a_project() {
    let scene = Scene::new();
    let mut sources = with_user(&scene, scene.project("network = 'open'"));
    sources.environment = vec![("PALISADE_NETWORK".into(), "open".into())];
    sources.flags.network = Some("none".into());
    assert_eq!(load(&sources).unwrap_err().code(), "config-widens-policy");
}

#[test]
fn no_project_sets_the_base_of_uids_or_the_detach_keys() {
    for (trusted, text, key) in [
        (false, "\n[root]\nuid_base = 100000\n", "root.uid_base"),
        (true, "\n[root]\nuid_base = 100000\n", "root.uid_base"),
        (true, "\n[attach]\ndetach_keys = 'ctrl-p,q'\n", "attach.detach_keys"),
    ] {
        let scene = Scene::new();
        let project = if trusted { scene.trusted(text) } else { scene.project(text) };
        let error = load(&with_user(&scene, project)).unwrap_err();
        assert_eq!(
            scene.told(&error),
            format!(
                "repo/.palisade/config.toml:3: {key} cannot be set by a project, only in the system's or the user's file"
            )
        );
        assert_eq!(error.code(), "config-not-in-project");
    }
}

#[test]
fn all_widenings_are_told_at_once_each_with_its_line() {
    let scene = Scene::new();
    let text = "network = 'open'\nopt = true\nmounts = [\n  '/a:/b',\n  '/c:/d',\n]\ntools = ['/t']\n\
                [resources]\nmemory = '64G'\n";
    assert_eq!(
        scene.refusal(&with_user(&scene, scene.project(text))),
        "6 problems in the configuration:\n  \
         repo/.palisade/config.toml:1: network.mode = open widens the policy: it reaches further than allowlist (user user.toml:2)\n  \
         repo/.palisade/config.toml:9: resources.memory = 64G widens the policy: it is more than 4G (user user.toml:4)\n  \
         repo/.palisade/config.toml:2: opt = true widens the policy: it shows the host's /opt\n  \
         repo/.palisade/config.toml:7: tools = /t widens the policy: it shows a part of the host\n  \
         repo/.palisade/config.toml:4: mounts = /a:/b widens the policy: it shows a part of the host\n  \
         repo/.palisade/config.toml:5: mounts = /c:/d widens the policy: it shows a part of the host"
    );
}

#[test]
fn trust_ends_when_a_single_byte_changes() {
    let scene = Scene::new();
    let trusted = scene.trusted("opt = true\n");
    assert_eq!(project_digest(&trusted.path).ok(), trusted.trusted_digest);
    fs::write(&trusted.path, "opt = true \n").unwrap();
    assert_eq!(load(&with_user(&scene, trusted)).unwrap_err().code(), "config-widens-policy");
}

#[test]
fn the_digest_is_sha256() {
    assert_eq!(digest(b"abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

#[test]
fn the_nearest_project_file_upwards_is_found() {
    let scene = Scene::new();
    let outer = scene.write("repo/.palisade/config.toml", "");
    fs::create_dir_all(scene.path("repo/a/b")).unwrap();
    assert_eq!(find_project(&scene.path("repo/a/b")), Some(outer.clone()));
    assert_eq!(find_project(&scene.path("repo")), Some(outer));
    let inner = scene.write("repo/a/.palisade/config.toml", "");
    assert_eq!(find_project(&scene.path("repo/a/b")), Some(inner));
    assert_eq!(find_project(scene.root()), None);
}

/// A main repository with a project file, and a linked worktree elsewhere, as git lays them out.
fn worktree(scene: &Scene, pointer: &str) -> std::path::PathBuf {
    scene.write("main/.palisade/config.toml", "");
    scene.write("main/.git/worktrees/feature/commondir", "../..\n");
    scene.write(
        "main/.git/worktrees/feature/gitdir",
        format!("{}\n", scene.path("trees/feature/.git").display()),
    );
    scene.write("trees/feature/.git", format!("gitdir: {pointer}\n"));
    fs::create_dir_all(scene.path("trees/feature/src")).unwrap();
    scene.path("trees/feature/src")
}

#[test]
fn a_worktree_has_the_project_file_of_its_main_repository() {
    let scene = Scene::new();
    let root = fs::canonicalize(scene.root()).unwrap();
    let expected = Some(root.join("main/.palisade/config.toml"));
    let absolute = scene.path("main/.git/worktrees/feature").display().to_string();
    for pointer in [absolute.as_str(), "../../main/.git/worktrees/feature"] {
        let inside = worktree(&scene, pointer);
        assert_eq!(find_project(&inside), expected, "{pointer}");
    }
    scene.write("main/.git/worktrees/feature/gitdir", "../../../../trees/feature/.git\n");
    assert_eq!(find_project(&scene.path("trees/feature")), expected);
    symlink(scene.path("trees/feature"), scene.path("shortcut")).unwrap();
    assert_eq!(find_project(&scene.path("shortcut")), expected);

    let own = scene.write("trees/feature/.palisade/config.toml", "");
    assert_eq!(find_project(&scene.path("trees/feature/src")), Some(own));
}

#[test]
fn a_pointer_that_the_main_repository_does_not_return_is_not_followed() {
    let scene = Scene::new();
    worktree(&scene, &scene.path("main/.git/worktrees/feature").display().to_string());
    // Somebody else's directory claims to be that worktree.
    scene.write("hostile/.git", format!("gitdir: {}\n", scene.path("main/.git/worktrees/feature").display()));
    assert_eq!(find_project(&scene.path("hostile")), None);
    // Or brings a git directory of its own that claims the main repository's.
    scene.write("hostile/.git", "gitdir: own\n");
    scene.write("hostile/own/commondir", scene.path("main/.git").display().to_string());
    scene.write("hostile/own/gitdir", scene.path("hostile/.git").display().to_string());
    assert_eq!(find_project(&scene.path("hostile")), None);
}

#[test]
fn broken_pointers_find_nothing() {
    let scene = Scene::new();
    for text in ["", "gitdir:", "gitdir: \n", "gitdir: /nowhere", "nonsense", "gitdir: a\0b"] {
        scene.write("broken/.git", text);
        assert_eq!(find_project(&scene.path("broken")), None, "{text:?}");
    }
    // A submodule has a pointer, and no common directory.
    scene.write("super/.git/modules/sub/HEAD", "");
    scene.write("super/sub/.git", "gitdir: ../.git/modules/sub\n");
    assert_eq!(find_project(&scene.path("super/sub")), None);
}

#[test]
fn how_much_a_sync_may_bring_is_no_projects_business() {
    for (text, key) in [
        ("[agent]\nmax_fetch = '1K'", "agent.max_fetch"),
        ("[agent]\nmax_fetch_time = '1s'", "agent.max_fetch_time"),
        ("[copy]\nmax_size = '1K'", "copy.max_size"),
        ("[copy]\nmax_files = 1", "copy.max_files"),
    ] {
        let scene = Scene::new();
        let project = scene.trusted(&format!("{text}\n"));
        assert_eq!(
            scene.refusal(&Sources { project: Some(project), ..Sources::default() }),
            format!(
                "repo/.palisade/config.toml:2: {key} cannot be set by a project, only in the system's or the user's file"
            )
        );
    }
}
