//! Runs sequences, and shrinks one that finds something.
//!
//! `PALISADE_MODEL_SEED=N` runs one sequence. `PALISADE_MODEL_VERBOSE=1` prints every step, `PALISADE_MODEL_FINDINGS=N`
//! ends a test after so many, and the first is shrunk for `PALISADE_MODEL_SHRINK` seconds.

use crate::memory::Memory;
use crate::rules;
use crate::sequence::{Act, Actor, Sequence, Step};
use crate::world::World;
use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::{Duration, Instant};

/// A process ends early after so many findings. The first of each test is shrunk.
const MAX_FINDINGS: u64 = 4;
/// Findings of all tests that run in this process.
static FINDINGS: AtomicU64 = AtomicU64::new(0);

/// An action that was tried so often has to have found something to do.
const OFTEN: u32 = 20;

/// A number that an environment variable sets.
pub(crate) fn number(variable: &str) -> Option<u64> {
    std::env::var(variable).ok().map(|text| text.parse().unwrap())
}

/// How often each action was tried, and how often it found something to do.
#[derive(Debug, Default)]
struct Coverage(BTreeMap<(bool, &'static str), (u32, u32)>);

impl Coverage {
    fn count(&mut self, act: &Act, did: bool) {
        let counts = self.0.entry((act.actor == Actor::Agent, act.action().name)).or_default();
        counts.0 += 1;
        counts.1 += u32::from(did);
    }

    /// Actions that were tried often and never did anything.
    fn idle(&self, often: u32) -> Vec<&'static str> {
        let idle = self.0.iter().filter(|(_, (tried, did))| *tried >= often && *did == 0);
        idle.map(|((_, name), _)| *name).collect()
    }
}

/// What a sequence has found.
#[derive(Debug)]
struct Finding {
    /// The step after which it was found.
    at: usize,
    text: String,
}

/// Says which sequence a panic has ended.
struct SeedOfPanic(u64);

impl Drop for SeedOfPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            println!("PALISADE_MODEL_SEED={} panics", self.0);
        }
    }
}

/// Runs the sequences of these seeds, and panics with the first finding, shrunk for so many seconds unless
/// `PALISADE_MODEL_SHRINK` says otherwise.
pub(crate) async fn run_seeds(
    seeds: impl Iterator<Item = u64>,
    new_world: fn() -> World,
    shrink_seconds: u64,
) {
    let mut is_whole = true;
    let mut coverage = Coverage::default();
    let mut first = None;
    for seed in seeds {
        if FINDINGS.load(Ordering::Relaxed) >= number("PALISADE_MODEL_FINDINGS").unwrap_or(MAX_FINDINGS) {
            is_whole = false;
            break;
        }
        let _seed = SeedOfPanic(seed);
        let sequence = Sequence::of_seed(seed);
        if let Err(finding) = run(&sequence, &mut coverage, new_world).await {
            println!("PALISADE_MODEL_SEED={seed} finds, {}", finding.text);
            first.get_or_insert((sequence, finding));
            FINDINGS.fetch_add(1, Ordering::Relaxed);
        }
    }
    if let Some((sequence, finding)) = first {
        let seed = sequence.seed;
        let time = Duration::from_secs(number("PALISADE_MODEL_SHRINK").unwrap_or(shrink_seconds));
        let (shortest, finding) = shrink(sequence, finding, time, new_world).await;
        panic!("PALISADE_MODEL_SEED={seed} finds, {}\nby:\n{}", finding.text, shortest.script());
    }
    // Otherwise another test has found something and this one ended early, or the seeds are not the usual ones: what is rare
    // may not occur then.
    let is_chosen = ["SEED", "FIRST_SEED", "SEQUENCES"]
        .iter()
        .any(|name| std::env::var_os(format!("PALISADE_MODEL_{name}")).is_some());
    if is_whole && !is_chosen {
        assert_eq!(coverage.idle(OFTEN), Vec::<&str>::new(), "actions that never do anything");
    }
}

/// Runs a sequence on new sides.
async fn run(sequence: &Sequence, coverage: &mut Coverage, new_world: fn() -> World) -> Result<(), Finding> {
    let mut world = new_world();
    let mut memory = Memory::default();
    let is_verbose = std::env::var_os("PALISADE_MODEL_VERBOSE").is_some();
    for (at, step) in sequence.steps.iter().enumerate() {
        if is_verbose {
            println!("{step}");
        }
        match step {
            Step::Act(act) => {
                let did = world.act(act);
                coverage.count(act, did);
            }
            Step::Command(command) => {
                let found = |text: String| Finding { at, text: format!("after {step}:\n{text}") };
                let before = world.look();
                memory.look(&before);
                let sandboxes = world.sandboxes();
                let outcome = world.run(command).await.map_err(found)?;
                if is_verbose {
                    println!("    {outcome:?}");
                }
                let after = world.look();
                rules::check(&world, &outcome, (&before, &after), &memory).map_err(found)?;
                memory.remember(&outcome, &before, &after, world.sandboxes() != sandboxes);
            }
        }
    }
    Ok(())
}

/// Drops steps while the sequence still finds something, many at a time and then one by one; the shortest, and what it
/// finds.
async fn shrink(
    mut sequence: Sequence,
    mut finding: Finding,
    time: Duration,
    new_world: fn() -> World,
) -> (Sequence, Finding) {
    let end = Instant::now() + time;
    let mut size = sequence.steps.len() / 2;
    while size > 0 {
        sequence.steps.truncate(finding.at + 1);
        let mut has_changed = false;
        // The first step is a start, without which there is nothing.
        let mut at = 1;
        while at < sequence.steps.len() && Instant::now() < end {
            let mut shorter = sequence.clone();
            shorter.steps.drain(at..(at + size).min(sequence.steps.len()));
            match run(&shorter, &mut Coverage::default(), new_world).await {
                Err(found) => (sequence, finding, has_changed) = (shorter, found, true),
                Ok(()) => at += size,
            }
        }
        if size > 1 || !has_changed || Instant::now() >= end {
            size /= 2;
        }
    }
    (sequence, finding)
}
