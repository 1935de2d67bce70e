//! A sandbox that an engine runs outlives the connection to it: the engine may be restarted, or a network cut. Its keeper
//! then asks the engine whether the container runs, and connects again as soon as it can.
//!
//! Only the engine's word ends the sandbox. While the engine cannot be asked, the record goes on saying `running`, with
//! what is wrong beside it; clients get the same reason, and a stop is refused rather than claimed.

use crate::engine::{Engine, now};
use crate::keep::{Up, Way, greet};
use crate::keeper::{Closing, Keeper, KeeperEnd, serve_without_guest};
use crate::keeper_home::KeeperHome;
use palisade_core::{Backend, Event, SandboxSpec};
use palisade_egress::Gate;
use palisade_store::{Row, Store};
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

/// Between two tries, at first and at most.
const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(5);
/// How often, and how long each time, an engine is asked whether the sandbox has ended with its stream.
const END_LOOKS: usize = 3;
const END_PATIENCE: Duration = Duration::from_secs(1);
/// Losses that become events of the sandbox: more of them would push the other events out of their history.
const MOST_EVENTS: usize = 50;
/// How long an engine may take to say whether a sandbox can be stopped. A client waits longer than that.
const STOP_PATIENCE: Duration = Duration::from_secs(5);

/// What came of a connection that was lost.
pub(crate) enum ReconnectOutcome {
    Connected(Keeper),
    Ended(KeeperEnd, Closing),
}

impl Engine {
    /// Serves clients as far as that is possible until the guest answers again, or the sandbox has ended. `clients` are
    /// those of the connection that was lost.
    pub(crate) async fn regain_guest(
        &self,
        row: &Row,
        home: &KeeperHome,
        backend: &Arc<dyn Backend>,
        up: &mut Up,
        why: &str,
        clients: Option<Closing>,
    ) -> ReconnectOutcome {
        let lost = format!("the connection to {} is lost ({why}); it is tried again", row.spec.method);
        tracing::warn!(why, "the connection to the guest is lost");
        up.losses += 1;
        let is_event = up.losses <= MOST_EVENTS;
        self.note_trouble(row, home, Some(&lost), is_event);
        // They are cut off now that the record says why.
        drop(clients);
        let gate = up.gate.clone();
        let mut regained = pin!(reconnect(backend, &row.spec, gate.as_deref()));
        loop {
            let (end, closing) = tokio::select! {
                regained = &mut regained => match regained {
                    Some(keeper) => {
                        tracing::info!("the guest answers again");
                        self.note_trouble(row, home, None, is_event);
                        up.book.resume();
                        return ReconnectOutcome::Connected(keeper);
                    }
                    None => {
                        let closing = Closing::without_clients(&up.config);
                        return ReconnectOutcome::Ended(KeeperEnd::GuestGone(why.to_owned()), closing);
                    }
                },
                served = serve_without_guest(&mut up.config, &lost) => served,
            };
            let KeeperEnd::StopAsked { .. } = end else { return ReconnectOutcome::Ended(end, closing) };
            match ask_engine(backend, &row.spec).await {
                Ok(()) => return ReconnectOutcome::Ended(end, closing),
                Err(reason) => closing.refuse_stop(&reason).await,
            }
        }
    }

    /// What is wrong, in the record and, when it shall be, among the events; `None` when it is over.
    fn note_trouble(&self, row: &Row, home: &KeeperHome, trouble: Option<&str>, is_event: bool) {
        let event = match trouble {
            Some(trouble) => Event::Notice { text: trouble.to_owned() },
            None => Event::Recovered { what: format!("the connection to {} is back", row.spec.method) },
        };
        let record = |store: &Store| {
            store.set_trouble(row.id(), trouble)?;
            if is_event {
                store.append_event(row.id(), &event, now())?;
            }
            Ok(())
        };
        if let Err(error) = self.record_as_keeper(row, home, record) {
            tracing::warn!(%error, "what is wrong with the sandbox is not recorded");
        }
    }
}

/// Whether the engine says, at once, that the sandbox has ended: then its end is the reason why the stream has ended. A
/// container that is just ending is looked at a few times.
pub(crate) async fn has_ended(backend: &Arc<dyn Backend>, spec: &SandboxSpec) -> bool {
    for _ in 0..END_LOOKS {
        match tokio::time::timeout(END_PATIENCE, backend.inspect(spec)).await {
            Ok(Ok(liveness)) if !liveness.running => return true,
            Ok(Ok(_)) => tokio::time::sleep(FIRST_PAUSE).await,
            Ok(Err(_)) | Err(_) => return false,
        }
    }
    false
}

/// Tries until the guest answers; `None` when the engine says that the container does not run.
async fn reconnect(backend: &Arc<dyn Backend>, spec: &SandboxSpec, gate: Option<&Gate>) -> Option<Keeper> {
    let mut pause = FIRST_PAUSE;
    loop {
        match backend.inspect(spec).await {
            Ok(liveness) if !liveness.running => return None,
            Ok(_) => match greet(backend, spec, Way::Adopt, gate).await {
                Ok(keeper) => return Some(keeper),
                Err(error) => tracing::warn!(%error, "the sandbox runs, and its guest does not answer"),
            },
            Err(error) => tracing::warn!(%error, "the engine does not say whether the sandbox runs"),
        }
        tokio::time::sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

/// Whether the engine answers, so that it can be told to end the sandbox.
async fn ask_engine(backend: &Arc<dyn Backend>, spec: &SandboxSpec) -> Result<(), String> {
    match tokio::time::timeout(STOP_PATIENCE, backend.inspect(spec)).await {
        Ok(Ok(_)) => Ok(()),
        Ok(Err(error)) => Err(error.to_string()),
        Err(_) => Err(format!("{} did not answer within {} s", spec.method, STOP_PATIENCE.as_secs())),
    }
}
