//! A delivery in OTLP's binary form, `ExportTraceServiceRequest` of opentelemetry-proto. The few messages that are
//! needed are written by hand; the tests read them back with the official types.

use crate::span::{Attribute, EndedSpan, Resource, SCOPE, Value, number};

pub(crate) fn encode(resource: &Resource, spans: &[EndedSpan]) -> Vec<u8> {
    let mut request = Message::default();
    request.message(1, |resource_spans| {
        resource_spans.message(1, |message| message.attributes(1, &resource.attributes));
        resource_spans.message(2, |scope_spans| {
            scope_spans.message(1, |scope| {
                scope.bytes(1, SCOPE.0.as_bytes());
                scope.bytes(2, SCOPE.1.as_bytes());
            });
            for span in spans {
                scope_spans.message(2, |message| write_span(message, span));
            }
        });
    });
    request.0
}

fn write_span(message: &mut Message, span: &EndedSpan) {
    message.bytes(1, &span.trace.0);
    message.bytes(2, &span.id.0);
    if let Some(parent) = span.parent_id() {
        message.bytes(4, &parent.0);
    }
    message.bytes(5, span.name.as_bytes());
    message.integer(6, number::KIND_INTERNAL);
    message.fixed64(7, span.start);
    message.fixed64(8, span.end);
    message.attributes(9, &span.attributes);
    if let Some(code) = number::status(span.status) {
        message.message(15, |status| status.integer(3, code));
    }
    message.fixed32(16, number::flags(span));
}

#[derive(Default)]
struct Message(Vec<u8>);

/// How a field's value is laid out.
enum Wire {
    Varint = 0,
    Fixed64 = 1,
    Bytes = 2,
    Fixed32 = 5,
}

impl Message {
    fn varint(&mut self, mut value: u64) {
        while value >= 0x80 {
            self.0.push(value as u8 | 0x80);
            value >>= 7;
        }
        self.0.push(value as u8);
    }

    fn tag(&mut self, field: u64, wire: Wire) {
        self.varint(field << 3 | wire as u64);
    }

    fn integer(&mut self, field: u64, value: u64) {
        self.tag(field, Wire::Varint);
        self.varint(value);
    }

    fn fixed64(&mut self, field: u64, value: u64) {
        self.tag(field, Wire::Fixed64);
        self.0.extend(value.to_le_bytes());
    }

    fn fixed32(&mut self, field: u64, value: u32) {
        self.tag(field, Wire::Fixed32);
        self.0.extend(value.to_le_bytes());
    }

    fn bytes(&mut self, field: u64, bytes: &[u8]) {
        self.tag(field, Wire::Bytes);
        self.varint(bytes.len() as u64);
        self.0.extend(bytes);
    }

    fn message(&mut self, field: u64, write: impl FnOnce(&mut Message)) {
        let mut inner = Message::default();
        write(&mut inner);
        self.bytes(field, &inner.0);
    }

    fn attributes(&mut self, field: u64, attributes: &[Attribute]) {
        for (key, value) in attributes {
            self.message(field, |pair| {
                pair.bytes(1, key.as_bytes());
                pair.message(2, |any| match value {
                    Value::Text(text) => any.bytes(1, text.as_bytes()),
                    Value::Bool(truth) => any.integer(2, u64::from(*truth)),
                    // Two's complement, as the schema has it for a signed number.
                    Value::Integer(number) => any.integer(3, *number as u64),
                });
            });
        }
    }
}
