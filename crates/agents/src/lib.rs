//! Coding agents at work in sandboxes: what is known of each agent, how a repository and an agent come together, and
//! how the work comes home. It calls the engine and the workspace, and prints nothing.

mod arrival;
mod artifacts;
mod background;
pub mod dotenv;
mod drift;
mod env_files;
mod error;
mod homecoming;
mod inside;
mod login;
mod profile;
mod record;
mod session;
mod surroundings;
mod workshop;
mod worktrees;

pub use arrival::{Ready, StartRequest, Step, has_program};
pub use artifacts::{Artifacts, ArtifactsRequest, Brought};
pub use background::SyncEntry;
pub use dotenv::LeftOut;
pub use drift::Given;
pub use error::AgentError;
pub use homecoming::{Branch, Homecoming, SyncRequest, Unsynced, Which};
pub use login::{LoginError, Signed};
pub use profile::{HomeFile, Install, InvalidProfile, Login, Profile, Profiles, UnknownAgent};
pub use record::Record;
pub use session::{session_variables, settle};
pub use surroundings::{LoadedFile, Loader, Surroundings};
pub use workshop::{AgentSandbox, Transport, Workshop};
pub use worktrees::session_name;
