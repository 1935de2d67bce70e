//! A span that has ended, as it is handed to an encoder.

use crate::context::{SpanId, TraceId};

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Value {
    Text(String),
    Integer(i64),
    Bool(bool),
}

pub(crate) type Attribute = (String, Value);

#[derive(Debug, Clone, PartialEq)]
pub(crate) enum Parent {
    None,
    /// In this process.
    Local(SpanId),
    /// In the process that started this one.
    Remote(SpanId),
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Status {
    Unset,
    Error,
}

#[derive(Debug, Clone, PartialEq)]
pub(crate) struct EndedSpan {
    pub(crate) trace: TraceId,
    pub(crate) id: SpanId,
    pub(crate) parent: Parent,
    pub(crate) name: String,
    /// In nanoseconds since 1970, both.
    pub(crate) start: u64,
    pub(crate) end: u64,
    pub(crate) attributes: Vec<Attribute>,
    pub(crate) status: Status,
}

/// The numbers of the OTLP schema that both encodings use.
pub(crate) mod number {
    use super::{EndedSpan, Parent, Status};

    pub(crate) const KIND_INTERNAL: u64 = 1;
    pub(crate) const STATUS_ERROR: u64 = 2;
    const SAMPLED: u32 = 1;
    const PARENT_IS_KNOWN_TO_BE_REMOTE_OR_NOT: u32 = 0x100;
    const PARENT_IS_REMOTE: u32 = 0x200;

    pub(crate) fn status(status: Status) -> Option<u64> {
        (status == Status::Error).then_some(STATUS_ERROR)
    }

    pub(crate) fn flags(span: &EndedSpan) -> u32 {
        let remote = if matches!(span.parent, Parent::Remote(_)) { PARENT_IS_REMOTE } else { 0 };
        SAMPLED | PARENT_IS_KNOWN_TO_BE_REMOTE_OR_NOT | remote
    }
}

impl EndedSpan {
    pub(crate) fn parent_id(&self) -> Option<SpanId> {
        match self.parent {
            Parent::None => None,
            Parent::Local(id) | Parent::Remote(id) => Some(id),
        }
    }
}

/// What the spans of one delivery have in common.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Resource {
    pub(crate) attributes: Vec<Attribute>,
}

/// Who made the spans.
pub(crate) const SCOPE: (&str, &str) = ("palisade", env!("CARGO_PKG_VERSION"));
