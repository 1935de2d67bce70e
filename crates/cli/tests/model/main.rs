//! The random sequences of `crates/workspace/tests/model` through the program, with real sandboxes: no content is ever
//! lost, and nothing of the user's changes that is not named.
//!
//! The steps, the rules and the running of them are that test's own; only the world is another. The seeds are fixed.
//! `PALISADE_MODEL_SEED=N` runs one sequence on each method, `PALISADE_MODEL_SEQUENCES=N` so many, from
//! `PALISADE_MODEL_FIRST_SEED`; see `runner` for more.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]
#![allow(clippy::print_stdout, reason = "a finding is for people")]
#![allow(dead_code, reason = "the shared modules have more than is used here")]

#[path = "../../../workspace/tests/model/actions.rs"]
mod actions;
#[path = "../../../workspace/tests/model/contents.rs"]
mod contents;
mod inside;
#[path = "../../../workspace/tests/model/look.rs"]
mod look;
#[path = "../../../workspace/tests/model/memory.rs"]
mod memory;
#[path = "../../../workspace/tests/model/random.rs"]
mod random;
mod report;
#[path = "../../../workspace/tests/model/rules.rs"]
mod rules;
#[path = "../../../workspace/tests/model/runner.rs"]
mod runner;
#[path = "../../../workspace/tests/model/sequence.rs"]
mod sequence;
#[path = "../../../workspace/tests/model/sha1.rs"]
mod sha1;
#[path = "../../../workspace/tests/model/template.rs"]
mod template;
#[path = "../../../workspace/tests/model/users_rules.rs"]
mod users_rules;
#[path = "../../../workspace/tests/model/users_state.rs"]
mod users_state;
mod world;

use palisade_testing::requires;
use runner::{number, run_seeds};
use world::World;

/// Where the seeds begin: others than those that the library's test runs.
const FIRST_SEED: u64 = 20_000;
/// Sequences of each method, and the tests that share them so that all processors have something to do.
const BWRAP: (u64, u64) = (20, 4);
const DOCKER: (u64, u64) = (10, 2);
/// A finding is not shrunk unless that is asked for: a sequence takes seconds here.
const SHRINK_SECONDS: u64 = 0;

async fn run_share(share: u64, (count, shares): (u64, u64), new_world: fn() -> World) {
    let first = number("PALISADE_MODEL_FIRST_SEED").unwrap_or(FIRST_SEED);
    let count = number("PALISADE_MODEL_SEQUENCES").unwrap_or(count);
    let seeds: Vec<u64> = match number("PALISADE_MODEL_SEED") {
        Some(seed) => (share == 0).then_some(seed).into_iter().collect(),
        None => (first..first + count).filter(|seed| seed % shares == share).collect(),
    };
    run_seeds(seeds.into_iter(), new_world, SHRINK_SECONDS).await;
}

async fn run_on_bwrap(share: u64) {
    requires!(bwrap, git);
    run_share(share, BWRAP, || World::new("bwrap")).await;
}

async fn run_on_docker(share: u64) {
    requires!(docker, git);
    run_share(share, DOCKER, || World::new("docker")).await;
}

#[tokio::test]
async fn sequences_on_bwrap_1() {
    run_on_bwrap(0).await;
}

#[tokio::test]
async fn sequences_on_bwrap_2() {
    run_on_bwrap(1).await;
}

#[tokio::test]
async fn sequences_on_bwrap_3() {
    run_on_bwrap(2).await;
}

#[tokio::test]
async fn sequences_on_bwrap_4() {
    run_on_bwrap(3).await;
}

#[tokio::test]
async fn sequences_on_docker_1() {
    run_on_docker(0).await;
}

#[tokio::test]
async fn sequences_on_docker_2() {
    run_on_docker(1).await;
}
