//! One comparison: what is measured on both sides and how far apart they may be. Turns and medians are here, so
//! that a new comparison is only a line in [`crate::comparisons::ALL`] and a function that prepares two probes.

use crate::bar::{Bar, Unit};
use crate::failure::Failure;
use crate::interrupt;
use crate::samples::Samples;
use crate::scene::Scene;

pub type Result<T> = std::result::Result<T, Failure>;

/// Takes one measurement, in the comparison's unit. It owns what it needs, and dropping it ends that.
pub type Probe = Box<dyn FnMut() -> Result<f64>>;

/// Both sides, ready to be measured. An absolute bar needs no peer.
pub struct Sides {
    pub ours: Probe,
    pub peer: Option<Probe>,
}

impl std::fmt::Debug for Sides {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Sides").field("has_peer", &self.peer.is_some()).finish_non_exhaustive()
    }
}

#[derive(Debug, Clone, Copy)]
pub struct Comparison {
    pub name: &'static str,
    pub unit: Unit,
    pub bar: Bar,
    /// How often each side is measured.
    pub runs: usize,
    /// Untimed: starts and builds what the probes need.
    pub prepare: fn(&Scene) -> Result<Sides>,
}

#[derive(Debug, Clone, PartialEq)]
pub struct Measured {
    pub ours: Samples,
    pub peer: Option<Samples>,
}

/// Fills caches on both sides before anything counts: at most so many runs, and fewer where few are measured.
const WARM_UP: usize = 3;

impl Comparison {
    pub fn measure(&self, scene: &Scene) -> Result<Measured> {
        let mut sides = (self.prepare)(scene)?;
        take_turns(&mut sides, WARM_UP.min(self.runs / 3))?;
        let (ours, peer) = take_turns(&mut sides, self.runs)?;
        let ours = Samples::new(ours).ok_or_else(|| Failure::Plan("a comparison without a run".into()))?;
        Ok(Measured { ours, peer: Samples::new(peer) })
    }
}

fn take_turns(sides: &mut Sides, runs: usize) -> Result<(Vec<f64>, Vec<f64>)> {
    let (mut ours, mut theirs) = (Vec::with_capacity(runs), Vec::with_capacity(runs));
    for _ in 0..runs {
        interrupt::check()?;
        ours.push((sides.ours)()?);
        if let Some(peer) = &mut sides.peer {
            interrupt::check()?;
            theirs.push(peer()?);
        }
    }
    Ok((ours, theirs))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::RefCell;
    use std::rc::Rc;

    #[test]
    fn the_two_sides_take_turns() {
        let order = Rc::new(RefCell::new(String::new()));
        let probe = |mark: char, value: f64| -> Probe {
            let order = Rc::clone(&order);
            Box::new(move || {
                order.borrow_mut().push(mark);
                Ok(value)
            })
        };
        let mut sides = Sides { ours: probe('o', 1.0), peer: Some(probe('p', 2.0)) };
        assert_eq!(take_turns(&mut sides, 3).unwrap(), (vec![1.0; 3], vec![2.0; 3]));
        assert_eq!(*order.borrow(), "opopop");
    }

    #[test]
    fn a_probe_that_fails_ends_the_comparison() {
        let mut sides = Sides { ours: Box::new(|| Err(Failure::Interrupted)), peer: None };
        assert!(matches!(take_turns(&mut sides, 3), Err(Failure::Interrupted)));
    }
}
