//! `palisade exec`: one more command in a sandbox that runs already.

use crate::comparison::{Result, Sides};
use crate::failure::Failure;
use crate::peers::engine::{Engine, Kind};
use crate::program::Program;
use crate::scene::{Sandbox, Scene};

pub(super) fn against_docker(scene: &Scene) -> Result<Sides> {
    both(scene, &["true"], &["/bin/busybox", "true"], Program::time)
}

/// Large enough that the start of the command is a small part of it.
const OUTPUT: u32 = 256;

/// How fast a command's output arrives in a pipe of ours, by the same program on both sides.
pub(super) fn output_against_docker(scene: &Scene) -> Result<Sides> {
    // In large pieces: `head` writes so small ones that its own speed would be measured.
    let count = format!("count={OUTPUT}");
    let command = ["/bin/busybox", "dd", "if=/dev/zero", "bs=1M", &count];
    both(scene, &command, &command, |program| {
        let (bytes, milliseconds) = program.drain()?;
        let expected = u64::from(OUTPUT) << 20;
        if bytes != expected {
            return Err(Failure::Plan(format!("{program} gave {bytes} bytes and not {expected}")));
        }
        Ok(f64::from(OUTPUT) / (milliseconds / 1000.0))
    })
}

fn both(scene: &Scene, ours: &[&str], peer: &[&str], measure: fn(&Program) -> Result<f64>) -> Result<Sides> {
    let sandbox = Sandbox::start(scene, "bench")?;
    let ours = sandbox.exec(ours);
    ours.check()?;
    let docker = Engine::find(scene, Kind::Docker)?.idle()?;
    let peer = docker.exec(peer);
    peer.check()?;
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            measure(&ours)
        }),
        peer: Some(Box::new(move || {
            let _running = &docker;
            measure(&peer)
        })),
    })
}
