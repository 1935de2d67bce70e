//! 1Password's own program, `op read --no-newline op://…`: the first reference alone, because it may ask the user to
//! unlock, then a few at a time, because more at once are refused.

use super::SecretFailureCause as Cause;
use crate::child::{Group, bounded};
use crate::env_file::LONGEST_VALUE;
use palisade_core::Secret;
use std::io::ErrorKind;
use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;
use tokio::process::Command;

/// Answers at once beyond this break 1Password's own limits.
const AT_ONCE: usize = 3;
/// As much of the standard error as tells what went wrong.
const MOST_ERROR: u64 = 16 * 1024;

/// How 1Password is asked.
#[derive(Debug, Clone)]
pub struct OnePassword {
    /// `op`, or where it is.
    pub program: PathBuf,
    /// For the first reference, which may wait for a fingerprint.
    pub first_patience: Duration,
    pub patience: Duration,
}

impl Default for OnePassword {
    fn default() -> Self {
        let (first_patience, patience) = (Duration::from_secs(60), Duration::from_secs(30));
        Self { program: PathBuf::from("op"), first_patience, patience }
    }
}

impl OnePassword {
    /// An answer for each address, in their order. When the first shows that none can be had, the others are not asked.
    pub(super) async fn read_all(&self, addresses: Vec<String>) -> Vec<Result<Secret, Cause>> {
        let Some((first, others)) = addresses.split_first() else { return Vec::new() };
        let answer = self.read(first, self.first_patience).await;
        if let Err(cause @ (Cause::NotInstalled | Cause::NotAuthenticated | Cause::TimedOut(_))) = &answer {
            return addresses.iter().map(|_| Err(cause.clone())).collect();
        }
        let mut answers = vec![answer];
        for group in others.chunks(AT_ONCE) {
            let mut running = Vec::new();
            for address in group {
                let (one, address) = (self.clone(), address.clone());
                running.push(tokio::spawn(async move { one.read(&address, one.patience).await }));
            }
            for task in running {
                answers.push(task.await.unwrap_or_else(|error| Err(Cause::NotStarted(error.to_string()))));
            }
        }
        answers
    }

    async fn read(&self, address: &str, patience: Duration) -> Result<Secret, Cause> {
        let mut command = Command::new(&self.program);
        command.args(["read", "--no-newline", address]);
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        // Dropped at the time-out, it and whatever it started end.
        command.kill_on_drop(true).process_group(0);
        let mut child = match command.spawn() {
            Ok(child) => child,
            Err(error) if error.kind() == ErrorKind::NotFound => return Err(Cause::NotInstalled),
            Err(error) => return Err(Cause::NotStarted(error.to_string())),
        };
        let mut group = Group::of(&child);
        let (stdout, stderr) = (child.stdout.take(), child.stderr.take());
        let answered = async {
            let most = LONGEST_VALUE as u64 + 1;
            let (value, error) = tokio::join!(bounded(stdout, most), bounded(stderr, MOST_ERROR));
            (child.wait().await, value, error)
        };
        let (status, value, error) =
            tokio::time::timeout(patience, answered).await.map_err(|_| Cause::TimedOut(patience))?;
        group.is_over();
        let code = match status {
            Ok(status) if status.success() => {
                return String::from_utf8(value).map(Secret::new).map_err(|_| Cause::NotText);
            }
            Ok(status) => status.code(),
            Err(error) => return Err(Cause::NotStarted(error.to_string())),
        };
        Err(classify(&String::from_utf8_lossy(&error), code, address))
    }
}

/// What `op` says, in the words of its versions 1 and 2.
fn classify(error: &str, code: Option<i32>, address: &str) -> Cause {
    const NOT_AUTHENTICATED: &[&str] = &[
        "not currently signed in",
        "not signed in",
        "no accounts configured",
        "no account found",
        "session expired",
        "session token",
        "authorization prompt dismissed",
        "authorization timeout",
        "authorization denied",
        "please sign in",
        "op signin",
    ];
    const NOT_FOUND: &[&str] = &[
        "isn't an item",
        "isn't a vault",
        "isn't a field",
        "doesn't have a field",
        "does not have a field",
        "could not find",
        "couldn't find",
        "not found",
        "no item",
        "could not resolve item",
        "invalid secret reference",
    ];
    let error = error.to_lowercase();
    let says = |words: &[&str]| words.iter().any(|word| error.contains(word));
    if says(NOT_AUTHENTICATED) {
        Cause::NotAuthenticated
    } else if says(NOT_FOUND) {
        Cause::NotFound(address.to_owned())
    } else {
        Cause::Failed { code, address: address.to_owned() }
    }
}
