//! Coding agents at work in sandboxes: what is known of each agent, how a repository and an agent come together, and
//! how the work comes back. It calls the engine and the workspace, and prints nothing.

mod artifacts;
mod background;
mod bound;
mod conversation;
pub mod dotenv;
mod env_files;
mod error;
mod history;
mod identity;
mod ignored_options;
mod inside;
mod login;
mod profile;
mod record;
mod service;
mod session;
mod shared_store;
mod start;
mod surroundings;
mod sync;
mod unsaved;
mod working;
mod worktrees;

pub use artifacts::{Artifacts, ArtifactsRequest, Brought};
pub use background::SyncEntry;
pub use bound::BoundGit;
pub use dotenv::LeftOut;
pub use error::AgentError;
pub use history::ArchiveSelection;
pub use ignored_options::Given;
pub use login::{LoginError, Signed};
pub use profile::{Begin, HomeFile, Install, InvalidProfile, Login, Profile, Profiles, UnknownAgent};
pub use record::Record;
pub use service::{AgentSandbox, AgentService};
pub use session::{session_variables, settle};
pub use start::{Ready, StartRequest, Step, has_program};
pub use surroundings::{LoadedFile, Loader, Surroundings};
pub use unsaved::AgentWork;
pub use working::WorkingLock;
pub use worktrees::{WorktreeRemoval, session_name};
