//! `stop`, and what is done for a sandbox whose keeper died.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::keep::SOCKET;
use crate::keeper::socket;
use palisade_core::{Event, ProcessIdentity, State};
use palisade_protocol::client::Client;
use palisade_protocol::{KeeperVerb, Open};
use palisade_store::Row;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::Duration;

/// How long a keeper may take beyond the grace of what is inside.
const MARGIN: Duration = Duration::from_secs(10);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Stopped {
    Now,
    Already,
}

impl Engine {
    pub async fn stop(&self, name: &str, grace: Duration) -> Result<Stopped, EngineError> {
        let row = self.recovered(self.row(name)?).await?;
        if !row.state.has_keeper() {
            return Ok(Stopped::Already);
        }
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        self.ask_to_stop(&row, grace_ms).await;
        let Some(keeper) = &row.keeper else {
            return Err(EngineError::WrongState {
                name: row.name.clone(),
                state: row.state,
                verb: "stop",
                hint: "it is being started by another command; try again in a moment".into(),
            });
        };
        if !wait_for_end(keeper, grace + MARGIN).await {
            tracing::warn!(sandbox.id = %row.id(), "the keeper does not end by itself and is killed");
            signal(keeper, Signal::KILL);
            wait_for_end(keeper, MARGIN).await;
        }
        let row = self.recovered(self.row(row.id().as_str())?).await?;
        if row.state.has_keeper() {
            return Err(EngineError::Timeout {
                name: row.name,
                what: "stop",
                seconds: (grace + MARGIN).as_secs(),
            });
        }
        Ok(Stopped::Now)
    }

    /// Asks through the socket, and by a signal where that does not work; the keeper's end tells whether it did.
    async fn ask_to_stop(&self, row: &Row, grace_ms: u32) {
        let ask = async {
            let dir = row.spec.dir.as_ref()?;
            let stream = socket::connect(dir.path(), SOCKET).await.ok()?;
            let (client, _) = Client::connect(stream).await.ok()?;
            let (_sender, mut receiver) =
                client.open(Open::Keeper(KeeperVerb::Stop { grace_ms })).await.ok()?;
            // Accepted, and then the end of the stream or of the connection: whatever comes, the keeper's end counts.
            while let Ok(Some(_)) = receiver.next().await {}
            Some(())
        };
        let patience = Duration::from_millis(grace_ms.into()) + MARGIN;
        if tokio::time::timeout(patience, ask).await.ok().flatten().is_none()
            && let Some(keeper) = &row.keeper
        {
            signal(keeper, Signal::TERM);
        }
    }

    /// The row as it is, after clearing up should its keeper have died.
    pub(crate) async fn recovered(&self, row: Row) -> Result<Row, EngineError> {
        let being_started = row.keeper.is_none() && self.has_living_intent(&row)?;
        if !row.state.has_keeper() || Self::keeper_lives(&row) || being_started {
            return Ok(row);
        }
        self.bury(&row, "its keeper died").await?;
        self.row(row.id().as_str())
    }

    fn has_living_intent(&self, row: &Row) -> Result<bool, EngineError> {
        let intents = self.store()?.intents()?.intents;
        Ok(intents
            .iter()
            .any(|intent| intent.sandbox_id == *row.id() && palisade_host::process::is_alive(&intent.owner)))
    }

    /// Records the death of a sandbox's keeper and gives back what it held.
    pub(crate) async fn bury(&self, row: &Row, reason: &str) -> Result<(), EngineError> {
        let backend = self.backend(row.spec.method)?;
        backend.stop(&row.spec).await?;
        if let Some(dir) = &row.spec.dir {
            // It may never have been made.
            let _ = std::fs::remove_file(dir.socket());
        }
        let store = self.store()?;
        let living = [State::Starting, State::Running, State::Stopping];
        // A sandbox that was being stopped is stopped now; any other end is an error one should hear of.
        let (to, why) = match row.state {
            State::Stopping => (State::Stopped, None),
            _ => (State::Error, Some(reason)),
        };
        store.transition_if(row.id(), &living, to, why, now())?;
        store.set_keeper(row.id(), None)?;
        store.append_event(row.id(), &Event::Recovered { what: reason.into() }, now())?;
        Ok(())
    }
}

/// Sends a signal to exactly that process, not to a later one with its number.
pub(crate) fn signal(process: &ProcessIdentity, signal: Signal) {
    if let Some(pid) = Pid::from_raw(process.pid as i32)
        && let Ok(held) = pidfd_open(pid, PidfdFlags::empty())
        && palisade_host::process::is_alive(process)
    {
        // It may end between the look and the signal, which is what we want.
        let _ = pidfd_send_signal(held, signal);
    }
}

/// Waits until a process has ended; says whether it did in time.
async fn wait_for_end(process: &ProcessIdentity, patience: Duration) -> bool {
    let Some(pid) = Pid::from_raw(process.pid as i32) else { return true };
    let Ok(held) = pidfd_open(pid, PidfdFlags::empty()) else { return true };
    if !palisade_host::process::is_alive(process) {
        return true;
    }
    let wait = move || {
        let timeout = Timespec::try_from(patience).ok();
        // Readable means ended.
        let mut held = [PollFd::new(&held, PollFlags::IN)];
        matches!(poll(&mut held, timeout.as_ref()), Ok(1))
    };
    tokio::task::spawn_blocking(wait).await.unwrap_or(false)
}
