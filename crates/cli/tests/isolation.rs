//! What a sandbox cannot do, tried from inside over every way in, each with the same attempt where nothing
//! protects: a probe that succeeds nowhere would prove nothing.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed step fails the test")]

#[path = "isolation/closed.rs"]
mod closed;
#[path = "isolation/credentials.rs"]
mod credentials;
#[path = "isolation/files.rs"]
mod files;
#[path = "isolation/git.rs"]
mod git;
#[path = "isolation/identity.rs"]
mod identity;
#[path = "isolation/input.rs"]
mod input;
#[path = "isolation/links.rs"]
mod links;
#[path = "isolation/network.rs"]
mod network;
#[path = "isolation/places.rs"]
mod places;
#[path = "isolation/processes.rs"]
mod processes;
#[path = "isolation/system_calls.rs"]
mod system_calls;
