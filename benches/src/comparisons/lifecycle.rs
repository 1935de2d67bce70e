//! A named sandbox from nothing to the end of its first command, as three commands of the user's.

use crate::comparison::{Result, Sides};
use crate::peers::bwrap::RawBwrap;
use crate::scene::{Sandbox, Scene};
use std::time::Instant;

pub(super) fn against_bwrap(scene: &Scene) -> Result<Sides> {
    let mut peer = RawBwrap::new(scene, "/usr/bin/true")?;
    let palisade = scene.palisade()?;
    let ours = move || {
        let begin = Instant::now();
        let sandbox = Sandbox::start_with(palisade.clone(), "bench")?;
        sandbox.exec(&["true"]).check()?;
        let took = begin.elapsed();
        drop(sandbox);
        Ok(took.as_secs_f64() * 1000.0)
    };
    Ok(Sides { ours: Box::new(ours), peer: Some(Box::new(move || peer.time())) })
}
