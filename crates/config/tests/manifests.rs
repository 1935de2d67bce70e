//! Environment manifests: what a good one means, every way one can be wrong, and which of them count.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

mod support;

use palisade_config::manifest::{
    BUILT_IN, Catalogue, CatalogueSources, EnvironmentError, FIELDS, Init, InitMode, Located, Manifest,
    Security, check_file, read,
};
use palisade_config::{ConfigError, digest};
use palisade_core::{ByteSize, Diagnostic, ExitCode, GuestPath, HostPath, Method, Network, Root};
use proptest::prelude::*;
use std::os::unix::fs::symlink;
use std::path::Path;
use support::Scene;

const RUBY: &str = "name = 'ruby'\ndescription = 'Ruby'\nroot = 'host'\n";

fn told(problems: Vec<palisade_config::Problem>) -> Vec<String> {
    problems.iter().map(ToString::to_string).collect()
}

/// The catalogue of a scene whose project trusts nothing.
fn catalogue(scene: &Scene) -> Catalogue {
    trusting(scene, &|_| None)
}

fn trusting(scene: &Scene, trusted_digest: &dyn Fn(&Path) -> Option<String>) -> Catalogue {
    Catalogue::load(&CatalogueSources {
        user: Some(scene.path("user/environments")),
        project: Some(scene.path("repo/.palisade/environments")),
        trusted_digest,
    })
}

fn names(catalogue: &Catalogue) -> Vec<&str> {
    catalogue.environments().iter().map(|known| known.manifest.name.value.as_str()).collect()
}

#[test]
fn every_field_is_read() {
    let text = "name = 'ruby'\n\
                description = 'Ruby at its prompt'\n\
                image = 'palisade-ruby:latest'\n\
                root = '/srv/roots/ruby'\n\
                requires = ['ruby', 'irb']\n\
                command = 'irb'\n\
                args = ['--noecho', '']\n\
                workdir = '/workspace/app'\n\
                timeout = '10m'\n\
                [init]\n\
                mode = 'exec'\n\
                timeout = 90\n\
                [init.allowed]\n\
                patterns = ['gem *']\n\
                message = 'only gem'\n\
                [[init.denied]]\n\
                patterns = ['gem push *', 'gem yank *']\n\
                message = 'publishes nothing'\n\
                [[init.denied]]\n\
                patterns = ['gem owner *']\n\
                [security]\n\
                network = 'allowlist'\n\
                read_only_root = false\n\
                memory = '256M'\n\
                cpus = 0.5\n\
                pids = 64\n";
    let manifest = read("ruby.toml", text.as_bytes()).unwrap();
    let rule = |patterns: &[&str], message: Option<&str>| palisade_config::manifest::Rule {
        patterns: patterns.iter().map(|pattern| pattern.parse().unwrap()).collect(),
        message: message.map(str::to_owned),
    };
    let root = Root::Directory { path: HostPath::new("/srv/roots/ruby").unwrap() };
    assert_eq!(
        manifest,
        Manifest {
            name: Located { value: "ruby".parse().unwrap(), line: 1 },
            description: "Ruby at its prompt".into(),
            image: Some("palisade-ruby:latest".parse().unwrap()),
            root: Some(Located { value: root, line: 4 }),
            requires: ["ruby", "irb"].map(|tool| tool.parse().unwrap()).to_vec(),
            command: ["irb", "--noecho", ""].map(str::to_owned).to_vec(),
            workdir: Some(GuestPath::new("/workspace/app").unwrap()),
            timeout: Some("10m".parse().unwrap()),
            init: Init {
                mode: InitMode::Exec,
                timeout: "90s".parse().unwrap(),
                allowed: Some(rule(&["gem *"], Some("only gem"))),
                denied: vec![
                    rule(&["gem push *", "gem yank *"], Some("publishes nothing")),
                    rule(&["gem owner *"], None)
                ],
            },
            security: Security {
                network: Some(Located { value: Network::Allowlist, line: 22 }),
                read_only_root: Some(Located { value: false, line: 23 }),
                memory: Some(Located { value: ByteSize(256 << 20), line: 24 }),
                cpus: Some(Located { value: "0.5".parse().unwrap(), line: 25 }),
                pids: Some(Located { value: 64, line: 26 }),
            },
        }
    );
    assert_eq!(manifest.methods(), [Method::Bwrap, Method::Docker, Method::Podman]);
}

#[test]
fn everything_wrong_with_a_file_is_told_at_once_with_its_line_and_what_is_possible() {
    let text = "nmae = 'ruby'\n\
                description = \"a\\u001Bb\"\n\
                image = 'Not An Image'\n\
                root = 'relative'\n\
                requires = ['ruby', '/bin/sh', 5]\n\
                args = ['--x']\n\
                workdir = '../up'\n\
                timeout = '2 days'\n\
                colour = 'red'\n\
                init = 'git init'\n\
                [security]\n\
                network = 'some'\n\
                read_only_root = 'yes'\n\
                memory = '8 gigs'\n\
                cpus = 0\n\
                pids = 0\n\
                memroy = '1G'\n\
                what = 1\n";
    assert_eq!(
        told(read("r.toml", text.as_bytes()).unwrap_err()),
        [
            "r.toml:1: unknown key 'nmae'; did you mean 'name'?",
            "r.toml:2: description: has control characters in it; write one line of text",
            "r.toml:3: image: 'Not An Image' is not an image; write NAME, NAME:TAG or HOST/NAME:TAG, such as \
             palisade-bash:latest",
            "r.toml:4: root: 'relative' does not do; write \"host\", or the absolute path of a directory that holds a \
             whole system",
            "r.toml:5: requires: '/bin/sh' is not the name of a program; write it without a directory, such as \
             python3",
            "r.toml:5: requires: is a whole number; write a list of names of programs, such as [\"git\"]",
            "r.toml:7: workdir: '../up' does not do; write an absolute path inside, such as \"/workspace/app\"",
            "r.toml:8: timeout: '2 days' is not a time from a second to a day; write seconds, or a number with s, m or \
             h, such as 90s",
            "r.toml:9: unknown key 'colour'",
            "r.toml:10: init: is a string; write a table",
            "r.toml:12: security.network: unknown network mode 'some'; possible are none, allowlist, open",
            "r.toml:13: security.read_only_root: is a string; write true or false",
            "r.toml:14: security.memory: '8 gigs' is not a size; write a number of bytes, or one with K, M, G or T, \
             such as 512M",
            "r.toml:15: security.cpus: '0' is not a number of processors between 0.01 and 1024, such as 2 or 0.5",
            "r.toml:16: security.pids: is out of range; write a whole number from 1 to 4194304",
            "r.toml:17: unknown key 'security.memroy'; did you mean 'security.memory'?",
            "r.toml:18: unknown key 'security.what'",
            "r.toml: name: is missing; write a name of a-z, 0-9 and '-', such as \"ruby\"",
            "r.toml:6: args: has no command to go with; write one",
        ]
    );
}

#[test]
fn rules_without_patterns_are_told_with_their_own_line() {
    let rules =
        "[init.allowed]\nmessage = 'm'\n[[init.denied]]\npatterns = []\n[[init.denied]]\nmessage = 'm'\n";
    let expected = [
        "r.toml:4: init.allowed.patterns: is missing; write a list of patterns such as \"git *\"",
        "r.toml:7: init.denied.patterns: is empty; write a list of patterns such as \"git *\"",
        "r.toml:8: init.denied.patterns: is missing; write a list of patterns such as \"git *\"",
    ];
    assert_eq!(told(read("r.toml", format!("{RUBY}{rules}").as_bytes()).unwrap_err()), expected);
    for form in ["denied = 'x'", "denied = [1]"] {
        let text = format!("{RUBY}[init]\n{form}\n");
        let told = told(read("r.toml", text.as_bytes()).unwrap_err());
        assert!(told[0].ends_with("; write [[init.denied]]"), "{told:?}");
    }
}

#[test]
fn a_root_is_the_host_or_a_plain_absolute_path_other_than_the_whole_host() {
    for bad in ["/", "//", "/srv/../etc", "/srv/.", "/srv/", "srv", "", "~/root", "/a\\u0000b"] {
        let text = format!("name = 'r'\ndescription = 'd'\nroot = \"{bad}\"\n");
        assert_eq!(read("r.toml", text.as_bytes()).unwrap_err().len(), 1, "{bad}");
    }
}

#[test]
fn neither_an_image_nor_a_root_makes_no_environment() {
    let problems = read("r.toml", b"name = 'r'\ndescription = 'd'\n").unwrap_err();
    let expected =
        "r.toml: image: is missing; write an image for docker and podman, a root for bwrap, or both";
    assert_eq!(told(problems), [expected]);
}

#[test]
fn the_built_in_environments_are_good_files_named_after_themselves() {
    let found = catalogue(&Scene::new());
    assert_eq!((found.faults.as_slice(), found.untrusted.as_slice()), (&[][..], &[][..]));
    assert_eq!(names(&found), BUILT_IN.map(|(file, _)| file));
    assert_eq!(names(&found), ["bash", "node", "python", "node-repl", "python-venv"]);
    let with_both = [Method::Bwrap, Method::Docker, Method::Podman, Method::Noop];
    for known in found.environments() {
        assert_eq!(known.manifest.methods(), with_both, "{:?}", known.manifest.name);
        // A lesson must not open the network because of where it runs.
        assert_eq!(known.manifest.security.network, None);
    }
}

#[test]
fn an_unknown_name_is_told_with_all_there_are_and_the_one_that_was_meant() {
    let scene = Scene::new();
    scene.write("user/environments/ruby.toml", RUBY);
    let found = catalogue(&scene);
    let error = found.find("rubi").unwrap_err();
    assert_eq!(
        error.to_string(),
        "Environment 'rubi' not found. Available: bash, node, python, node-repl, python-venv, ruby"
    );
    assert_eq!((error.code(), error.exit()), ("environment-not-found", ExitCode::NotFound));
    assert_eq!(error.hints()[0], "did you mean 'ruby'?");
    let far = found.find("\u{1b}[31m").unwrap_err();
    assert!(!far.to_string().contains('\u{1b}') && far.hints().len() == 1, "{far:?}");
}

#[test]
fn a_name_means_one_thing_or_is_refused() {
    let scene = Scene::new();
    scene.write("user/environments/a.toml", RUBY);
    scene.write("user/environments/b.toml", RUBY);
    scene.write("user/environments/shell.toml", RUBY.replace("ruby", "bash"));
    let found = catalogue(&scene);
    let refusal = |name: &str| match found.find(name).unwrap_err() {
        EnvironmentError::Broken(error) => scene.told(&error),
        other => other.to_string(),
    };
    assert_eq!(
        refusal("ruby"),
        "user/environments/b.toml:1: name: 'ruby' is taken by user/environments/a.toml"
    );
    assert_eq!(
        refusal("bash"),
        "user/environments/shell.toml:1: name: 'bash' is taken by a built-in environment"
    );
    assert!(found.find("node").is_ok(), "what is wrong with one name keeps nobody from another");
    assert_eq!(found.whole().unwrap_err().problems().len(), 2);
}

#[test]
fn a_file_that_is_wrong_takes_away_the_name_it_was_meant_to_have() {
    let scene = Scene::new();
    scene.write("user/environments/ruby.toml", "name = ");
    scene.write("user/environments/other.toml", "name = 'perl'\n");
    scene.write("user/environments/note.txt", "not a manifest");
    std::fs::create_dir(scene.path("user/environments/dir.toml")).unwrap();
    let found = catalogue(&scene);
    assert_eq!(found.faults.len(), 3);
    for (name, file) in
        [("ruby", "ruby.toml:1"), ("perl", "other.toml"), ("dir", "dir.toml: refused: it is not")]
    {
        let told = found.find(name).unwrap_err().to_string();
        assert!(told.contains(file), "{name}: {told}");
    }
    assert!(found.find("bash").is_ok());
}

#[test]
fn a_projects_environment_counts_only_as_the_bytes_that_were_trusted() {
    let scene = Scene::new();
    let file = scene.write("repo/.palisade/environments/ruby.toml", RUBY);
    let found = catalogue(&scene);
    let error = found.find("ruby").unwrap_err();
    assert_eq!(error, EnvironmentError::NotTrusted { name: "ruby".into(), file: file.display().to_string() });
    assert_eq!(error.exit(), ExitCode::Configuration);
    assert_eq!(found.untrusted.len(), 1);

    let trusted = |path: &Path| (path == file).then(|| digest(RUBY.as_bytes()));
    assert!(trusting(&scene, &trusted).find("ruby").is_ok());
    scene.write("repo/.palisade/environments/ruby.toml", format!("{RUBY}timeout = 1\n"));
    assert!(trusting(&scene, &trusted).find("ruby").is_err());
}

#[test]
fn an_untrusted_project_cannot_take_a_name_away() {
    let scene = Scene::new();
    scene.write("repo/.palisade/environments/bash.toml", RUBY.replace("ruby", "bash"));
    scene.write("repo/.palisade/environments/node.toml", "name = 'node'\nnot toml");
    let found = catalogue(&scene);
    assert!(found.find("bash").is_ok() && found.find("node").is_ok());
    assert_eq!(found.faults, []);
}

#[test]
fn links_in_a_project_are_refused_and_not_followed() {
    let everything = |_: &Path| Some(digest(RUBY.as_bytes()));
    for link in ["repo/.palisade/environments/ruby.toml", "repo/.palisade/environments", "repo/.palisade"] {
        let scene = Scene::new();
        scene.write("elsewhere/environments/ruby.toml", RUBY);
        let target = match link.rsplit('/').next().unwrap() {
            "ruby.toml" => "elsewhere/environments/ruby.toml",
            "environments" => "elsewhere/environments",
            _ => "elsewhere",
        };
        std::fs::create_dir_all(scene.path(link).parent().unwrap()).unwrap();
        symlink(scene.path(target), scene.path(link)).unwrap();
        let found = trusting(&scene, &everything);
        assert!(found.find("ruby").is_err(), "{link}");
        let told = found.whole().unwrap_err().to_string();
        assert!(told.contains("it is a symbolic link"), "{link}: {told}");
    }
}

#[test]
fn a_file_that_is_checked_by_name_must_be_there() {
    let scene = Scene::new();
    let told = |path: &str| check_file(&scene.path(path)).map_err(|error: ConfigError| scene.told(&error));
    assert_eq!(told("no.toml").unwrap_err(), "no.toml: cannot be read: there is no such file");
    scene.write("ruby.toml", RUBY);
    assert_eq!(told("ruby.toml").unwrap().name.value.as_str(), "ruby");
}

#[test]
fn every_field_that_must_be_there_is_missed() {
    let needed: Vec<&str> = FIELDS.iter().filter(|doc| doc.default.is_none()).map(|doc| doc.key).collect();
    assert_eq!(needed, ["name", "description"]);
}

proptest! {
    #[test]
    fn any_bytes_are_read_or_refused_with_a_place(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
        if let Err(problems) = read("r.toml", &bytes) {
            prop_assert!(!problems.is_empty());
            prop_assert!(told(problems).iter().all(|problem| problem.starts_with("r.toml")));
        }
    }
}
