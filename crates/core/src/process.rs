//! A process of the host, told apart from a later one with the same number.

use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ProcessIdentity {
    pub pid: u32,
    /// When it started, in the kernel's ticks since boot.
    pub start_ticks: u64,
    /// Which boot of the machine it belongs to.
    pub boot: String,
}
