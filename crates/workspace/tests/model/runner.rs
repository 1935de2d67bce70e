//! Runs sequences, and shrinks one that finds something.

use crate::memory::Memory;
use crate::rules;
use crate::sequence::{Act, Actor, Sequence, Step};
use crate::world::World;
use std::collections::BTreeMap;
use std::time::{Duration, Instant};

/// How often each action was tried, and how often it found something to do.
#[derive(Debug, Default)]
pub(crate) struct Coverage(BTreeMap<(bool, &'static str), (u32, u32)>);

impl Coverage {
    fn count(&mut self, act: &Act, did: bool) {
        let counts = self.0.entry((act.actor == Actor::Agent, act.action().name)).or_default();
        counts.0 += 1;
        counts.1 += u32::from(did);
    }

    /// Actions that were tried often and never did anything.
    pub(crate) fn idle(&self, often: u32) -> Vec<&'static str> {
        let idle = self.0.iter().filter(|(_, (tried, did))| *tried >= often && *did == 0);
        idle.map(|((_, name), _)| *name).collect()
    }
}

/// What a sequence has found.
#[derive(Debug)]
pub(crate) struct Finding {
    /// The step after which it was found.
    at: usize,
    pub(crate) text: String,
}

/// Runs a sequence on new sides.
pub(crate) async fn run(sequence: &Sequence, coverage: &mut Coverage) -> Result<(), Finding> {
    let mut world = World::new();
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
                let sandbox = world.refs().clone();
                let outcome = world.run(command).await.map_err(found)?;
                if is_verbose {
                    println!("    {outcome:?}");
                }
                let after = world.look();
                rules::check(&world, &outcome, (&before, &after), &memory).map_err(found)?;
                memory.remember(&outcome, &before, &after, *world.refs() != sandbox);
            }
        }
    }
    Ok(())
}

/// Drops steps while the sequence still finds something, many at a time and then one by one; the shortest, and what it
/// finds.
pub(crate) async fn shrink(
    mut sequence: Sequence,
    mut finding: Finding,
    time: Duration,
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
            match run(&shorter, &mut Coverage::default()).await {
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
