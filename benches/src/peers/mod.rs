//! The tools we are measured against, each prepared as its own users would.

pub(crate) mod bwrap;
pub(crate) mod engine;
pub(crate) mod srt;
pub(crate) mod tinyproxy;
