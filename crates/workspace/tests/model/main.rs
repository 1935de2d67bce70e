//! Random sequences of what a user, an agent and the product do: no content is ever lost, and nothing of the user's
//! changes that is not named.
//!
//! `PALISADE_MODEL_SEED=N` runs one sequence, `PALISADE_MODEL_SEQUENCES=N` so many (`make soak`), from
//! `PALISADE_MODEL_FIRST_SEED`. `PALISADE_MODEL_VERBOSE=1` prints every step, `PALISADE_MODEL_FINDINGS=N` ends a test after
//! so many, and the first is shrunk for `PALISADE_MODEL_SHRINK` seconds.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]
#![allow(clippy::print_stdout, reason = "a finding is for people")]

mod actions;
mod contents;
mod memory;
mod random;
mod rules;
mod runner;
mod sequence;
mod sha1;
#[path = "../support/mod.rs"]
mod support;
mod users_rules;
mod users_state;
mod world;

use actions::{AGENTS, USERS};
use runner::{Coverage, run, shrink};
use sequence::{Actor, FIRST_SEED, SEQUENCES, Sequence, Step};
use std::collections::HashSet;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;
use world::World;

/// Tests that share the sequences, so that all processors have something to do.
const SHARES: u64 = 6;
/// The test that is run again in a process that is interrupted.
const INTERRUPTED_TEST: &str = "a_process_is_interrupted_where_it_was_told_to_be";
/// A process ends early after so many findings. The first of each share is shrunk.
const MAX_FINDINGS: u64 = 4;
/// Findings of all shares that run in this process.
static FINDINGS: AtomicU64 = AtomicU64::new(0);
/// How long a sequence is shrunk.
const SHRINK_SECONDS: u64 = 60;
/// An action that was tried so often has to have found something to do.
const OFTEN: u32 = 20;

fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

async fn run_share(share: u64) {
    let only = number("PALISADE_MODEL_SEED");
    let first = number("PALISADE_MODEL_FIRST_SEED").unwrap_or(FIRST_SEED);
    let count = number("PALISADE_MODEL_SEQUENCES").unwrap_or(SEQUENCES);
    let seeds: Vec<u64> = match only {
        Some(seed) => (share == 0).then_some(seed).into_iter().collect(),
        None => (first..first + count).filter(|seed| seed % SHARES == share).collect(),
    };
    let mut coverage = Coverage::default();
    let mut findings = Vec::new();
    for seed in seeds {
        if FINDINGS.load(Ordering::Relaxed) >= number("PALISADE_MODEL_FINDINGS").unwrap_or(MAX_FINDINGS) {
            break;
        }
        let sequence = Sequence::of_seed(seed);
        if let Err(finding) = run(&sequence, &mut coverage).await {
            println!("PALISADE_MODEL_SEED={seed} finds, {}", finding.text);
            findings.push((sequence, finding));
            FINDINGS.fetch_add(1, Ordering::Relaxed);
        }
    }
    if let Some((sequence, finding)) = findings.into_iter().next() {
        let seed = sequence.seed;
        let time = Duration::from_secs(number("PALISADE_MODEL_SHRINK").unwrap_or(SHRINK_SECONDS));
        let (shortest, finding) = shrink(sequence, finding, time).await;
        panic!("PALISADE_MODEL_SEED={seed} finds, {}\nby:\n{}", finding.text, shortest.script());
    }
    assert_eq!(coverage.idle(OFTEN), Vec::<&str>::new(), "actions that never do anything");
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
