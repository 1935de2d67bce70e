//! The guest, or the program that holds it, is killed: the keeper notices, records it and leaves.

use crate::keeper::starts_again_with_its_work;
use crate::neighbour::Neighbour;
use crate::support::{below, collect, guest_below, keeper, kill, shown, wait_gone};
use palisade_core::ProcessIdentity;
use palisade_testing::{Instance, requires};

fn dies(choose: impl Fn(&ProcessIdentity) -> ProcessIdentity) {
    requires!(bwrap);
    let neighbour = Neighbour::new();
    let instance = Instance::with_method("bwrap");
    instance.started("web");
    instance.shell("web", "echo work > /workspace/work; echo home > /home/agent/home").ok();
    let keeper = keeper(&instance, "web");
    let inside = below(&keeper);
    kill(&choose(&keeper));
    wait_gone(&inside);
    wait_gone(&[keeper]);
    let (state, why) = shown(&instance, "web");
    assert!(state == "error" && why.starts_with("the guest is gone"), "{state}: {why}");
    assert_eq!(collect(&instance), Vec::<String>::new(), "the keeper put everything away itself");
    neighbour.assert_untouched();
    starts_again_with_its_work(&instance);
}

#[test]
fn heavy_the_guest_is_killed() {
    dies(guest_below);
}

#[test]
fn heavy_bwrap_is_killed() {
    dies(|keeper| below(keeper).into_iter().next().unwrap());
}
