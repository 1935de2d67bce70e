//! `palisade exec`: one more command in a sandbox that runs already.

use crate::comparison::{Result, Sides};
use crate::peers::docker::Docker;
use crate::scene::{Sandbox, Scene};

pub(super) fn against_docker(scene: &Scene) -> Result<Sides> {
    let sandbox = Sandbox::start(scene, "bench")?;
    let ours = sandbox.exec(&["true"]);
    ours.check()?;
    let docker = Docker::start(scene)?;
    let peer = docker.exec(&["/bin/busybox", "true"]);
    peer.check()?;
    Ok(Sides {
        ours: Box::new(move || {
            let _running = &sandbox;
            ours.time()
        }),
        peer: Some(Box::new(move || {
            let _running = &docker;
            peer.time()
        })),
    })
}
