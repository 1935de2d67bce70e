//! `kill -9` of every process there is, in every state: the list stays truthful, a dry run tells and changes
//! nothing, a collection puts right what is ours and only that, work survives, and after removal nothing is left.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

mod commands;
mod guest;
mod keeper;
mod neighbour;
mod records;
mod runs;
mod support;
