//! The verbs and the state machine of sandboxes, and the keeper that serves a running one.

pub mod keeper;
