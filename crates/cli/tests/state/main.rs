//! State that is damaged, lost, moved, of another version, or has no place to be written: what is wrong is told, set aside or left
//! alone, the rest works, and so does the next command.

#![allow(clippy::unwrap_used, clippy::expect_used, reason = "a test's helpers may fail loudly")]

mod damaged;
mod logs;
mod lost;
mod private;
mod relocated;
mod scarce;
