//! Wrappers under isolation: what they keep away, what they can reach, and what they refuse.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

#[path = "wrap/agents.rs"]
mod agents;
#[path = "wrap/crash.rs"]
mod crash;
#[path = "wrap/isolation.rs"]
mod isolation;
#[path = "wrap/refusals.rs"]
mod refusals;
#[path = "wrap/support.rs"]
mod support;
