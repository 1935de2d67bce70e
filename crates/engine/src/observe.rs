//! Verbs as spans: which sandbox they are about, and how they ended. The names are `palisade_core::spans`.

use crate::error::EngineError;
use palisade_core::{Diagnostic, SandboxSpec, spans};
use tracing::field::display;
use tracing::{Instrument, Span};

/// A span for a verb. What is not known at its start is said by [`about`] and [`observe`].
macro_rules! verb_span {
    ($name:expr) => {
        tracing::info_span!(
            $name,
            sandbox.select = tracing::field::Empty,
            sandbox.id = tracing::field::Empty,
            sandbox.name = tracing::field::Empty,
            error.type = tracing::field::Empty,
        )
    };
}
pub(crate) use verb_span;

/// Does it within the span, and puts on that how it ended.
pub(crate) async fn observe<T>(
    span: Span,
    verb: impl Future<Output = Result<T, EngineError>>,
) -> Result<T, EngineError> {
    let outcome = verb.instrument(span.clone()).await;
    if let Err(error) = &outcome {
        span.record(spans::ERROR, error.code());
    }
    outcome
}

/// Puts on the current span which sandbox it is about.
pub(crate) fn about(spec: &SandboxSpec) {
    let span = Span::current();
    span.record(spans::SELECT, display(spec.method));
    span.record(spans::ID, display(&spec.id));
    if let Some(name) = &spec.name {
        span.record(spans::NAME, display(name));
    }
}
