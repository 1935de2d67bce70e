//! One verb at a time per sandbox: whoever changes a sandbox takes its turn first, reads the record again, and only
//! then acts. The kernel takes a turn back when its holder dies, so there is nothing to clean up.
//!
//! All sandboxes share one file, in which each has a byte of its own. The lock belongs to the open file, not to the
//! process, so two tasks of one process exclude each other as well.
#![allow(unsafe_code, reason = "locks of an open file on a range, which neither std nor rustix offers")]

use crate::engine::Engine;
use crate::error::EngineError;
use palisade_core::SandboxId;
use palisade_store::Row;
use std::fs::{File, OpenOptions};
use std::io;
use std::os::fd::AsRawFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::time::Duration;

const FILE: &str = "turns.lock";
/// Longer than any verb holds its turn: a start waits this long for its keeper at most.
const PATIENCE: Duration = Duration::from_secs(45);
/// A wait for such a lock cannot be given a deadline, so it is asked for again and again.
const PAUSE: Duration = Duration::from_millis(10);

/// Held while a verb works on a sandbox.
#[derive(Debug)]
#[must_use = "the turn ends when this is dropped"]
pub(crate) struct Turn {
    _file: File,
}

impl Engine {
    /// Waits until no other command works on the sandbox. The record may have changed meanwhile: read it again.
    pub(crate) async fn turn(&self, row: &Row) -> Result<Turn, EngineError> {
        let turn = self.turn_within(row.id(), PATIENCE).await?;
        turn.ok_or_else(|| EngineError::Busy { name: row.name.clone() })
    }

    /// As [`Engine::turn`], with the caller's own patience; none at all means now or never.
    pub(crate) async fn turn_within(
        &self,
        id: &SandboxId,
        patience: Duration,
    ) -> Result<Option<Turn>, EngineError> {
        let path = self.config.state.join(FILE);
        let failed = || EngineError::io(format!("lock {path}"));
        let file = open(path.as_path()).map_err(failed())?;
        let deadline = tokio::time::Instant::now() + patience;
        loop {
            if lock(&file, place(id)).map_err(failed())? {
                return Ok(Some(Turn { _file: file }));
            }
            if tokio::time::Instant::now() >= deadline {
                return Ok(None);
            }
            tokio::time::sleep(PAUSE).await;
        }
    }
}

impl Engine {
    /// As [`Engine::turn_within`], for a caller that cannot await.
    pub(crate) fn lock_sandbox_now(
        &self,
        id: &SandboxId,
        patience: Duration,
    ) -> Result<Option<Turn>, EngineError> {
        let path = self.config.state.join(FILE);
        let failed = || EngineError::io(format!("lock {path}"));
        let file = open(path.as_path()).map_err(failed())?;
        let deadline = std::time::Instant::now() + patience;
        loop {
            if lock(&file, place(id)).map_err(failed())? {
                return Ok(Some(Turn { _file: file }));
            }
            if std::time::Instant::now() >= deadline {
                return Ok(None);
            }
            std::thread::sleep(PAUSE);
        }
    }
}

fn open(path: &Path) -> io::Result<File> {
    OpenOptions::new().read(true).write(true).create(true).truncate(false).mode(0o600).open(path)
}

/// A sandbox's byte. Two that share one only wait for each other.
fn place(id: &SandboxId) -> libc::off_t {
    let mixed = id.as_str().bytes().fold(0i64, |sum, byte| sum.wrapping_mul(31).wrapping_add(byte.into()));
    mixed & (i64::MAX >> 1)
}

/// Says whether the lock was free.
fn lock(file: &File, place: libc::off_t) -> io::Result<bool> {
    // SAFETY: a plain structure of integers, for which zero is a value.
    let mut range: libc::flock = unsafe { std::mem::zeroed() };
    range.l_type = libc::F_WRLCK as libc::c_short;
    range.l_whence = libc::SEEK_SET as libc::c_short;
    range.l_start = place;
    range.l_len = 1;
    // SAFETY: the descriptor is open and the structure outlives the call.
    if unsafe { libc::fcntl(file.as_raw_fd(), libc::F_OFD_SETLK, &raw const range) } == 0 {
        return Ok(true);
    }
    let error = io::Error::last_os_error();
    match error.raw_os_error() {
        Some(libc::EAGAIN | libc::EACCES) => Ok(false),
        _ => Err(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_turn_excludes_others_of_the_same_sandbox_only_and_ends_when_dropped() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join(FILE);
        let (one, other) = (SandboxId::from_random([1; 15]), SandboxId::from_random([2; 15]));
        let (first, second) = (open(&path).unwrap(), open(&path).unwrap());
        assert!(lock(&first, place(&one)).unwrap());
        assert!(!lock(&second, place(&one)).unwrap());
        assert!(lock(&second, place(&other)).unwrap());
        drop(first);
        assert!(lock(&second, place(&one)).unwrap());
    }
}
