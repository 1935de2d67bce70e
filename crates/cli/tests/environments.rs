//! Environments as a user meets them: listing and checking, plugins and trust, and sandboxes made from one.
#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::print_stderr,
    reason = "a test fails by panicking and says why it was skipped"
)]

#[path = "environments/files.rs"]
mod files;
#[path = "environments/root.rs"]
mod root;
#[path = "environments/support.rs"]
mod support;
#[path = "environments/use_of.rs"]
mod use_of;
