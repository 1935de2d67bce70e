//! The verbs over a backend that fails and hangs on purpose: what the record says afterwards, what the backend was
//! asked, and what can be done next.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

mod collect;
mod fake;
mod keep;
mod leases;
mod verbs;
