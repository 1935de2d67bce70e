//! For tests and `fuzz/` only: what must hold for any bytes whatever, one function per parser of bytes that somebody
//! else wrote. The fuzz targets call them with what a fuzzer thinks up, and a test calls them with every file of the
//! corpora in `fuzz/corpus`, so that what was found once stays found without a fuzzer.
//!
//! A property that does not hold is a panic; a function that returns has found nothing.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "a panic is how a property says that it does not hold"
)]

pub mod archive;
pub mod compose;
pub mod config;
pub mod dotenv;
pub mod environment;
pub mod frames;
pub mod infra;
pub mod names;
pub mod survey;

/// One fuzz target: its name, which is also that of its corpus, and its body.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    pub check: fn(&[u8]),
}

/// Every target there is.
pub const TARGETS: [Target; 9] = [
    Target { name: "protocol_frames", check: frames::check },
    Target { name: "config", check: config::check },
    Target { name: "dotenv", check: dotenv::check },
    Target { name: "environment", check: environment::check },
    Target { name: "infra", check: infra::check },
    Target { name: "compose", check: compose::check },
    Target { name: "names", check: names::check },
    Target { name: "survey", check: survey::check },
    Target { name: "tar", check: archive::check },
];
