//! A path that was given once leads to the same place for ever: links and directories that a sandbox swaps in are
//! refused, at a restart, through another sandbox, through a wrapper, and while a sandbox is being started.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

mod at_mount;
mod copies;
mod race;
mod restart;
mod support;
mod swapper;
mod users_change;
