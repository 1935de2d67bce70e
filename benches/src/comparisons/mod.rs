//! The comparisons and their bars. To add one, add a line here and a function that prepares its two sides.

mod exec;
mod run;

use crate::bar::{Bar, Unit};
use crate::comparison::Comparison;

const FAST: usize = 60;
const SLOW: usize = 20;

pub const ALL: &[Comparison] = &[
    Comparison {
        name: "run -- true, against bwrap",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.5),
        runs: FAST,
        prepare: run::against_bwrap,
    },
    Comparison {
        name: "run -- true, against srt",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(0.25),
        runs: SLOW,
        prepare: run::against_srt,
    },
    Comparison {
        name: "exec -- true, against docker exec",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(0.25),
        runs: FAST,
        prepare: exec::against_docker,
    },
];
