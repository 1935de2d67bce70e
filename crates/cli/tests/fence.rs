//! The fence around a host directory that a sandbox may write (`run -w`): what the host's git would run or obey
//! stays closed, while git works inside; and nothing of the fence is left afterwards.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[path = "fence/git.rs"]
mod git;
#[path = "fence/ownership.rs"]
mod ownership;
#[path = "fence/sharing.rs"]
mod sharing;
#[path = "fence/support.rs"]
mod support;
