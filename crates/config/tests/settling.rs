//! An environment laid over the settings: narrower freely, wider only as far as the user allows, and the user's own
//! word for this call before everything.

#![allow(clippy::unwrap_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_config::manifest::{Catalogue, CatalogueSources, Environment, settle};
use palisade_config::{Flags, Settings, Sources, load};
use palisade_core::{Access, Diagnostic, LimitSource, Workspace};
use support::Scene;

/// The settings that these lines of the user's file and these flags make.
fn settings(scene: &Scene, user: &str, flags: Flags) -> Settings {
    load(&Sources { user: Some(scene.write("user.toml", user)), flags, ..Sources::default() }).unwrap()
}

/// A plugin with these lines; `root` is the host's unless they name one.
fn plugin(scene: &Scene, lines: &str) -> Environment {
    let root = if lines.contains("root = '/") { "" } else { "root = 'host'\n" };
    let text = format!("name = 'ruby'\ndescription = 'd'\n{root}{lines}");
    scene.write("user/environments/ruby.toml", text);
    let user = Some(scene.path("user/environments"));
    let catalogue = Catalogue::load(&CatalogueSources { user, project: None, trusted_digest: &|_| None });
    catalogue.find("ruby").unwrap().clone()
}

/// `network memory cpus pids` in force, or what is told.
fn outcome(user: &str, lines: &str, flags: Flags) -> Result<String, String> {
    let scene = Scene::new();
    let environment = plugin(&scene, lines);
    let settled = settle(&settings(&scene, user, flags), &environment).map_err(|error| scene.told(&error))?;
    let policy = settled.policy(Workspace::Own);
    let resources = policy.resources;
    Ok(format!(
        "{} {} {} {}",
        policy.network, resources.memory.value, resources.cpus.value, resources.pids.value
    ))
}

#[test]
fn a_manifest_narrows_freely_and_widens_as_far_as_the_user_allows() {
    for (user, lines, expected) in [
        ("", "", Ok("none 8G 4 4096")),
        // Narrower than the defaults, and than the user's own.
        ("", "[security]\nmemory = '256M'\ncpus = 0.5\npids = 64\n", Ok("none 256M 0.5 64")),
        ("[resources]\nmemory = '2G'\n", "[security]\nmemory = '1G'\n", Ok("none 1G 4 4096")),
        ("network = 'open'\n", "[security]\nnetwork = 'none'\n", Ok("none 8G 4 4096")),
        ("network = 'open'\n", "[security]\nnetwork = 'allowlist'\n", Ok("allowlist 8G 4 4096")),
        // The same is not wider.
        ("", "[security]\nmemory = '8G'\ncpus = 4\npids = 4096\nnetwork = 'none'\n", Ok("none 8G 4 4096")),
        // Wider: only up to the ceiling, which is not the built-in default but what the user has said.
        ("", "[security]\nmemory = '9G'\n", Err("memory = 9G is wider than allowed: your settings allow 8G")),
        (
            "[resources]\nmemory = '2G'\n",
            "[security]\nmemory = '4G'\n",
            Err("memory = 4G is wider than allowed: your settings allow 2G"),
        ),
        ("[environments]\nmax_memory = '16G'\n", "[security]\nmemory = '16G'\n", Ok("none 16G 4 4096")),
        (
            "[environments]\nmax_memory = '16G'\n",
            "[security]\nmemory = '17G'\n",
            Err("memory = 17G is wider than allowed: your settings allow 16G"),
        ),
        // A ceiling below the setting takes nothing away from the setting.
        ("[environments]\nmax_memory = '1G'\n", "[security]\nmemory = '8G'\n", Ok("none 8G 4 4096")),
        ("[environments]\nmax_cpus = 8\n", "[security]\ncpus = 6\n", Ok("none 8G 6 4096")),
        ("", "[security]\ncpus = 6\n", Err("cpus = 6 is wider than allowed: your settings allow 4")),
        ("[environments]\nmax_pids = 9000\n", "[security]\npids = 9000\n", Ok("none 8G 4 9000")),
        ("", "[security]\npids = 4097\n", Err("pids = 4097 is wider than allowed: your settings allow 4096")),
        (
            "",
            "[security]\nnetwork = 'allowlist'\n",
            Err("network = allowlist is wider than allowed: your settings allow none"),
        ),
        (
            "[environments]\nmax_network = 'allowlist'\n",
            "[security]\nnetwork = 'open'\n",
            Err("network = open is wider than allowed: your settings allow allowlist"),
        ),
        ("[environments]\nmax_network = 'open'\n", "[security]\nnetwork = 'open'\n", Ok("open 8G 4 4096")),
        // What the user allows without a word about the mode is an allow-list, and the manifest may have it.
        (
            "[network]\nallow = ['a.example']\n",
            "[security]\nnetwork = 'allowlist'\n",
            Ok("allowlist 8G 4 4096"),
        ),
        ("[network]\nallow = ['a.example']\n", "[security]\nnetwork = 'none'\n", Ok("none 8G 4 4096")),
    ] {
        let place = |told: &str| {
            let field = told.split(' ').next().unwrap();
            let line = 4 + lines.lines().position(|line| line.starts_with(field)).unwrap();
            format!("user/environments/ruby.toml:{line}: security.{told}")
        };
        let expected = expected.map(str::to_owned).map_err(place);
        assert_eq!(outcome(user, lines, Flags::default()), expected, "{user:?} with {lines:?}");
    }
}

#[test]
fn what_the_user_says_for_this_call_wins_and_may_widen() {
    let lines = "[security]\nnetwork = 'none'\nmemory = '256M'\ncpus = 0.5\npids = 64\n";
    let flag = |text: &str| Some(text.to_owned());
    let flags = Flags {
        network: flag("open"),
        memory: flag("16G"),
        cpus: flag("6"),
        pids: flag("9000"),
        ..Flags::default()
    };
    assert_eq!(outcome("", lines, flags).unwrap(), "open 16G 6 9000");
    let some = Flags { memory: flag("128M"), ..Flags::default() };
    assert_eq!(outcome("", lines, some).unwrap(), "none 128M 0.5 64");
    // Also over a manifest that would be refused: it is not asked.
    let wide = "[security]\nmemory = '64G'\n";
    let narrow = Flags { memory: flag("1G"), ..Flags::default() };
    assert_eq!(outcome("", wide, narrow).unwrap(), "none 1G 4 4096");
}

#[test]
fn every_widening_is_told_at_once_with_what_would_allow_it() {
    let scene = Scene::new();
    let environment = plugin(
        &scene,
        "root = '/srv/roots/ruby'\n[security]\nread_only_root = false\nmemory = '9G'\ncpus = 6\nnetwork = 'open'\n",
    );
    let error = settle(&Settings::default(), &environment).unwrap_err();
    assert_eq!(
        scene.told(&error),
        "5 problems in the configuration:\n  \
         user/environments/ruby.toml:6: security.memory = 9G is wider than allowed: your settings allow 8G\n  \
         user/environments/ruby.toml:7: security.cpus = 6 is wider than allowed: your settings allow 4\n  \
         user/environments/ruby.toml:8: security.network = open is wider than allowed: your settings allow none\n  \
         user/environments/ruby.toml:5: security.read_only_root = false is wider than allowed: programs could change \
         the system they run on\n  \
         user/environments/ruby.toml:3: root = /srv/roots/ruby is wider than allowed: it shows a directory of the \
         host's that is no root in your settings"
    );
    let allowed = error.hints().into_iter().map(|hint| hint.rsplit(": ").next().unwrap().to_owned() + "\n");
    let user: String = std::iter::once("[environments]\n".to_owned()).chain(allowed).collect();
    assert_eq!(
        user,
        "[environments]\nmax_memory = \"9G\"\nmax_cpus = 6\nmax_network = \"open\"\nwritable_root = true\n\
         roots = [\"/srv/roots\"]\n"
    );
    let settled = settle(&settings(&scene, &user, Flags::default()), &environment).unwrap();
    assert_eq!(settled.policy(Workspace::Own).root, Access::ReadWrite);
}

#[test]
fn a_root_lies_below_a_root_of_the_users_by_whole_names() {
    for (root, allowed) in [
        ("/srv/roots/ruby", true),
        ("/srv/roots", true),
        ("/srv/rootsy", false),
        ("/srv", false),
        ("/home/user", false),
    ] {
        let outcome = outcome(
            "[environments]\nroots = ['/srv/roots']\n",
            &format!("root = '{root}'\n"),
            Flags::default(),
        );
        assert_eq!(outcome.is_ok(), allowed, "{root}: {outcome:?}");
    }
}

#[test]
fn a_plugins_limit_is_asked_for_and_a_built_in_ones_is_a_default() {
    let scene = Scene::new();
    let memory = |environment: &Environment| {
        let settled = settle(&Settings::default(), environment).unwrap();
        let memory = settled.policy_resources().memory;
        (memory.value.to_string(), memory.source)
    };
    let plugin = plugin(&scene, "[security]\nmemory = '256M'\n");
    assert_eq!(memory(&plugin), ("256M".into(), LimitSource::Asked));
    let none = CatalogueSources { user: None, project: None, trusted_digest: &|_| None };
    let catalogue = Catalogue::load(&none);
    assert_eq!(memory(catalogue.find("node-repl").unwrap()), ("256M".into(), LimitSource::Default));
}

#[test]
fn the_built_in_environments_are_within_the_defaults() {
    let none = CatalogueSources { user: None, project: None, trusted_digest: &|_| None };
    for environment in Catalogue::load(&none).environments() {
        let settled = settle(&Settings::default(), environment).unwrap();
        assert_eq!(settled.policy(Workspace::Own).root, Access::ReadOnly);
    }
}
