//! A sandbox's repository, content and git cannot make the host run anything, move a ref that is not theirs, break the
//! repository, or hold the host up. Each attempt has a control: plain git, or another plain tool, falls for it.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that cannot set its scene has failed")]

mod alternates;
mod bombs;
mod objects;
mod paths;
mod peers;
mod programs;
mod refs;
#[path = "../support/mod.rs"]
mod support;
