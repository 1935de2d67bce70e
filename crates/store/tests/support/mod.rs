//! The scene of the store's tests: a fresh state directory, and sandboxes to put into it.

#![allow(dead_code, reason = "each test file uses its own part of the scene")]

use palisade_core::{Foundation, HostIdentity, Method, Policy, SandboxId, SandboxName, SandboxSpec};
use palisade_store::{NewSandbox, ProcessIdentity, Store};
use std::path::Path;
use tempfile::TempDir;

pub(crate) const AT: i64 = 1_700_000_000_000;

pub(crate) fn fresh() -> (TempDir, Store) {
    let directory = tempfile::tempdir().unwrap();
    let store = open(directory.path());
    (directory, store)
}

pub(crate) fn open(directory: &Path) -> Store {
    Store::open(directory, || "instance-of-the-test".into()).unwrap()
}

/// A second way into the file, as somebody else's program would have it.
pub(crate) fn raw(store: &Store) -> rusqlite::Connection {
    rusqlite::Connection::open(store.file()).unwrap()
}

pub(crate) fn id(number: u32) -> SandboxId {
    let mut bytes = [0; 15];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    SandboxId::from_random(bytes)
}

pub(crate) fn me() -> ProcessIdentity {
    ProcessIdentity { pid: 4242, start_ticks: u64::MAX - 1, boot: "boot-of-the-test".into() }
}

pub(crate) fn sandbox(number: u32, name: &str) -> NewSandbox {
    let spec = SandboxSpec {
        id: id(number),
        name: Some(SandboxName::new(name).unwrap()),
        method: Method::Bwrap,
        policy: Policy::default(),
        foundation: Foundation::default(),
        paths: Vec::new(),
        dir: None,
        identity: HostIdentity { uid: 1000, gid: 1000 },
        owner: "instance-of-the-test".into(),
        git: Vec::new(),
    };
    NewSandbox { spec, uids: None, at: AT }
}
