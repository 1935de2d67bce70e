//! The verbs and the state machine of sandboxes, and the keeper that serves a running one.
//!
//! Surfaces call [`Engine`]; the engine records what it is about to do, asks a backend to do it, and records that it
//! was done. What a crash leaves in between, [`Engine::gc`] finishes or undoes. Nothing here prints, or reads the
//! command line, the environment or the home directory.

mod adoption;
mod bound_commits;
mod bound_paths;
mod bound_repositories;
mod copied_directory;
mod copy;
mod create;
mod description;
mod egress_news;
mod engine;
mod errand;
mod error;
mod gc;
mod identity;
mod keep;
pub mod keeper;
mod keeper_home;
mod lease;
mod list;
mod logs;
mod object_stores;
mod observe;
mod one_off;
mod preflight;
mod reconnect;
mod remove;
mod saved_files;
mod self_running;
mod session;
mod session_book;
mod start;
mod stop;
mod turn;
mod uid_block;
mod unpublished;
mod unrecorded;
mod unsaved_work;
mod way_out;
mod whole_file;
pub mod wrapper;

pub use adoption::UnrecordedSandbox;
pub use bound_paths::{RebindReport, ReboundPath};
pub use bound_repositories::{
    BoundRepositories, BringCause, BroughtCommits, LeftBehind, NoRepositories, PreparedGit,
};
pub use copied_directory::{
    ApplyPlan, ApplyReport, ChangeKind, CopyError, CopyOutcome, CopySelection, CopyStatus, CopySummary,
    CopySurvey, OpenCopy, PlannedChange,
};
pub use copy::{
    Anything, Arrived, CopyLimits, CopyReport, CopySource, CopyStop, CopyTarget, Fate, Landing, Received,
    Reception, Refusal, Skipped, Tally, Top, copy_in, copy_in_file, copy_out, extract, read_file, receive,
};
pub use create::CreateRequest;
pub use egress_news::EgressNews;
pub use engine::{BackendProvider, Engine, EngineConfig};
pub use errand::{Errand, Orders, When};
pub use error::EngineError;
pub use gc::{GcAction, GcItem, GcReport};
pub use list::{Inspection, ListedSandbox, SandboxListing, Summary, UnrecordedSummary};
pub use logs::Events;
pub use one_off::{OneOff, OneOffEnd, OneOffRequest};
pub use palisade_egress::{Entry as EgressEntry, Outcome as EgressOutcome, What as EgressWhat};
pub use remove::{RemoveMode, RemoveReport};
pub use session::{Connection, SessionStart, Streams, UnseenEnd};
pub use session_book::{EndedBy, SessionEnd, SessionRecord};
pub use start::Started;
pub use stop::{StopOutcome, StopReport};
pub use unsaved_work::{ArchiveCause, ArchivedWork, UnsavedReport, UnsavedWork, WorkError};
