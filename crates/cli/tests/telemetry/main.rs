//! What a collector hears of Palisade, what it never hears, and what it costs to have none.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

mod cost;
mod secrets;
mod support;
mod traces;
