//! Ended spans on their way to the collector. A thread delivers them, and exists only while it has something to do: a
//! command delivers once, at its end; a keeper in batches while it lives, and the rest at its end.
//!
//! The queue is bounded. What does not fit, or is not taken, is lost and told at the level debug: telemetry never
//! holds up the work it tells of.

use crate::http::{self, Request, Undelivered};
use crate::settings::{Protocol, Settings};
use crate::span::EndedSpan;
use crate::{json, protobuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How long the end of the program is held up by a collector at most, unless the user gave another time.
pub const EXIT_PATIENCE: Duration = Duration::from_secs(1);
/// How long a delivery may take that holds up nobody.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long spans of a keeper wait for others to travel with.
const GATHERING: Duration = Duration::from_secs(1);
const BATCH: usize = 512;
const CAPACITY: usize = 4 * BATCH;
const STACK: usize = 256 * 1024;

/// When spans are delivered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Delivery {
    /// All at once, when the program ends.
    AtExit,
    /// Also while it lives.
    InBatches,
}

#[derive(Debug)]
pub(crate) struct Queue {
    settings: Settings,
    delivery: Delivery,
    state: Mutex<State>,
    /// There is a batch, or the program ends.
    wake: Condvar,
    /// The courier has nothing left to deliver.
    idle: Condvar,
}

#[derive(Debug, Default)]
struct State {
    spans: Vec<EndedSpan>,
    lost: usize,
    /// Whether the thread that delivers is there.
    courier: bool,
    finishing: bool,
}

impl Queue {
    pub(crate) fn new(settings: Settings, delivery: Delivery) -> Self {
        Self { settings, delivery, state: Mutex::default(), wake: Condvar::new(), idle: Condvar::new() }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn push(self: &Arc<Self>, span: EndedSpan) {
        let mut state = self.state();
        if state.spans.len() >= CAPACITY {
            state.lost += 1;
            return;
        }
        state.spans.push(span);
        let full = state.spans.len() >= BATCH;
        if full || (self.delivery == Delivery::InBatches && !state.finishing) {
            self.send_courier(&mut state);
        }
        if full {
            self.wake.notify_all();
        }
    }

    /// Delivers what there is, within the time that the end of the program has for it.
    pub(crate) fn finish(self: &Arc<Self>) {
        let mut state = self.state();
        state.finishing = true;
        if !state.spans.is_empty() {
            self.send_courier(&mut state);
        }
        self.wake.notify_all();
        let patience = self.settings.timeout.unwrap_or(EXIT_PATIENCE);
        let (state, waited) = self
            .idle
            .wait_timeout_while(state, patience, |state| state.courier)
            .unwrap_or_else(PoisonError::into_inner);
        drop(state);
        if waited.timed_out() {
            self.tell(&Undelivered::Late);
        }
    }

    fn send_courier(self: &Arc<Self>, state: &mut State) {
        if state.courier {
            return;
        }
        let queue = Arc::clone(self);
        let thread = std::thread::Builder::new().name("telemetry".into()).stack_size(STACK);
        // Without a thread the spans stay where they are, until there is one or no room any more.
        state.courier = thread.spawn(move || queue.deliver()).is_ok();
    }

    fn deliver(&self) {
        let mut state = self.state();
        loop {
            let gathering = |state: &mut State| !state.finishing && state.spans.len() < BATCH;
            (state, _) = self
                .wake
                .wait_timeout_while(state, GATHERING, gathering)
                .unwrap_or_else(PoisonError::into_inner);
            let count = state.spans.len().min(BATCH);
            if count == 0 {
                state.courier = false;
                self.idle.notify_all();
                return;
            }
            let batch: Vec<EndedSpan> = state.spans.drain(..count).collect();
            let lost = std::mem::take(&mut state.lost);
            let usual = if state.finishing { EXIT_PATIENCE } else { PATIENCE };
            let patience = self.settings.timeout.unwrap_or(usual);
            drop(state);
            if lost > 0 {
                tracing::debug!(lost, "spans were lost: the collector does not keep up");
            }
            if let Err(reason) = self.send(&batch, Instant::now() + patience) {
                self.tell(&reason);
            }
            state = self.state();
        }
    }

    fn send(&self, batch: &[EndedSpan], deadline: Instant) -> Result<(), Undelivered> {
        let Settings { endpoint, headers, protocol, resource, .. } = &self.settings;
        let (content_type, body) = match protocol {
            Protocol::Protobuf => ("application/x-protobuf", protobuf::encode(resource, batch)),
            Protocol::Json => ("application/json", json::encode(resource, batch)),
        };
        http::post(&Request { endpoint, headers, content_type, body: &body }, deadline)
    }

    fn tell(&self, reason: &Undelivered) {
        tracing::debug!(collector = %self.settings.endpoint, %reason, "spans were not delivered");
    }
}
