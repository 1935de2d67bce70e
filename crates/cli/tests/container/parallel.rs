//! Many at once: all of them usable, none of them left.

use crate::engine::Engine;
use crate::on_engines;
use palisade_testing::Instance;
use std::collections::BTreeSet;

const MANY: usize = 64;
/// As many commands at a time as a person with scripts might start.
const LANES: usize = 8;

on_engines!(heavy_sixty_four_containers_are_made_used_and_gone);

fn heavy_sixty_four_containers_are_made_used_and_gone(method: &'static str) {
    let instance = Instance::with_method(method);
    let lane = |first: usize| {
        for number in (first..MANY).step_by(LANES) {
            let name = format!("box-{number}");
            instance.started(&name);
            assert_eq!(
                instance.shell(&name, "echo $HOSTNAME; hostname").stdout.lines().last(),
                Some(name.as_str())
            );
        }
    };
    std::thread::scope(|scope| {
        let lanes: Vec<_> = (0..LANES).map(|first| scope.spawn(move || lane(first))).collect();
        lanes.into_iter().for_each(|lane| lane.join().expect("a lane"));
    });
    let engine = Engine::of(method);
    assert_eq!(engine.owned_by(&instance).len(), 3 * MANY);
    std::thread::scope(|scope| {
        for first in 0..LANES {
            let instance = &instance;
            scope.spawn(move || {
                let names = (first..MANY).step_by(LANES).map(|number| format!("box-{number}"));
                instance.run(["rm".to_owned(), "--force".to_owned()].into_iter().chain(names)).ok();
            });
        }
    });
    assert_eq!(engine.owned_by(&instance), BTreeSet::new());
}
