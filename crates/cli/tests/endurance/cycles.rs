//! A thousand lives of sandboxes in one installation, beside one that stays: nothing grows.

use crate::measure::{Machine, Own};
use crate::neighbour::Neighbour;
use crate::support::assert_clean;
use palisade_testing::{Instance, PATIENCE, requires};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

const CYCLES: usize = 1000;
/// What is measured after these few must be the same after all.
const EARLY: usize = 100;
const LANES: usize = 2;
/// The sandbox that lives through it all, and is asked something in every fourth cycle.
const RESIDENT: &str = "resident";

/// One life: every other one is a one-off run.
fn cycle(instance: &Instance, number: usize) {
    let name = format!("web-{number}");
    if number.is_multiple_of(2) {
        instance.run(["run", "--", "true"]).ok();
    } else {
        instance.started(&name);
        assert_eq!(instance.shell(&name, "echo work > work; cat work").ok().stdout, "work\n");
        instance.run(["stop", &name]).ok();
        instance.run(["rm", &name]).ok();
    }
    if number.is_multiple_of(4) {
        assert_eq!(instance.shell(RESIDENT, "echo well").ok().stdout, "well\n");
    }
}

fn cycles(instance: &Instance, from: usize, to: usize) {
    let next = AtomicUsize::new(from);
    std::thread::scope(|scope| {
        for _ in 0..LANES {
            scope.spawn(|| {
                loop {
                    let number = next.fetch_add(1, Ordering::Relaxed);
                    if number >= to {
                        return;
                    }
                    cycle(instance, number);
                }
            });
        }
    });
}

#[test]
fn heavy_a_thousand_lives_of_sandboxes_let_nothing_grow() {
    requires!(bwrap);
    let neighbour = Neighbour::new();
    let instance = Instance::with_method("bwrap");
    instance.started(RESIDENT);
    cycles(&instance, 0, EARLY);
    let (own, machine) = (settled(&instance), Machine::look());
    cycles(&instance, EARLY, CYCLES);
    // A process that has been told to end may need a moment.
    let deadline = Instant::now() + PATIENCE;
    while Own::of(&instance, RESIDENT) != own && Instant::now() < deadline {
        std::thread::sleep(Duration::from_millis(50));
    }
    let (own_after, machine_after) = (Own::of(&instance, RESIDENT), Machine::look());
    println!("after {EARLY}: {own:?} {machine:?}\nafter {CYCLES}: {own_after:?} {machine_after:?}");
    assert_eq!(own_after, own);
    machine_after.assert_no_leak_since(&machine, CYCLES - EARLY);
    neighbour.assert_untouched();
    instance.run(["rm", "--force", RESIDENT]).ok();
    assert_clean(&instance);
}

/// What is there once two looks in a row find the same.
fn settled(instance: &Instance) -> Own {
    let deadline = Instant::now() + PATIENCE;
    let mut last = Own::of(instance, RESIDENT);
    loop {
        std::thread::sleep(Duration::from_millis(200));
        let own = Own::of(instance, RESIDENT);
        if own == last {
            return own;
        }
        assert!(Instant::now() < deadline, "it does not come to rest: {last:?}, then {own:?}");
        last = own;
    }
}
