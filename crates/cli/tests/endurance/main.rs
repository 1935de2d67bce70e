//! Long runs that no single accident shows: kills at hundreds of random points, and a thousand lives of a sandbox.

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stdout,
    reason = "a test's helpers may fail loudly, and tell what they have counted"
)]

mod audit;
mod cycles;
mod kills;
mod lane;
mod measure;
#[path = "../crash/neighbour.rs"]
mod neighbour;
#[path = "../crash/support.rs"]
#[allow(dead_code, reason = "shared with the tests of crashes, which use the rest")]
mod support;
mod verb;
