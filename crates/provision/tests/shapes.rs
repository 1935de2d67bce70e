//! Ten compose files of different shape, as projects have them: what is found in each, and the file with its ports made
//! variables, byte for byte. Compose itself then reads both as the same.
//!
//! `PALISADE_UPDATE_SHAPES=1` writes what is expected anew, to be looked at before it is committed.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

use palisade_core::ProjectPath;
use palisade_provision::{ComposeFile, Findings, Need, ProjectTree, Role, discover, parameterise};
use palisade_testing::requires;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

const SHAPES: [&str; 10] =
    ["profiles", "anchors", "extends", "env_file", "long", "secrets", "windows", "tabs", "ranges", "host"];

fn directory() -> PathBuf {
    Path::new(&std::env::var_os("CARGO_MANIFEST_DIR").unwrap()).join("tests/shapes")
}

/// Its text. No file of the repository has Windows line ends, so they are made here.
fn shape(name: &str, file: &str) -> String {
    let text = std::fs::read_to_string(directory().join(file)).unwrap_or_default();
    if name == "windows" { text.replace('\n', "\r\n") } else { text }
}

/// A working tree in which git ignores what is local, secret or an `.env`; every second of those is there, each has an
/// example, and `certs` is a directory.
struct Tree;

impl ProjectTree for Tree {
    fn is_ignored(&self, path: &ProjectPath) -> bool {
        let name = path.name();
        name.contains("local")
            || name.starts_with(".env")
            || path.as_str().starts_with("secrets/")
            || name == "certs"
    }

    fn is_file(&self, path: &ProjectPath) -> bool {
        path.name().contains("example") && !path.name().starts_with("db_") || path.name().starts_with(".env")
    }

    fn is_directory(&self, path: &ProjectPath) -> bool {
        path.name() == "certs"
    }
}

fn found(text: &str) -> (ComposeFile, Findings) {
    let file = ComposeFile::read(text).unwrap();
    let findings = discover(&file, None, "shop", &Tree);
    (file, findings)
}

/// All that was found, a line each.
fn told(file: &ComposeFile, findings: &Findings) -> String {
    let mut text = String::new();
    for service in &file.services {
        let role = Role::of(service).name().unwrap_or("-");
        writeln!(text, "service {} ({role}) {:?}", service.name, service.network).unwrap();
        for port in &service.ports {
            writeln!(text, "  {:?} → {:?} {:?}", port.published, port.target, port.protocol).unwrap();
        }
        if let Some(path) = &service.health {
            writeln!(text, "  healthy at {path}").unwrap();
        }
    }
    for variable in findings.variables.iter().chain(&findings.optional) {
        let need = match &variable.need {
            Need::Needed => "needed".to_owned(),
            Need::Optional { default } => format!("default {default:?}"),
        };
        writeln!(text, "variable {} in {}: {need}", variable.name, variable.services.join(", ")).unwrap();
    }
    for file in &findings.files {
        let sources: Vec<&str> = file.sources.iter().map(ProjectPath::as_str).collect();
        writeln!(text, "file {} from {}", file.path, sources.join(", ")).unwrap();
        for one in &file.uses {
            let service = one.service.as_deref().unwrap_or("the project");
            writeln!(text, "  {service}: {} {:?}", one.written, one.how).unwrap();
        }
    }
    for directory in &findings.directories {
        writeln!(text, "directory {directory}").unwrap();
    }
    for port in &findings.ports {
        writeln!(text, "port {} = {} of {} at {:?}", port.name, port.base, port.service, port.target)
            .unwrap();
    }
    for collision in &findings.collisions {
        writeln!(text, "collision {collision:?}").unwrap();
    }
    for one in &file.elsewhere {
        writeln!(text, "elsewhere {} of {:?}", one.written, one.service).unwrap();
    }
    text
}

#[test]
fn ten_shapes_of_compose_files_are_read_and_changed_at_their_ports_only() {
    for name in SHAPES {
        let text = shape(name, &format!("{name}.yml"));
        let (file, findings) = found(&text);
        let (told, after) = (told(&file, &findings), &findings.parameterised.text);
        if std::env::var_os("PALISADE_UPDATE_SHAPES").is_some() {
            std::fs::write(directory().join(format!("{name}.found")), &told).unwrap();
            std::fs::write(directory().join(format!("{name}.after.yml")), after.replace('\r', "")).unwrap();
        }
        assert_eq!(told, shape("", &format!("{name}.found")), "{name}");
        assert_eq!(*after, shape(name, &format!("{name}.after.yml")), "{name}");
        let again = parameterise(&ComposeFile::read(after.clone()).unwrap(), "shop");
        assert_eq!((again.text, again.ports), (after.clone(), findings.parameterised.ports), "{name}");
    }
}

/// As Compose has it with no variable of ours set, every profile switched on.
fn rendered(project: &Path, text: &str) -> String {
    let put = |path: &str, text: &str| {
        let path = project.join(path);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    put("compose.yml", text);
    put("common.yml", &shape("", "common.yml"));
    for file in ComposeFile::read(text).unwrap().files {
        put(&file.path, "");
    }
    let ran = Command::new("docker")
        .args(["compose", "--project-name", "shape", "--profile", "*", "--file", "compose.yml", "config"])
        .envs([("DB_PASSWORD", "a"), ("SECRET_KEY", "b"), ("API_TOKEN", "c")])
        .current_dir(project)
        .output()
        .unwrap();
    assert!(ran.status.success(), "{}", String::from_utf8_lossy(&ran.stderr));
    String::from_utf8(ran.stdout).unwrap()
}

#[test]
fn compose_reads_a_changed_file_as_it_read_the_old_one() {
    requires!(compose);
    let project = tempfile::tempdir().unwrap();
    for name in SHAPES {
        let text = shape(name, &format!("{name}.yml"));
        let after = found(&text).1.parameterised.text;
        assert_ne!(text, after, "{name}");
        assert_eq!(rendered(project.path(), &after), rendered(project.path(), &text), "{name}");
    }
}

mod written {
    use proptest::prelude::*;

    fn entry() -> impl Strategy<Value = String> {
        let port = || 1024_u16..60_000;
        let quote = || prop_oneof![Just(""), Just("'"), Just("\"")];
        let protocol = || prop_oneof![Just(""), Just("/tcp"), Just("/udp")];
        let address =
            || prop_oneof![Just(""), Just("127.0.0.1:"), Just("0.0.0.0:"), Just("${IP:-127.0.0.1}:")];
        let single = (quote(), address(), port(), port(), protocol()).prop_map(
            |(quote, address, host, target, protocol)| {
                format!("{quote}{address}{host}:{target}{protocol}{quote}")
            },
        );
        let range = (quote(), port(), 1_u16..20, protocol()).prop_map(|(quote, first, more, protocol)| {
            let last = first + more;
            format!("{quote}{first}-{last}:{first}-{last}{protocol}{quote}")
        });
        let variable = (quote(), port())
            .prop_map(|(quote, port)| format!("{quote}${{GIVEN_{port}:-{port}}}:{port}{quote}"));
        let long = (quote(), port(), port()).prop_map(|(quote, host, target)| {
            format!("{{target: {target}, published: {quote}{host}{quote}}}")
        });
        let alone = port().prop_map(|port| port.to_string());
        prop_oneof![4 => single, 1 => range, 1 => variable, 1 => long, 1 => alone]
    }

    /// A service with its ports a line each, or all on one line when quotes allow it.
    fn service() -> impl Strategy<Value = String> {
        let comment = prop_oneof![Just(""), Just("  # web"), Just("\t# a\ttab"), Just(" # 1:1")];
        let entries = prop::collection::vec((entry(), comment), 0..6);
        (entries, any::<bool>()).prop_map(|(entries, flow)| {
            let plain = |text: &str| text.starts_with(|it: char| it.is_ascii_digit() || it == '$');
            if flow && !entries.iter().any(|(text, _)| plain(text) && text.contains('$')) {
                let words: Vec<&str> = entries.iter().map(|(text, _)| text.as_str()).collect();
                return format!("    image: x\n    ports: [{}]  # all\n", words.join(", "));
            }
            let lines: String =
                entries.iter().map(|(text, comment)| format!("      - {text}{comment}\n")).collect();
            format!("    ports:\n{lines}    image: x # kept\n")
        })
    }

    pub(super) fn file() -> impl Strategy<Value = String> {
        (prop::collection::vec(service(), 1..5), any::<bool>()).prop_map(|(services, windows)| {
            let services: String =
                services.iter().enumerate().map(|(index, text)| format!("  s-{index}:\n{text}")).collect();
            let text = format!("# ports: ['1:1']\nservices:\n{services}volumes: {{}} # the end\n");
            if windows { text.replace('\n', "\r\n") } else { text }
        })
    }
}

/// What stands in a file besides the entries of `ports`: the same lines, in the same order.
fn besides_ports(text: &str) -> Vec<String> {
    let is_entry =
        |line: &&str| line.trim_start().starts_with("- ") || line.trim_start().starts_with("ports: [");
    text.split_inclusive('\n').filter(|line| !is_entry(line)).map(str::to_owned).collect()
}

proptest::proptest! {
    #[test]
    fn to_parameterise_twice_is_to_do_it_once(text in written::file()) {
        let once = parameterise(&ComposeFile::read(text.clone()).unwrap(), "shop");
        let read = ComposeFile::read(once.text.clone()).unwrap();
        let twice = parameterise(&read, "shop");
        proptest::prop_assert_eq!((&twice.text, &twice.ports), (&once.text, &once.ports));
        proptest::prop_assert_eq!(besides_ports(&once.text), besides_ports(&text));
        let fixed = |port: &&palisade_provision::Port| matches!(port.published, palisade_provision::Published::Fixed { .. });
        let left = read.services.iter().flat_map(|service| &service.ports).filter(fixed).count();
        proptest::prop_assert_eq!(left, once.untouched.len());
    }
}
