//! The method that a new `infra.toml` names for agents: the one that was asked for, else the strongest that works here.

use crate::context::Context;
use palisade_core::{Method, Origin};

/// The stronger the earlier. What needs a cluster or isolates nothing is never proposed.
const STRONGEST_FIRST: [Method; 4] = [Method::Microvm, Method::Bwrap, Method::Podman, Method::Docker];

/// Each is tried for real. Nothing when none works, so that the file says nothing that is not so.
pub(super) async fn proposed(context: &Context) -> Option<Method> {
    let selection = context.settings.method();
    if matches!(selection.origin, Origin::Flag { .. }) {
        return Some(selection.method);
    }
    for method in STRONGEST_FIRST {
        if context.engine.preflight(method).await.is_ok_and(|preflight| preflight.passed()) {
            return Some(method);
        }
    }
    None
}
