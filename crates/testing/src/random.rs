//! Chance that can be had again: every draw follows from a seed, which a failing test prints and [`SEED`] sets.

use std::hash::{BuildHasher, Hasher};

/// The environment variable that sets the seed, to repeat what a failed test has drawn.
pub const SEED: &str = "PALISADE_TEST_SEED";

/// SplitMix64: small, even, and the same on every machine.
#[derive(Debug, Clone)]
pub struct Random {
    state: u64,
}

impl Random {
    pub fn new(seed: u64) -> Self {
        Self { state: seed }
    }

    /// The seed of [`SEED`], or a new one. It is printed, which the test runner shows when the test fails.
    pub fn seed() -> u64 {
        let seed = match std::env::var(SEED) {
            Ok(text) => text.parse().unwrap_or_else(|_| panic!("{SEED} is not a number: {text}")),
            Err(_) => std::collections::hash_map::RandomState::new().build_hasher().finish(),
        };
        eprintln!("to repeat this: {SEED}={seed}");
        seed
    }

    pub fn draw(&mut self) -> u64 {
        self.state = self.state.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mixed = (self.state ^ (self.state >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        mixed ^ (mixed >> 31)
    }

    /// A number below `end`, which is not zero.
    pub fn below(&mut self, end: u64) -> u64 {
        // The lean towards small numbers is far below what a test could notice.
        self.draw() % end
    }

    /// A number from 0 up to, not including, 1.
    pub fn fraction(&mut self) -> f64 {
        (self.draw() >> 11) as f64 / (1u64 << 53) as f64
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len() as u64) as usize]
    }

    pub fn shuffle<T>(&mut self, all: &mut [T]) {
        for end in (1..all.len()).rev() {
            all.swap(end, self.below(end as u64 + 1) as usize);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_seed_gives_one_order_and_another_seed_another() {
        let order = |seed| {
            let mut all: Vec<u32> = (0..20).collect();
            Random::new(seed).shuffle(&mut all);
            all
        };
        assert_eq!(order(7), order(7));
        assert_ne!(order(7), order(8));
        let mut sorted = order(7);
        sorted.sort_unstable();
        assert_eq!(sorted, (0..20).collect::<Vec<u32>>());
    }
}
