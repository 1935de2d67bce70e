//! `kill -9` of the command, the keeper, bwrap and the guest at two hundred random points of every verb. After each,
//! one `gc`: nothing is left that the records do not account for, the next verb on the same name works, work is
//! found again, and another installation has not noticed.
//!
//! A point is a step of the victim's own, not a moment: the machine may be as busy as it likes. Points are drawn
//! evenly over each verb, one from every equal part of the victim's steps in it.

use crate::lane::{Lane, Planned};
use crate::neighbour::Neighbour;
use crate::verb::{SHARES, Verb};
use palisade_testing::tracer::{Role, Step};
use palisade_testing::{Random, requires};
use std::collections::BTreeMap;

/// Installations that are at work at the same time, each another neighbour of the others.
const LANES: usize = 2;
/// How often the neighbour is looked at from all sides; it has to answer after every kill.
const LOOK: usize = 10;

fn plan(random: &mut Random) -> Vec<Planned> {
    let mut all = Vec::new();
    for (verb, victims) in SHARES {
        for (victim, count) in victims {
            let progress = |part: u64, random: &mut Random| (part as f64 + random.fraction()) / *count as f64;
            all.extend((0..*count).map(|part| Planned {
                verb,
                victim: *victim,
                progress: progress(part, random),
            }));
        }
    }
    random.shuffle(&mut all);
    all
}

#[test]
fn heavy_two_hundred_kills_at_random_points_leave_nothing_and_wedge_nothing() {
    requires!(bwrap);
    let mut random = Random::new(Random::seed());
    let all = plan(&mut random);
    let neighbour = Neighbour::new();
    let fallen: Vec<(Planned, Step)> = std::thread::scope(|scope| {
        let lane = |mine: &[Planned], seed: u64| {
            let (mine, neighbour) = (mine.to_vec(), &neighbour);
            scope.spawn(move || run(&mine, seed, neighbour))
        };
        let lanes: Vec<_> =
            all.chunks(all.len().div_ceil(LANES)).map(|mine| lane(mine, random.draw())).collect();
        lanes.into_iter().flat_map(|lane| lane.join().unwrap()).collect()
    });
    neighbour.assert_untouched();
    println!("{}", table(&fallen));
    let fell = |verb: Verb, victim: Role| {
        fallen.iter().filter(|(kill, _)| (kill.verb, kill.victim) == (verb, victim)).count()
    };
    for (verb, victims) in SHARES {
        for (victim, share) in victims {
            assert_eq!(fell(verb, *victim) as u64, *share, "kills of {victim:?} in {verb:?}");
        }
    }
    assert_eq!(fallen.len(), 200);
}

fn run(mine: &[Planned], seed: u64, neighbour: &Neighbour) -> Vec<(Planned, Step)> {
    let mut lane = Lane::new(seed);
    let mut fallen = Vec::new();
    for (number, planned) in mine.iter().enumerate() {
        let kill = lane.kill(*planned);
        fallen.push((*planned, kill.before));
        neighbour.assert_answers();
        if number % LOOK == 0 {
            neighbour.assert_untouched();
        }
    }
    lane.close();
    fallen
}

/// The kills of one victim in one verb: in which quarter of its work, and before what.
#[derive(Debug, Default)]
struct Fallen {
    quarters: [usize; 4],
    before: BTreeMap<Step, usize>,
}

fn table(fallen: &[(Planned, Step)]) -> String {
    let mut rows: BTreeMap<(Verb, Role), Fallen> = BTreeMap::new();
    for (planned, step) in fallen {
        let row = rows.entry((planned.verb, planned.victim)).or_default();
        row.quarters[(planned.progress * 4.0) as usize] += 1;
        *row.before.entry(*step).or_default() += 1;
    }
    let mut lines = String::new();
    for ((verb, victim), Fallen { quarters, before }) in rows {
        let all: usize = quarters.iter().sum();
        lines += &format!("{verb:?} {victim:?}: {all}, by quarter {quarters:?}, before {before:?}\n");
    }
    lines
}
