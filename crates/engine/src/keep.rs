//! The life of a keeper process: start the guest, tell whoever waits, serve, and put everything away.

use crate::engine::{Engine, now};
use crate::error::EngineError;
use crate::keeper::{Closing, Keeper, KeeperConfig, KeeperEnd, Pulse, socket, terminate_signal};
use crate::keeper_home::KeeperHome;
use crate::observe::{about, observe, verb_span};
use crate::reconnect::{ReconnectOutcome, has_ended};
use crate::session_book::{self, SessionBook};
use crate::start::KeeperReport;
use crate::way_out;
use palisade_core::{
    Backend, BackendError, BoxFuture, Capability, Diagnostic, Event, Liveness, SandboxSpec, State, spans,
};
use palisade_egress::Gate;
use palisade_host::fault::Step;
use palisade_host::fence;
use palisade_host::process;
use palisade_protocol::Open;
use palisade_store::{Row, Store};
use std::io::Write;
use std::sync::Arc;
use std::time::Duration;
use tracing::Span;
use tracing::field::Empty;

/// How long a guest may take to answer at its start.
const HANDSHAKE: Duration = Duration::from_secs(20);
/// How often a guest that another keeper has left is asked to begin anew, within that time.
const RESYNC_TRIES: u32 = 4;
/// How long a sandbox's processes have when nobody said otherwise.
const GRACE_MS: u32 = 5_000;

pub(crate) const SOCKET: &str = "keeper.sock";
/// Why sessions end that were running when somebody stopped their sandbox.
pub(crate) const STOPPED: &str = "it was stopped";

impl Engine {
    /// Becomes the keeper of a sandbox, until it ends. `report` is told once whether it is up, and then dropped.
    pub async fn keep(&self, id: &str, report: impl Write) -> Result<(), EngineError> {
        // A keeper's records are about the end of its sandbox, sooner or later.
        let _freeing = self.freeing_space();
        let row = self.row(id)?;
        let span = tracing::info_span!(
            spans::KEEP,
            sandbox.select = %row.spec.method,
            sandbox.id = %row.id(),
            sandbox.name = %row.name,
            sandbox.keeper.end = Empty,
            error.type = Empty,
        );
        observe(span, self.keep_row(row, report)).await
    }

    async fn keep_row(&self, row: Row, report: impl Write) -> Result<(), EngineError> {
        tracing::info!("keeper starts");
        let _lease = self.lease(Some(row.id()));
        EngineError::step(Step::KeepBegun)?;
        // Before anybody knows this process, so that it can be told to end from the first moment on.
        let terminate = terminate_signal().map_err(EngineError::io("listen for signals"))?;
        // Somebody may have judged the start dead in the meantime, and perhaps started another keeper; then this
        // one is not wanted any more, and has touched nothing yet.
        let Some(way) = self.take_over(&row)? else {
            let row = self.row(row.id().as_str())?;
            let error = EngineError::WrongState {
                name: row.name,
                state: row.state,
                verb: "keep",
                hint: "start it again".into(),
            };
            tell(report, &failure(&error));
            return Err(error);
        };
        let backend = self.backend(row.spec.method)?;
        // Not below this keeper's life, which is told only at its end: the boot belongs to whoever asked for it.
        let boot = tracing::info_span!(
            parent: None,
            spans::BOOT,
            sandbox.select = %row.spec.method,
            sandbox.id = %row.id(),
            sandbox.name = %row.name,
            error.type = Empty,
        );
        let pulse = Arc::new(Pulse::default());
        let prepared = self.home_of_keeper(&row).and_then(|home| {
            let writing = self.begin_writing(row.id(), &row.spec.policy, &row.spec.paths)?;
            Ok((home, writing))
        });
        let (home, _writing) = match prepared {
            Ok(prepared) => prepared,
            Err(error) => {
                tell(report, &failure(&error));
                return Err(error);
            }
        };
        let mut up = match observe(boot, self.bring_up(&row, &home, &backend, way, terminate, &pulse)).await {
            Ok(up) => up,
            Err(error) => {
                tell(report, &failure(&error));
                let reason = error.to_string();
                tracing::error!(%reason, "the sandbox did not come up");
                Span::current().record(spans::ERROR, error.code());
                let state = match error {
                    EngineError::StoppedMeanwhile { .. } => State::Stopped,
                    _ => State::Error,
                };
                // What was running when this keeper came may still run; what it was to start does not count as such.
                let unless_ended = match way {
                    Way::Start => FailedStop::Record,
                    Way::Adopt => FailedStop::LeaveRecord,
                };
                return self.put_away(&row, &home, &backend, state, Some(&reason), unless_ended).await;
            }
        };
        tell(report, &KeeperReport::Ready);
        tracing::info!("running");
        palisade_host::memory::give_back_start_up_code();
        let (end, closing) = self.serve(&row, &home, &backend, &mut up, &pulse).await;
        let Up { gate, .. } = up;
        if let Some(gate) = &gate {
            self.finish_egress(&home, gate.ledger());
        }
        tracing::info!(?end, "ending");
        Span::current().record(spans::KEEPER_END, end.word());
        if matches!(end, KeeperEnd::GuestGone(_) | KeeperEnd::Violation(_)) {
            Span::current().record(spans::ERROR, end.word());
        }
        let shutdown = async {
            about(&row.spec);
            self.end(&row, &home, &backend, end, closing).await
        };
        observe(verb_span!(spans::SHUTDOWN), shutdown).await
    }

    /// Serves clients until there is a reason to end. A connection that was lost is tried again where the sandbox lives on
    /// without it.
    async fn serve(
        &self,
        row: &Row,
        home: &KeeperHome,
        backend: &Arc<dyn Backend>,
        up: &mut Up,
        pulse: &Pulse,
    ) -> (KeeperEnd, Closing) {
        let outlives = outlives_keeper(backend, &row.spec);
        loop {
            let (why, clients) = match std::mem::replace(&mut up.link, Link::Lost(String::new())) {
                Link::Connected(keeper) => {
                    let write_egress = async {
                        match &up.gate {
                            Some(gate) => self.write_egress(row, home, gate.ledger()).await,
                            None => std::future::pending().await,
                        }
                    };
                    let (end, closing) = tokio::select! {
                        served = keeper.serve(&mut up.config) => served,
                        never = write_egress => match never {},
                        never = up.book.follow() => match never {},
                        never = self.run_errands(row, home, pulse) => match never {},
                    };
                    match end {
                        KeeperEnd::GuestGone(why) if outlives && !has_ended(backend, &row.spec).await => {
                            (why, Some(closing))
                        }
                        end => return (end, closing),
                    }
                }
                Link::Lost(why) => (why, None),
            };
            match self.regain_guest(row, home, backend, up, &why, clients).await {
                ReconnectOutcome::Connected(keeper) => up.link = Link::Connected(keeper),
                ReconnectOutcome::Ended(end, closing) => return (end, closing),
            }
        }
    }

    /// Becomes the keeper in the record: of a sandbox that is being started, or of one whose keeper has died.
    fn take_over(&self, row: &Row) -> Result<Option<Way>, EngineError> {
        let (store, this) = (self.store()?, process::this_process());
        if store.adopt(row.id(), &this)? {
            return Ok(Some(Way::Start));
        }
        let dead = row.keeper.as_ref().filter(|keeper| !process::is_alive(keeper));
        match dead {
            Some(dead) if store.succeed(row.id(), dead, &this)? => Ok(Some(Way::Adopt)),
            _ => Ok(None),
        }
    }

    fn home_of_keeper(&self, row: &Row) -> Result<KeeperHome, EngineError> {
        let failed = |reason: String| EngineError::Keeper { name: row.name.clone(), reason };
        let dir = row.spec.dir.as_ref().ok_or_else(|| failed("it has no directory".into()))?;
        KeeperHome::open(&self.config.state, dir)
            .map_err(|error| failed(format!("its directory {} cannot be opened: {error}", dir.path())))
    }

    async fn bring_up(
        &self,
        row: &Row,
        home: &KeeperHome,
        backend: &Arc<dyn Backend>,
        way: Way,
        mut terminate: BoxFuture<'static, ()>,
        pulse: &Arc<Pulse>,
    ) -> Result<Up, EngineError> {
        EngineError::step(Step::KeepAdopted)?;
        let dir = home.dir();
        let listener =
            socket::bind(dir.path(), SOCKET).await.map_err(EngineError::io("open the keeper's socket"))?;
        EngineError::step(Step::KeepSocket)?;
        let gate = way_out::gate(backend.as_ref(), &row.spec)?;
        let book = Arc::new(SessionBook::open(&dir)?);
        let writing = Arc::clone(&book);
        let manner = match way {
            Way::Adopt => Way::Adopt,
            Way::Start => {
                // Together: both may take long, and no command is taken before both are done. What was seen is on disk,
                // and not kept in the memory of a process that may live for days.
                let spec = self.with_private_git(backend, &row.spec).await?;
                let (started, _) =
                    tokio::join!(backend.start(&spec), self.take_baselines(&row.spec, &row.spec.policy));
                match started {
                    // The record was wrong, and what runs is not ended for it.
                    Err(BackendError::RunsAlready { .. }) => Way::Adopt,
                    started => started.map(|()| Way::Start)?,
                }
            }
        };
        // A guest that hangs need not be waited for when the sandbox is to be stopped.
        let answered = async {
            // Both at once: an engine answers questions about a container while its guest is starting.
            let greeted = greet(backend, &row.spec, manner, gate.as_deref());
            let (keeper, liveness) = tokio::join!(greeted, backend.inspect(&row.spec));
            match (keeper, liveness) {
                (Ok(keeper), liveness) => Ok((Link::Connected(keeper), liveness?)),
                // It runs, so it is not given up because it cannot be reached.
                (Err(error), Ok(liveness)) if way == Way::Adopt && liveness.running => {
                    Ok((Link::Lost(error.to_string()), liveness))
                }
                (Err(error), _) => Err(error),
            }
        };
        let (link, liveness) = tokio::select! {
            answered = answered => answered?,
            () = &mut terminate => return Err(EngineError::StoppedMeanwhile { name: row.name.clone() }),
        };
        EngineError::step(Step::KeepGreeted)?;
        self.note_limits(row, &liveness)?;
        match way {
            Way::Start => {
                self.store()?.transition_if(row.id(), &[State::Starting], State::Running, None, now())?;
            }
            Way::Adopt => {
                let what = "its keeper died, and another took over".into();
                self.store()?.append_event(row.id(), &Event::Recovered { what }, now())?;
            }
        }
        EngineError::step(Step::KeepRunning)?;
        let status = serde_json::to_string(&liveness).unwrap_or_default();
        let config = KeeperConfig {
            listener,
            status_json: Arc::new(move || status.clone()),
            allowed_uid: rustix::process::geteuid().as_raw(),
            terminate,
            door: gate.clone().map(Gate::door),
            session_started: Arc::new(move |name| writing.started(name)),
            pulse: Arc::clone(pulse),
        };
        Ok(Up { link, config, gate, book, losses: 0 })
    }

    /// What is started: the sandbox with git data of its own.
    async fn with_private_git(
        &self,
        backend: &Arc<dyn Backend>,
        spec: &SandboxSpec,
    ) -> Result<SandboxSpec, EngineError> {
        let git = self.private_git(backend.as_ref(), spec, None).await?;
        Ok(SandboxSpec { git, ..spec.clone() })
    }

    fn note_limits(&self, row: &Row, liveness: &Liveness) -> Result<(), EngineError> {
        for limit in liveness.limits.iter().filter(|limit| !limit.enforced) {
            tracing::warn!(limit = limit.limit, why = limit.how, "a default limit is not enforced");
            let event = Event::LimitNotEnforced { limit: limit.limit.clone(), why: limit.how.clone() };
            self.store()?.append_event(row.id(), &event, now())?;
        }
        Ok(())
    }

    async fn end(
        &self,
        row: &Row,
        home: &KeeperHome,
        backend: &Arc<dyn Backend>,
        end: KeeperEnd,
        closing: Closing,
    ) -> Result<(), EngineError> {
        let (state, reason) = match end {
            KeeperEnd::StopAsked { grace_ms } => {
                self.shut_down(row, home, &closing, grace_ms).await;
                (State::Stopped, None)
            }
            KeeperEnd::TerminateSignal => {
                self.shut_down(row, home, &closing, GRACE_MS).await;
                (State::Stopped, Some("the keeper was told to end".to_owned()))
            }
            KeeperEnd::GuestGone(why) => (State::Error, Some(format!("the guest is gone: {why}"))),
            KeeperEnd::Violation(violation) => {
                let event = Event::ProtocolViolation { detail: violation.to_string() };
                note(self.record_as_keeper(row, home, |store| store.append_event(row.id(), &event, now())));
                (State::Error, Some(format!("the guest broke the protocol: {violation}")))
            }
        };
        let result =
            self.put_away(row, home, backend, state, reason.as_deref(), FailedStop::LeaveRecord).await;
        closing.finish().await;
        result
    }

    async fn shut_down(&self, row: &Row, home: &KeeperHome, closing: &Closing, grace_ms: u32) {
        let stopping =
            |store: &Store| store.transition_if(row.id(), &[State::Running], State::Stopping, None, now());
        note(self.record_as_keeper(row, home, stopping));
        note(EngineError::step(Step::KeepStopping));
        if !closing.shut_guest_down(grace_ms).await {
            tracing::warn!("the guest did not leave in time and is ended by force");
        }
        note(EngineError::step(Step::KeepGuestLeft));
    }

    /// Gives back what lived while the sandbox ran, and records the end.
    /// Where an engine has the sandbox, only its word that nothing runs is recorded as the end.
    async fn put_away(
        &self,
        row: &Row,
        home: &KeeperHome,
        backend: &Arc<dyn Backend>,
        state: State,
        reason: Option<&str>,
        unless_ended: FailedStop,
    ) -> Result<(), EngineError> {
        let stopped = backend.stop(&row.spec).await;
        let outlives = backend.capabilities().has(Capability::OutlivesKeeper);
        if stopped.is_err() && outlives && unless_ended == FailedStop::LeaveRecord {
            // It may run on: the record says so until the engine can be asked again.
            socket::remove(home.dir().path(), SOCKET);
            return Ok(stopped?);
        }
        note(EngineError::step(Step::KeepGivenBack));
        let changes = self.report_recorded_changes(row.id()).into_iter();
        for text in changes.chain(fence::still_closed(&row.spec.policy)) {
            let event = Event::Notice { text };
            note(self.record_as_keeper(row, home, |store| store.append_event(row.id(), &event, now())));
        }
        socket::remove(home.dir().path(), SOCKET);
        note(session_book::close(&home.dir(), reason.unwrap_or(STOPPED)));
        note(EngineError::step(Step::KeepSocketGone));
        let living = [State::Starting, State::Running, State::Stopping];
        let record = |store: &Store| store.transition_if(row.id(), &living, state, reason, now());
        self.record_as_keeper(row, home, record)?;
        Ok(stopped?)
    }
}

/// What is recorded of a sandbox that an engine runs, when the engine does not say that it has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum FailedStop {
    /// The end, all the same.
    Record,
    /// Nothing: it may run on.
    LeaveRecord,
}

/// All that a sandbox which is up has on the host.
pub(crate) struct Up {
    link: Link,
    pub(crate) config: KeeperConfig,
    pub(crate) gate: Option<Arc<Gate>>,
    pub(crate) book: Arc<SessionBook>,
    /// How often the connection was lost.
    pub(crate) losses: usize,
}

/// The connection to a guest.
enum Link {
    Connected(Keeper),
    /// There is none, for this reason.
    Lost(String),
}

/// Whether a sandbox goes on without the connection to it. One that may write a directory of the host's does not.
fn outlives_keeper(backend: &Arc<dyn Backend>, spec: &SandboxSpec) -> bool {
    backend.capabilities().has(Capability::OutlivesKeeper) && !spec.policy.writes_host()
}

/// How a keeper comes to its sandbox.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Way {
    Start,
    /// It runs, and its keeper has died, perhaps in the middle of a frame.
    Adopt,
}

/// The handshake, and the backend's explanation when there is none.
pub(crate) async fn greet(
    backend: &Arc<dyn Backend>,
    spec: &SandboxSpec,
    way: Way,
    gate: Option<&Gate>,
) -> Result<Keeper, EngineError> {
    let shaken = match way {
        Way::Start => {
            let stream = backend.connect(spec).await?;
            match tokio::time::timeout(HANDSHAKE, Keeper::handshake(stream)).await {
                Ok(Ok(keeper)) => Some(keeper),
                Ok(Err(error)) => {
                    tracing::error!(%error, "the guest did not greet");
                    None
                }
                Err(_) => {
                    tracing::error!("the guest did not greet in time");
                    None
                }
            }
        }
        Way::Adopt => resynced(backend, spec).await?,
    };
    let Some(mut keeper) = shaken else { return Err(backend.explain(spec).await.into()) };
    let Some(gate) = gate else { return Ok(keeper) };
    way_out::make_room();
    match tokio::time::timeout(HANDSHAKE, keeper.ask(&Open::Egress(gate.request()))).await {
        Ok(Ok(Ok(()))) => Ok(keeper),
        Ok(Ok(Err(refusal))) => Err(way_out::refused(&refusal)),
        Ok(Err(_)) | Err(_) => Err(backend.explain(spec).await.into()),
    }
}

/// Tried again: what the dead keeper sent last may still be on its way, and arrive in the middle of our first words.
async fn resynced(backend: &Arc<dyn Backend>, spec: &SandboxSpec) -> Result<Option<Keeper>, EngineError> {
    for _ in 0..RESYNC_TRIES {
        let stream = backend.connect(spec).await?;
        let tried = tokio::time::timeout(HANDSHAKE / RESYNC_TRIES, Keeper::adopt(stream)).await;
        if let Ok(Ok(keeper)) = tried {
            return Ok(Some(keeper));
        }
    }
    Ok(None)
}

/// What cannot be recorded on the way down must not keep the keeper from putting everything away.
fn note<T>(recorded: Result<T, impl std::fmt::Display>) {
    if let Err(error) = recorded {
        tracing::warn!(%error, "the end of the sandbox is not fully recorded");
    }
}

fn failure(error: &EngineError) -> KeeperReport {
    KeeperReport::Failed {
        code: error.code().into(),
        exit: error.exit() as u8,
        message: error.to_string(),
        hints: error.hints(),
    }
}

/// Whoever started the keeper may be gone; the keeper goes on all the same.
fn tell(mut report: impl Write, what: &KeeperReport) {
    let line = serde_json::to_string(what).unwrap_or_default();
    let _ = writeln!(report, "{line}");
    let _ = report.flush();
}
