//! `docs/reference/environment.md`: every variable the program reads or sets. The settings come from their own
//! table; the others are told here, and a test reads the sources to find one that is not.

use super::markdown::{code, heading, table};
use super::sources::{self, Strings};
use palisade_config::KEYS;
use palisade_telemetry::variables;

struct Variable {
    name: &'static str,
    meaning: &'static str,
}

const fn variable(name: &'static str, meaning: &'static str) -> Variable {
    Variable { name, meaning }
}

const PLACES: &[Variable] = &[
    variable(
        "HOME",
        "Where the three below are when they are not set; also where git's own settings are looked for.",
    ),
    variable(
        "XDG_CONFIG_HOME",
        "The user's settings are in `palisade/config.toml` below it. Default: `~/.config`.",
    ),
    variable(
        "XDG_CACHE_HOME",
        "A Debian for images is kept in `palisade/images` below it, where none can be pulled. Default: `~/.cache`.",
    ),
    variable(
        "XDG_DATA_HOME",
        "Agents are installed in `palisade/agents` below it. Default: `~/.local/share`.",
    ),
    variable(
        "XDG_STATE_HOME",
        "State is in `palisade` below it. Default: `~/.local/state`. Keep it short: a socket's path has at most 107 bytes.",
    ),
    variable(
        "XDG_RUNTIME_DIR",
        "Where an ordinary user's systemd is asked for cgroups, for the limits, and where a user's own engines listen.",
    ),
    variable(
        "DOCKER_HOST",
        "Where Docker listens: `unix:///path` or `tcp://HOST:PORT`. Default: the first of its usual sockets that is there.",
    ),
    variable("CONTAINER_HOST", "Where Podman listens, in the same form. Default: its socket for this user."),
    variable(
        "http_proxy",
        "The proxy through which builds of images fetch packages. Also `https_proxy` and `no_proxy`, and in upper case.",
    ),
    variable("PATH", "Where `bwrap` and other tools of the host are looked for."),
    variable(
        "PALISADE_GUEST",
        "The guest program, when it is neither beside `palisade` nor in `../libexec/palisade`.",
    ),
    variable("NO_COLOR", "Set and not empty: no colours."),
    variable(
        "TERM",
        "The kind of terminal that a command with a terminal is told; without it, `xterm-256color`.",
    ),
    variable(
        "SSH_AUTH_SOCK",
        "Handed on to Docker Compose, for builds and for engines that are reached over SSH.",
    ),
    variable("SSL_CERT_FILE", "Handed on to Docker Compose, as is the next."),
    variable("SSL_CERT_DIR", "The same."),
    variable("SUDO_UID", "Who called sudo: root does not begin a state in that user's home."),
    variable("TMPDIR", "Handed on to keepers, as are the variables above that say where things are."),
    variable("RUST_BACKTRACE", "Handed on to keepers: a trace in `keeper.log` should one panic."),
];

const INSIDE: &[Variable] = &[
    variable("HOME", "`/home/agent`; with `noop`, the sandbox's own home directory on the host."),
    variable("PATH", "The usual places, or those that an image names, with those of `tools` first."),
    variable("USER", "`agent`. Not set by `noop`."),
    variable("LOGNAME", "`agent`. Not set by `noop`."),
    variable("SHELL", "`/bin/bash`, unless an image says otherwise. Not set by `noop`."),
    variable("LANG", "`C.UTF-8`, unless an image says otherwise."),
    variable("TERM", "With a terminal only: the caller's."),
    variable(
        "HTTP_PROXY",
        "With a network: the proxy on the sandbox's loopback. Also in lower case, as the next three.",
    ),
    variable("HTTPS_PROXY", "The same."),
    variable("ALL_PROXY", "The same."),
    variable("NO_PROXY", "With a network: the names of the sandbox's own loopback."),
    variable(
        "PALISADE_SANDBOX_ID",
        "Only with `noop`: marks the processes of the sandbox, which nothing else holds together.",
    ),
    variable(
        "PALISADE_INSTANCE_ID",
        "Only with `noop`: the installation whose sandbox it is, so that a copied state directory leaves the original's \
         processes alone.",
    ),
];

const DEVELOPMENT: &[Variable] = &[
    variable(
        "PALISADE_BIN",
        "The program that the tests, the demo and the bench start, instead of the one just built.",
    ),
    variable(
        "PALISADE_REQUIRE",
        "Tools, separated by commas, without which a test fails instead of being skipped.",
    ),
    variable(
        "PALISADE_FAULT",
        "Where to fail or die on purpose, in programs built with debug assertions; released ones do not know it.",
    ),
    variable(
        "PALISADE_TEST_SEED",
        "The number that a test which chooses at random prints, to have its choices again.",
    ),
    variable(
        "PALISADE_AGENTS",
        "Where the agents from npm are that the tests run; `scripts/setup test` puts them there.",
    ),
    variable(super::UPDATE, "Write the documents that are made from the code; set by `make reference`."),
];

/// Words of the sources in the form of a variable that are none of ours: a word of the kernel's, and what programs that
/// we start are told.
const NOT_OURS: &[&str] = &[
    "RTM_NEWADDR",
    "LC_ALL",
    "BASH_ENV",
    "EAI_AGAIN",
    "SOURCE_DATE_EPOCH",
    "SSH_AUTH_SOCK",
    "SSL_CERT_DIR",
    "SSL_CERT_FILE",
    "BUILDKIT_HOST",
    "BUILDKIT_PROGRESS",
    "BUILDX_BUILDER",
    "BUILDX_CONFIG",
    "DOCKER_API_VERSION",
    "DOCKER_BUILDKIT",
    "DOCKER_CERT_PATH",
    "DOCKER_CONFIG",
    "DOCKER_CONTENT_TRUST",
    "DOCKER_CONTEXT",
    "DOCKER_DEFAULT_PLATFORM",
    "DOCKER_TLS_VERIFY",
    "NODE_EXTRA_CA_CERTS",
    "AWS_CONFIG_FILE",
    "AWS_SHARED_CREDENTIALS_FILE",
    "CLOUDSDK_PYTHON",
    "GCONV_PATH",
    "GOOGLE_EXTERNAL_ACCOUNT_ALLOW_EXECUTABLES",
    "NODE_OPTIONS",
    "NODE_PATH",
    "SSH_ASKPASS",
];
/// Files of a git directory that look like variables.
const GIT_FILES: &[&str] =
    &["AUTO_MERGE", "CHERRY_PICK_HEAD", "ORIG_HEAD", "REBASE_HEAD", "REVERT_HEAD", "SQUASH_MSG"];
/// The variables of such programs, which document them themselves. Not for a variable that this program reads.
const PREFIXES_NOT_OURS: &[&str] = &["BISECT_", "CARGO_", "COMPOSE_", "GIT_", "MERGE_"];

/// The variables that are settings, with what they set.
pub(super) fn settings() -> Vec<[String; 2]> {
    let named = KEYS.iter().filter_map(|doc| Some((doc.environment?, doc)));
    named.map(|(name, doc)| [name.to_owned(), format!("{} As the key `{}`.", doc.help, doc.key)]).collect()
}

/// The variables that say where things are and how to print.
pub(super) fn places() -> Vec<[String; 2]> {
    rows(PLACES)
}

/// The variables that say where spans go.
fn telemetry() -> Vec<[String; 2]> {
    variables::ALL.iter().map(|it| [it.name.to_owned(), it.meaning.to_owned()]).collect()
}

fn rows(variables: &[Variable]) -> Vec<[String; 2]> {
    variables.iter().map(|variable| [variable.name.to_owned(), variable.meaning.to_owned()]).collect()
}

pub(super) fn page() -> String {
    let mut text = heading("Environment variables");
    let mut part = |title: &str, introduction: &str, rows: Vec<[String; 2]>| {
        let rows = rows.into_iter().map(|[name, meaning]| [code(&name), meaning]);
        text.push_str(&format!("## {title}\n\n{introduction}\n\n{}\n", table(["variable", "meaning"], rows)));
    };
    part(
        "Settings",
        "They win over the files and lose to the command line; see [Settings](config.md). One that is set and empty,\n\
         or does not parse, is an error with exit code 3.",
        settings(),
    );
    part("Places and looks", "Read by `palisade` itself.", places());
    part(
        "Telemetry",
        "As OpenTelemetry has them; set and empty means unset. See [the guide](../guides/telemetry.md).",
        telemetry(),
    );
    part(
        "Inside a sandbox",
        "Nothing of the caller's environment goes inside unless `-e NAME` or `-e NAME=VALUE` says so. What every\n\
         command starts from:",
        rows(INSIDE),
    );
    part("For those who work on Palisade", "Read by the tests and scripts only.", rows(DEVELOPMENT));
    text.trim_end().to_owned() + "\n"
}

fn documented() -> Vec<&'static str> {
    let told = [PLACES, INSIDE, DEVELOPMENT].into_iter().flatten().map(|variable| variable.name);
    let telemetry = variables::ALL.iter().map(|variable| variable.name);
    KEYS.iter().filter_map(|doc| doc.environment).chain(told).chain(telemetry).collect()
}

/// Whether a word of the sources has the form of a variable's name: capitals in at least two parts.
fn looks_like_a_variable(word: &str) -> bool {
    let parts: Vec<&str> = word.split('_').collect();
    let capital = |part: &&str| {
        !part.is_empty() && part.bytes().all(|byte| byte.is_ascii_uppercase() || byte.is_ascii_digit())
    };
    parts.len() > 1 && parts.iter().all(capital)
}

#[test]
fn every_variable_that_the_sources_name_is_documented_and_the_other_way_round() {
    let strings = Strings::of(&sources::all());
    let ours = |word: &&String| {
        let other = PREFIXES_NOT_OURS.iter().any(|prefix| word.starts_with(prefix));
        let is_known = [NOT_OURS, GIT_FILES].into_iter().flatten().any(|name| name == word);
        looks_like_a_variable(word) && !other && !is_known
    };
    let known = documented();
    let mut unknown: Vec<&String> = strings
        .literals
        .iter()
        .filter(ours)
        .chain(&strings.variables_read)
        .filter(|name| !known.contains(&name.as_str()))
        .collect();
    unknown.sort();
    unknown.dedup();
    assert!(
        unknown.is_empty(),
        "these variables are read or set and not documented: {unknown:?}\n\
         Tell what they do in crates/cli/src/reference/environment.rs, then: make reference"
    );
    let gone: Vec<&str> = known
        .into_iter()
        .filter(|name| *name != super::UPDATE && !strings.literals.iter().any(|literal| literal == name))
        .collect();
    assert_eq!(gone, [""; 0], "these variables are documented, and the sources know nothing of them");
}
