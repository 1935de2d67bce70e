//! Settings in layers, each value with its origin:
//! default < system < user < project < environment < flags.
//!
//! Invariants this room keeps:
//! - It reads the files it is given and nothing else: no environment, no home, no arguments.
//! - Whatever does not parse is an error. No setting falls back to a default because it could not be read.
//! - A project's file comes with the repository and is not the user's word: unless the user trusted its very
//!   bytes, it can make the policy narrower and never wider.
//! - All problems of all layers are reported at once.

mod ceiling;
mod detach;
mod document;
pub mod environment;
mod error;
mod file;
pub mod infra;
pub mod keys;
mod layer;
mod logging;
mod login;
pub mod manifest;
mod project;
mod settings;
mod sources;
mod value;
mod widening;

pub use ceiling::Ceiling;
pub use detach::{DetachKeys, InvalidKeys, Key};
pub use error::{ConfigError, Problem};
pub use file::{MAX_SIZE, digest};
pub use keys::{KEYS, KeyDoc, ProjectRule, Setting};
pub use logging::{LogFormat, LogLevel};
pub use login::LoginVariable;
pub use project::{
    PROJECT_ENVIRONMENTS, PROJECT_FILE, find_project, find_project_environments, project_digest,
    project_files,
};
pub use settings::{Entry, Project, Settings, Valued};
pub use sources::{Flags, ProjectSource, Sources, load};
