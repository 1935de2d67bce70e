//! Configuration files that anybody wrote, through the whole loader. Every problem names a place that exists and is
//! safe to show; a project's file that was not trusted never widens; trust is for the very bytes; and what comes
//! out, written down again, means the same.

use palisade_config::{ConfigError, Problem, ProjectSource, Settings, Sources, digest, load};
use palisade_core::{Origin, printable};
use std::collections::BTreeMap;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use tempfile::TempDir;

/// Stands between the files in an input. TOML allows it nowhere, so no file that parses is cut.
pub const SEPARATOR: u8 = 0x1e;

/// The system's file, the user's, the project's, and lines `NAME=VALUE` of the environment.
pub fn check(input: &[u8]) {
    let mut parts = input.splitn(4, |byte| *byte == SEPARATOR);
    let mut next = || parts.next().unwrap_or_default();
    let scene = Scene::set("given", [next(), next(), next()]);
    let environment = variables(next());

    let own = Sources {
        system: Some(scene.path(0)),
        user: Some(scene.path(1)),
        environment: environment.clone(),
        ..Sources::default()
    };
    let project = |trusted_digest: Option<String>| Sources {
        project: Some(ProjectSource { path: scene.path(2), trusted_digest }),
        ..own.clone()
    };
    let base = load(&own);
    let untrusted = load(&project(None));
    let trusted = load(&project(Some(digest(scene.texts[2]))));
    for outcome in [&base, &untrusted, &trusted] {
        if let Err(error) = outcome {
            scene.assert_places(error);
        }
    }
    if let Ok(settings) = &trusted {
        assert_reads_back(settings);
    }

    assert_eq!(untrusted, load(&project(Some(digest(b"other bytes")))), "trust in other bytes counts");
    let only_widens = |error: &ConfigError| {
        error.problems().iter().all(|problem| matches!(problem, Problem::Widens { .. }))
    };
    assert_eq!(
        trusted.is_ok(),
        untrusted.as_ref().map_or_else(only_widens, |_| true),
        "trust allows what widens, and nothing else: {untrusted:?}, {trusted:?}"
    );
    // The environment is the user's own word and comes after the project, so it is left out of the comparison.
    let (base, narrowed) = if environment.is_empty() {
        (base, untrusted)
    } else {
        (load(&without(&own)), load(&without(&project(None))))
    };
    if let (Ok(base), Ok(narrowed)) = (&base, &narrowed) {
        assert_not_wider(base, narrowed);
    }
}

fn variables(bytes: &[u8]) -> Vec<(String, String)> {
    let text = String::from_utf8_lossy(bytes);
    text.lines()
        .filter_map(|line| line.split_once('='))
        .map(|(name, value)| (name.into(), value.into()))
        .collect()
}

fn without(sources: &Sources) -> Sources {
    Sources { environment: Vec::new(), ..sources.clone() }
}

/// Said without the loader's own comparison.
fn assert_not_wider(base: &Settings, narrowed: &Settings) {
    assert!(narrowed.method.value.strength() >= base.method.value.strength());
    assert!(narrowed.network() <= base.network());
    assert_eq!(narrowed.image, base.image);
    assert!(narrowed.memory.value <= base.memory.value);
    assert!(narrowed.cpus.value <= base.cpus.value);
    assert!(narrowed.pids.value <= base.pids.value);
    assert!(narrowed.tmp.value <= base.tmp.value);
    assert!(base.opt.value || !narrowed.opt.value);
    assert_eq!((&narrowed.allow, &narrowed.host_ports), (&base.allow, &base.host_ports));
    assert_eq!((&narrowed.tools, &narrowed.mounts), (&base.tools, &base.mounts));
    assert_eq!((&narrowed.uid_base, &narrowed.detach_keys), (&base.uid_base, &base.detach_keys));
    assert!(narrowed.env_files.value.iter().all(|pattern| base.env_files.value.contains(pattern)));
    assert_eq!((&narrowed.login, &narrowed.max_fetch), (&base.login, &base.max_fetch));
    assert_eq!(&narrowed.max_fetch_time, &base.max_fetch_time);
    assert_eq!((&narrowed.copy_size, &narrowed.copy_files), (&base.copy_size, &base.copy_files));
    let ceilings = |settings: &Settings| {
        let Settings { max_network, max_memory, max_cpus, max_pids, writable_root, roots, root, .. } =
            settings.clone();
        (max_network, max_memory, max_cpus, max_pids, writable_root, roots, root)
    };
    assert_eq!(ceilings(narrowed), ceilings(base));
    assert!(narrowed.project.as_ref().is_none_or(|project| !project.trusted));
}

/// What `config show` prints, written into one file, gives the same values.
fn assert_reads_back(settings: &Settings) {
    let mut lists: BTreeMap<&str, toml_edit::Array> = BTreeMap::new();
    let mut text = String::new();
    for entry in settings.entries() {
        match entry.key {
            "network.allow" | "network.host_ports" | "tools" | "mounts" | "environments.roots" => {
                let list = lists.entry(entry.key).or_default();
                if entry.origin != Origin::Default {
                    list.push(entry.value);
                }
            }
            // What a login holds is not shown, so it cannot be written down again.
            "agent.login" => {}
            "resources.pids"
            | "opt"
            | "root.uid_base"
            | "copy.max_files"
            | "agent.env_files"
            | "agent.env_load"
            | "environments.writable_root" => writeln!(text, "{} = {}", entry.key, entry.value).unwrap(),
            // A number or a word.
            "environments.max_pids" if entry.value.parse::<u32>().is_ok() => {
                writeln!(text, "{} = {}", entry.key, entry.value).unwrap()
            }
            key => writeln!(text, "{key} = {}", toml_edit::Value::from(entry.value)).unwrap(),
        }
    }
    for (key, list) in lists {
        writeln!(text, "{key} = {list}").unwrap();
    }
    let scene = Scene::set("again", [text.as_bytes(), b"", b""]);
    let again = load(&Sources { system: Some(scene.path(0)), ..Sources::default() }).unwrap();
    let values = |settings: &Settings| -> Vec<(&str, String)> {
        let shown = settings.entries().into_iter().filter(|entry| entry.key != "agent.login");
        shown.map(|entry| (entry.key, entry.value)).collect()
    };
    assert_eq!(values(&again), values(settings), "{text}");
    assert_eq!(again.network(), settings.network(), "{text}");
}

struct Scene<'a> {
    directory: PathBuf,
    texts: [&'a [u8]; 3],
}

const FILES: [&str; 3] = ["system.toml", "user.toml", "project.toml"];

thread_local! {
    /// One for all inputs, since making one takes longer than reading what lies in it.
    static DIRECTORY: TempDir = tempfile::tempdir().unwrap();
}

impl<'a> Scene<'a> {
    /// The files are written over by the next scene of that name.
    fn set(name: &str, texts: [&'a [u8]; 3]) -> Self {
        let directory = DIRECTORY.with(|directory| directory.path().join(name));
        for (file, text) in FILES.iter().zip(texts) {
            let path = directory.join(file);
            if std::fs::write(&path, text).is_err() {
                std::fs::create_dir(&directory).unwrap();
                std::fs::write(&path, text).unwrap();
            }
        }
        Self { directory, texts }
    }

    fn path(&self, file: usize) -> PathBuf {
        self.directory.join(FILES[file])
    }

    /// Each problem is in a line that its file has, or in a variable, and can be shown on a terminal.
    fn assert_places(&self, error: &ConfigError) {
        assert!(!error.problems().is_empty());
        for problem in error.problems() {
            let shown = problem.to_string();
            assert_eq!(printable(&shown), shown);
            match problem {
                Problem::Syntax { file, line, .. }
                | Problem::UnknownKey { file, line, .. }
                | Problem::UnknownField { file, line, .. }
                | Problem::UnknownDeclaration { file, line, .. }
                | Problem::NameTaken { file, line, .. }
                | Problem::NotInProject { file, line, .. }
                | Problem::Widens { file, line, .. } => self.assert_line(file, *line, &shown),
                Problem::InvalidValue { place, .. } => match place.rsplit_once(':') {
                    Some((file, line)) => self.assert_line(file, line.parse().unwrap(), &shown),
                    None => assert!(palisade_config::environment::ALL.contains(&place.as_str()), "{shown}"),
                },
                // They name a file as a whole, and none of these is too large or no file; and no environment is read.
                Problem::Unreadable { .. } | Problem::Refused { .. } | Problem::TooWide { .. } => {
                    panic!("{shown}")
                }
            }
        }
    }

    fn assert_line(&self, file: &str, line: usize, shown: &str) {
        let number = FILES.iter().position(|name| Path::new(file) == self.directory.join(name));
        let text = self.texts[number.unwrap_or_else(|| panic!("no such file: {shown}"))];
        let lines = text.iter().filter(|byte| **byte == b'\n').count() + 1;
        assert!((1..=lines).contains(&line), "of {lines} lines: {shown}");
    }
}
