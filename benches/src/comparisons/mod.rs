//! The comparisons and their bars. To add one, add a line here and a function that prepares its two sides.

mod agents;
mod attach;
mod bound;
mod containers;
mod egress;
mod exec;
mod idle;
mod init;
mod lifecycle;
mod repositories;
mod run;
mod services;
mod sync;

use crate::bar::{Bar, Unit};
use crate::comparison::Comparison;

const FAST: usize = 60;
const SLOW: usize = 20;
const BULK: usize = 10;
const LONG: usize = 3;
const ONCE: usize = 1;
/// Whole stacks take seconds to come and go. Compose's own time varies by a tenth and more, and seven runs could not tell
/// 1.07× from 1.19×.
const STACKS: usize = 15;

pub const ALL: &[Comparison] = &[
    Comparison {
        name: "run -- true, against bwrap",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.4),
        runs: FAST,
        prepare: run::against_bwrap,
    },
    Comparison {
        name: "run -- true, against a bwrap by hand",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.8),
        runs: FAST,
        prepare: run::against_bwrap_by_hand,
    },
    Comparison {
        name: "run -w of 50 000 files, against run",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(2.5),
        runs: FAST,
        prepare: bound::run_against_run,
    },
    Comparison {
        name: "git status of 50 000 files, against git",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.2),
        runs: SLOW,
        prepare: bound::git_status,
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
    Comparison {
        name: "create, start, exec, against bwrap",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(6.0),
        runs: SLOW,
        prepare: lifecycle::against_bwrap,
    },
    Comparison {
        name: "exec output, against docker exec",
        unit: Unit::MebibytesPerSecond,
        bar: Bar::RatioAtLeast(1.5),
        runs: BULK,
        prepare: exec::output_against_docker,
    },
    Comparison {
        name: "a CONNECT transfer, against tinyproxy",
        unit: Unit::MebibytesPerSecond,
        bar: Bar::RatioAtLeast(0.5),
        runs: BULK,
        prepare: egress::throughput_against_tinyproxy,
    },
    Comparison {
        name: "a request through the way out, added",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(1.0),
        runs: BULK,
        prepare: egress::added_latency,
    },
    Comparison {
        name: "an idle sandbox's memory (PSS)",
        unit: Unit::Mebibytes,
        bar: Bar::AtMost(8.0),
        runs: BULK,
        prepare: idle::memory,
    },
    Comparison {
        name: "attach to the first screen",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(50.0),
        runs: SLOW,
        prepare: attach::first_screen,
    },
    Comparison {
        name: "ls beside 200 idle sandboxes",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(100.0),
        runs: SLOW,
        prepare: idle::listing,
    },
    Comparison {
        name: "init --check of 100 services",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(100.0),
        runs: SLOW,
        prepare: init::check,
    },
    Comparison {
        name: "impl of 6 services, against git and compose",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.15),
        runs: STACKS,
        prepare: services::against_git_and_compose,
    },
    Comparison {
        name: "impl of 6 services, added",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(300.0),
        runs: STACKS,
        prepare: services::added,
    },
    Comparison {
        name: "run on docker, against docker run --rm",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.1),
        runs: SLOW,
        prepare: containers::run_against_docker,
    },
    Comparison {
        name: "named sandbox on docker, against docker",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.25),
        runs: SLOW,
        prepare: containers::named_against_docker,
    },
    Comparison {
        name: "run on podman, against podman run --rm",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.1),
        runs: SLOW,
        prepare: containers::run_against_podman,
    },
    Comparison {
        name: "exec on docker, against docker exec",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(0.25),
        runs: SLOW,
        prepare: containers::exec_against_docker,
    },
    Comparison {
        name: "exec on podman, against podman exec",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(0.25),
        runs: SLOW,
        prepare: containers::exec_against_podman,
    },
    Comparison {
        name: "keeper and guest on docker (PSS)",
        unit: Unit::Mebibytes,
        bar: Bar::AtMost(8.0),
        runs: BULK,
        prepare: containers::memory_on_docker,
    },
    Comparison {
        name: "keeper and guest on podman (PSS)",
        unit: Unit::Mebibytes,
        bar: Bar::AtMost(8.0),
        runs: BULK,
        prepare: containers::memory_on_podman,
    },
    Comparison {
        name: "agent start to its prompt, against the agent",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(2.0),
        runs: BULK,
        prepare: agents::start_against_the_agent,
    },
    Comparison {
        name: "agent sync of a commit, against git",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(2.0),
        runs: SLOW,
        prepare: sync::commit,
    },
    Comparison {
        name: "agent sync of nothing, against git",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.5),
        runs: SLOW,
        prepare: sync::nothing,
    },
    Comparison {
        name: "agent sync of uncommitted work",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(300.0),
        runs: SLOW,
        prepare: sync::uncommitted,
    },
    Comparison {
        name: "agent sync of 20 000 files, against git",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(1.5),
        runs: LONG,
        prepare: sync::many_files,
    },
    Comparison {
        name: "agent sync of 20 000 files, again",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(1000.0),
        runs: BULK,
        prepare: sync::many_files_again,
    },
    Comparison {
        name: "agent start of 200 MB, against git clone",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(2.0),
        runs: LONG,
        prepare: repositories::binaries_against_clone,
    },
    Comparison {
        name: "agent start of 600 MB, against git clone",
        unit: Unit::Milliseconds,
        bar: Bar::Ratio(0.6),
        runs: LONG,
        prepare: repositories::history_against_clone,
    },
    Comparison {
        name: "second agent of 600 MB, against git worktree",
        unit: Unit::Milliseconds,
        bar: Bar::RatioPlus(1.5, 500.0),
        runs: LONG,
        prepare: repositories::second_against_worktree,
    },
    Comparison {
        name: "agent start of 20 000 refs, added",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(1000.0),
        runs: LONG,
        prepare: repositories::many_refs_added,
    },
    Comparison {
        name: "agent start to its prompt, slowest",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(30_000.0),
        runs: ONCE,
        prepare: agents::slowest_start,
    },
    Comparison {
        name: "agent sync of a commit, slowest",
        unit: Unit::Milliseconds,
        bar: Bar::AtMost(5000.0),
        runs: LONG,
        prepare: sync::slowest,
    },
];
