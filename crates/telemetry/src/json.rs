//! A delivery in OTLP's JSON form: ids in hex, and 64-bit numbers as text.

use crate::span::{Attribute, EndedSpan, Resource, SCOPE, Value, number};
use serde_json::json;

pub(crate) fn encode(resource: &Resource, spans: &[EndedSpan]) -> Vec<u8> {
    let spans: Vec<serde_json::Value> = spans.iter().map(span).collect();
    let request = json!({ "resourceSpans": [{
        "resource": { "attributes": attributes(&resource.attributes) },
        "scopeSpans": [{ "scope": { "name": SCOPE.0, "version": SCOPE.1 }, "spans": spans }],
    }] });
    request.to_string().into_bytes()
}

fn span(span: &EndedSpan) -> serde_json::Value {
    let status = match number::status(span.status) {
        Some(code) => json!({ "code": code }),
        None => json!({}),
    };
    json!({
        "traceId": span.trace.to_string(),
        "spanId": span.id.to_string(),
        "parentSpanId": span.parent_id().map(|id| id.to_string()).unwrap_or_default(),
        "name": span.name,
        "kind": number::KIND_INTERNAL,
        "startTimeUnixNano": span.start.to_string(),
        "endTimeUnixNano": span.end.to_string(),
        "attributes": attributes(&span.attributes),
        "status": status,
        "flags": number::flags(span),
    })
}

fn attributes(attributes: &[Attribute]) -> Vec<serde_json::Value> {
    let value = |value: &Value| match value {
        Value::Text(text) => json!({ "stringValue": text }),
        Value::Bool(truth) => json!({ "boolValue": truth }),
        Value::Integer(number) => json!({ "intValue": number.to_string() }),
    };
    attributes.iter().map(|(key, it)| json!({ "key": key, "value": value(it) })).collect()
}
