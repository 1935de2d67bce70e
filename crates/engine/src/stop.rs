//! `stop`, and what is done for a sandbox whose keeper died.

use crate::bound_repositories::BringCause;
use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::keep::{SOCKET, STOPPED};
use crate::keeper::socket;
use crate::observe::{about, observe, verb_span};
use crate::session_book;
use crate::turn::Turn;
use crate::unsaved_work::ArchiveCause;
use palisade_core::{Capability, Event, ProcessIdentity, SandboxId, State, printable_lines, spans};
use palisade_host::fault::Step;
use palisade_protocol::client::{Client, ClientError, StreamEvent};
use palisade_protocol::{KeeperVerb, Open};
use palisade_store::{Row, StoreError, StoredEvent};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};
use std::time::Duration;

/// How long a keeper may take beyond the grace of what is inside.
const MARGIN: Duration = Duration::from_secs(10);
/// How long a keeper that was just started may take to make itself known.
const APPEARANCE: Duration = Duration::from_secs(5);
/// How long another command may take to put a dead keeper's sandbox in order.
const BURIAL: Duration = Duration::from_secs(10);
/// How long a keeper may take to record the end that its clients have seen.
pub(crate) const LAST_ACT: Duration = Duration::from_secs(2);
/// How long a keeper may take to greet a command that wants it to stop.
const GREETING: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(10);

/// How long a stop waits for the archive of what is inside.
const ARCHIVE_TIMEOUT: Duration = Duration::from_secs(20);

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StopOutcome {
    Stopped,
    AlreadyStopped,
}

/// What a stop did.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StopReport {
    pub outcome: StopOutcome,
    /// Why work in it is not archived; `None` when it is, or when there is none.
    pub not_archived: Option<String>,
}

/// What a keeper said to a stop.
enum StopAnswer {
    /// Its end tells whether it did.
    Done,
    /// It cannot, for this reason.
    Refused(String),
}

impl Engine {
    /// What the user was told about a sandbox since then.
    pub fn notices(&self, id: &SandboxId, since: i64) -> Result<Vec<String>, EngineError> {
        const MOST: usize = 1000;
        let events = self.store()?.events(id, 0, MOST)?;
        let text = |stored: StoredEvent| match stored.event {
            Event::Notice { text } if stored.at >= since => Some(text),
            _ => None,
        };
        Ok(events.into_iter().filter_map(text).collect())
    }

    /// Stops a sandbox. Work in it is archived first, as far as that is possible in a short time.
    pub async fn stop(&self, name: &str, grace: Duration) -> Result<StopReport, EngineError> {
        let _freeing = self.freeing_space();
        observe(verb_span!(spans::STOP), self.stop_observed(name, grace)).await
    }

    async fn stop_observed(&self, name: &str, grace: Duration) -> Result<StopReport, EngineError> {
        let row = self.row(name)?;
        let not_archived = self.archive_before_stop(&row).await.err();
        self.bring_back_before_stop(&row).await;
        let outcome = self.end_keeper(row.id().as_str(), grace).await?;
        self.settle_repositories(&row).await;
        Ok(StopReport { outcome, not_archived })
    }

    /// Why the work is not archived, when it is not. The files stay in the sandbox in any case.
    async fn archive_before_stop(&self, row: &Row) -> Result<(), String> {
        if row.state != State::Running || !self.config.unsaved_work.concerns(row) {
            return Ok(());
        }
        let archive = async {
            let connection = self.connect(row.id().as_str()).await.map_err(|error| error.to_string())?;
            let archived = self.config.unsaved_work.archive(&connection, ArchiveCause::Stop).await;
            archived.map_err(|error| error.to_string())
        };
        match tokio::time::timeout(ARCHIVE_TIMEOUT, archive).await {
            Ok(Ok(archived)) if archived.not_archived.is_empty() => Ok(()),
            Ok(Ok(archived)) => Err(archived.not_archived.join("; ")),
            Ok(Err(reason)) => Err(reason),
            Err(_) => Err(format!("it took longer than {} s", ARCHIVE_TIMEOUT.as_secs())),
        }
    }

    /// What cannot be brought back now stays with the sandbox, and its next start uses it again.
    async fn bring_back_before_stop(&self, row: &Row) {
        if row.state != State::Running || !row.spec.policy.writes_host() {
            return;
        }
        let bring = self.bring_commits(row.id().as_str(), BringCause::End);
        let failure = match tokio::time::timeout(ARCHIVE_TIMEOUT, bring).await {
            Ok(Ok(_)) => return,
            Ok(Err(error)) => format!("commits could not be brought back: {error}"),
            Err(_) => format!("commits were not brought back within {} s", ARCHIVE_TIMEOUT.as_secs()),
        };
        if let Err(error) = self.note(row.id(), &Event::Notice { text: failure }) {
            tracing::warn!(%error, "a notice could not be written");
        }
    }

    /// For a caller that has seen to the work itself.
    pub(crate) async fn stop_without_archive(
        &self,
        name: &str,
        grace: Duration,
    ) -> Result<StopOutcome, EngineError> {
        self.end_keeper(name, grace).await
    }

    async fn end_keeper(&self, name: &str, grace: Duration) -> Result<StopOutcome, EngineError> {
        let row = self.row(name)?;
        about(&row.spec);
        self.refuse_foreign(&row)?;
        let id = row.id().clone();
        let row = match self.with_known_keeper(row).await {
            // What runs without a keeper that could be found another one is ended without one.
            Err(EngineError::Keeper { .. } | EngineError::Reported { .. }) => {
                return self.stop_without_keeper(&id).await;
            }
            row => row?,
        };
        if !row.state.has_keeper() {
            return self.stop_at_rest(&row).await;
        }
        let _lease = self.lease(None);
        let grace_ms = u32::try_from(grace.as_millis()).unwrap_or(u32::MAX);
        if let StopAnswer::Refused(reason) = self.ask_to_stop(&row, grace_ms).await {
            return Err(EngineError::NotStopped { name: row.name, reason });
        }
        EngineError::step(Step::StopAsked)?;
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
            self.note_forced_stop(&row)?;
            end_keeper(keeper).await;
        }
        EngineError::step(Step::StopEnded)?;
        // A keeper that ended as it should has recorded the end; one that did not has left it to us.
        let Some(row) = self.still_kept_by(row.id(), keeper)? else { return Ok(StopOutcome::Stopped) };
        let seconds = (grace + MARGIN).as_secs();
        let timeout = || EngineError::Timeout { name: row.name.clone(), what: "stop", seconds };
        let turn = self.turn_within(row.id(), BURIAL).await?.ok_or_else(timeout)?;
        match self.still_kept_by(row.id(), keeper)? {
            Some(row) if Self::keeper_lives(&row) => Err(timeout()),
            Some(row) => self.stop_unkept(&row, &turn).await,
            None => Ok(StopOutcome::Stopped),
        }
    }

    /// The record, when it still names this keeper. Another one was started after the one that was stopped.
    fn still_kept_by(&self, id: &SandboxId, keeper: &ProcessIdentity) -> Result<Option<Row>, EngineError> {
        match self.row(id.as_str()) {
            Ok(row) => Ok(Some(row).filter(|row| row.keeper.as_ref() == Some(keeper))),
            Err(EngineError::Store(StoreError::NotFound { .. })) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// The record says that it does not run. Where an engine has it, the engine's word counts.
    async fn stop_at_rest(&self, row: &Row) -> Result<StopOutcome, EngineError> {
        let backend = self.backend(row.spec.method)?;
        let asked = backend.capabilities().has(Capability::OutlivesKeeper);
        if !asked || !backend.inspect(&row.spec).await?.running {
            return Ok(StopOutcome::AlreadyStopped);
        }
        let turn = self.turn(row).await?;
        self.store()?.record_running(row.id(), None, now())?;
        self.stop_unkept(&self.row(row.id().as_str())?, &turn).await
    }

    async fn stop_without_keeper(&self, id: &SandboxId) -> Result<StopOutcome, EngineError> {
        let row = self.row(id.as_str())?;
        let turn = self.turn(&row).await?;
        self.stop_unkept(&self.row(id.as_str())?, &turn).await
    }

    /// Has the backend end a sandbox that no living process keeps, because the user asked for it.
    async fn stop_unkept(&self, row: &Row, turn: &Turn) -> Result<StopOutcome, EngineError> {
        if Self::is_orphaned(row) {
            let running = [State::Starting, State::Running];
            match self.store()?.transition_if(row.id(), &running, State::Stopping, None, now()) {
                // It was being stopped.
                Ok(_) | Err(StoreError::StateChanged { .. }) => {}
                Err(error) => return Err(error.into()),
            }
            self.bury(&self.row(row.id().as_str())?, STOPPED, turn).await?;
        } else if row.state.has_keeper() {
            // Another command has started it meanwhile.
            return Err(EngineError::Busy { name: row.name.clone() });
        }
        Ok(StopOutcome::Stopped)
    }

    /// Before the keeper is killed: what was asked for is a stop, and whoever puts the rest in order sees that.
    fn note_forced_stop(&self, row: &Row) -> Result<(), EngineError> {
        let store = self.store()?;
        let text = "its keeper did not end when asked and was killed".to_owned();
        store.append_event(row.id(), &Event::Notice { text }, now())?;
        match store.transition_if(row.id(), &[State::Starting, State::Running], State::Stopping, None, now())
        {
            Ok(_) | Err(StoreError::StateChanged { .. }) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// Asks through the socket, and by a signal where that does not work; the keeper's end tells whether it did.
    async fn ask_to_stop(&self, row: &Row, grace_ms: u32) -> StopAnswer {
        let ask = async {
            // A keeper whose guest has not answered yet listens to nobody.
            if row.state == State::Starting {
                return None;
            }
            let dir = row.spec.dir.as_ref()?;
            let connect = async {
                let stream = socket::connect(dir.path(), SOCKET).await.ok()?;
                Client::connect(stream).await.ok()
            };
            // One that does not greet is stopped itself, and takes no signal either: its end is waited for, and forced.
            let (client, _) = tokio::time::timeout(GREETING, connect).await.ok().flatten()?;
            let (_sender, mut receiver) =
                client.open(Open::Keeper(KeeperVerb::Stop { grace_ms })).await.ok()?;
            // Accepted, and then the end of the stream or of the connection: whatever comes, the keeper's end counts.
            while let Ok(Some(event)) = receiver.next().await {
                if let StreamEvent::Refused(refusal) = event {
                    return Some(StopAnswer::Refused(printable_lines(&refusal.text)));
                }
            }
            Some(StopAnswer::Done)
        };
        let patience = Duration::from_millis(grace_ms.into()) + MARGIN;
        let asked = tokio::time::timeout(patience, ask).await.ok().flatten();
        if asked.is_none()
            && let Some(keeper) = &row.keeper
        {
            signal(keeper, Signal::TERM);
        }
        asked.unwrap_or(StopAnswer::Done)
    }

    /// The row, after waiting for the keeper of a start that has just begun to make itself known.
    async fn with_known_keeper(&self, row: Row) -> Result<Row, EngineError> {
        let deadline = tokio::time::Instant::now() + APPEARANCE;
        let mut row = self.recovered(row).await?;
        while row.state.has_keeper() && row.keeper.is_none() && tokio::time::Instant::now() < deadline {
            tokio::time::sleep(PAUSE).await;
            row = self.recovered(self.row(row.id().as_str())?).await?;
        }
        Ok(row)
    }

    /// The row as it is, after clearing up should its keeper have died.
    pub(crate) async fn recovered(&self, row: Row) -> Result<Row, EngineError> {
        if !Self::is_orphaned(&row) {
            return Ok(row);
        }
        // Without a keeper yet, somebody is starting it; with a dead one, somebody may be putting it in order.
        let patience = if row.keeper.is_none() { Duration::ZERO } else { BURIAL };
        let Some(turn) = self.turn_within(row.id(), patience).await? else { return Ok(row) };
        self.recovered_in_turn(self.row(row.id().as_str())?, &turn).await
    }

    /// As [`Engine::recovered`], by whoever has the sandbox's turn.
    pub(crate) async fn recovered_in_turn(&self, row: Row, turn: &Turn) -> Result<Row, EngineError> {
        if !Self::is_orphaned(&row) {
            return Ok(row);
        }
        if self.goes_on_without_keeper(&row).await? {
            let since = now();
            let spawned = self.spawn_keeper(&row).await;
            // What ended before the new keeper could reach it is that keeper's to put away, and nobody hears it.
            self.notices(row.id(), since)?.iter().for_each(|text| (self.config.tell)(text));
            let row = self.row(row.id().as_str())?;
            // What runs is not ended because it cannot be reached: the next command tries again.
            if let Err(error) = spawned
                && Self::is_orphaned(&row)
                && self.goes_on_without_keeper(&row).await?
            {
                return Err(error);
            }
        }
        let row = self.row(row.id().as_str())?;
        if !Self::is_orphaned(&row) {
            return Ok(row);
        }
        let reason = if row.keeper.is_none() { "its start was interrupted" } else { "its keeper died" };
        self.bury(&row, reason, turn).await?;
        self.row(row.id().as_str())
    }

    /// Whether the sandbox lives on although its keeper has died, so that another may take over.
    async fn goes_on_without_keeper(&self, row: &Row) -> Result<bool, EngineError> {
        // One that may write a directory of the host's ends with its keeper, and is perhaps still about to.
        if row.state != State::Running || row.spec.policy.writes_host() {
            return Ok(false);
        }
        let backend = self.backend(row.spec.method)?;
        if !backend.capabilities().has(Capability::OutlivesKeeper) {
            return Ok(false);
        }
        Ok(backend.inspect(&row.spec).await?.running)
    }

    /// Whether a keeper should be alive and none is.
    pub(crate) fn is_orphaned(row: &Row) -> bool {
        row.state.has_keeper() && !Self::keeper_lives(row)
    }

    /// Records the death of a sandbox's keeper and gives back what it held. Only for whoever has its turn: a new
    /// keeper would lose everything to this.
    pub(crate) async fn bury(&self, row: &Row, reason: &str, _turn: &Turn) -> Result<(), EngineError> {
        let backend = self.backend(row.spec.method)?;
        backend.stop(&row.spec).await?;
        let changes = self.report_recorded_changes(row.id());
        // A sandbox that was being stopped is stopped now; any other end is an error one should hear of.
        let (to, why) = match row.state {
            State::Stopping => (State::Stopped, None),
            _ => (State::Error, Some(reason)),
        };
        if let Some(dir) = &row.spec.dir {
            socket::remove(dir.path(), SOCKET);
            if let Err(error) = session_book::close(dir, why.unwrap_or(STOPPED)) {
                tracing::warn!(%error, "what became of the sessions is not written down");
            }
        }
        let store = self.store()?;
        let living = [State::Starting, State::Running, State::Stopping];
        store.transition_if(row.id(), &living, to, why, now())?;
        store.append_event(row.id(), &Event::Recovered { what: reason.into() }, now())?;
        for text in changes {
            // It is nobody's answer, so it is both said and kept.
            (self.config.tell)(&text);
            store.append_event(row.id(), &Event::Notice { text }, now())?;
        }
        Ok(())
    }
}

impl Engine {
    /// Why a connection ended that was to last: the sandbox's own end, when that is why.
    pub async fn loss(&self, row: &Row, error: EngineError) -> EngineError {
        if !matches!(error, EngineError::Client(ClientError::Closed | ClientError::Io(_))) {
            return error;
        }
        let lost = |now: &Row| match &now.error {
            Some(why) if now.state == State::Running && Self::keeper_lives(now) => {
                Some(EngineError::EngineLost { name: now.name.clone(), why: why.clone() })
            }
            _ => None,
        };
        if let Some(lost) = self.row(row.id().as_str()).ok().as_ref().and_then(lost) {
            return lost;
        }
        // Its last act, the record of the end, may still be under way.
        if let Some(keeper) = &row.keeper {
            wait_for_end(keeper, LAST_ACT).await;
        }
        let ended = |why: &str| EngineError::Ended { name: row.name.clone(), why: why.to_owned() };
        match self.row(row.id().as_str()) {
            Ok(now) if Self::is_orphaned(&now) => match self.goes_on_without_keeper(&now).await {
                Ok(true) => EngineError::KeeperDied { name: row.name.clone() },
                Ok(false) | Err(_) => ended("its keeper died"),
            },
            Ok(now) if lost(&now).is_some() => lost(&now).unwrap_or(error),
            Ok(now) if now.state == State::Error => ended(now.error.as_deref().unwrap_or("something failed")),
            Ok(now) if matches!(now.state, State::Stopping | State::Stopped) => ended(STOPPED),
            Err(EngineError::Store(StoreError::NotFound { .. })) => {
                EngineError::Removed { name: row.name.clone() }
            }
            Ok(_) | Err(_) => error,
        }
    }
}

/// Ends a keeper that cannot be asked.
pub(crate) async fn end_keeper(keeper: &ProcessIdentity) {
    signal(keeper, Signal::KILL);
    wait_for_end(keeper, MARGIN).await;
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
pub(crate) async fn wait_for_end(process: &ProcessIdentity, patience: Duration) -> bool {
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
