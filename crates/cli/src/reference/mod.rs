//! The documents made from the code: `docs/reference`, `docs/man` and `schemas/output`. Compiled for the tests only,
//! so nothing of it is in the program. A test holds the files of the repository to what is made here; `make
//! reference` writes them anew.
#![allow(clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod command_line;
mod configuration;
mod environment;
mod errors;
mod hints;
mod infra;
mod json;
mod man;
mod manifest;
mod markdown;
mod skills;
mod sources;
mod telemetry;

use crate::arguments::Cli;
use clap::CommandFactory;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

/// Set by `make reference`: write the documents instead of comparing them.
const UPDATE: &str = "PALISADE_UPDATE_REFERENCE";

/// Directories in which every file is made here, so that one of a command that is gone does not stay.
const OWNED: [&str; 2] = ["docs/man", "schemas/output"];

/// Where a document lies in the repository, and its text.
type Documents = BTreeMap<String, String>;

fn documents() -> Documents {
    let mut documents = Documents::from([
        ("docs/reference/cli.md".into(), command_line::page(&command())),
        ("docs/reference/config.md".into(), configuration::page()),
        ("docs/reference/environment.md".into(), environment::page()),
        ("docs/reference/environments.md".into(), manifest::page()),
        ("schemas/environment.json".into(), manifest::schema()),
        ("docs/reference/exit-codes.md".into(), errors::page()),
        ("docs/reference/infra-toml.md".into(), infra::page()),
        ("schemas/infra.json".into(), infra::schema()),
        ("docs/reference/json.md".into(), json::page()),
        ("docs/reference/telemetry.md".into(), telemetry::page()),
    ]);
    documents.extend(json::schemas());
    documents.extend(man::pages(&command()));
    documents
}

/// The whole command line, as the parser sees it when it has filled in what commands inherit.
fn command() -> clap::Command {
    let mut command = Cli::command().name("palisade").bin_name("palisade");
    command.build();
    command
}

/// The root of the checkout. From the runtime variable: the tests may run in a copy of the sources.
fn repository() -> PathBuf {
    let manifest = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo tells where the crate is");
    Path::new(&manifest).ancestors().nth(2).expect("the crate lies in crates/cli").to_owned()
}

/// Those that are expected, and whatever else lies in the directories that are ours.
fn on_disk(expected: &Documents) -> Documents {
    let mut found = Documents::new();
    let listed = OWNED.iter().flat_map(|directory| {
        let entries = std::fs::read_dir(repository().join(directory)).into_iter().flatten();
        entries.map(move |entry| {
            format!("{directory}/{}", entry.expect("an entry").file_name().to_string_lossy())
        })
    });
    for path in expected.keys().cloned().chain(listed) {
        if let Ok(text) = std::fs::read_to_string(repository().join(&path)) {
            found.insert(path, text);
        }
    }
    found
}

fn write(documents: &Documents) {
    for path in on_disk(documents).keys().filter(|path| !documents.contains_key(*path)) {
        std::fs::remove_file(repository().join(path)).expect("remove what is no longer made");
    }
    for (path, text) in documents {
        let path = repository().join(path);
        std::fs::create_dir_all(path.parent().expect("it lies in a directory")).expect("make the directory");
        std::fs::write(path, text).expect("write the document");
    }
}

#[test]
fn the_documents_made_from_the_code_are_those_in_the_repository() {
    let documents = documents();
    if std::env::var_os(UPDATE).is_some() {
        write(&documents);
    }
    let found = on_disk(&documents);
    let differs = |path: &&String| documents.get(*path) != found.get(*path);
    let all: std::collections::BTreeSet<&String> = documents.keys().chain(found.keys()).collect();
    let outdated: Vec<&&String> = all.iter().filter(|path| differs(path)).collect();
    assert!(
        outdated.is_empty(),
        "these documents are made from the code and are not what it says now: {outdated:#?}\n\
         Write them anew with:\n\n    make reference\n\nand commit them with your change."
    );
}
