//! What is written down as JSON and read by later versions: every field that was ever written is still read, and keeps
//! its meaning. Fields may be added, with a default for records that lack them. A failure here means that the change
//! breaks sandboxes that exist.
#![allow(clippy::unwrap_used, clippy::panic, reason = "a test that fails panics")]

use palisade_core::{Event, Preflight, SandboxSpec, Workspace};
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// As version 0.1 wrote them.
const SANDBOX: &str = r#"{
    "id": "abcdefghijkmnpqrstuvwxyz",
    "name": "first",
    "method": "bwrap",
    "policy": {
        "network": "none",
        "workspace": { "kind": "bound", "host": "/srv/project", "access": "read-write" },
        "mounts": [{ "host": "/srv/data", "guest": "/data", "access": "read-only" }],
        "tools": ["/opt/tools"],
        "opt": true,
        "resources": {
            "memory": { "value": 536870912, "source": "asked" },
            "cpus": { "value": 500, "source": "asked" },
            "pids": { "value": 4096, "source": "default" },
            "tmp": 1073741824
        }
    },
    "dir": "/state/palisade/sandboxes/abcdefghijkmnpqrstuvwxyz",
    "identity": { "uid": 1910000000, "gid": 1910000000 },
    "owner": "abcdefghijkmnpqrstuvwxyz"
}"#;
/// What was added when sandboxes learnt to be made from environments.
const FOUNDATION: &str = r#"{
    "environment": "ruby",
    "image": "palisade-ruby:latest",
    "root": { "kind": "directory", "path": "/srv/roots/ruby" },
    "requires": ["ruby"],
    "command": ["/usr/bin/irb"],
    "workdir": "/workspace/app"
}"#;
const WORKSPACES: [&str; 2] = [r#"{ "kind": "own" }"#, r#"{ "kind": "scratch" }"#];
const EVENTS: [&str; 7] = [
    r#"{ "event": "state", "from": "created", "to": "starting", "reason": null }"#,
    r#"{ "event": "limit-not-enforced", "limit": "memory", "why": "no cgroups" }"#,
    r#"{ "event": "protocol-violation", "detail": "unknown frame kind 9" }"#,
    r#"{ "event": "notice", "text": "look at .envrc" }"#,
    r#"{ "event": "recovered", "what": "its keeper died" }"#,
    r#"{ "event": "synced", "trigger": "commit", "refs": [
        { "name": "refs/palisade/box/heads/main", "from": null, "to": "0123", "commits": 2 }] }"#,
    r#"{ "event": "sync-failed", "trigger": "idle", "reason": "the disk is full" }"#,
];
const PREFLIGHT: &str = r#"{
    "method": "bwrap",
    "checks": [{ "name": "bwrap", "status": "ok", "detail": "0.8.0", "fix": null }]
}"#;

fn sandbox() -> Value {
    serde_json::from_str(SANDBOX).unwrap()
}

/// Reads what was written once and finds all of it in what would be written now.
#[track_caller]
fn reads_back<T: Serialize + DeserializeOwned>(written: &Value) {
    let read: T = serde_json::from_value(written.clone()).unwrap();
    let now = serde_json::to_value(read).unwrap();
    assert!(contains(&now, written), "was {written:#}\nis {now:#}");
}

fn contains(now: &Value, written: &Value) -> bool {
    match (now, written) {
        (Value::Object(now), Value::Object(written)) => {
            written.iter().all(|(key, value)| now.get(key).is_some_and(|now| contains(now, value)))
        }
        (Value::Array(now), Value::Array(written)) => {
            now.len() == written.len() && now.iter().zip(written).all(|(now, written)| contains(now, written))
        }
        _ => now == written,
    }
}

#[test]
fn a_sandbox_recorded_by_an_older_version_is_read_by_this_one() {
    reads_back::<SandboxSpec>(&sandbox());
    let mut with_foundation = sandbox();
    with_foundation["foundation"] = serde_json::from_str(FOUNDATION).unwrap();
    reads_back::<SandboxSpec>(&with_foundation);
    WORKSPACES.iter().for_each(|text| reads_back::<Workspace>(&serde_json::from_str(text).unwrap()));
}

#[test]
fn an_event_recorded_by_an_older_version_is_read_by_this_one() {
    EVENTS.iter().for_each(|text| reads_back::<Event>(&serde_json::from_str(text).unwrap()));
}

#[test]
fn a_preflight_remembered_by_an_older_version_is_read_by_this_one() {
    reads_back::<Preflight>(&serde_json::from_str(PREFLIGHT).unwrap());
}

#[test]
fn a_field_of_a_later_version_does_not_keep_a_record_from_being_read() {
    let mut later = sandbox();
    later["not-yet-known"] = Value::Bool(true);
    later["policy"]["not-yet-known"] = Value::Bool(true);
    let read = |value: Value| serde_json::from_value::<SandboxSpec>(value).unwrap();
    assert_eq!(read(later), read(sandbox()));
}
