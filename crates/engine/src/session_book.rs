//! What became of a sandbox's named sessions, in a file beside its home: the guest knows them only while it lives.
//!
//! Invariants:
//! - A session is written down before its client learns that it runs, so whatever ends the sandbox is known to have
//!   ended that session.
//! - Only the host's own requests add a session; what a guest says can but end one.
//! - The newest session of a name is the one that is told.

use crate::engine::now;
use crate::error::EngineError;
use crate::keep::SOCKET;
use crate::keeper::socket;
use crate::whole_file;
use palisade_core::{HostPath, SandboxDir};
use palisade_protocol::client::{Client, ClientError, StreamEvent};
use palisade_protocol::{Exit, Open, Report, SessionInfo};
use serde::{Deserialize, Serialize};
use std::convert::Infallible;
use std::io;
use std::sync::{Mutex, MutexGuard, PoisonError};
use tokio::sync::Notify;

const FILE: &str = "sessions.json";
/// Of more sessions than that, those that began first are forgotten.
const MOST: usize = 100;

/// A session, and what became of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionRecord {
    pub name: String,
    /// Unix milliseconds.
    pub started_at: i64,
    /// `None` while it runs.
    pub end: Option<SessionEnd>,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SessionEnd {
    /// Unix milliseconds: when it was noticed.
    pub at: i64,
    pub how: EndedBy,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EndedBy {
    /// Its command ended, with this code.
    Code(u8),
    /// Its command was ended by this signal.
    Signal(u8),
    /// The sandbox ended, for this reason, and the session with it.
    Sandbox(String),
}

impl From<Exit> for EndedBy {
    fn from(exit: Exit) -> Self {
        match exit {
            Exit::Code(code) => Self::Code(code),
            Exit::Signal(signal) => Self::Signal(signal),
        }
    }
}

/// The keeper's own copy, which it writes at every change.
#[derive(Debug)]
pub(crate) struct SessionBook {
    dir: HostPath,
    records: Mutex<Vec<SessionRecord>>,
    begun: Notify,
}

impl SessionBook {
    pub(crate) fn open(dir: &SandboxDir) -> Result<Self, EngineError> {
        let records = Mutex::new(read(dir)?);
        let book = Self { dir: dir.path().clone(), records, begun: Notify::new() };
        // Another keeper's, which go on under this one.
        book.resume();
        Ok(book)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<SessionRecord>> {
        self.records.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn started(&self, name: &str) {
        let mut records = self.lock();
        begin(&mut records, name, now());
        self.write(&records);
        drop(records);
        self.begun.notify_one();
    }

    /// Learns how sessions end, once there is one; without end. After a loss of the connection to the guest it begins
    /// again with the next session, or when it is [told to](Self::resume).
    pub(crate) async fn follow(&self) -> Infallible {
        loop {
            self.begun.notified().await;
            if let Err(error) = self.hear().await {
                tracing::debug!(%error, "no more is heard of sessions");
            }
        }
    }

    /// Sessions may have ended while the guest could not be heard.
    pub(crate) fn resume(&self) {
        if self.lock().iter().any(|record| record.end.is_none()) {
            self.begun.notify_one();
        }
    }

    /// As any client does it, over the keeper's own socket.
    async fn hear(&self) -> Result<(), ClientError> {
        let (client, _) = Client::connect(socket::connect(&self.dir, SOCKET).await?).await?;
        let (_sender, mut receiver) = client.open(Open::SessionChanges).await?;
        while let Some(event) = receiver.next().await? {
            if let StreamEvent::Report(Report::Sessions(sessions)) = event {
                let mut records = self.lock();
                if note_ends(&mut records, &sessions, now()) {
                    self.write(&records);
                }
            }
        }
        Ok(())
    }

    fn write(&self, records: &[SessionRecord]) {
        if let Err(error) = write(&self.dir, records) {
            tracing::warn!(%error, "what becomes of sessions is not written down");
        }
    }
}

/// The sandbox has ended, and with it every session that ran.
pub(crate) fn close(dir: &SandboxDir, why: &str) -> io::Result<()> {
    whole_file::tidy(dir.path(), FILE);
    let mut records = read(dir).map_err(io::Error::other)?;
    let mut closed = false;
    for record in records.iter_mut().filter(|record| record.end.is_none()) {
        record.end = Some(SessionEnd { at: now(), how: EndedBy::Sandbox(why.to_owned()) });
        closed = true;
    }
    if closed { write(dir.path(), &records) } else { Ok(()) }
}

pub(crate) fn read(dir: &SandboxDir) -> Result<Vec<SessionRecord>, EngineError> {
    match std::fs::read(dir.path().join(FILE)) {
        // A file of a later version is begun anew.
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(EngineError::io("read what became of the sessions")(error)),
    }
}

fn write(dir: &HostPath, records: &[SessionRecord]) -> io::Result<()> {
    whole_file::write(dir, FILE, &serde_json::to_vec(records).map_err(io::Error::other)?)
}

fn begin(records: &mut Vec<SessionRecord>, name: &str, at: i64) {
    records.retain(|record| record.name != name);
    records.push(SessionRecord { name: name.to_owned(), started_at: at, end: None });
    let surplus = records.len().saturating_sub(MOST);
    records.drain(..surplus);
}

/// Whether anything was new.
fn note_ends(records: &mut [SessionRecord], sessions: &[SessionInfo], at: i64) -> bool {
    let mut news = false;
    for record in records.iter_mut().filter(|record| record.end.is_none()) {
        let known = sessions.iter().find(|session| session.name == record.name);
        if let Some(exit) = known.and_then(|session| session.exit) {
            record.end = Some(SessionEnd { at, how: exit.into() });
            news = true;
        }
    }
    news
}

#[cfg(test)]
mod tests {
    use super::*;
    use palisade_protocol::Size;

    fn session(name: &str, exit: Option<Exit>) -> SessionInfo {
        SessionInfo { name: name.into(), viewers: 0, size: Size { rows: 1, columns: 1 }, exit, seen: false }
    }

    #[test]
    fn a_session_ends_once_and_its_name_begins_anew() {
        let mut records = Vec::new();
        begin(&mut records, "agent", 1);
        assert!(!note_ends(
            &mut records,
            &[session("agent", None), session("other", Some(Exit::Code(1)))],
            2
        ));
        assert!(note_ends(&mut records, &[session("agent", Some(Exit::Code(3)))], 3));
        assert!(!note_ends(&mut records, &[session("agent", Some(Exit::Code(4)))], 4));
        let end = Some(SessionEnd { at: 3, how: EndedBy::Code(3) });
        assert_eq!(records, [SessionRecord { name: "agent".into(), started_at: 1, end }]);
        begin(&mut records, "agent", 5);
        assert_eq!(records, [SessionRecord { name: "agent".into(), started_at: 5, end: None }]);
    }

    #[test]
    fn no_more_than_so_many_are_remembered() {
        let mut records = Vec::new();
        (0..2 * MOST).for_each(|number| begin(&mut records, &format!("s{number}"), 0));
        assert_eq!((records.len(), records[0].name.as_str()), (MOST, "s100"));
    }

    #[test]
    fn what_ran_when_the_sandbox_ended_ended_with_it() {
        let place = tempfile::tempdir().unwrap();
        let dir = SandboxDir::new(HostPath::new(place.path()).unwrap());
        let book = SessionBook::open(&dir).unwrap();
        book.started("agent");
        close(&dir, "its keeper died").unwrap();
        close(&dir, "another time").unwrap();
        let how = read(&dir).unwrap().remove(0).end.unwrap().how;
        assert_eq!(how, EndedBy::Sandbox("its keeper died".into()));
    }
}
