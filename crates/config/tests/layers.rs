//! Which layer wins, and that every value says where it came from.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_config::{Entry, Flags, KEYS, Settings, load};
use palisade_core::policy::parse_mount;
use palisade_core::{
    ByteSize, CpuCount, HostPath, Limit, Method, Network, Origin, Policy, RefScope, Resources, Selection,
    SyncMode, Workspace,
};
use support::Scene;

/// Each setting with a value of its own in every layer that can carry it: (key, file text per layer, variable,
/// flag, default, value per layer). Values differ everywhere, so a wrong winner shows.
struct Case {
    key: &'static str,
    files: [&'static str; 3],
    variable: Option<(&'static str, &'static str)>,
    flag: Option<(&'static str, Flags)>,
    values: [&'static str; 6],
}

fn cases() -> Vec<Case> {
    let flags = Flags::default;
    vec![
        Case {
            key: "method",
            files: ["method = 'docker'", "method = 'podman'", "keystone.backend = 'microvm'"],
            variable: Some(("SANDBOX_METHOD", "kubernetes")),
            flag: Some(("--method", Flags { method: Some("noop".into()), ..flags() })),
            values: ["bwrap", "docker", "podman", "microvm", "kubernetes", "noop"],
        },
        Case {
            key: "network.mode",
            files: ["network = 'open'", "network = 'allowlist'", "network = 'none'"],
            variable: Some(("PALISADE_NETWORK", "open")),
            flag: Some(("--network", Flags { network: Some("allowlist".into()), ..flags() })),
            values: ["none", "open", "allowlist", "none", "open", "allowlist"],
        },
        Case {
            key: "resources.memory",
            files: ["resources.memory = '7G'", "resources.memory = '6G'", "resources = { memory = 1024 }"],
            variable: Some(("PALISADE_MEMORY", "9G")),
            flag: Some(("--memory", Flags { memory: Some("10G".into()), ..flags() })),
            values: ["8G", "7G", "6G", "1K", "9G", "10G"],
        },
        Case {
            key: "resources.cpus",
            files: ["resources.cpus = 3", "resources.cpus = 2.5", "resources.cpus = '0.5'"],
            variable: Some(("PALISADE_CPUS", "9")),
            flag: Some(("--cpus", Flags { cpus: Some("1.25".into()), ..flags() })),
            values: ["4", "3", "2.5", "0.5", "9", "1.25"],
        },
        Case {
            key: "resources.pids",
            files: ["resources.pids = 30", "resources.pids = 20", "resources.pids = 10"],
            variable: Some(("PALISADE_PIDS", "40")),
            flag: Some(("--pids", Flags { pids: Some("50".into()), ..flags() })),
            values: ["4096", "30", "20", "10", "40", "50"],
        },
        Case {
            key: "resources.tmp",
            files: ["resources.tmp = '3M'", "resources.tmp = '2M'", "resources.tmp = '1M'"],
            variable: None,
            flag: Some(("--tmp", Flags { tmp: Some("5M".into()), ..flags() })),
            values: ["1G", "3M", "2M", "1M", "1M", "5M"],
        },
        Case {
            key: "opt",
            files: ["opt = true", "opt = false", "opt = false"],
            variable: None,
            flag: Some(("--opt", Flags { opt: Some(true), ..flags() })),
            values: ["false", "true", "false", "false", "false", "true"],
        },
        Case {
            key: "log.level",
            files: ["log.level = 'error'", "log.level = 'info'", "log.level = 'debug'"],
            variable: Some(("PALISADE_LOG", "trace")),
            flag: Some(("--log-level", Flags { log_level: Some("off".into()), ..flags() })),
            values: ["warn", "error", "info", "debug", "trace", "off"],
        },
        Case {
            key: "log.format",
            files: ["log.format = 'json'", "log.format = 'text'", "log.format = 'json'"],
            variable: Some(("PALISADE_LOG_FORMAT", "text")),
            flag: Some(("--log-format", Flags { log_format: Some("json".into()), ..flags() })),
            values: ["text", "json", "text", "json", "text", "json"],
        },
    ]
}

fn entry(settings: &Settings, key: &str) -> Entry {
    settings.entries().into_iter().find(|entry| entry.key == key).unwrap()
}

#[test]
fn each_layer_wins_over_those_before_it_and_is_named_as_the_origin() {
    for case in cases() {
        let scene = Scene::new();
        let mut sources = palisade_config::Sources::default();
        let expect = |sources: &palisade_config::Sources, layer: usize, origin: Origin| {
            let found = entry(&load(sources).unwrap(), case.key);
            let value = case.values[layer].to_owned();
            assert_eq!(found, Entry { key: found.key, value, origin }, "{} layer {layer}", case.key);
        };
        expect(&sources, 0, Origin::Default);
        // Two lines above, so that a line that was not counted would show.
        let text = |layer: usize| format!("# above\n\n{}\n", case.files[layer]);
        let system = scene.write("etc/config.toml", text(0));
        sources.system = Some(system.clone());
        expect(&sources, 1, Origin::System { file: system.display().to_string(), line: 3 });
        let user = scene.write("user/config.toml", text(1));
        sources.user = Some(user.clone());
        expect(&sources, 2, Origin::User { file: user.display().to_string(), line: 3 });
        sources.project = Some(scene.project(&text(2)));
        let project = Origin::Project { file: scene.project_path().display().to_string(), line: 3 };
        expect(&sources, 3, project);
        if let Some((variable, value)) = case.variable {
            sources.environment = vec![("UNRELATED".into(), "x".into()), (variable.into(), value.into())];
            expect(&sources, 4, Origin::Environment { variable: variable.into() });
        }
        if let Some((flag, flags)) = &case.flag {
            sources.flags = flags.clone();
            expect(&sources, 5, Origin::Flag { flag: (*flag).into() });
        }
    }
}

#[test]
fn the_base_of_uids_is_the_systems_or_the_users() {
    let scene = Scene::new();
    let mut sources = scene.system("[root]\nuid_base = 100000\n");
    assert_eq!(entry(&load(&sources).unwrap(), "root.uid_base").value, "100000");
    sources.user = Some(scene.write("user/config.toml", "[root]\nuid_base = 200000\n"));
    let found = load(&sources).unwrap().uid_base;
    let file = sources.user.unwrap().display().to_string();
    assert_eq!((found.value, found.origin), (200_000, Origin::User { file, line: 2 }));
}

#[test]
fn a_project_narrows_the_refs_that_an_agent_sees_and_widens_them_only_when_trusted() {
    let scene = Scene::new();
    assert_eq!(load(&scene.system("")).unwrap().agent_refs.value, RefScope::All);
    let mut narrow = scene.system("");
    narrow.project = Some(scene.project("[agent]\nrefs = 'branch'\n"));
    assert_eq!(load(&narrow).unwrap().agent_refs.value, RefScope::Branch);
    let mut wide = scene.system("[agent]\nrefs = 'branch'\n");
    wide.project = Some(scene.project("[agent]\nrefs = 'all'\n"));
    let problem = load(&wide).unwrap_err().to_string();
    assert!(problem.contains("agent.refs") && problem.contains("it shows more than branch"), "{problem}");
}

#[test]
fn how_an_agents_work_comes_is_anybodys_to_say_and_a_flags_in_the_end() {
    let scene = Scene::new();
    let mut sources = scene.system("[agent]\nsync = 'on-idle'\nidle = '5m'\n");
    let found = load(&sources).unwrap();
    assert_eq!((found.agent_sync.value, found.agent_idle.value.to_string()), (SyncMode::OnIdle, "5m".into()));
    sources.flags.agent_sync = Some("on-commit".into());
    let found = load(&sources).unwrap().agent_sync;
    assert_eq!((found.value, found.origin), (SyncMode::OnCommit, Origin::Flag { flag: "--sync".into() }));
    for (wrong, told) in
        [("sync = 'always'", "agent.sync"), ("idle = 30", "agent.idle"), ("idle = '0s'", "agent.idle")]
    {
        let problem = load(&scene.system(&format!("[agent]\n{wrong}\n"))).unwrap_err().to_string();
        assert!(problem.contains(told), "{problem}");
    }
}

#[test]
fn lists_grow_from_layer_to_layer_and_each_element_has_its_origin() {
    let scene = Scene::new();
    let mut sources = scene.system("tools = [\n  '/a',\n  '/b',\n]\nmounts = ['/data:/data:ro']\n");
    let user = scene.write("user/config.toml", "tools = ['/b', '/c']\n");
    sources.user = Some(user.clone());
    sources.flags = Flags { mounts: vec!["/x:/y".into()], tools: vec!["/d".into()], ..Flags::default() };
    let settings = load(&sources).unwrap();
    let system = |line| Origin::System { file: scene.path("etc/config.toml").display().to_string(), line };
    let flag = |flag: &str| Origin::Flag { flag: flag.into() };
    let entry = |key, value: &str, origin| Entry { key, value: value.into(), origin };
    let lists: Vec<Entry> =
        settings.entries().into_iter().filter(|entry| ["tools", "mounts"].contains(&entry.key)).collect();
    assert_eq!(
        lists,
        [
            entry("tools", "/a", system(2)),
            entry("tools", "/b", system(3)),
            entry("tools", "/c", Origin::User { file: user.display().to_string(), line: 1 }),
            entry("tools", "/d", flag("--tool")),
            entry("mounts", "/data:/data:ro", system(5)),
            entry("mounts", "/x:/y", flag("--mount")),
        ]
    );
}

#[test]
fn the_table_of_keys_tells_the_true_defaults() {
    let documented: Vec<(&str, &str)> = KEYS.iter().map(|doc| (doc.key, doc.default)).collect();
    let entries = load(&palisade_config::Sources::default()).unwrap().entries();
    let real: Vec<(&str, &str)> = entries.iter().map(|entry| (entry.key, entry.value.as_str())).collect();
    assert_eq!(real, documented);
    assert!(entries.iter().all(|entry| entry.origin == Origin::Default));
}

#[test]
fn settings_become_a_selection_and_a_policy() {
    let scene = Scene::new();
    let sources = scene.system(
        "method = 'podman'\nnetwork = 'allowlist'\nopt = true\ntools = ['/tools']\nmounts = ['/a:/b']\n\
         [resources]\nmemory = '1G'\ncpus = 2\ntmp = '1M'\n",
    );
    let settings = load(&sources).unwrap();
    let file = sources.system.unwrap().display().to_string();
    assert_eq!(
        settings.method(),
        Selection { method: Method::Podman, origin: Origin::System { file, line: 1 } }
    );
    assert_eq!(
        settings.policy(Workspace::Scratch),
        Policy {
            network: Network::Allowlist,
            allow: Vec::new(),
            host_ports: Vec::new(),
            workspace: Workspace::Scratch,
            mounts: vec![parse_mount("/a:/b").unwrap()],
            tools: vec![HostPath::new("/tools").unwrap()],
            opt: true,
            resources: Resources {
                memory: Limit::asked(ByteSize(ByteSize::GIB)),
                cpus: Limit::asked(CpuCount::whole(2)),
                pids: Limit::default_of(4096),
                tmp: ByteSize(ByteSize::MIB),
            },
            ..Policy::default()
        }
    );
}

#[test]
fn both_spellings_of_the_method_may_agree() {
    let scene = Scene::new();
    let settings = load(&scene.system("method = 'docker'\n[keystone]\nbackend = 'docker'\n")).unwrap();
    assert_eq!(settings.method().method, Method::Docker);
}

#[test]
fn files_that_do_not_exist_are_passed_over() {
    let scene = Scene::new();
    let sources = palisade_config::Sources {
        system: Some(scene.path("none/config.toml")),
        user: Some(scene.path("none.toml")),
        project: Some(palisade_config::ProjectSource {
            path: scene.path("none/.palisade/config.toml"),
            trusted_digest: None,
        }),
        ..Default::default()
    };
    assert_eq!(load(&sources).unwrap(), Settings::default());
}

#[test]
fn the_network_mode_that_is_shown_is_the_one_that_holds() {
    let scene = Scene::new();
    let settings = load(&scene.system("network.allow = ['example.org']\n")).unwrap();
    let shown = settings.entries().into_iter().find(|entry| entry.key == "network.mode").unwrap();
    assert_eq!(shown, Entry { key: "network.mode", value: "allowlist".into(), origin: Origin::Default });
    assert_eq!(settings.policy(Workspace::Own).network, Network::Allowlist);
}

#[test]
fn the_files_of_an_agent_are_one_list_that_a_later_layer_replaces() {
    let scene = Scene::new();
    let mut sources = scene.system("agent.env_files = ['.env', 'a/*.env']\nagent.env_load = []\n");
    sources.user = Some(scene.write("user.toml", "[agent]\nenv_files = ['b.env']\n"));
    let settings = load(&sources).unwrap();
    assert_eq!(entry(&settings, "agent.env_files").value, r#"["b.env"]"#);
    assert!(matches!(entry(&settings, "agent.env_files").origin, Origin::User { line: 2, .. }));
    assert_eq!(entry(&settings, "agent.env_load").value, "[]");
    assert!(matches!(entry(&settings, "agent.env_load").origin, Origin::System { line: 2, .. }));
}

#[test]
fn a_login_is_shown_by_its_reference_and_never_by_its_value() {
    let scene = Scene::new();
    let mut sources = scene.system("[agent.login]\nA = '$ONE'\nB = 'canary-secret'\n");
    sources.user = Some(scene.write("user.toml", "agent.login = { A = 'op://v/i/f', C = '$THREE' }\n"));
    let settings = load(&sources).unwrap();
    let shown: Vec<String> = settings
        .entries()
        .into_iter()
        .filter(|entry| entry.key == "agent.login")
        .map(|entry| entry.value)
        .collect();
    assert_eq!(shown, ["B = literal", "A = op://v/i/f", "C = $THREE"]);
    let everything = format!("{settings:?} {}", serde_json::to_string(&settings).unwrap());
    assert!(!everything.contains("canary-secret"), "{everything}");
}
