//! From a name to a running stack and back: `impl`, `sandbox`, `done`, `slots`, against real git and the real Docker
//! Compose.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed"
)]

mod commands;
mod consent;
mod errors;
mod kills;
mod scenarios;
mod support;
mod together;
