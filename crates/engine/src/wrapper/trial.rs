//! Trying a wrapper before it is made: the method is checked, the very sandbox is started once, and the command must be
//! there. A service that makes its wrappers when it starts then fails early, with the reason.

use super::error::WrapperError;
use crate::engine::Engine;
use crate::error::EngineError;
use crate::one_off::{OneOff, OneOffRequest};
use palisade_core::{Access, CheckStatus, Enforcement, Foundation, Method, Policy, Workspace, printable};
use palisade_protocol::client::{StreamEvent, StreamReceiver, StreamSender};
use palisade_protocol::{ExecRequest, Open};
use std::ffi::OsString;
use std::os::unix::ffi::OsStrExt;

/// Names the first of its arguments that cannot be executed.
const LOOK: &str = r#"for program; do test -x "$program" || { printf %s "$program"; exit 1; }; done"#;

impl Engine {
    /// The method must pass its preflight, now or before.
    pub async fn require_method(&self, method: Method) -> Result<(), EngineError> {
        let preflight = match self.remembered_preflight(method) {
            Some(passed) => passed,
            None => self.preflight(method).await?,
        };
        let failed = || preflight.checks.iter().filter(|check| check.status == CheckStatus::Failed);
        if failed().next().is_none() {
            return Ok(());
        }
        let reasons: Vec<String> =
            failed().map(|check| format!("{}: {}", check.name, check.detail)).collect();
        let fixes = failed().filter_map(|check| check.fix.clone()).collect();
        Err(WrapperError::Preflight { method, reason: reasons.join("; "), fixes }.into())
    }

    /// Starts the sandbox once and looks for what must be executable in it. Says which limits hold.
    pub async fn try_programs(
        &self,
        method: Method,
        policy: &Policy,
        foundation: Foundation,
        executables: &[OsString],
    ) -> Result<Vec<Enforcement>, EngineError> {
        let mut policy = policy.clone();
        // To look is to read, so a directory that is in use at this moment is no obstacle.
        if let Workspace::Bound { access, .. } = &mut policy.workspace
            && method != Method::Noop
        {
            *access = Access::ReadOnly;
        }
        let request =
            OneOffRequest { method, policy, foundation, paths: Vec::new(), identity: None, copied: None };
        let fixed = ["/bin/sh", "-c", LOOK, "sh"].map(|word| word.as_bytes().to_vec());
        let words = executables.iter().map(|word| word.as_bytes().to_vec());
        let look = ExecRequest {
            argv: fixed.into_iter().chain(words).collect(),
            cwd: b"/".to_vec(),
            ..ExecRequest::default()
        };
        let (sandbox, streams) = self.one_off(request, |_| Open::Exec(look)).await?;
        let seen = seen(&sandbox, streams).await;
        sandbox.end(self).await?;
        let (missing, limits) = seen?;
        match missing {
            None => Ok(limits),
            Some(program) => Err(WrapperError::Unreachable {
                program,
                reason: "it is not there, or cannot be executed there".into(),
                fix: "show what it needs with --tool DIR or --mount HOST:GUEST:ro".into(),
            }
            .into()),
        }
    }
}

type Seen = (Option<String>, Vec<Enforcement>);

/// Takes both ends of the stream: a guest to which one is still open does not leave before it is made to.
async fn seen(
    sandbox: &OneOff,
    (_sender, mut receiver): (StreamSender, StreamReceiver),
) -> Result<Seen, EngineError> {
    let limits = sandbox.limits().await?;
    let mut named = Vec::new();
    loop {
        match receiver.next().await? {
            Some(StreamEvent::Data { bytes, .. }) => named.extend(bytes),
            Some(StreamEvent::Exit(exit)) if exit.status() != 0 => {
                return Ok((Some(printable(&String::from_utf8_lossy(&named))), limits));
            }
            // Without a shell inside nothing can be said, and the first call will tell.
            Some(StreamEvent::Exit(_) | StreamEvent::Refused(_) | StreamEvent::Reset) | None => {
                return Ok((None, limits));
            }
            Some(_) => {}
        }
    }
}
