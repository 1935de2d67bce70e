//! What happened to a sandbox, as a stream that every surface renders in its own way.

use crate::state::State;
use crate::sync::{MovedRef, SyncTrigger};
use serde::{Deserialize, Serialize};

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(tag = "event", rename_all = "kebab-case")]
pub enum Event {
    /// The sandbox moved to another state; `reason` when something made it.
    State { from: State, to: State, reason: Option<String> },
    /// A default limit that this machine cannot enforce.
    LimitNotEnforced { limit: String, why: String },
    /// The guest broke the protocol and was cut off.
    ProtocolViolation { detail: String },
    /// Something the user should look at, such as files in a bound directory that the host's tools would run.
    Notice { text: String },
    /// The network policy did not let it reach this; told once for each destination.
    EgressRefused { what: String, reason: String },
    /// What an agent did was brought into refs of the host's repository; only what moved is named.
    Synced { trigger: SyncTrigger, refs: Vec<MovedRef> },
    /// It could not be brought; the refs are as they were.
    SyncFailed { trigger: SyncTrigger, reason: String },
    /// A clean-up finished or undid what a crash had left.
    Recovered { what: String },
}
