//! What sandboxes cost while nothing happens in them.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::processes;
use crate::scene::{Sandbox, Scene};

const MANY: usize = 200;
const KIBIBYTES: f64 = 1024.0;

/// Everything of one sandbox: its keeper, and what the keeper started. One alone, so that it shares its pages with
/// no other sandbox and nothing is told too small.
pub(super) fn memory(scene: &Scene) -> Result<Sides> {
    let sandbox = Sandbox::start(scene, "bench")?;
    sandbox.exec(&["true"]).check()?;
    let state = scene.path("state");
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            let household = processes::household(&state)?;
            // The keeper, bwrap outside and the guest: a number that is too small would be a mistake of ours.
            if household.len() < 3 {
                return Err(Failure::Plan(format!("found only {} processes of a sandbox", household.len())));
            }
            let sum: Result<u64> = household.iter().map(|pid| processes::proportional_kibibytes(*pid)).sum();
            Ok(sum? as f64 / KIBIBYTES)
        }),
        peer: None,
    })
}

pub(super) fn listing(scene: &Scene) -> Result<Sides> {
    let sandboxes = (0..MANY)
        .map(|number| Sandbox::start(scene, &format!("idle-{number}")))
        .collect::<Result<Vec<_>>>()?;
    let list = scene.palisade()?.args(["ls"]);
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandboxes;
            let (bytes, milliseconds) = list.drain()?;
            // One line each and a heading: nobody is left out for speed.
            if bytes < (MANY * "idle-0  running".len()) as u64 {
                return Err(Failure::Plan(format!("the list has only {bytes} bytes")));
            }
            Ok(milliseconds)
        }),
        peer: None,
    })
}
