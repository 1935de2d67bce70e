//! A copy of a bound directory: what `-w DIR:copy` gives a sandbox in the place of the directory, and what becomes of the
//! changes in it.
//!
//! A copy is made in the state directory before the sandbox starts ([`making`], [`fill`]). A manifest says what every file was
//! on the host and in the copy. When the run has ended, the copy is listed and compared with it ([`compare`]). The changes stay
//! until they are laid or dropped ([`apply`]).
//!
//! Invariants:
//! - Nothing of the user's directory is changed but by `apply`, and there only what is as it was when it was copied.
//! - Both trees are reached by descriptors, and no link in them is followed: a sandbox has written one, and others may write
//!   the other.
//! - A copy with changes is removed only when the user asks for it. One without a record that can be read is left alone.
//! - Comparing and planning do no I/O.

mod apply;
mod compare;
mod entry;
mod error;
mod fill;
mod lay;
mod listing;
mod making;
mod place;
mod plan;
mod walk;

pub use apply::{ApplyPlan, ApplyReport, CopySelection, OpenCopy, PlannedChange};
pub use compare::ChangeKind;
pub use error::CopyError;
pub use listing::{CopyStatus, CopySummary};
pub(crate) use making::RunCopy;
pub use making::{CopyOutcome, CopySurvey};

#[cfg(test)]
mod tests;
