//! A host directory that a sandbox may write (`run -w`): the host's git data and what its git runs stay closed, git works
//! inside on data of the sandbox's own, commits come back, and nothing else is left afterwards.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

#[path = "fence/attacks.rs"]
mod attacks;
#[path = "fence/canary.rs"]
mod canary;
#[path = "fence/exchange.rs"]
mod exchange;
#[path = "fence/following.rs"]
mod following;
#[path = "fence/git.rs"]
mod git;
#[path = "fence/large.rs"]
mod large;
#[path = "fence/ownership.rs"]
mod ownership;
#[path = "fence/place.rs"]
mod place;
#[path = "fence/plain.rs"]
mod plain;
#[path = "fence/sharing.rs"]
mod sharing;
#[path = "fence/support.rs"]
mod support;
#[path = "fence/table.rs"]
mod table;
