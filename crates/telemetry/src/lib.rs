//! Spans, exported over OTLP/HTTP to whatever `OTEL_EXPORTER_OTLP_ENDPOINT` names. The rest of the program speaks
//! `tracing` and knows nothing of this.
//!
//! - Only what [`palisade_core::spans`] names is exported, and no event ever is: neither a command line, a variable
//!   nor a secret can get into a trace.
//! - Without an endpoint nothing is made: no subscriber, no thread, no connection.
//! - A collector that is dead, slow or broken costs the program at most [`EXIT_PATIENCE`], at its end, unless the
//!   user gave another time, and changes neither its output nor its exit code.

mod context;
mod endpoint;
mod http;
mod json;
mod layer;
mod protobuf;
mod queue;
mod settings;
mod span;
pub mod variables;

pub use layer::SpanLayer;
pub use queue::{Delivery, EXIT_PATIENCE};
pub use settings::{Problem, Reading, Settings};

use layer::OpenSpans;
use queue::Queue;
use std::sync::Arc;

/// Export that is under way.
#[derive(Debug, Clone)]
pub struct Telemetry {
    spans: Arc<OpenSpans>,
    queue: Arc<Queue>,
}

impl Telemetry {
    /// Starts nothing but the bookkeeping. The layer goes into the program's subscriber.
    pub fn new(settings: Settings, delivery: Delivery) -> (Self, SpanLayer) {
        let parent = settings.parent;
        let queue = Arc::new(Queue::new(settings, delivery));
        let spans = Arc::new(OpenSpans::new(parent, Arc::clone(&queue)));
        (Self { spans: Arc::clone(&spans), queue }, SpanLayer::new(spans))
    }

    /// What a child process needs in `TRACEPARENT` so that its spans join the current one.
    pub fn traceparent(&self) -> Option<String> {
        let current = tracing::Span::current().id();
        self.spans.context(current.as_ref()).map(|context| context.to_string())
    }

    /// Ends every span that is still open and delivers all of them, or gives up after [`EXIT_PATIENCE`]. To be called
    /// once, right before the process ends.
    pub fn finish(&self) {
        self.spans.end_all();
        self.queue.finish();
    }
}
