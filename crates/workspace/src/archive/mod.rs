//! Archives: everything that a sandbox holds, kept in the host's repository before anything is moved or removed.
//!
//! An archive is one ref, `refs/palisade/archive/<id>/<number>`, which is never moved. It leads to a commit whose
//! parents are the tips that were new, and whose tree describes them ([`manifest`]) and holds the files that were not
//! committed, so that `git show <archive>:files/<path>` shows one. What the host has already makes no archive.

mod create;
mod list;
mod manifest;
mod restore;

pub use create::{Archive, ArchiveOutcome, ArchiveSubject, Refused};
pub(crate) use create::{HELD_OBJECT, files_name};
pub use list::ListedArchive;
pub use manifest::{ArchiveReason, EntryKind, Manifest, ManifestEntry, ManifestLeftOut};
pub use restore::{Restored, RestoredRef};
