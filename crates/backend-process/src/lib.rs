//! Sandboxes made of processes: `bwrap`, which isolates with namespaces, seccomp and cgroups, and `noop`, which
//! isolates nothing and is only used when somebody names it.
//!
//! Linux only. Planning is pure ([`bwrap::plan`]); the rest is the thin I/O around it.
#![cfg(target_os = "linux")]

pub mod bwrap;
pub mod cgroup;
mod idmap;
mod low_ports;
mod machine;
pub mod noop;
mod stage;
mod tools;
mod warden;

pub use bwrap::BwrapBackend;
pub use noop::NoopBackend;

use palisade_core::HostPath;
use std::path::PathBuf;

/// What the program that hosts these backends knows of its surroundings.
#[derive(Debug, Clone)]
pub struct ProcessConfig {
    /// The static guest binary.
    pub guest: HostPath,
    /// Palisade's state directory.
    pub state: HostPath,
    /// Where programs are looked for.
    pub search_path: Vec<PathBuf>,
    /// `XDG_RUNTIME_DIR`, where an ordinary user's systemd manager listens.
    pub user_runtime_dir: Option<PathBuf>,
    /// Where the user's own git looks for its settings beyond a repository.
    pub git_config: Vec<PathBuf>,
}

/// Fails here when a test wants it to; see [`palisade_host::fault`].
fn step(step: palisade_host::fault::Step) -> Result<(), palisade_core::BackendError> {
    palisade_host::fault::at(step).map_err(palisade_core::BackendError::io("carry on"))
}

impl ProcessConfig {
    fn find_program(&self, name: &str) -> Option<PathBuf> {
        palisade_host::program::find(&self.search_path, name)
    }
}
