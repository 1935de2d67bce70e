//! Sandboxes that a container engine makes, against the engine's own program on the same image.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::peers::engine::{Engine, IMAGE, Kind, TRUE};
use crate::processes;
use crate::program::Program;
use crate::scene::{Sandbox, Scene};
use std::time::Instant;

const KIBIBYTES: f64 = 1024.0;

/// From nothing to nothing: create, start, the first command, remove.
fn run(scene: &Scene, kind: Kind) -> Result<Sides> {
    let engine = Engine::find(scene, kind)?;
    let ours = engine.palisade(scene)?.args(["run", "--environment", IMAGE, "--"]).args(TRUE);
    ours.check()?;
    let peer = engine.run(&engine.guest_volume()?);
    peer.check()?;
    Ok(Sides { ours: Box::new(move || ours.time()), peer: Some(Box::new(move || peer.time())) })
}

pub(super) fn run_against_docker(scene: &Scene) -> Result<Sides> {
    run(scene, Kind::Docker)
}

pub(super) fn run_against_podman(scene: &Scene) -> Result<Sides> {
    run(scene, Kind::Podman)
}

/// A named sandbox as its user has it: made and started, one command, removed with all that was its own. By hand it is a
/// container with the same options and two volumes, which stay root's.
pub(super) fn named_against_docker(scene: &Scene) -> Result<Sides> {
    let engine = Engine::find(scene, Kind::Docker)?;
    let palisade = engine.palisade(scene)?;
    let ours = move || {
        let begin = Instant::now();
        let sandbox = Sandbox::start_from(palisade.clone(), IMAGE, IMAGE)?;
        sandbox.exec(&TRUE).check()?;
        drop(sandbox);
        Ok(begin.elapsed().as_secs_f64() * 1000.0)
    };
    let peer = move || {
        let begin = Instant::now();
        let idle = engine.idle_with_volumes()?;
        idle.exec(&TRUE).check()?;
        drop(idle);
        Ok(begin.elapsed().as_secs_f64() * 1000.0)
    };
    Ok(Sides { ours: Box::new(ours), peer: Some(Box::new(peer)) })
}

fn started(engine: &Engine, scene: &Scene) -> Result<Sandbox> {
    Sandbox::start_from(engine.palisade(scene)?, IMAGE, IMAGE)
}

/// One more command where one runs already.
fn exec(scene: &Scene, kind: Kind) -> Result<Sides> {
    let engine = Engine::find(scene, kind)?;
    let sandbox = started(&engine, scene)?;
    let ours = sandbox.exec(&TRUE);
    ours.check()?;
    let idle = engine.idle()?;
    let peer = idle.exec(&TRUE);
    peer.check()?;
    let time = |held: Box<dyn std::any::Any>, program: Program| -> crate::comparison::Probe {
        Box::new(move || {
            let _running = &held;
            program.time()
        })
    };
    Ok(Sides { ours: time(Box::new(sandbox), ours), peer: Some(time(Box::new(idle), peer)) })
}

pub(super) fn exec_against_docker(scene: &Scene) -> Result<Sides> {
    exec(scene, Kind::Docker)
}

pub(super) fn exec_against_podman(scene: &Scene) -> Result<Sides> {
    exec(scene, Kind::Podman)
}

/// What one sandbox costs beyond its container: the keeper, and the guest inside.
fn memory(scene: &Scene, kind: Kind) -> Result<Sides> {
    let engine = Engine::find(scene, kind)?;
    let sandbox = started(&engine, scene)?;
    sandbox.exec(&TRUE).check()?;
    let guest = engine.first_process(&format!("palisade-{}", sandbox.id()?))?;
    let state = scene.path("state");
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            let mut household = processes::household(&state)?;
            if household.len() != 1 {
                return Err(Failure::Plan(format!("found {} keepers, and not one", household.len())));
            }
            household.insert(guest);
            let sum: Result<u64> = household.iter().map(|pid| processes::proportional_kibibytes(*pid)).sum();
            Ok(sum? as f64 / KIBIBYTES)
        }),
        peer: None,
    })
}

pub(super) fn memory_on_docker(scene: &Scene) -> Result<Sides> {
    memory(scene, Kind::Docker)
}

pub(super) fn memory_on_podman(scene: &Scene) -> Result<Sides> {
    memory(scene, Kind::Podman)
}
