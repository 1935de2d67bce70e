//! Export of spans, when the environment asks for it: what is said of this very command, and the end of all of it.
//! Without an endpoint every function here does nothing.

use crate::Status;
use crate::failure::Failure;
use palisade_core::{Method, SandboxId, SandboxName, spans};
use palisade_telemetry::{Delivery, Problem, Settings, SpanLayer, Telemetry, variables};
use std::ffi::OsString;
use std::sync::OnceLock;
use tracing::field::{Empty, display};
use tracing::{Instrument, Span};

static ACTIVE: OnceLock<Active> = OnceLock::new();

struct Active {
    telemetry: Telemetry,
    /// The command's own span; a keeper has none, since its life is the sandbox's.
    command: OnceLock<Span>,
}

/// The hidden command of a keeper, which lives long.
pub(crate) const KEEPER: &str = "__keeper";

/// What goes into the program's subscriber, if anything, and what of the environment cannot be obeyed.
pub(crate) fn layer(command: &str) -> (Option<SpanLayer>, Vec<Problem>) {
    let reading = Settings::read(|name| std::env::var(name).ok());
    let delivery = if command == KEEPER { Delivery::InBatches } else { Delivery::AtExit };
    let layer = reading.settings.map(|settings| {
        let (telemetry, layer) = Telemetry::new(settings, delivery);
        // Asked for once in a process; a second time would export twice.
        let _ = ACTIVE.set(Active { telemetry, command: OnceLock::new() });
        layer
    });
    (layer, reading.problems)
}

/// From here on everything this program does belongs to its command's span, until the program ends.
pub(crate) fn begin(command: &str) {
    let Some(active) = ACTIVE.get().filter(|_| command != KEEPER) else { return };
    let span = tracing::info_span!(
        spans::COMMAND,
        otel.name = format!("palisade {command}"),
        sandbox.select = Empty,
        sandbox.select.origin = Empty,
        process.exit.code = Empty,
        error.type = Empty,
    );
    // Never left: the span is ended by `finish`, and that is the end of the process.
    std::mem::forget(span.clone().entered());
    let _ = active.command.set(span);
}

/// Puts on the command's span which method it uses, and who chose it.
pub(crate) fn selected(method: Method, origin: impl FnOnce() -> String) {
    if let Some(command) = ACTIVE.get().and_then(|active| active.command.get()) {
        command.record(spans::SELECT, display(method));
        command.record(spans::SELECT_ORIGIN, origin());
    }
}

pub(crate) fn failed(failure: &Failure) {
    if let Some(command) = ACTIVE.get().and_then(|active| active.command.get()) {
        command.record(spans::ERROR, failure.code());
    }
}

/// Delivers everything. To be called right before the process ends, whichever way.
pub(crate) fn finish(status: Status) {
    let Some(active) = ACTIVE.get() else { return };
    if let Some(command) = active.command.get() {
        command.record(spans::EXIT_CODE, status);
    }
    active.telemetry.finish();
}

/// A command inside a sandbox, in a span of its own.
pub(crate) async fn exec(
    (method, id, name): (Method, &SandboxId, Option<&SandboxName>),
    tty: bool,
    command: impl Future<Output = Result<Status, Failure>>,
) -> Result<Status, Failure> {
    let span = tracing::info_span!(
        spans::EXEC,
        sandbox.select = %method,
        sandbox.id = %id,
        sandbox.name = name.map(display),
        sandbox.exec.tty = tty,
        process.exit.code = Empty,
        error.type = Empty,
    );
    let outcome = command.instrument(span.clone()).await;
    match &outcome {
        Ok(status) => span.record(spans::EXIT_CODE, status),
        Err(failure) => span.record(spans::ERROR, failure.code()),
    };
    outcome
}

/// What a keeper needs of the environment in order to export, too, and to join the span that starts it.
pub(crate) fn keeper_environment() -> Vec<(OsString, OsString)> {
    let Some(active) = ACTIVE.get() else { return Vec::new() };
    let own = variables::ALL.iter().map(|variable| variable.name);
    let own = own.filter(|name| *name != variables::TRACEPARENT);
    let own = own.filter_map(|name| Some((name.into(), std::env::var_os(name)?)));
    let parent = active.telemetry.traceparent().map(|parent| (variables::TRACEPARENT.into(), parent.into()));
    own.chain(parent).collect()
}
