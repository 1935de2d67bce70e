//! The verbs over a backend that fails and hangs on purpose: what the record says afterwards, what the backend was
//! asked, and what can be done next.

mod collect;
mod fake;
mod keep;
mod verbs;
