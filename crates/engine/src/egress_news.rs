//! What a sandbox asks the network for, as it asks, until it ends.

use crate::engine::Engine;
use crate::error::EngineError;
use crate::logs::{watch, written};
use crate::way_out;
use palisade_core::{ProcessIdentity, SandboxDir, SandboxId};
use palisade_egress::Entry;
use palisade_store::StoreError;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use tokio::net::unix::pipe::Receiver;

#[derive(Debug)]
pub struct EgressNews<'a> {
    engine: &'a Engine,
    id: SandboxId,
    dir: Option<SandboxDir>,
    told: Vec<Entry>,
    watch: Option<Receiver>,
}

impl Engine {
    /// The decisions about a sandbox: first those that were made already.
    pub fn egress_news(&self, name: &str) -> Result<EgressNews<'_>, EngineError> {
        let row = self.row(name)?;
        let watch = row.spec.dir.as_ref().and_then(|dir| watch(dir.path().as_path()));
        Ok(EgressNews { engine: self, id: row.id().clone(), dir: row.spec.dir, told: Vec::new(), watch })
    }
}

impl EgressNews<'_> {
    /// Waits for entries that are new or count more than before; `None` when the sandbox does not run any more.
    pub async fn next(&mut self) -> Result<Option<Vec<Entry>>, EngineError> {
        loop {
            // Before the look, so that what a keeper writes last is seen.
            let keeper = self.keeper()?;
            let entries = self.entries()?;
            let news: Vec<Entry> =
                entries.iter().filter(|entry| !self.told.contains(entry)).cloned().collect();
            if !news.is_empty() {
                self.told = entries;
                return Ok(Some(news));
            }
            let Some(keeper) = keeper else { return Ok(None) };
            tokio::select! {
                () = written(self.watch.as_ref()) => {}
                () = ended(&keeper) => {}
            }
        }
    }

    fn entries(&self) -> Result<Vec<Entry>, EngineError> {
        let entries = self.dir.as_ref().map(way_out::read).transpose();
        Ok(entries.map_err(EngineError::io("read what the sandbox reached"))?.unwrap_or_default())
    }

    /// Whoever keeps the sandbox, while it runs.
    fn keeper(&self) -> Result<Option<ProcessIdentity>, EngineError> {
        match self.engine.row(self.id.as_str()) {
            Ok(row) if row.state.has_keeper() => Ok(row.keeper.filter(palisade_host::process::is_alive)),
            Ok(_) | Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }
}

async fn ended(process: &ProcessIdentity) {
    let held = Pid::from_raw(process.pid as i32).and_then(|pid| pidfd_open(pid, PidfdFlags::empty()).ok());
    let Some(held) = held.filter(|_| palisade_host::process::is_alive(process)) else { return };
    // No pipe, and awaited like one: readable means ended, and an error only makes whoever waits look again.
    match Receiver::from_owned_fd_unchecked(held) {
        Ok(held) => drop(held.readable().await),
        Err(_) => std::future::pending().await,
    }
}
