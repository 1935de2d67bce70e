//! A sandbox that works in a copy of a directory (`-w DIR:copy`): the directory stays as it is until the user lays the
//! changes, and what the user has changed meanwhile stays the user's.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

mod applying;
mod attacks;
mod choosing;
mod conflicts;
mod git;
mod lives;
mod support;
