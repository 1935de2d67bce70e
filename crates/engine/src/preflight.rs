//! Preflight with a memory: a passed one is kept until the tool, this boot or the user changes.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::observe::{observe, verb_span};
use palisade_core::{Backend, Check, HIGHEST_CONTAINER_UID, HostUsers, Method, Preflight, spans};
use palisade_host::{private_file, process};
use serde::{Deserialize, Serialize};

#[derive(Debug, Serialize, Deserialize)]
struct Kept {
    identity: String,
    boot: String,
    uid: u32,
    preflight: Preflight,
}

impl Engine {
    /// Tries the method for real, whatever is remembered, and remembers a pass.
    pub async fn preflight(&self, method: Method) -> Result<Preflight, EngineError> {
        let span = verb_span!(spans::PREFLIGHT);
        span.record(spans::SELECT, tracing::field::display(method));
        let outcome = observe(span.clone(), self.try_method(method)).await;
        if outcome.as_ref().is_ok_and(|preflight| !preflight.passed()) {
            span.record(spans::ERROR, "method-unavailable");
        }
        outcome
    }

    async fn try_method(&self, method: Method) -> Result<Preflight, EngineError> {
        let backend = self.backend(method)?;
        let mut preflight = backend.preflight().await;
        if preflight.passed() {
            preflight.checks.push(self.check_host_users(backend.as_ref()).await);
        }
        let identity = backend.tool_identity();
        let file = self.preflight_file(method);
        if preflight.passed() && !identity.is_empty() {
            let kept = Kept { identity, boot: process::boot_id(), uid: uid(), preflight: preflight.clone() };
            // Only a saving of time: when it cannot be written, the next one is tried in full.
            if let Ok(text) = serde_json::to_vec(&kept) {
                let _ = private_file::write(&file, &text);
            }
        } else {
            let _ = std::fs::remove_file(&file);
        }
        Ok(preflight)
    }

    /// Whom sandboxes run as on the host, and so what stands between them besides namespaces.
    async fn check_host_users(&self, backend: &dyn Backend) -> Check {
        const NAME: &str = "host uids";
        let uids = match backend.host_users().await {
            HostUsers::Given(text) => return Check::ok(NAME, text),
            HostUsers::OnePerSandbox => self.known_uids().ok().flatten(),
        };
        let highest = uids.as_ref().map_or(self.config.uid_base, |uids| uids.end);
        if backend.method().keeps_files_in_engine() && highest > HIGHEST_CONTAINER_UID {
            return Check::warning(
                NAME,
                format!(
                    "all sandboxes have one uid: {} takes none above {HIGHEST_CONTAINER_UID}",
                    backend.method()
                ),
                "set root.uid_base to at most 2000000000",
            );
        }
        let uids = match uids {
            Some(uids) => format!("of {}–{}", uids.start, uids.end - 1),
            None => format!("from {} up", self.config.uid_base),
        };
        Check::ok(NAME, format!("a uid of its own for each sandbox, {uids}"))
    }

    /// A preflight that passed before and still holds, if there is one.
    pub fn remembered_preflight(&self, method: Method) -> Option<Preflight> {
        let text = std::fs::read(self.preflight_file(method)).ok()?;
        let kept: Kept = serde_json::from_slice(&text).ok()?;
        let identity = self.backend(method).ok()?.tool_identity();
        let holds = !identity.is_empty()
            && kept.identity == identity
            && kept.boot == process::boot_id()
            && kept.uid == uid();
        holds.then_some(kept.preflight)
    }

    fn preflight_file(&self, method: Method) -> palisade_core::HostPath {
        self.config.state.join(format!("preflight-{method}.json"))
    }
}

fn uid() -> u32 {
    rustix::process::geteuid().as_raw()
}
