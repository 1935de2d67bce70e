//! From `tracing`'s spans to ended ones. Events are not looked at, and of a span only what the contract names.

use crate::context::{SpanId, TraceContext, TraceId};
use crate::queue::Queue;
use crate::span::{EndedSpan, Parent, Status, Value};
use palisade_core::spans;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Instant, SystemTime, UNIX_EPOCH};
use tracing::field::{Field, Visit};
use tracing::span::{Attributes, Id, Record};
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::Layer;
use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::Context;
use tracing_subscriber::registry::LookupSpan;

/// Spans that have begun and not ended.
#[derive(Debug)]
pub(crate) struct OpenSpans {
    /// What spans without a parent in this process belong to.
    remote: Option<TraceContext>,
    open: Mutex<HashMap<Id, Open>>,
    queue: Arc<Queue>,
}

#[derive(Debug)]
struct Open {
    /// Its end and its status are not known yet.
    span: EndedSpan,
    since: Instant,
}

impl OpenSpans {
    pub(crate) fn new(remote: Option<TraceContext>, queue: Arc<Queue>) -> Self {
        Self { remote, open: Mutex::new(HashMap::new()), queue }
    }

    fn open(&self) -> MutexGuard<'_, HashMap<Id, Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The context of a span of this process, or of whoever started it.
    pub(crate) fn context(&self, id: Option<&Id>) -> Option<TraceContext> {
        let open = self.open();
        let found = id.and_then(|id| open.get(id));
        found
            .map(|open| TraceContext { trace: open.span.trace, span: open.span.id, sampled: true })
            .or(self.remote)
    }

    fn begin(&self, id: Id, parent: Option<&Id>, name: &str, fields: &Attributes<'_>) {
        let Ok(own) = SpanId::random() else { return };
        let mut open = self.open();
        let (trace, parent) = match (parent.and_then(|parent| open.get(parent)), self.remote) {
            (Some(parent), _) => (parent.span.trace, Parent::Local(parent.span.id)),
            (None, Some(remote)) => (remote.trace, Parent::Remote(remote.span)),
            (None, None) => match TraceId::random() {
                Ok(trace) => (trace, Parent::None),
                Err(_) => return,
            },
        };
        let mut span = EndedSpan {
            trace,
            id: own,
            parent,
            name: name.to_owned(),
            start: nanoseconds(SystemTime::now()),
            end: 0,
            attributes: Vec::new(),
            status: Status::Unset,
        };
        fields.record(&mut Fields(&mut span));
        open.insert(id, Open { span, since: Instant::now() });
    }

    fn record(&self, id: &Id, fields: &Record<'_>) {
        if let Some(open) = self.open().get_mut(id) {
            fields.record(&mut Fields(&mut open.span));
        }
    }

    fn end(&self, id: &Id) {
        let ended = self.open().remove(id);
        if let Some(open) = ended {
            self.queue.push(open.ended());
        }
    }

    /// The process ends, and with it whatever it was doing.
    pub(crate) fn end_all(&self) {
        let all = std::mem::take(&mut *self.open());
        for open in all.into_values() {
            self.queue.push(open.ended());
        }
    }
}

impl Open {
    fn ended(self) -> EndedSpan {
        let mut span = self.span;
        // By the clock that does not jump, so that no span is shorter than nothing.
        let nanoseconds = u64::try_from(self.since.elapsed().as_nanos()).unwrap_or(u64::MAX);
        span.end = span.start.saturating_add(nanoseconds);
        let failed = |(key, value): &(String, Value)| match value {
            Value::Integer(code) => key == spans::EXIT_CODE && *code != 0,
            _ => key == spans::ERROR,
        };
        if span.attributes.iter().any(failed) {
            span.status = Status::Error;
        }
        span
    }
}

fn nanoseconds(time: SystemTime) -> u64 {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

/// Puts on a span what the contract names, the last value of each.
struct Fields<'a>(&'a mut EndedSpan);

impl Fields<'_> {
    fn put(&mut self, field: &Field, value: Value) {
        let name = field.name();
        match value {
            Value::Text(text) if name == spans::RENAMED => self.0.name = text,
            value if spans::ATTRIBUTES.iter().any(|known| known.name == name) => {
                self.0.attributes.retain(|(known, _)| known != name);
                self.0.attributes.push((name.to_owned(), value));
            }
            _ => {}
        }
    }
}

impl Visit for Fields<'_> {
    fn record_str(&mut self, field: &Field, value: &str) {
        self.put(field, Value::Text(value.to_owned()));
    }

    fn record_i64(&mut self, field: &Field, value: i64) {
        self.put(field, Value::Integer(value));
    }

    fn record_u64(&mut self, field: &Field, value: u64) {
        self.put(field, Value::Integer(i64::try_from(value).unwrap_or(i64::MAX)));
    }

    fn record_bool(&mut self, field: &Field, value: bool) {
        self.put(field, Value::Bool(value));
    }

    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        self.put(field, Value::Text(format!("{value:?}")));
    }
}

/// What goes into the program's subscriber.
#[derive(Debug)]
pub struct SpanLayer {
    spans: Arc<OpenSpans>,
}

impl SpanLayer {
    pub(crate) fn new(spans: Arc<OpenSpans>) -> Self {
        Self { spans }
    }

    /// The layer, shown nothing but the spans of the contract.
    pub fn filtered<S>(self) -> impl Layer<S> + Send + Sync + 'static
    where
        S: Subscriber + for<'a> LookupSpan<'a>,
    {
        let exported = |metadata: &Metadata<'_>| {
            metadata.is_span()
                && *metadata.level() <= Level::INFO
                && spans::SPANS.iter().any(|known| known.name == metadata.name())
        };
        let filter = tracing_subscriber::filter::filter_fn(exported).with_max_level_hint(LevelFilter::INFO);
        self.with_filter(filter)
    }
}

impl<S> Layer<S> for SpanLayer
where
    S: Subscriber + for<'a> LookupSpan<'a>,
{
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let parent = match attributes.parent() {
            Some(parent) => Some(parent.clone()),
            None if attributes.is_contextual() => context.lookup_current().map(|span| span.id()),
            None => None,
        };
        self.spans.begin(id.clone(), parent.as_ref(), attributes.metadata().name(), attributes);
    }

    fn on_record(&self, id: &Id, fields: &Record<'_>, _context: Context<'_, S>) {
        self.spans.record(id, fields);
    }

    fn on_close(&self, id: Id, _context: Context<'_, S>) {
        self.spans.end(&id);
    }
}
