//! A sandbox's way out, as the engine has it: the gate made from the policy, and the file in which its decisions
//! stay readable while the sandbox runs and after.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::keeper_home::KeeperHome;
use crate::whole_file;
use palisade_core::{Backend, Capability, Event, SandboxDir, SandboxSpec, printable, printable_lines};
use palisade_egress::{Entry, Gate, Ledger, Outcome, Rules, SystemResolver};
use palisade_protocol::{Refusal, RefusalCode};
use palisade_store::{Row, Store};
use std::convert::Infallible;
use std::io;
use std::sync::Arc;
use std::time::Duration;

/// Decisions are gathered so long before they are written.
const PAUSE: Duration = Duration::from_millis(200);
/// Refusals that become events of the sandbox: more of them would push the other events out of their history.
const MOST_EVENTS: usize = 100;
/// A connection is a descriptor on the host.
const DESCRIPTORS: u64 = 16 * 1024;

/// The gate of a sandbox that has a way out under a policy; with `noop` there is nothing to guard.
pub(crate) fn gate(backend: &dyn Backend, spec: &SandboxSpec) -> Result<Option<Arc<Gate>>, EngineError> {
    let Some(rules) = Rules::of(&spec.policy) else { return Ok(None) };
    // Asked second, since it may take a look at the machine.
    if !backend.capabilities().has(Capability::NetworkPolicy) {
        return Ok(None);
    }
    let known = match &spec.dir {
        Some(dir) => read(dir).map_err(EngineError::io("read what the sandbox reached before"))?,
        None => Vec::new(),
    };
    Ok(Some(Arc::new(Gate::new(rules, Box::new(SystemResolver), Arc::new(Ledger::with(known))))))
}

/// Makes room for many connections; to be called after the sandbox's processes were started, which do not need it.
pub(crate) fn make_room() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let wanted = limit.maximum.map_or(DESCRIPTORS, |most| most.min(DESCRIPTORS));
    if limit.current.is_some_and(|current| current < wanted) {
        // With fewer descriptors there are fewer connections, and the rest is refused.
        let _ = setrlimit(Resource::Nofile, Rlimit { current: Some(wanted), maximum: limit.maximum });
    }
}

/// Why a guest could not open its side.
pub(crate) fn refused(refusal: &Refusal) -> EngineError {
    let reason = match refusal.code {
        RefusalCode::Unsupported => "this guest knows of none; create the sandbox anew".to_owned(),
        _ => printable_lines(&refusal.text),
    };
    EngineError::WayOut { reason }
}

/// What somebody should know of what a run did not reach.
pub(crate) fn told(ledger: &Ledger) -> Vec<String> {
    const MOST: usize = 5;
    let (entries, _) = ledger.entries();
    let refused: Vec<&Entry> = entries.iter().filter(|entry| entry.outcome == Outcome::Refused).collect();
    let line = |entry: &&Entry| {
        let times = if entry.count == 1 { String::new() } else { format!(" ({} times)", entry.count) };
        format!("the network policy refused {}: {}{times}", destination(entry), reason(entry))
    };
    let mut lines: Vec<String> = refused.iter().take(MOST).map(line).collect();
    if let Some(more) = refused.len().checked_sub(MOST).filter(|more| *more > 0) {
        lines.push(format!("the network policy refused {more} more destinations"));
    }
    lines
}

fn destination(entry: &Entry) -> String {
    let host = printable(&entry.host);
    entry.port.map_or(host.clone(), |port| format!("{host}:{port}"))
}

fn reason(entry: &Entry) -> String {
    entry.reason.map(|reason| reason.to_string()).unwrap_or_default()
}

impl Engine {
    /// What a sandbox asked for and how it was decided, since it was created.
    pub fn egress_log(&self, name: &str) -> Result<Vec<Entry>, EngineError> {
        let row = self.row(name)?;
        match &row.spec.dir {
            Some(dir) => read(dir).map_err(EngineError::io("read what the sandbox reached")),
            None => Ok(Vec::new()),
        }
    }

    /// Writes decisions down as they come, without end.
    pub(crate) async fn write_egress(&self, row: &Row, home: &KeeperHome, ledger: &Ledger) -> Infallible {
        let mut written = 0;
        let mut told = ledger.entries().0.iter().map(destination).collect();
        loop {
            ledger.beyond(written).await;
            tokio::time::sleep(PAUSE).await;
            written = self.write_egress_once(row, home, ledger, &mut told);
        }
    }

    /// Up to which decision it has written.
    fn write_egress_once(
        &self,
        row: &Row,
        home: &KeeperHome,
        ledger: &Ledger,
        told: &mut Vec<String>,
    ) -> u64 {
        let (entries, version) = ledger.entries();
        write_or_warn(home, &entries);
        for entry in entries.iter().filter(|entry| entry.outcome == Outcome::Refused) {
            let what = destination(entry);
            if told.len() >= MOST_EVENTS || told.contains(&what) {
                continue;
            }
            tracing::warn!(what, reason = reason(entry), "the network policy refused a destination");
            let event = Event::EgressRefused { what: what.clone(), reason: reason(entry) };
            let append = |store: &Store| store.append_event(row.id(), &event, now());
            if let Err(error) = self.record_as_keeper(row, home, append) {
                tracing::warn!(%error, "a refusal is not among the sandbox's events");
            }
            told.push(what);
        }
        version
    }

    /// The last decisions, when the sandbox ends.
    pub(crate) fn finish_egress(&self, home: &KeeperHome, ledger: &Ledger) {
        write_or_warn(home, &ledger.entries().0);
    }
}

fn write_or_warn(home: &KeeperHome, entries: &[Entry]) {
    if let Err(error) = write(&home.dir(), entries) {
        tracing::warn!(%error, "what the sandbox reached is not written down");
    }
}

const FILE: &str = "egress.json";

pub(crate) fn read(dir: &SandboxDir) -> io::Result<Vec<Entry>> {
    match std::fs::read(dir.path().join(FILE)) {
        // A file of a later version is counted anew.
        Ok(text) => Ok(serde_json::from_slice(&text).unwrap_or_default()),
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(error) => Err(error),
    }
}

fn write(dir: &SandboxDir, entries: &[Entry]) -> io::Result<()> {
    whole_file::write(dir.path(), FILE, &serde_json::to_vec(entries).map_err(io::Error::other)?)
}
