//! What the environment asks for. Reading is pure: the caller looks the variables up.
//!
//! Telemetry never keeps a command from its work, so nothing here is an error of the program: what cannot be obeyed
//! turns the export off, or is left out, and is told.

use crate::context::TraceContext;
use crate::endpoint::Endpoint;
use crate::span::{Resource, SCOPE, Value};
use crate::variables as names;
use std::fmt;
use std::time::Duration;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Protocol {
    Protobuf,
    Json,
}

/// Shown to nobody but the collector.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct Secret(pub(crate) String);

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

#[derive(Debug, Clone, PartialEq)]
pub struct Settings {
    pub(crate) endpoint: Endpoint,
    pub(crate) headers: Vec<(String, Secret)>,
    pub(crate) protocol: Protocol,
    /// Only when it was given.
    pub(crate) timeout: Option<Duration>,
    pub(crate) resource: Resource,
    pub(crate) parent: Option<TraceContext>,
}

/// A variable that cannot be obeyed. Its value is not told: it may be a secret.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{variable}: {reason}; {consequence}")]
pub struct Problem {
    pub variable: &'static str,
    pub reason: String,
    pub consequence: &'static str,
}

const NOT_EXPORTED: &str = "no spans are exported";
const LEFT_OUT: &str = "it is left out";

/// Whether to export, and what the user should be told.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reading {
    pub settings: Option<Settings>,
    pub problems: Vec<Problem>,
}

impl Settings {
    /// Reads the variables through `look_up`. Without an endpoint, only the two that name one are looked up.
    pub fn read(look_up: impl Fn(&str) -> Option<String>) -> Reading {
        let set = |name: &'static str| look_up(name).filter(|value| !value.trim().is_empty());
        let traces = set(names::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT);
        let general = if traces.is_none() { set(names::OTEL_EXPORTER_OTLP_ENDPOINT) } else { None };
        if traces.is_none() && general.is_none() {
            return Reading::default();
        }
        let is = |name, word: &str| set(name).is_some_and(|value| value.trim().eq_ignore_ascii_case(word));
        if is(names::OTEL_SDK_DISABLED, "true") || is(names::OTEL_TRACES_EXPORTER, "none") {
            return Reading::default();
        }
        let mut problems = Vec::new();
        let parent = set(names::TRACEPARENT).and_then(|text| {
            text.parse::<TraceContext>()
                .map_err(|error| left_out(names::TRACEPARENT, &error))
                .note(&mut problems)
        });
        if parent.is_some_and(|parent| !parent.sampled) {
            return Reading::default();
        }
        let endpoint = match (traces, general) {
            (Some(text), _) => Endpoint::whole(&text)
                .map_err(|error| refused(names::OTEL_EXPORTER_OTLP_TRACES_ENDPOINT, &error)),
            (None, text) => Endpoint::below(&text.unwrap_or_default())
                .map_err(|error| refused(names::OTEL_EXPORTER_OTLP_ENDPOINT, &error)),
        };
        // For each the variable for spans wins over the general one, whole.
        let first = |pair: [&'static str; 2]| pair.into_iter().find_map(|name| Some((name, set(name)?)));
        let protocol = first([names::OTEL_EXPORTER_OTLP_TRACES_PROTOCOL, names::OTEL_EXPORTER_OTLP_PROTOCOL])
            .map_or(Ok(Protocol::Protobuf), |(name, text)| protocol(name, text.trim()));
        let headers = first([names::OTEL_EXPORTER_OTLP_TRACES_HEADERS, names::OTEL_EXPORTER_OTLP_HEADERS])
            .map_or(Ok(Vec::new()), |(name, text)| headers(name, &text));
        let timeout = first([names::OTEL_EXPORTER_OTLP_TRACES_TIMEOUT, names::OTEL_EXPORTER_OTLP_TIMEOUT])
            .and_then(|(name, text)| timeout(name, &text).note(&mut problems));
        let given = set(names::OTEL_RESOURCE_ATTRIBUTES).and_then(|text| {
            pairs(&text)
                .ok_or_else(|| left_out(names::OTEL_RESOURCE_ATTRIBUTES, &"not of the form key=value,…"))
                .note(&mut problems)
        });
        let resource = resource(set(names::OTEL_SERVICE_NAME), given.unwrap_or_default());
        let required =
            (endpoint.note(&mut problems), protocol.note(&mut problems), headers.note(&mut problems));
        let (Some(endpoint), Some(protocol), Some(headers)) = required else {
            return Reading { settings: None, problems };
        };
        let settings = Settings { endpoint, headers, protocol, timeout, resource, parent };
        Reading { settings: Some(settings), problems }
    }
}

/// Keeps a problem for the report, and goes on without.
trait Note<T> {
    fn note(self, problems: &mut Vec<Problem>) -> Option<T>;
}

impl<T> Note<T> for Result<T, Problem> {
    fn note(self, problems: &mut Vec<Problem>) -> Option<T> {
        self.map_err(|problem| problems.push(problem)).ok()
    }
}

fn refused(variable: &'static str, reason: &dyn fmt::Display) -> Problem {
    Problem { variable, reason: reason.to_string(), consequence: NOT_EXPORTED }
}

fn left_out(variable: &'static str, reason: &dyn fmt::Display) -> Problem {
    Problem { variable, reason: reason.to_string(), consequence: LEFT_OUT }
}

fn protocol(variable: &'static str, text: &str) -> Result<Protocol, Problem> {
    match text {
        "http/protobuf" => Ok(Protocol::Protobuf),
        "http/json" => Ok(Protocol::Json),
        "grpc" => Err(refused(variable, &"grpc is not supported, use http/protobuf or http/json")),
        _ => Err(refused(variable, &"neither http/protobuf nor http/json")),
    }
}

fn timeout(variable: &'static str, text: &str) -> Result<Duration, Problem> {
    match text.trim().parse::<u32>() {
        Ok(milliseconds) if milliseconds > 0 => Ok(Duration::from_millis(milliseconds.into())),
        _ => Err(left_out(variable, &"not a number of milliseconds")),
    }
}

fn headers(variable: &'static str, text: &str) -> Result<Vec<(String, Secret)>, Problem> {
    // Ours: another one beside it would make the request ambiguous.
    const OWN: [&str; 5] = ["host", "connection", "content-length", "content-type", "transfer-encoding"];
    let malformed = || refused(variable, &"not of the form name=value,…");
    let mut found = Vec::new();
    for (name, value) in pairs(text).ok_or_else(malformed)? {
        let word = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
        let printable = |byte: u8| byte == b' ' || byte == b'\t' || byte.is_ascii_graphic() || byte >= 0x80;
        if !name.bytes().all(word) || !value.bytes().all(printable) {
            return Err(malformed());
        }
        if OWN.iter().any(|own| name.eq_ignore_ascii_case(own)) {
            return Err(refused(variable, &format!("the header {name} cannot be set")));
        }
        found.push((name, Secret(value)));
    }
    Ok(found)
}

/// `key=value,…`, both percent-decoded.
fn pairs(text: &str) -> Option<Vec<(String, String)>> {
    let words = text.split(',').map(str::trim).filter(|word| !word.is_empty());
    words
        .map(|word| {
            let (key, value) = word.split_once('=')?;
            let (key, value) = (percent_decoded(key.trim())?, percent_decoded(value.trim())?);
            (!key.is_empty()).then_some((key, value))
        })
        .collect()
}

fn percent_decoded(text: &str) -> Option<String> {
    let mut decoded = Vec::with_capacity(text.len());
    let mut bytes = text.bytes();
    while let Some(byte) = bytes.next() {
        decoded.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? << 4 | digit()?) as u8
            }
            plain => plain,
        });
    }
    String::from_utf8(decoded).ok()
}

fn resource(service: Option<String>, given: Vec<(String, String)>) -> Resource {
    const SERVICE: &str = "service.name";
    let text = |key: &str, value: &str| (key.to_owned(), Value::Text(value.to_owned()));
    let mut attributes = vec![
        text(SERVICE, "palisade"),
        text("service.version", SCOPE.1),
        text("telemetry.sdk.name", "palisade"),
        text("telemetry.sdk.language", "rust"),
        text("telemetry.sdk.version", SCOPE.1),
        ("process.pid".to_owned(), Value::Integer(std::process::id().into())),
    ];
    // What is given wins over our own, and the service's own variable over both.
    let named = service.map(|name| (SERVICE.to_owned(), name));
    for (key, value) in given.into_iter().chain(named) {
        attributes.retain(|(known, _)| *known != key);
        attributes.push((key, Value::Text(value)));
    }
    Resource { attributes }
}

#[cfg(test)]
mod tests;
