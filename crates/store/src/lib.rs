//! What Palisade remembers: sandboxes, intents, events and trust, in one SQLite file.
//!
//! Invariants this room keeps:
//! - Every change that takes more than one statement is one `BEGIN IMMEDIATE` transaction, so many processes
//!   may use one file at once and a `kill -9` leaves either all of a change or none of it.
//! - A state changes only along `State::to`, checked inside the transaction that writes it; [`corrections`] bring a
//!   record in line with what was found.
//! - One row that cannot be read never hides the others.
//! - Nothing here looks at a clock, a process or a source of randomness: callers bring them.

mod corrections;
mod error;
mod events;
mod find;
mod intents;
mod open;
mod record;
mod reserve;
mod sandboxes;
mod schema;
mod trust;

pub use corrections::{KnownId, RecoveredSandbox};
pub use error::StoreError;
pub use events::{EVENTS_KEPT, StoredEvent};
pub use intents::{BadIntent, Intent, IntentId, IntentKind, Intents};
pub use open::Store;
pub use palisade_core::ProcessIdentity;
pub use record::{BadRow, Listing, Row};
pub use sandboxes::{Inserted, NewSandbox};
pub use schema::VERSION;
pub use trust::Trusted;
