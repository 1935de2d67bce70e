//! What was decided, counted: one entry for each kind of decision about one destination, so that a loop of a million
//! refusals is one line with a large number.

use crate::rules::Reason;
use serde::{Deserialize, Serialize};
use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};
use tokio::sync::Notify;

/// How many destinations are told apart; what comes after is counted together.
pub(crate) const MOST_ENTRIES: usize = 500;
/// The host in the entry for everything beyond that.
const OTHERS: &str = "(others)";
/// Of a name that is none, so much is kept.
const LONGEST_HOST: usize = 253;

/// What was asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum What {
    /// The address of a name.
    Name,
    /// A connection.
    Connect,
    /// A connection to a port of the host's loopback.
    HostPort,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
#[serde(rename_all = "kebab-case")]
pub enum Outcome {
    Allowed,
    /// The policy says no.
    Refused,
    /// The policy says yes, and it did not work.
    Failed,
}

impl Outcome {
    fn of(reason: Option<Reason>) -> Self {
        match reason {
            None => Outcome::Allowed,
            Some(reason) if reason.is_refusal() => Outcome::Refused,
            Some(_) => Outcome::Failed,
        }
    }
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub struct Entry {
    pub outcome: Outcome,
    pub what: What,
    /// As the sandbox asked for it; untrusted text.
    pub host: String,
    /// None when only a name was asked for.
    pub port: Option<u16>,
    pub reason: Option<Reason>,
    /// The address that was connected to or refused, the last time.
    pub address: Option<IpAddr>,
    pub count: u64,
    /// Unix milliseconds.
    pub first_at: i64,
    pub last_at: i64,
}

type Key = (What, String, Option<u16>, Option<Reason>);

#[derive(Debug, Default)]
struct Book {
    entries: HashMap<Key, Entry>,
    /// Grows with every decision.
    version: u64,
}

#[derive(Debug, Default)]
pub struct Ledger {
    book: Mutex<Book>,
    changed: Notify,
}

impl Ledger {
    /// Goes on with what an earlier keeper wrote down.
    pub fn with(entries: Vec<Entry>) -> Self {
        let entries = entries.into_iter().take(MOST_ENTRIES).map(|entry| (key(&entry), entry)).collect();
        Self { book: Mutex::new(Book { entries, version: 0 }), changed: Notify::new() }
    }

    fn lock(&self) -> MutexGuard<'_, Book> {
        self.book.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a decision. `reason` is none when the answer was yes.
    pub(crate) fn note(
        &self,
        what: What,
        host: &str,
        port: Option<u16>,
        address: Option<IpAddr>,
        reason: Option<Reason>,
    ) {
        let now = now();
        let outcome = Outcome::of(reason);
        let mut book = self.lock();
        book.version += 1;
        let kept: String = host.chars().take(LONGEST_HOST).collect();
        let mut key = (what, kept, port, reason);
        if book.entries.len() >= MOST_ENTRIES && !book.entries.contains_key(&key) {
            key = (what, OTHERS.into(), None, reason);
        }
        let fresh = || Entry {
            outcome,
            what,
            host: key.1.clone(),
            port: key.2,
            reason,
            address,
            count: 0,
            first_at: now,
            last_at: now,
        };
        let entry = book.entries.entry(key.clone()).or_insert_with(fresh);
        entry.count += 1;
        entry.last_at = now;
        entry.address = address.or(entry.address);
        if entry.count == 1 {
            let (host, why) =
                (palisade_core::printable(&entry.host), reason.map(|reason| reason.to_string()));
            tracing::info!(host, port, ?outcome, why, "the sandbox asks for the way out");
        }
        drop(book);
        self.changed.notify_waiters();
    }

    /// All entries, those that began first in front; and how many decisions there have been.
    pub fn entries(&self) -> (Vec<Entry>, u64) {
        let book = self.lock();
        let mut entries: Vec<Entry> = book.entries.values().cloned().collect();
        entries.sort_by(|a, b| {
            (a.first_at, a.what, &a.host, a.port).cmp(&(b.first_at, b.what, &b.host, b.port))
        });
        (entries, book.version)
    }

    /// Resolves once there have been more decisions than that.
    pub async fn beyond(&self, version: u64) {
        palisade_protocol::outbox::until(&self.changed, || (self.lock().version > version).then_some(()))
            .await;
    }
}

fn key(entry: &Entry) -> Key {
    (entry.what, entry.host.clone(), entry.port, entry.reason)
}

fn now() -> i64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |elapsed| elapsed.as_millis() as i64)
}

#[cfg(test)]
mod tests;
