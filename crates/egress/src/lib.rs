//! The way out of a sandbox, seen from the host: [`Rules`] say who may be reached, the [`Gate`] resolves, checks,
//! connects and relays, and the [`Ledger`] remembers every decision.
//!
//! Invariants:
//! - What comes from inside is a wish: names and ports are checked here again, whatever the guest did with them.
//! - A connection goes to an address that was checked, never to a name, so that nothing can change in between.
//! - The host's loopback is reached through a listed host port and in no other way.
//! - Descriptors stay on the host; bytes are relayed with the stream's credit, so a slow side holds up only itself.
//! - A hostile guest can neither exhaust connections, memory and threads, nor fill the ledger.

mod address;
mod connect;
mod gate;
mod ledger;
mod relay;
mod resolve;
mod rules;

pub use address::Kind;
pub use gate::Gate;
pub use ledger::{Entry, Ledger, Outcome, What};
pub use resolve::{Resolve, SystemResolver};
pub use rules::{Destination, IsOwn, Reason, Rules};
