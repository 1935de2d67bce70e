//! Palisade measured against the tools it stands beside. Each [`Comparison`] has a bar; a missed bar fails the run.
//!
//! Method, the same for all: both sides are prepared untimed and run once each to warm up, then they take turns
//! (ours, the peer's, ours, …), so that whatever else the machine does hits both; medians are compared. A process
//! is timed as a whole, from before it is spawned until its end is seen.

mod bar;
mod cgroups;
mod comparison;
pub mod comparisons;
mod failure;
mod generated;
pub mod interrupt;
mod peers;
mod processes;
mod program;
mod pty;
mod report;
mod repository;
mod samples;
mod scene;

pub use bar::{Bar, Unit};
pub use comparison::{Comparison, Measured, Probe, Result, Sides};
pub use failure::Failure;
pub use program::Program;
pub use report::{Entry, entries, table};
pub use samples::Samples;
pub use scene::{Sandbox, Scene};
