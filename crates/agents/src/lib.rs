//! Coding agents at work in sandboxes: what is known of each agent, how a repository and an agent come together, and
//! how the work comes home. It calls the engine and the workspace, and prints nothing.

mod arrival;
mod error;
mod homecoming;
mod profile;
mod record;
mod workshop;
mod worktrees;

pub use arrival::{Ready, StartRequest, Step, has_program};
pub use error::AgentError;
pub use homecoming::{Branch, Homecoming, SyncRequest, Unsynced, Which};
pub use profile::{HomeFile, Install, InvalidProfile, Login, Profile, Profiles, UnknownAgent};
pub use record::Record;
pub use workshop::{AgentSandbox, Workshop};
pub use worktrees::session_name;
