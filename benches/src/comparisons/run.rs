//! `palisade run`: a sandbox for one command, from nothing to nothing.

use crate::comparison::{Probe, Result, Sides};
use crate::peers::bwrap::{ByHand, RawBwrap};
use crate::peers::srt;
use crate::scene::Scene;

fn ours(scene: &Scene) -> Result<Probe> {
    let program = scene.palisade()?.args(["run", "--", "true"]);
    program.check()?;
    Ok(Box::new(move || program.time()))
}

pub(super) fn against_bwrap(scene: &Scene) -> Result<Sides> {
    let mut peer = RawBwrap::new(scene, "/usr/bin/true")?;
    Ok(Sides { ours: ours(scene)?, peer: Some(Box::new(move || peer.time())) })
}

pub(super) fn against_bwrap_by_hand(scene: &Scene) -> Result<Sides> {
    let peer = ByHand::new(scene, "true")?;
    Ok(Sides { ours: ours(scene)?, peer: Some(Box::new(move || peer.time())) })
}

pub(super) fn against_srt(scene: &Scene) -> Result<Sides> {
    let peer = srt::program(scene, "true")?;
    peer.check()?;
    Ok(Sides { ours: ours(scene)?, peer: Some(Box::new(move || peer.time())) })
}
