//! A large repository that is bound: what it costs to start with it, and git in it.

use crate::comparison::{Result, Sides};
use crate::generated::Kind;
use crate::repository::Repository;
use crate::scene::{Sandbox, Scene};

/// `run -w` of a repository of 50 000 files, with the report of what has changed; against `run` without it.
pub(super) fn run_against_run(scene: &Scene) -> Result<Sides> {
    let repository = Repository::generated(scene, Kind::LargeTree)?;
    let directory = repository.path().to_string_lossy().into_owned();
    let ours = scene.palisade()?.args(["run", "-w", &directory, "--", "true"]);
    ours.check()?;
    let peer = scene.palisade()?.args(["run", "--", "true"]);
    Ok(Sides { ours: Box::new(move || ours.time()), peer: Some(Box::new(move || peer.time())) })
}

/// `git status` there, in a sandbox that runs; against the same on the host.
pub(super) fn git_status(scene: &Scene) -> Result<Sides> {
    let repository = Repository::generated(scene, Kind::LargeTree)?;
    let directory = repository.path().to_string_lossy().into_owned();
    let sandbox = Sandbox::start_bound(scene.palisade()?, "bound", &directory)?;
    let ours = sandbox.exec(&["git", "status"]);
    ours.check()?;
    let peer = repository.git().args(["status"]);
    peer.check()?;
    let ours = move || {
        // It lives as long as it is measured.
        let _ = &sandbox;
        ours.time()
    };
    Ok(Sides { ours: Box::new(ours), peer: Some(Box::new(move || peer.time())) })
}
