//! The actions on a sandbox of a project's services: begin, start, stop, look, finish, collect.
//!
//! Every surface calls these and renders their events. Invariants:
//! - The slot's record is written before what it tells of is made, and removed after everything it tells of is gone, so
//!   that whoever is killed at whatever point has left a slot from which `start`, `finish` and `collect` go on.
//! - One at a time works on a sandbox: whoever changes it holds the slot's turn.
//! - What the project declares is read from the main working tree, which no service can write to.

mod begin;
mod collect;
mod consent;
mod error;
mod event;
mod files;
mod finish;
mod look;
mod refresh;
mod services;
mod start;
mod surroundings;

pub use collect::{Collected, Collecting, Collection};
pub use error::ProvisionError;
pub use event::{Answer, Content, Counts, Doing, Event, ProvisionedFile, Question, ReportedSecret, Surface};
pub use finish::Force;
pub use look::{HealthState, HealthStatus, SandboxState, SandboxStatus, SlotSummary};
pub use surroundings::Provisioner;

use crate::copying::Changed;

/// How a sandbox is provisioned.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Options {
    /// What becomes of provisioned files that were changed in the worktree.
    pub files: Changed,
}
