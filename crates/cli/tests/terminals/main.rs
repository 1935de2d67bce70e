//! Terminals under torture, and with the programs that people use in them.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking"
)]

mod flood;
mod programs;
mod torture;
