//! Every file that fuzzing has kept, given to its target again on the ordinary toolchain.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test that fails panics, and says on what"
)]

use palisade_fuzzing::{TARGETS, Target};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};

fn fuzz() -> PathBuf {
    let here = std::env::var_os("CARGO_MANIFEST_DIR").expect("cargo and nextest set it");
    Path::new(&here).join("../../fuzz")
}

/// The names in a directory, without their endings.
fn stems(directory: &Path) -> BTreeSet<String> {
    let entries =
        std::fs::read_dir(directory).unwrap_or_else(|error| panic!("{}: {error}", directory.display()));
    entries.map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned()).collect()
}

fn replay(name: &str) {
    let Target { check, .. } = TARGETS.into_iter().find(|target| target.name == name).unwrap();
    let mut files: Vec<PathBuf> = std::fs::read_dir(fuzz().join("corpus").join(name))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    files.sort();
    assert!(!files.is_empty(), "the corpus of {name} is empty");
    for file in files {
        // nextest shows the output of a test that failed, and with it the file that did it.
        println!("{}", file.display());
        check(&std::fs::read(&file).unwrap());
    }
    check(b"");
}

#[test]
fn every_target_has_a_program_and_a_corpus() {
    let names: BTreeSet<String> = TARGETS.iter().map(|target| target.name.to_owned()).collect();
    assert_eq!(stems(&fuzz().join("fuzz_targets")), names);
    assert_eq!(stems(&fuzz().join("corpus")), names);
}

#[test]
fn what_fuzzing_kept_of_protocol_frames_still_holds() {
    replay("protocol_frames");
}

#[test]
fn what_fuzzing_kept_of_config_still_holds() {
    replay("config");
}

#[test]
fn what_fuzzing_kept_of_survey_still_holds() {
    replay("survey");
}

#[test]
fn what_fuzzing_kept_of_dotenv_still_holds() {
    replay("dotenv");
}

#[test]
fn what_fuzzing_kept_of_environment_still_holds() {
    replay("environment");
}

#[test]
fn what_fuzzing_kept_of_infra_still_holds() {
    replay("infra");
}

#[test]
fn what_fuzzing_kept_of_compose_still_holds() {
    replay("compose");
}

#[test]
fn what_fuzzing_kept_of_names_still_holds() {
    replay("names");
}

#[test]
fn what_fuzzing_kept_of_tar_still_holds_in_little_memory() {
    let before = peak_memory_kib();
    replay("tar");
    // The corpus has streams of several MiB that a reader could take for one name or one header.
    let grown = peak_memory_kib() - before;
    assert!(grown < 4 * 1024, "{grown} KiB");
}

/// The most memory this process has ever had.
fn peak_memory_kib() -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:")).unwrap();
    line.trim().trim_end_matches(" kB").parse().unwrap()
}
