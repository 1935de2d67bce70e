//! Random sequences of what a user, an agent and the product do: no content is ever lost, and nothing of the user's
//! changes that is not named.
//!
//! `PALISADE_MODEL_SEQUENCES=N` runs so many (`make soak`), from `PALISADE_MODEL_FIRST_SEED`; see `runner` for more. What
//! is not bound to this library is also used by `crates/cli/tests/model`, where the sandboxes are real.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]
#![allow(clippy::print_stdout, reason = "a finding is for people")]

mod actions;
mod contents;
mod look;
mod memory;
mod random;
mod rules;
mod runner;
mod sequence;
mod sha1;
#[path = "../support/mod.rs"]
mod support;
mod template;
mod users_rules;
mod users_state;
mod world;

use actions::{AGENTS, USERS};
use runner::{number, run_seeds};
use sequence::{Actor, FIRST_SEED, SEQUENCES, Sequence, Step};
use std::collections::HashSet;
use world::World;

/// Tests that share the sequences, so that all processors have something to do.
const SHARES: u64 = 6;
/// The test that is run again in a process that is interrupted.
const INTERRUPTED_TEST: &str = "a_process_is_interrupted_where_it_was_told_to_be";
/// How long a sequence is shrunk.
const SHRINK_SECONDS: u64 = 60;

async fn run_share(share: u64) {
    let only = number("PALISADE_MODEL_SEED");
    let first = number("PALISADE_MODEL_FIRST_SEED").unwrap_or(FIRST_SEED);
    let count = number("PALISADE_MODEL_SEQUENCES").unwrap_or(SEQUENCES);
    let seeds: Vec<u64> = match only {
        Some(seed) => (share == 0).then_some(seed).into_iter().collect(),
        None => (first..first + count).filter(|seed| seed % SHARES == share).collect(),
    };
    run_seeds(seeds.into_iter(), World::new, SHRINK_SECONDS).await;
}

#[tokio::test]
async fn sequences_1() {
    run_share(0).await;
}

#[tokio::test]
async fn sequences_2() {
    run_share(1).await;
}

#[tokio::test]
async fn sequences_3() {
    run_share(2).await;
}

#[tokio::test]
async fn sequences_4() {
    run_share(3).await;
}

#[tokio::test]
async fn sequences_5() {
    run_share(4).await;
}

#[tokio::test]
async fn sequences_6() {
    run_share(5).await;
}

/// The process of an interrupted sync; by itself there is nothing to do.
#[tokio::test]
async fn a_process_is_interrupted_where_it_was_told_to_be() {
    World::sync_interrupted().await;
}

#[test]
fn every_pair_of_a_users_and_an_agents_action_occurs_in_one_round() {
    let mut pairs = HashSet::new();
    for seed in FIRST_SEED..FIRST_SEED + SEQUENCES {
        let (mut users, mut agents) = (Vec::new(), Vec::new());
        for step in Sequence::of_seed(seed).steps {
            match step {
                Step::Act(act) if act.actor == Actor::User => users.push(act.number),
                Step::Act(act) => agents.push(act.number),
                Step::Command(_) => {
                    let users = std::mem::take(&mut users);
                    for agent in std::mem::take(&mut agents) {
                        pairs.extend(users.iter().map(|user| (*user, agent)));
                    }
                }
            }
        }
    }
    assert_eq!(pairs.len(), USERS * AGENTS);
}
