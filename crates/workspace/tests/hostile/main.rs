//! A sandbox's repository, content, guest and git cannot make the host run anything, move a ref that is not theirs, break
//! the repository, or hold the host up. Each attempt has a control: plain git, or another plain tool, falls for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod alternates;
mod bombs;
mod guests;
mod nested;
mod objects;
mod packs;
mod paths;
mod programs;
mod refs;
#[path = "../support/mod.rs"]
mod support;
mod transfers;

use support::Scene;

/// What must hold of the host whatever a sandbox tried: nothing in its repository is broken, nothing that is half
/// received lies around, and no ref has come but ours and these.
#[track_caller]
fn assert_refs(scene: &Scene, expected: &[&str]) {
    let ours = [scene.refs.archives(), scene.refs.base()];
    let refs = scene.refs();
    let others: Vec<&str> = refs
        .lines()
        .filter(|name| !ours.iter().any(|directory| name.starts_with(directory.as_str())))
        .collect();
    assert_eq!(others, expected);
    assert_eq!(scene.host("find .git -name 'tmp_*' -o -name '*.lock' | grep -v palisade.lock || true"), "");
}
