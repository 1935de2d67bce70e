//! `palisade init`, as the specification's first two scenarios have it, and what may go wrong.
#![allow(
    clippy::unwrap_used,
    clippy::print_stderr,
    reason = "a test that cannot set its scene has failed, and says why it was skipped"
)]

mod check;
mod flags;
mod links;
mod method;
mod refusals;
mod scenario;
mod skill;
mod support;
